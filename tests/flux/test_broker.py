"""broker.toml: what it says, that it is TOML whatever it is given, and what it refuses."""

import tomllib

import pytest

from kueue_flux.flux import broker, layout
from kueue_flux.flux.broker import BrokerConfig, Host, broker_toml

HOSTS = ["mc-0", "mc-1", "mc-2", "mc-3"]
DOMAIN = "mc.default.svc.cluster.local"


def parsed(**fields):
    return tomllib.loads(broker_toml(BrokerConfig(**{"hosts": HOSTS, "domain": DOMAIN, **fields})))


def test_the_whole_of_a_usual_one():
    assert parsed() == {
        "bootstrap": {
            "curve_cert": layout.CURVE_COPY,
            "default_port": 8050,
            "default_bind": "tcp://eth0:%p",
            "default_connect": f"tcp://%h.{DOMAIN}:%p",
            "hosts": [{"host": "mc-[0-3]"}],
        },
        "resource": {"path": layout.RESOURCES, "noverify": True},
        "tbon": {"connect_timeout": "2s"},
        "heartbeat": {"timeout": "1m"},
    }


@pytest.mark.parametrize(
    ("fields", "table", "value"),
    [
        ({"port": 9000}, "bootstrap.default_port", 9000),
        ({"interface": "net1"}, "bootstrap.default_bind", "tcp://net1:%p"),
        ({"domain": ""}, "bootstrap.default_connect", "tcp://%h:%p"),
        ({"curve_path": "/x/c"}, "bootstrap.curve_cert", "/x/c"),
        ({"resources_path": "/x/R"}, "resource.path", "/x/R"),
        ({"resources_path": None}, "resource", None),
        ({"allow_root_owner": True}, "access.allow-root-owner", True),
        ({"allow_root_owner": False}, "access", None),
        ({"topology": "kary:2"}, "tbon.topo", "kary:2"),
        ({"topology": None}, "tbon.topo", None),
        ({"connect_timeout": "500ms"}, "tbon.connect_timeout", "500ms"),
        ({"connect_timeout": None}, "tbon", None),
        ({"heartbeat_timeout": None}, "heartbeat", None),
        ({"queue_policy": "easy"}, "sched-fluxion-qmanager.queue-policy", "easy"),
        ({"queue_policy": None}, "sched-fluxion-qmanager", None),
        ({"sched_simple": True}, "modules.alternatives", {"sched": "sched-simple", "feasibility": "sched-simple"}),
        ({"sched_simple": False}, "modules", None),
    ],
    ids=str,
)
def test_each_field(fields, table, value):
    found = parsed(**fields)
    for key in table.split("."):
        found = (found or {}).get(key)
    assert found == value


def test_hosts_with_endpoints_of_their_own_keep_their_rank():
    hosts = ["a0", "a1", Host("lead", connect="tcp://10.0.0.1:9000"), Host("b", "tcp://lo:1", "tcp://b:%p"), "a2"]
    assert parsed(hosts=hosts)["bootstrap"]["hosts"] == [
        {"host": "a[0-1]"},
        {"host": "lead", "connect": "tcp://10.0.0.1:9000"},
        {"host": "b", "bind": "tcp://lo:1", "connect": "tcp://b:%p"},
        {"host": "a2"},
    ]


NASTY = ['"', "\\", 'a"]\n[evil]\nx="', "\x00\x1f\x7f\t", "\u00e9\U0001f600", "$(id) `id` %h", ""]


@pytest.mark.parametrize("path", NASTY, ids=ascii)
def test_any_path_stays_one_string(path):
    config = parsed(curve_path=path, resources_path=path)
    assert config["bootstrap"]["curve_cert"] == path
    assert config["resource"]["path"] == path
    assert set(config) == {"bootstrap", "resource", "tbon", "heartbeat"}


