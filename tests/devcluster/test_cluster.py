"""What `up` does with a cluster that is there in some state: it is woken, waited for, and never made anew."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kueue_flux.devcluster import cluster, engine, guard, kind, kueue, limits, node_image, packages, paths
from kueue_flux.devcluster.cli import app
from kueue_flux.devcluster.errors import CommandFailed, DevClusterError
from kueue_flux.devcluster.images import store
from kueue_flux.devcluster.kueue import Kubectl
from kueue_flux.devcluster.progress import Progress

RUNNING = {"dev-control-plane": "running", "dev-worker": "running"}
WHOLE = cluster.Cluster("dev", "node:1", assembled=False, guarded=False)


class World:
    """An engine with the nodes of one cluster, whose API server is ready after so many questions."""

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}
        self.done: list[str] = []
        self.questions_until_ready = 0
        self.refuses = False
        self.interrupts = False
        self.images = {"mine:1"}

    def control(self, verb, containers):
        if self.refuses:
            raise CommandFailed(["docker", verb], 1, "network not found")
        self.done.append(f"{verb} {' '.join(containers)}")
        self.nodes |= dict.fromkeys(containers, "running")

    def create(self, name, image, **_):
        self.done.append("create")
        self.nodes = dict(RUNNING)
        if self.interrupts:
            raise KeyboardInterrupt

    def delete(self, name, progress):
        self.done.append("delete")
        self.nodes = {}

    def works(self, *words, timeout=0):
        if words[-1] != "/readyz":
            return True
        self.questions_until_ready -= 1
        return self.questions_until_ready < 0


@pytest.fixture
def world(monkeypatch, tmp_path):
    found = World()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for module, name, stand_in in [
        (limits, "raise_limits", lambda: None),
        (limits, "restore_limits", lambda: None),
        (engine, "ensure", lambda progress: None),
        (engine, "answers", lambda: True),
        (engine, "release", lambda progress: []),
        (engine, "control", found.control),
        (guard, "possible", lambda: False),
        (node_image, "ensure", lambda progress: node_image.NodeImage("node:1", assembled=False)),
        (kind, "nodes", lambda name: dict(found.nodes)),
        (kind, "create", found.create),
        (kind, "delete", found.delete),
        (kind, "ensure_network", lambda name: "br-1"),
        (kind, "remove_network", lambda name: None),
        (kind, "load_image", lambda name, reference, progress: found.done.append(f"load {reference}")),
        (kueue, "install", lambda *_, **__: None),
        (kueue, "create_queues", lambda *_: None),
        (store, "present", lambda reference: reference in found.images),
        (cluster.binaries, "ensure", lambda names, progress: dict.fromkeys(names, Path("/bin/false"))),
        (Kubectl, "works", lambda self, *words, timeout=0: found.works(*words)),
        (cluster, "_PAUSE_SECONDS", 0.0),
    ]:
        monkeypatch.setattr(module, name, stand_in)
    return found


def whole(world, nodes):
    """A cluster that `up` finished once, with its nodes in these states."""
    world.nodes = dict(nodes)
    (paths.state_dir("dev") / "cluster.json").write_text(json.dumps(asdict(WHOLE)))


def up():
    return cluster.up("dev", Progress())


def test_none_is_created(world):
    assert up() == WHOLE
    assert world.done == ["create"]
    assert up() == WHOLE
    assert world.done == ["create"]


@pytest.mark.parametrize(
    ("states", "done"),
    [
        (("running", "running"), []),
        (("paused", "paused"), ["unpause dev-control-plane dev-worker"]),
        (("exited", "exited"), ["start dev-control-plane dev-worker"]),
        (("paused", "exited"), ["unpause dev-control-plane", "start dev-worker"]),
    ],
)
@pytest.mark.parametrize("questions", [0, 3])
def test_one_that_is_there_is_woken_and_waited_for(world, states, done, questions):
    whole(world, dict(zip(RUNNING, states, strict=True)))
    world.questions_until_ready = questions
    assert up() == WHOLE
    assert world.done == done


def test_one_that_never_answers_is_left_and_the_user_told(world, monkeypatch):
    whole(world, RUNNING)
    world.questions_until_ready = 10**9
    monkeypatch.setattr(cluster, "_READY_SECONDS", 0.02)
    with pytest.raises(DevClusterError, match=r"has not answered.*dev-worker running") as caught:
        up()
    assert "kueue-flux dev down --name dev" in caught.value.remedy
    assert world.done == []


def test_one_whose_nodes_cannot_be_started_is_left_and_the_user_told(world):
    whole(world, dict.fromkeys(RUNNING, "exited"))
    world.refuses = True
    with pytest.raises(DevClusterError, match=r"cannot be started(.|\n)*network not found") as caught:
        up()
    assert "kueue-flux dev down --name dev" in caught.value.remedy
    assert world.done == []


def test_one_that_dev_up_has_not_made_is_left(world):
    world.nodes = dict(RUNNING)
    with pytest.raises(DevClusterError, match="already") as caught:
        up()
    assert "--name" in caught.value.remedy
    assert world.done == []


def test_what_an_interrupted_up_has_left_is_made_anew(world):
    world.interrupts = True
    with pytest.raises(KeyboardInterrupt):
        up()
    world.interrupts = False
    assert up() == WHOLE
    assert world.done == ["create", "delete", "create"]


def test_an_old_record_does_not_make_an_interrupted_creation_a_whole_cluster(world):
    whole(world, {})
    world.interrupts = True
    with pytest.raises(KeyboardInterrupt):
        up()
    world.interrupts = False
    up()
    assert world.done == ["create", "delete", "create"]


def test_what_an_interrupted_down_has_left_is_made_anew(world, monkeypatch):
    def interrupted(name, progress):
        world.nodes = {"dev-worker": "running"}
        raise KeyboardInterrupt

    whole(world, RUNNING)
    with monkeypatch.context() as patch:
        patch.setattr(kind, "delete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cluster.down("dev", Progress())
    assert up() == WHOLE
    assert world.done == ["delete", "create"]


def test_the_rule_of_a_guarded_cluster_is_set_again(world, monkeypatch):
    whole(world, dict.fromkeys(RUNNING, "exited"))
    guarded = cluster.Cluster("dev", "node:1", assembled=False, guarded=True)
    (paths.state_dir("dev") / "cluster.json").write_text(json.dumps(asdict(guarded)))
    monkeypatch.setattr(guard, "possible", lambda: True)
    monkeypatch.setattr(kind, "bridge", lambda name: f"br-{name}")
    monkeypatch.setattr(guard, "block", lambda bridge: world.done.append(f"block {bridge}"))
    up()
    assert world.done == ["block br-dev", "start dev-control-plane dev-worker"]


def invoke(*words):
    return CliRunner().invoke(app, list(words))


def test_down_says_whether_there_was_a_cluster(world):
    ended = invoke("down")
    assert (ended.exit_code, world.done) == (0, [])
    assert "there was no cluster dev" in ended.stderr
    assert "done" not in ended.stderr
    whole(world, RUNNING)
    ended = invoke("down")
    assert (ended.exit_code, world.done) == (0, ["delete"])
    assert "there was no cluster" not in ended.stderr
    assert "delete cluster dev: done" in ended.stderr


def test_load_image_says_what_is_missing(world):
    ended = invoke("load-image", "mine:1")
    assert ended.exit_code == 1
    assert "kueue-flux dev up --name dev" in ended.stderr
    whole(world, RUNNING)
    ended = invoke("load-image", "other:1")
    assert ended.exit_code == 1
    assert "has no image other:1" in ended.stderr
    assert "docker pull other:1" in ended.stderr
    assert world.done == []
    assert invoke("load-image", "mine:1").exit_code == 0
    assert world.done == ["load mine:1"]


def test_status_names_the_image_with_flux(world, monkeypatch):
    monkeypatch.setattr(engine, "describe", lambda: "the machine's own")
    assert "image with Flux" not in invoke("status").stdout
    whole(world, RUNNING)
    flux = {"reference": "localhost/kueue-flux/flux:1", "origin": "real Flux 1", "real": True}
    (paths.state_dir("dev") / "flux-image.json").write_text(json.dumps(flux))
    lines = invoke("status").stdout.splitlines()
    assert ["image", "with", "Flux", "localhost/kueue-flux/flux:1"] in [line.split() for line in lines]


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """A docker client that has three images, of which one is in use; returns the file with what was removed."""
    removed = tmp_path / "removed"
    program = tmp_path / "docker"
    program.write_text(
        "#!/bin/sh\n"
        'case "$1 $2" in\n'
        '"image ls") printf "%s:new\\n%s:old\\n%s:used\\n" "$5" "$5" "$5" ;;\n'
        f'"image rm") case "$3" in *:used) exit 1 ;; esac; echo "$3" >> {removed} ;;\n'
        "esac\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(packages, "find", lambda name: program)
    return removed


def test_images_that_another_has_replaced_are_removed(docker):
    adapter = f"{store.REPOSITORY}/adapter"
    assert store.remove_others(f"{adapter}:new") == [f"{adapter}:old"]
    assert docker.read_text() == f"{adapter}:old\n"
    with pytest.raises(ValueError, match="not made here"):
        store.remove_others("ubuntu:noble")
