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
