"""A user's own broker configuration: what is taken, and what is told of one that cannot serve the MiniCluster."""

from __future__ import annotations

from typing import Any

import pytest

from kueue_flux.api import broker_config
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.problems import InvalidMiniCluster, Problem
from tests.api.bad_inputs import minicluster

OPERATORS = """
[access]
allow-guest-user = true

[resource]
path = "/mnt/flux/view/etc/flux/system/R"

[bootstrap]
curve_cert = "/mnt/flux/view/curve/curve.cert"
default_port = 8050
default_bind = "tcp://eth0:%p"
default_connect = "tcp://%h.flux-service.default.svc.cluster.local:%p"
hosts = [{host="flux-sample-0", bind="tcp://eth0:8050", connect="tcp://flux-sample-0.flux-service.default.svc:8050"},
         {host="flux-sample-[1-3]"}]

[archive]
dbpath = "/mnt/flux/view/var/lib/flux/job-archive.sqlite"
period = "1m"
"""


def hosts(*entries: str, rest: str = "") -> str:
    return f"[bootstrap]\nhosts = [{', '.join(f'{{{entry}}}' for entry in entries)}]\n{rest}"


def problems(text: str, **rest: Any) -> list[Problem]:
    flux = {"brokerConfig": text, **rest.pop("flux", {})}
    try:
        MiniCluster.from_object({**minicluster({"flux": flux, **rest})})
    except InvalidMiniCluster as error:
        return error.problems
    return []


ALL = 'host = "flux-sample-[0-3]"'


@pytest.mark.parametrize(
    "text",
    [
        OPERATORS,
        "",
        "# nothing\n",
        '[exec]\nimp = "/usr/libexec/flux/flux-imp"\n',
        "[bootstrap]\n",
        "[bootstrap]\ndefault_port = 9000\nenable_ipv6 = true\n",
        hosts(),
        hosts(ALL),
        hosts('host = "flux-sample-0"', 'host = "flux-sample-[1-2]"', 'host = "flux-sample-3"'),
        hosts(ALL, 'host = "flux-sample-[2-3]", parent = "flux-sample-1"'),
        hosts(ALL, rest='curve_cert = "/run/flux/curve.cert"\n'),
        '[resource]\npath = "/etc/flux/system/R"\nexclude = "0"\n',
        '[[resource.config]]\nhosts = "flux-sample-[0-3]"\ncores = "0-7"\n',
        '[bootstrap]\ndefault_connect = "tcp://10.0.0.1:8050"\ndefault_bind = "tcp://*:%p"\n',
        '[tbon]\ntopo = "binomial"\n',
    ],
)
def test_what_is_taken(text: str) -> None:
    assert problems(text) == []


