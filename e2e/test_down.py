"""What `kueue-flux dev up` made, `kueue-flux dev down` removes: nothing of a cluster stays on the machine.

Other clusters may come and go meanwhile, so only that is looked at which carries a name of this one's, such as the id
of a container. Each kind of thing must be found while the cluster is up, else not finding it later would mean nothing.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.conftest import BroughtUp
from e2e.kit import KUEUE_FLUX, Ran, run
from kueue_flux.devcluster import engine, kind, machine, packages, paths, process
from kueue_flux.devcluster.machine import Snapshot
from tests.control_plane.kit import wait_for

OWN = "e2e-down"
KINDS = ("containers", "networks", "volumes", "processes", "mounts", "links", "rules", "cgroups", "state")
NEED_ROOT = ("rules",)
SECONDS = 900
GONE_SECONDS = 20  # what is ended may take a moment to be gone


@dataclass(frozen=True)
class TakenDown:
    """A cluster that was up, wholly or in part, and then taken down.

    Args:
        name: what it was called.
        down: `kueue-flux dev down`.
        before: what was there of it before that, by kind, one line each.
        after: what was there of it after that.
        last: whether it was the last one on an engine that `up` had started.
    """

    name: str
    down: Ran
    before: dict[str, list[str]]
    after: dict[str, list[str]]
    last: bool


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
        names = names_of(name)
        before = found(name, names)
        last = engine.ours() is not None and not others(name)
        down = dev("down", name)
        end = time.monotonic() + GONE_SECONDS
        while any((after := found(name, names)).values()) and time.monotonic() < end:
            time.sleep(0.5)
        yield TakenDown(name, down, before, after, last)
    finally:
        dev("down", name)


@pytest.mark.parametrize("kind_", KINDS)
def test_nothing_of_it_stays(taken_down: TakenDown, kind_: str):
    if kind_ in NEED_ROOT and os.geteuid() != 0:
        pytest.skip("only root can look")
    assert taken_down.before[kind_], "it cannot be seen that they are gone, since they were not seen before"
    assert taken_down.after[kind_] == []


def test_it_ends_well_and_says_what_it_does(taken_down: TakenDown):
    assert taken_down.down.code == 0, taken_down.down
    assert f"delete cluster {taken_down.name}: done" in taken_down.down.err
    assert f"{taken_down.name} is not up" in dev("status", taken_down.name).out


def test_what_is_not_there_can_be_taken_down(taken_down: TakenDown):
    assert dev("down", taken_down.name).code == 0


def test_another_cluster_stays_as_it_is(taken_down: TakenDown, brought_up: BroughtUp):
    if taken_down.name == brought_up.cluster.name:
        pytest.skip("there was no other of this run")
    states = kind.nodes(brought_up.cluster.name)
    assert set(states.values()) == {"running"}, states


def test_the_engine_goes_with_the_last_cluster_and_all_it_changed(taken_down: TakenDown, brought_up: BroughtUp):
    if not taken_down.last or brought_up.machine_before is None:
        pytest.skip("the engine was there before, or is still needed")
    assert not engine.answers()
    with_packages = {"folders: /etc/docker"}
    assert set(machine.leftovers(brought_up.machine_before, Snapshot.take())) <= with_packages


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


def others(name: str) -> set[str]:
    """The containers that run and are not of this cluster."""
    running = process.output([engine.docker(), "ps", "--format", "{{.Names}}"]).split()
    return set(running) - set(kind.nodes(name))


def names_of(name: str) -> list[str]:
    """What the things of a cluster are called that nothing else on this machine is: ids, interfaces, ports."""
    docker, network = engine.docker(), kind.network(name)
    bridge = kind.bridge(name)
    names = [bridge, json.loads(process.output([docker, "network", "inspect", network]))[0]["Id"]]
    names += re.findall(r"veth\w+", "\n".join(_printed("ip", "-o", "link", "show", "master", bridge)))
    for node in json.loads(process.output([docker, "inspect", *kind.nodes(name)])):
        names += [node["Id"], Path(node["NetworkSettings"]["SandboxKey"]).name]
        layers = (node.get("GraphDriver") or {}).get("Data") or {}
        names += [Path(layers["MergedDir"]).parent.name] if "MergedDir" in layers else []
        names += [mount["Name"] for mount in node["Mounts"] if mount["Type"] == "volume"]
        for port in (p for ports in node["NetworkSettings"]["Ports"].values() for p in ports or ()):
            names += [f"-host-port {port['HostPort']}", f"--dport {port['HostPort']}"]
    return names


def found(name: str, names: list[str]) -> dict[str, list[str]]:
    """What is on the machine that bears one of these names, by kind, one line each."""
    pattern = re.compile("|".join(rf"(?<![\w.]){re.escape(each)}(?!\w)" for each in names))
    lines = {
        "containers": _docker("ps", "--all"),
        "networks": _docker("network", "ls"),
        "volumes": _docker("volume", "ls"),
        "processes": _processes(),
        "mounts": Path("/proc/self/mountinfo").read_text().splitlines(),
        "links": _printed("ip", "-o", "link"),
        "rules": [*_printed("iptables-save"), *_printed("ip6tables-save")],
        "cgroups": [folder for folder, _, _ in os.walk("/sys/fs/cgroup")],
    }
    state = paths.state_root() / name
    return {kind_: [line for line in all_ if pattern.search(line)] for kind_, all_ in lines.items()} | {
        "state": [str(path) for path in (state, *state.glob("*")) if path.exists()]
    }


def _docker(*words: str) -> list[str]:
    """A listing of the engine, with ids and names; empty where none answers any more."""
    if not engine.answers():
        return []
    extra = ["--no-trunc"] if words[0] != "volume" else []
    return process.output([engine.docker(), *words, *extra]).splitlines()


def _printed(program: str, *words: str) -> list[str]:
    path = packages.find(program)
    if path is None or (program.endswith("-save") and os.geteuid() != 0):
        return []
    return process.output([path, *words]).splitlines()


def _processes() -> list[str]:
    """Each process with its command line and its cgroups, which name the container that it is in."""
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
            cgroups = {line.split(":", 2)[2] for line in (folder / "cgroup").read_text().splitlines()}
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        lines.append(" ".join([folder.name, command, *sorted(cgroups)]))
    return lines
