"""The formats against real Flux: what it reads of ours, and we of its."""

import json
import random
from datetime import datetime

import pytest

from kueue_flux.api import hostlist
from kueue_flux.flux.broker import BrokerConfig, broker_toml
from kueue_flux.flux.certificate import new_certificate
from kueue_flux.flux.resource_set import resource_set
from tests.api.test_hostlist import DECODED, ENCODED, random_hosts
from tests.flux.test_certificate import sections

pytestmark = pytest.mark.real_flux


@pytest.mark.parametrize(("hosts", "text"), [pair for pair in ENCODED if pair[0]], ids=[t for h, t in ENCODED if h])
def test_flux_hostlist_reads_what_we_write(flux, hosts, text):
    assert flux("hostlist", "--expand", "--delimiter=\n", "stdin", text=text).split() == hosts


@pytest.mark.parametrize("hosts", [hosts for hosts, _ in ENCODED if hosts], ids=",".join)
def test_we_read_what_flux_hostlist_writes(flux, hosts):
    assert hostlist.decode(flux("hostlist", "stdin", text="\n".join(hosts)).strip()) == hosts


@pytest.mark.parametrize(("text", "hosts"), DECODED, ids=[text for text, _ in DECODED])
def test_we_and_flux_hostlist_read_alike(flux, text, hosts):
    assert flux("hostlist", "--expand", "--delimiter=\n", "stdin", text=text).split() == hosts


def test_random_host_lists_both_ways(flux):
    rng = random.Random(29)
    lists = [random_hosts(rng) for _ in range(500)]
    program = (
        "import json, sys; from flux.hostlist import Hostlist;"
        "ours, lists = json.load(sys.stdin);"
        "read, written = [list(Hostlist(text)) for text in ours], [Hostlist(hosts).encode() for hosts in lists];"
        "json.dump([read, written], sys.stdout)"
    )
    text = json.dumps([[hostlist.encode(hosts) for hosts in lists], lists])
    theirs_of_ours, theirs = json.loads(flux("python", "-c", program, text=text))
    assert theirs_of_ours == lists
    assert [hostlist.decode(text) for text in theirs] == lists


@pytest.mark.parametrize(("size", "cores"), [(1, 1), (4, 2), (300, 64)])
def test_flux_r_reads_our_resource_set(flux, size, cores):
    hosts = [f"mc-{rank}" for rank in range(size)]
    r = json.dumps(resource_set(hosts, cores))
    assert flux("R", "decode", "--count=node", text=r).strip() == str(size)
    assert flux("R", "decode", "--count=core", text=r).strip() == str(size * cores)
    assert hostlist.decode(flux("R", "decode", "--nodelist", text=r).strip()) == hosts
    ours, theirs = json.loads(r)["execution"], json.loads(flux("R", "decode", text=r))["execution"]
    assert [theirs[key] for key in ("R_lite", "nodelist")] == [ours[key] for key in ("R_lite", "nodelist")]


def test_flux_r_reads_gpus_and_a_broker_offers_them(flux, tmp_path):
    hosts = ["solo", "other"]
    r = json.dumps(resource_set(hosts, 2, 4))
    assert flux("R", "decode", "--count=gpu", text=r).strip() == "8"
    assert flux("R", "decode", "--short", text=r).strip() == "rank[0-1]/core[0-1],gpu[0-3]"
    (tmp_path / "R.json").write_text(json.dumps(resource_set(["solo"], 2, 4)))
    (tmp_path / "resource.toml").write_text(f'[resource]\npath = "{tmp_path}/R.json"\nnoverify = true\n')
    listed = ("flux", "resource", "list", "-no", "{ncores} {ngpus}", "-s", "all")
    out = flux("broker", f"--config-path={tmp_path}/resource.toml", "-Shostname=solo", *listed)
    assert out.split() == ["2", "4"]


def test_our_certificate_is_laid_out_as_flux_keygen_s(flux, tmp_path):
    flux("keygen", str(tmp_path / "theirs"))
    theirs = sections((tmp_path / "theirs").read_text())
    ours = sections(new_certificate("mc-0", now=datetime.now()).reveal())
    assert set(ours) == set(theirs)
    assert set(ours["curve"]) == set(theirs["curve"])
    assert set(theirs["metadata"]) - set(ours["metadata"]) == {"keygen.flux-core-version"}
    assert not set(ours["metadata"]) - set(theirs["metadata"])


def test_a_broker_starts_with_everything_that_our_configuration_can_say(flux, tmp_path):
    config = BrokerConfig(
        hosts=["solo"],
        domain="mc.default.svc.cluster.local",
        interface="lo",
        connect_timeout="500ms",
        heartbeat_timeout="30s",
        curve_path=str(tmp_path / "curve.cert"),
        resources_path=str(tmp_path / "R.json"),
        allow_root_owner=True,
        topology="kary:2",
        queue_policy="easy",
    )
    (tmp_path / "broker.toml").write_text(broker_toml(config))
    (tmp_path / "R.json").write_text(json.dumps(resource_set(["solo"], 3)))
    (tmp_path / "curve.cert").write_text(new_certificate("solo", now=datetime.now()).reveal())
    (tmp_path / "curve.cert").chmod(0o400)
    out = flux(
        "broker", f"--config-path={tmp_path}/broker.toml", "-Shostname=solo", "sh", "-c",
        "flux config get; flux resource list -no '{nodelist} {ncores}' -s all; flux getattr tbon.topo",
    )  # fmt: skip
    shown, *rest = out.splitlines()
    shown = json.loads(shown)
    assert shown["bootstrap"]["hosts"] == [{"host": "solo"}]
    assert shown["tbon"] == {"connect_timeout": "500ms", "topo": "kary:2"}
    assert shown["resource"] == {"path": f"{tmp_path}/R.json", "noverify": True}
    assert shown["heartbeat"] == {"timeout": "30s"}
    assert shown["access"] == {"allow-root-owner": True}
    assert rest == ["solo 3", "kary:2"]