def test_a_mount_path_of_the_users_is_known() -> None:
    text = '[bootstrap]\ncurve_cert = "/opt/flux/view/curve/curve.cert"\n'
    assert problems(text, flux={"container": {"mountPath": "/opt/flux/"}}) == []
    (problem,) = problems(text)
    assert "there is no certificate at '/opt/flux/view/curve/curve.cert'" in problem.message
    assert "spec.flux.curveCertSecret" in problem.remedy


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[bootstrap", "is not TOML: Expected ']' at the end of a table declaration (at end of document)"),
        ("[a]\nb = 1\nb = 2\n", "is not TOML: Cannot overwrite a value (at line 3, column 6)"),
        ("bootstrap = 3", "bootstrap must be a table"),
        ("tbon = 'kary:2'", "tbon must be a table"),
        ("[[resource]]\n", "resource must be a table"),
        ("[bootstrap]\nport = 1\n", "[bootstrap] knows no key port"),
        ("[bootstrap]\ndefault_port = '8050'\n", "[bootstrap] default_port must be a whole number"),
        ("[bootstrap]\ndefault_port = true\n", "[bootstrap] default_port must be a whole number"),
        ("[bootstrap]\ndefault_port = 65536\n", "[bootstrap] default_port must be 0 to 65535"),
        ("[bootstrap]\nenable_ipv6 = 1\n", "[bootstrap] enable_ipv6 must be true or false"),
        ("[bootstrap]\ncurve_cert = 1\n", "[bootstrap] curve_cert must be text"),
        ("[bootstrap]\ncurve_cert = '/data/my.cert'\n", "there is no certificate at '/data/my.cert'"),
        ("[bootstrap]\ncurve_cert = 'curve.cert'\n", "there is no certificate at 'curve.cert'"),
        ("[resource]\npath = '/data/R'\n", "[resource] path: there are no resources at '/data/R'"),
        ("[resource]\npath = 3\n", "[resource] path: there are no resources at 3"),
        ("[bootstrap]\nhosts = 'a'\n", "[bootstrap] hosts must be a list"),
        ("[bootstrap]\nhosts = ['flux-sample-[0-3]']\n", "hosts[0] must be a table of text with host"),
        (hosts(ALL, "bind = 'tcp://eth0:1'"), "hosts[1] must be a table of text with host"),
        (hosts(f"{ALL}, rank = '1'"), "hosts[0] must be a table of text with host"),
        (hosts("host = 3"), "hosts[0] must be a table of text with host"),
        (hosts("host = 'a[0-'"), "[bootstrap] hosts: unbalanced square brackets"),
        (hosts("host = 'other-[0-3]'"), "hosts are 'other-[0-3]', and the pods' names, by rank, 'flux-sample-[0-3]'"),
        (hosts("host = 'flux-sample-[0-2]'"), "hosts are 'flux-sample-[0-2]', and"),
        (hosts("host = 'flux-sample-[0-7]'"), "hosts are 'flux-sample-[0-7]', and"),
        (hosts("host = 'flux-sample-[1-3,0]'"), "hosts are 'flux-sample-[1-3,0]', and"),
        (hosts(ALL, "host = 'burst-0'"), "hosts are 'flux-sample-[0-3],burst-0', and"),
        (hosts("host = 'flux-sample-[0-3].net.svc'"), "hosts are full names, and those of the pods are not"),
        (hosts(ALL, "host = 'flux-sample-1', parent = 'mgmt'"), "'mgmt' cannot be the parent of flux-sample-1"),
        (hosts(ALL, "host = 'flux-sample-1', parent = 'flux-sample-1'"), "'flux-sample-1' cannot be the parent of"),
        ("[bootstrap]\ndefault_bind = 'eth0'\n", "default_bind: 'eth0' is no ZeroMQ endpoint"),
        ("[bootstrap]\ndefault_bind = 'tcp://eth0:*'\n", "default_bind: 'tcp://eth0:*' is no ZeroMQ endpoint"),
        (hosts(f"{ALL}, connect = 'ipc:///tmp/a'"), "connect: 'ipc:///tmp/a' is no ZeroMQ endpoint"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    (problem,) = problems(text)
    assert problem.field == "spec.flux.brokerConfig"
    assert words in problem.message
    assert problem.remedy
    assert problem.reason == "InvalidSpec"


def test_the_remedy_for_hosts_can_be_copied() -> None:
    (problem,) = problems(hosts("host = 'a[1-4]'"))
    assert '{ host = "flux-sample-[0-3]" }' in problem.remedy


def test_hosts_of_a_name_that_is_not_known_yet() -> None:
    obj = minicluster({"flux": {"brokerConfig": hosts(ALL)}}, name="", metadata={"generateName": "a-"})
    with pytest.raises(InvalidMiniCluster, match=r"generateName leaves the name open; leave hosts out"):
        MiniCluster.from_object(obj)


def test_full_names_of_hosts_with_full_names() -> None:
    full = hosts("host = 'flux-sample-[0-3].any.domain'")
    assert problems(full, network={"setHostnameAsFQDN": True}) == []
    (problem,) = problems(hosts(ALL), network={"setHostnameAsFQDN": True})
    assert "hosts are short names" in problem.message
    assert "setHostnameAsFQDN: false" in problem.remedy


@pytest.mark.parametrize(
    ("flux", "text", "field"),
    [
        ({"topology": "kary:2"}, "[tbon]\ntopo = 'binomial'\n", "spec.flux.topology"),
        ({"topology": "kary:2"}, hosts(ALL, "host='flux-sample-2', parent='flux-sample-1'"), "spec.flux.topology"),
        (
            {"scheduler": {"queuePolicy": "fcfs"}},
            "[sched-fluxion-qmanager]\nqueue-policy = 'easy'\n",
            "spec.flux.scheduler.queuePolicy",
        ),
    ],
)
def test_what_is_said_twice_must_agree(flux: dict[str, Any], text: str, field: str) -> None:
    (problem,) = problems(text, flux=flux)
    assert (problem.field, problem.reason) == (field, "InvalidSpec")
    assert problems(text) == []


@pytest.mark.parametrize(
    ("flux", "text"),
    [
        ({"minimalService": True}, "[tbon]\ntopo = 'kary:0'"),
        ({"minimalService": True}, "[tbon]\nconnect_timeout = '1s'"),
        ({"scheduler": {"simple": True}}, "[modules.alternatives]\ncontent-backing = 'content-files'"),
    ],
)
def test_what_does_not_contradict(flux: dict[str, Any], text: str) -> None:
    assert problems(text, flux=flux) == []


def test_a_scheduler_chosen_twice() -> None:
    (problem,) = problems("[modules.alternatives]\nsched = 'sched-fifo'", flux={"scheduler": {"simple": True}})
    assert problem.field == "spec.flux.scheduler.simple"


def test_what_is_said_twice_may_agree() -> None:
    assert problems("[tbon]\ntopo = 'kary:2'\n", flux={"topology": "kary:2"}) == []


def test_it_is_read_as_toml() -> None:
    assert broker_config.read(OPERATORS)["archive"]["period"] == "1m"
