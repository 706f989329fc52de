"""What a MiniCluster says of Flux itself reaches real brokers: asked of them, not of the files that they are given."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.kit import Namespace, as_yaml, run
from kueue_flux.flux.certificate import new_certificate

pytestmark = [pytest.mark.real_flux, pytest.mark.extended]

IN_IMAGE = {"container": {"disable": True}}


def secret(namespace: Namespace, name: str, key: str, value: bytes) -> None:
    """Create a Secret with one key."""
    data = {key: base64.b64encode(value).decode()}
    namespace.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data})


@pytest.mark.parametrize(
    ("folder", "output"),
    [
        ("broker-config", ["4096", "2"]),
        ("minimal-service", ["hello world"] * 4),
        ("shared-memory", ["131072"] * 2),
    ],
)
def test_an_example_prints_what_it_says(namespace: Namespace, folder: str, output: list[str]):
    ran = namespace.run_example(f"{folder}/minicluster.yaml")
    assert (ran.code, [line.strip() for line in ran.lines]) == (0, output), ran.err


def test_flux_lists_its_resources(namespace: Namespace):
    ran = namespace.run_example("resources/minicluster.yaml")
    assert ran.code == 0, ran.err
    rows = [line.split() for line in ran.lines]
    assert rows[0][:3] == ["STATE", "NNODES", "NCORES"]
    assert {row[0]: row[1] for row in rows[1:]} == {"free": "4", "allocated": "0", "down": "0"}


def test_the_time_that_it_takes_is_told(namespace: Namespace):
    ran = namespace.run_example("timed/minicluster.yaml")
    assert (ran.code, ran.lines[:1]) == (0, ["hello world"]), ran.err
    told = [re.fullmatch(r"FLUXTIME (\w+) wall time \d+:\d\d\.\d\d", line) for line in ran.lines[1:]]
    assert [found and found[1] for found in told] == ["fluxsubmit", "fluxstart"]


def test_debug_says_what_flux_is_given(namespace: Namespace):
    ran = namespace.run_example("debug/minicluster.yaml")
    assert ran.code == 0, ran.err
    assert "hello world" in ran.lines
    assert len(ran.lines) > 10, "it says more than the command's output"


def test_an_option_of_flux_run(namespace: Namespace):
    spec = {"size": 2, "tasks": 2, "flux": IN_IMAGE | {"optionFlags": "--label-io"}}
    ran = namespace.run_spec("labelled", spec, {"command": "echo said"})
    assert (ran.code, sorted(ran.lines)) == (0, ["0: said", "1: said"]), ran.err


def test_a_queue_policy(namespace: Namespace):
    spec = {"flux": IN_IMAGE | {"scheduler": {"queuePolicy": "easy"}}}
    ran = namespace.run_spec("easy", spec, {"command": "flux module list", "launcher": True})
    assert ran.code == 0, ran.err
    assert "sched-simple" not in ran.out, "which knows no backfill"
    assert "sched-backfill" in ran.out or "sched-fluxion" in ran.out


@pytest.mark.parametrize("where", ["curveCert", "curveCertSecret"])
def test_a_certificate_of_the_users(namespace: Namespace, where: str):
    own = new_certificate("own", now=datetime.now(UTC)).reveal()
    setting = own
    if where == "curveCertSecret":
        secret(namespace, "own", "curve.cert", own.encode())
        setting = "own"
    spec = {"size": 2, "tasks": 2, "flux": IN_IMAGE | {where: setting}}
    command = "sh -c 'sha256sum < $(flux config get bootstrap.curve_cert)'"
    ran = namespace.run_spec("own-cert", spec, {"command": command})
    assert ran.code == 0, ran.err
    expected = run("sha256sum", stdin=own).lines
    assert ran.lines == expected * 2


def test_a_munge_key_of_the_users(namespace: Namespace):
    secret(namespace, "munge", "munge.key", b"k" * 1024)
    spec = {"size": 2, "tasks": 2, "flux": IN_IMAGE | {"mungeSecret": "munge"}}
    ran = namespace.run_spec("munged", spec, {"command": "wc -c /etc/munge/munge.key"})
    assert (ran.code, ran.lines) == (0, ["1024 /etc/munge/munge.key"] * 2), ran.err


def test_an_archive_brings_the_jobs_of_the_last_run(namespace: Namespace):
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    namespace.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "state"}, "spec": claim}
    )
    volumes = {"state": {"path": "/state", "claimName": "state"}}
    archive = {"archive": {"path": "/state/flux.tar.gz"}}
    first = namespace.run_spec(
        "first", archive, {"command": "flux run --job-name kept true", "launcher": True, "volumes": volumes}
    )
    assert first.code == 0, first.err
    second = namespace.run_spec(
        "second", archive, {"command": "flux jobs -a -no {name}", "launcher": True, "volumes": volumes}
    )
    assert (second.code, second.lines) == (0, ["kept"]), second.err


def test_a_worker_that_is_lost_rejoins(namespace: Namespace):
    """Only its pod is started anew; the command runs again, in the instance that was there."""
    obj: dict[str, Any] = namespace.of_spec(
        "rejoins",
        {"size": 2, "tasks": 2, "flux": IN_IMAGE | {"rejoin": True}},
        {"command": "sh -c 'echo begun; until [ -e /tmp/go ]; do sleep 0.2; done; echo told'"},
    )
    assert namespace.kueue_flux("submit", "-", stdin=as_yaml(obj)).code == 0
    namespace.wait_output("rejoins", "begun\nbegun\n", timeout=120)
    lead = namespace.lead("rejoins")
    worker = next(pod for pod in namespace.pods("rejoins") if pod["metadata"]["uid"] != lead["metadata"]["uid"])
    namespace.kubectl("delete", "pod", worker["metadata"]["name"], "--wait=false", "--grace-period=1")
    printed = ("logs", lead["metadata"]["name"])
    again = "the command to begin again on both"
    namespace.wait_for(again, lambda: namespace.kubectl(*printed).split().count("begun") == 4, timeout=180)
    namespace.release("rejoins")
    namespace.wait_succeeded("rejoins")