@pytest.mark.parametrize("text", [text for text in NASTY if text], ids=ascii)
@pytest.mark.parametrize("field", ["domain", "interface", "connect_timeout", "heartbeat_timeout", "topology"])
def test_what_is_no_such_thing_is_refused(field, text):
    with pytest.raises(ValueError, match="Flux accepts"):
        BrokerConfig(hosts=HOSTS, **{field: text})


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"hosts": []}, "at least one host"),
        ({"hosts": ["a", "a"]}, "each host once"),
        ({"hosts": ["a", Host("a", connect="tcp://x:1")]}, "each host once"),
        ({"hosts": ["-a"]}, "host name"),
        ({"hosts": ["a_b"]}, "host name"),
        ({"hosts": ["a" * 64]}, "host name"),
        ({"port": 0}, "1-65535"),
        ({"port": 65536}, "1-65535"),
        ({"connect_timeout": "2 s"}, "connect timeout"),
        ({"connect_timeout": "-1s"}, "connect timeout"),
        ({"topology": "kary"}, "topology"),
        ({"topology": "star"}, "topology"),
        ({"queue_policy": "Easy!"}, "queue policy"),
        ({"hosts": [Host("a", bind="udp://x:1")]}, "bind endpoint"),
        ({"hosts": [Host("a", bind="tcp://lo:*")]}, "bind endpoint"),
        ({"hosts": [Host("a", connect='tcp://x"y:1')]}, "connect endpoint"),
    ],
    ids=str,
)
def test_refused(fields, why):
    with pytest.raises(ValueError, match=why):
        BrokerConfig(**{"hosts": HOSTS, **fields})


@pytest.mark.parametrize("topology", ["custom", "binomial", "kary:0", "kary:32", "mincrit", "mincrit:4"])
def test_flux_topologies(topology):
    assert parsed(topology=topology)["tbon"]["topo"] == topology


def test_a_wildcard_interface():
    assert parsed(interface="*")["bootstrap"]["default_bind"] == "tcp://*:%p"


def test_the_default_port_is_flux_documentation_s():
    assert broker.DEFAULT_PORT == 8050


# -- a configuration of the user's

GIVEN = """
title = "mine"
[exec]
barrier-timeout = "10m"
[access]
allow-guest-user = true
allow-root-owner = false
[resource]
path = "/mnt/flux/view/etc/flux/system/R"
exclude = "0"
[bootstrap]
curve_cert = "/mnt/flux/view/curve/curve.cert"
default_port = 9000
default_connect = "tcp://%h.flux-service.default.svc.cluster.local:%p"
hosts = [{ host = "mc-0", bind = "tcp://eth0:9001", connect = "tcp://mc-0.flux-service.other.svc:9001" },
         { host = "mc-[1-3]" }]
"""


def merged(text, **fields):
    config = BrokerConfig(**{"hosts": HOSTS, "domain": DOMAIN, "allow_root_owner": True, **fields})
    return tomllib.loads(broker_toml(config, tomllib.loads(text)))


def test_the_whole_of_a_given_one():
    assert merged(GIVEN) == {
        "title": "mine",
        "exec": {"barrier-timeout": "10m"},
        "access": {"allow-guest-user": True, "allow-root-owner": False},
        "resource": {"path": layout.RESOURCES, "exclude": "0", "noverify": True},
        "bootstrap": {
            "curve_cert": layout.CURVE_COPY,
            "default_port": 9000,
            "default_bind": "tcp://eth0:%p",
            "default_connect": f"tcp://%h.{DOMAIN}:%p",
            "hosts": [
                {"host": "mc-0", "bind": "tcp://eth0:9001", "connect": f"tcp://mc-0.{DOMAIN}:9001"},
                {"host": "mc-[1-3]"},
            ],
        },
        "tbon": {"connect_timeout": "2s"},
        "heartbeat": {"timeout": "1m"},
    }


@pytest.mark.parametrize("text", ["", "# nothing", "[bootstrap]", "[bootstrap]\nhosts = []"])
def test_what_a_given_one_leaves_out_is_filled_in(text):
    assert merged(text) == parsed(allow_root_owner=True)


