"""What `kueue-flux dev up` made, `kueue-flux dev down` removes: nothing of a cluster stays on the machine.

Other clusters may come and go meanwhile, so only that is looked at which carries a name of this one's, such as the id
of a container. Each kind of thing must be found while the cluster is up, else not finding it later would mean nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e import traces
from e2e.conftest import BroughtUp
from e2e.kit import KUEUE_FLUX, Ran, run
from e2e.traces import Found
from kueue_flux.devcluster import binaries, kind, packages
from kueue_flux.devcluster.progress import Progress
from tests.control_plane.kit import wait_for

OWN = "e2e-down"
KINDS = ("containers", "networks", "volumes", "processes", "mounts", "links", "rules", "cgroups", "state")
SECONDS = 900
GONE_SECONDS = 20  # what is ended may take a moment to be gone
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class TakenDown:
    """A cluster that was up, wholly or in part, and then taken down.

    Args:
        name: what it was called.
        down: `kueue-flux dev down`.
        before: what was there of it before that.
        after: what was there of it after that.
        others: the state of the nodes of this run's cluster where that is another, before and after that.
    """

    name: str
    down: Ran
    before: Found
    after: Found
    others: tuple[dict[str, str], dict[str, str]]


@pytest.fixture(scope="module", params=["cut-short", "whole"])
def taken_down(request: pytest.FixtureRequest, brought_up: BroughtUp) -> Iterator[TakenDown]:
    """A cluster whose `up` was interrupted; and that of this run, or another where that one is to stay."""
    name = OWN
    try:
        if request.param == "cut-short":
            interrupt_up(OWN)
        elif brought_up.ours:
            name = brought_up.cluster.name
        else:
            assert dev("up", OWN).code == 0
        names = traces.names_of(name)
        before = traces.of_cluster(name, names)
        others = other_nodes(name, brought_up)
        down = dev("down", name)
        end = time.monotonic() + GONE_SECONDS
        while any((after := traces.of_cluster(name, names)).values()) and time.monotonic() < end:
            time.sleep(0.5)
        yield TakenDown(name, down, before, after, (others, other_nodes(name, brought_up)))
    finally:
        dev("down", name)


@pytest.mark.parametrize("what", KINDS)
def test_nothing_of_it_stays(taken_down: TakenDown, what: str):
    if what == "rules" and os.geteuid() != 0:
        pytest.skip("only root can look")
    assert taken_down.before[what], "it cannot be seen that they are gone, since they were not seen before"
    assert taken_down.after[what] == []


def test_it_ends_well_and_says_what_it_does(taken_down: TakenDown):
    assert taken_down.down.code == 0, taken_down.down
    assert f"delete cluster {taken_down.name}: done" in taken_down.down.err
    assert f"{taken_down.name} is not up" in dev("status", taken_down.name).out


def test_what_is_not_there_can_be_taken_down(taken_down: TakenDown):
    assert dev("down", taken_down.name).code == 0


def test_another_cluster_stays_as_it_is(taken_down: TakenDown, brought_up: BroughtUp):
    if taken_down.name == brought_up.cluster.name:
        pytest.skip("there was no other of this run")
    before, after = taken_down.others
    assert before
    assert after == before


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `engine_alone` tells of an engine in namespaces of its own, which has one cluster.

    The machine's own engine is used by others, or was there before.
    """
    namespaces = ("unshare", "--mount", "--net", "--pid", "--ipc", "--fork", "--mount-proc", "--kill-child")
    if packages.find("dockerd") is None or run(*namespaces, "true").code != 0:
        pytest.skip("needs Docker on this machine, and root that may make namespaces")
    folder = tmp_path_factory.mktemp("alone")
    cache = folder / "cache" / "kueue-flux"
    cache.mkdir(parents=True)
    programs = binaries.ensure(["kind", "pause"], Progress())
    (cache / "bin").symlink_to(programs["kind"].parents[1])
    with tarfile.open(folder / "image.tar", "w") as image:
        image.add(programs["pause"], "pause")
    shell = 'unset DOCKER_HOST; mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"'
    program = (sys.executable, "-m", "e2e.engine_alone", folder / "image.tar")
    env = {name: str(folder / name.split("_")[1].lower()) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME")}
    ran = run(*namespaces, "sh", "-c", shell, "sh", *program, env={**env, "DOCKER_CONFIG": str(folder)}, cwd=ROOT)
    assert ran.code == 0, ran
    return dict(json.loads(ran.out))


def test_the_engine_goes_with_its_last_cluster_and_all_that_it_changed(alone: dict[str, Any]):
    assert alone["code"] == 0, alone["said"]
    assert "stop the Docker engine: done" in alone["said"]
    assert alone["after"] == alone["before"]


@pytest.mark.parametrize("what", KINDS)
def test_nothing_of_the_last_cluster_stays(alone: dict[str, Any], what: str):
    assert alone["up"][what], "it cannot be seen that they are gone, since they were not seen before"
    assert alone["down"][what] == []


def other_nodes(name: str, brought_up: BroughtUp) -> dict[str, str]:
    """The nodes of this run's cluster and their state; none where it is what goes, maybe with the engine."""
    other = brought_up.cluster.name
    return {} if other == name else kind.nodes(other)


def dev(command: str, name: str) -> Ran:
    """Run `kueue-flux dev up`, `down` or `status`."""
    return run(KUEUE_FLUX, "dev", command, "--name", name, timeout=SECONDS)


def interrupt_up(name: str) -> None:
    """Run `kueue-flux dev up` and press Ctrl-C once all of the nodes run."""
    words = (KUEUE_FLUX, "dev", "up", "--name", name)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as up:
        try:
            running = ["running"] * 2
            wait_for("its nodes to run", lambda: list(kind.nodes(name).values()) == running, timeout=SECONDS)
            assert up.poll() is None, "it was not interrupted"
        finally:
            os.killpg(up.pid, signal.SIGINT)
            up.wait(SECONDS)