@pytest.mark.parametrize(
    ("text", "fields", "table", "value"),
    [
        ("[tbon]\ntopo = 'binomial'", {}, "tbon.topo", "binomial"),
        ("[tbon]\ntopo = 'binomial'", {}, "tbon.connect_timeout", "2s"),
        ("[tbon]\nconnect_timeout = '9s'", {}, "tbon.connect_timeout", "9s"),
        ("[exec]", {"topology": "kary:2"}, "tbon.topo", "kary:2"),
        ("[heartbeat]\ntimeout = '9m'", {}, "heartbeat.timeout", "9m"),
        ("[resource]\nnoverify = false", {}, "resource.noverify", False),
        ("[[resource.config]]\nhosts = 'mc-[0-3]'", {}, "resource.path", None),
        ("[[resource.config]]\nhosts = 'mc-[0-3]'", {}, "resource.config", [{"hosts": "mc-[0-3]"}]),
        ("[resource]\nrediscover = true", {"resources_path": None}, "resource", {"rediscover": True}),
        ("[bootstrap]\ndefault_bind = 'tcp://*:%p'", {}, "bootstrap.default_bind", "tcp://*:%p"),
    ],
)
def test_what_a_given_one_says_goes_first(text, fields, table, value):
    found = merged(text, **fields)
    for key in table.split("."):
        found = (found or {}).get(key)
    assert found == value


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("tcp://%h:%p", f"tcp://%h.{DOMAIN}:%p"),
        ("tcp://%h.any.svc:8050", f"tcp://%h.{DOMAIN}:8050"),
        ("tcp://mc-2.any.svc:%p", f"tcp://mc-2.{DOMAIN}:%p"),
        ("tcp://mc-2:%p", f"tcp://mc-2.{DOMAIN}:%p"),
        ("tcp://10.0.0.1:8050", "tcp://10.0.0.1:8050"),
        ("tcp://[fe80::1]:8050", "tcp://[fe80::1]:8050"),
        ("tcp://gateway.example.org:%p", "tcp://gateway.example.org:%p"),
        ("tcp://mc-20.any.svc:%p", "tcp://mc-20.any.svc:%p"),
    ],
)
def test_hosts_are_reached_in_the_domain_in_which_they_are(given, written):
    assert merged(f"[bootstrap]\ndefault_connect = '{given}'")["bootstrap"]["default_connect"] == written


@pytest.mark.parametrize(
    ("admitted", "hosts"),
    [
        (4, [{"host": "mc-[0-3]"}, {"host": "mc-1", "parent": "mc-0"}, {"host": "mc-[2-3]", "parent": "mc-1"}]),
        (3, [{"host": "mc-[0-2]"}, {"host": "mc-1", "parent": "mc-0"}, {"host": "mc-2", "parent": "mc-1"}]),
        (2, [{"host": "mc-[0-1]"}, {"host": "mc-1", "parent": "mc-0"}]),
        (1, [{"host": "mc-0"}]),
    ],
)
def test_hosts_that_were_not_admitted_are_left_out(admitted, hosts):
    text = """[bootstrap]
        hosts = [{host = "mc-[0-3]"}, {host = "mc-1", parent = "mc-0"}, {host = "mc-[2-3]", parent = "mc-1"}]"""
    assert merged(text, hosts=HOSTS[:admitted])["bootstrap"]["hosts"] == hosts


def test_a_parent_that_was_not_admitted_is_left_out():
    text = '[bootstrap]\nhosts = [{host = "mc-[0-3]"}, {host = "mc-1", parent = "mc-3", bind = "tcp://*:1"}]'
    assert merged(text, hosts=HOSTS[:2])["bootstrap"]["hosts"] == [
        {"host": "mc-[0-1]"},
        {"host": "mc-1", "bind": "tcp://*:1"},
    ]


def test_given_hosts_with_full_names():
    full = [f"{host}.{DOMAIN}" for host in HOSTS]
    text = '[bootstrap]\nhosts = [{host = "mc-[0-3].any.domain", connect = "tcp://mc-0.any.domain:1"}]'
    bootstrap = merged(text, hosts=full, domain="")["bootstrap"]
    assert bootstrap["hosts"] == [{"host": f"mc-[0-3].{DOMAIN}", "connect": f"tcp://mc-0.{DOMAIN}:1"}]
    assert bootstrap["default_connect"] == "tcp://%h:%p"
