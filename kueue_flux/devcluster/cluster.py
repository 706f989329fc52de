"""The kind profile: a real cluster with real Kueue, brought up and taken down whole.

`up` reuses whatever is there already, and deletes nothing but what an interrupted `up` has left; `down` leaves nothing
on the machine but the cache. What must be known in between is in the cluster's state folder.
"""

import fcntl
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from kueue_flux.devcluster import (
    binaries,
    engine,
    guard,
    kind,
    kueue,
    limits,
    node_image,
    paths,
    server_tarball,
    versions,
)
from kueue_flux.devcluster.errors import CommandFailed, DevClusterError
from kueue_flux.devcluster.images import store
from kueue_flux.devcluster.kueue import Kubectl
from kueue_flux.devcluster.progress import Progress

_STATE = "cluster.json"
# There from the beginning of a creation to its end: nodes with it were never a whole cluster.
_UNFINISHED = "unfinished"
# How Docker is told to have a container run that is in this state.
_TO_RUN = {"paused": "unpause", "exited": "start", "created": "start"}
# For the API server of a cluster whose nodes have just been started, on a slow machine.
_READY_SECONDS = 300.0
_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Cluster:
    """A kind cluster that is up.

    Args:
        name: what it is called.
        node_image: what its nodes run.
        assembled: whether that image was made on this machine, with stand-ins.
        guarded: whether what its nodes send elsewhere is rejected.
    """

    name: str
    node_image: str
    assembled: bool
    guarded: bool

    @property
    def kubeconfig(self) -> Path:
        """How to reach it."""
        return paths.kubeconfig(self.name)

    def kubectl(self, progress: Progress) -> Kubectl:
        """kubectl for it.

        Args:
            progress: told where kubectl must be built first.
        """
        return Kubectl(binaries.ensure(["kubectl"], progress)["kubectl"], self.kubeconfig)


Step = Callable[[Cluster, Progress], None]


def up(name: str, progress: Progress, *, workers: int = 1, deploy: Step | None = None) -> Cluster:
    """Bring a cluster up: engine, node image, nodes, Kueue, sample queues.

    Args:
        name: what it is called.
        progress: told what is done.
        workers: how many worker nodes, where it has to be created.
        deploy: what to put into the cluster once Kueue is ready.

    Raises:
        DevClusterError: something is missing or does not work; what `up` had done stays for `down`.
    """
    with _locked(progress):
        limits.raise_limits()
        engine.ensure(progress)
        cluster, nodes = load(name), kind.nodes(name)
        if cluster is not None and nodes and not (paths.state_root() / name / _UNFINISHED).exists():
            _wake(cluster, nodes, progress)
        else:
            cluster = _create(name, nodes, workers, progress)
        kubectl = cluster.kubectl(progress)
        kueue.install(name, kubectl, published=not cluster.assembled, progress=progress)
        kueue.create_queues(kubectl, progress)
        if deploy is not None:
            deploy(cluster, progress)
    return cluster


def down(name: str, progress: Progress) -> list[str]:
    """Take a cluster down, and the engine with it where `up` had started that one and nothing else runs on it.

    Args:
        name: what it is called; one that is not there is no error.
        progress: told what is done.

    Returns:
        What is left on the machine of an engine that was stopped, which should be nothing.
    """
    with _locked(progress):
        if engine.died():
            engine.ensure(progress)  # its containers are still there, and only an engine can take them away
        if engine.answers():
            with progress.stage(f"delete cluster {name}") if exists(name) else nullcontext():
                if kind.nodes(name):
                    # were this interrupted, what is left would be no cluster any more that `up` could wake
                    (paths.state_dir(name) / _UNFINISHED).touch()
                    kind.delete(name, progress)
                kind.remove_network(name)
        shutil.rmtree(paths.state_root() / name, ignore_errors=True)
        if not any(paths.state_root().glob(f"*/{_STATE}")):
            limits.restore_limits()
        return engine.release(progress)


def exists(name: str) -> bool:
    """Whether anything of a cluster is there that `down` would take away.

    Args:
        name: what it is called.
    """
    return (paths.state_root() / name).exists() or (engine.answers() and bool(kind.nodes(name)))


def load_image(name: str, reference: str, progress: Progress) -> None:
    """Copy an image from the Docker engine to the nodes of a cluster.

    Args:
        name: what the cluster is called.
        reference: the image's name.
        progress: told what is done.

    Raises:
        DevClusterError: there is no such cluster, or the engine has no such image.
        CommandFailed: it cannot be copied.
    """
    if not engine.answers() or not kind.nodes(name):
        raise DevClusterError(f"cluster {name} is not up", f"bring it up: kueue-flux dev up --name {name}")
    if not store.present(reference):
        raise DevClusterError(
            f"this machine's Docker engine has no image {reference}",
            f"get it first: docker pull {reference}, or docker build --tag {reference} DIRECTORY; "
            "what there is: docker images",
        )
    kind.load_image(name, reference, progress)


def load(name: str) -> Cluster | None:
    """The cluster that `up` brought up; None where there is none.

    Args:
        name: what it is called.
    """
    file = paths.state_root() / name / _STATE
    return Cluster(**json.loads(file.read_text())) if file.exists() else None


def status(name: str, progress: Progress) -> dict[str, str]:
    """What is there, in words.

    Args:
        name: what the cluster is called.
        progress: told where kubectl must be built first.
    """
    described = {"engine": engine.describe()}
    cluster = load(name)
    if cluster is None or not engine.answers():
        return {"cluster": f"{name} is not up", **described}
    states = kind.nodes(name)
    described["nodes"] = ", ".join(f"{node} {state}" for node, state in states.items()) or "none"
    described["node image"] = cluster.node_image
    if cluster.assembled:
        parts = "; ".join(f"{part}: {what}" for part, what in server_tarball.STAND_INS.items())
        described["stand-ins"] = parts
    kubectl = cluster.kubectl(progress)
    state = "ready" if kueue.ready(kubectl) else "not ready"
    described["Kueue"] = f"{versions.KUEUE} {state}"
    described["egress"] = (
        "rejected" if guard.possible() and guard.active(kind.bridge(name)) else "not rejected: that needs root"
    )
    described["kubeconfig"] = str(cluster.kubeconfig)
    return {"cluster": f"{name} (profile kind)", **described}


def _wake(cluster: Cluster, nodes: Mapping[str, str], progress: Progress) -> None:
    """Have the nodes of a cluster run, and wait until it answers: it may be paused, stopped or slow.

    It is never made anew, for somebody's work may be in it.

    Raises:
        DevClusterError: it does not answer; it is left as it is.
    """
    remedy = (
        f"run this again later; or, if nothing in it is worth keeping: "
        f"kueue-flux dev down --name {cluster.name}, and then kueue-flux dev up --name {cluster.name}"
    )
    try:
        if cluster.guarded and guard.possible():
            guard.block(kind.bridge(cluster.name))  # the rule is gone where the machine was started anew
        for state, verb in _TO_RUN.items():
            if names := [node for node, now in nodes.items() if now == state]:
                with progress.stage(f"{verb} {', '.join(names)}"):
                    engine.control(verb, names)
    except CommandFailed as error:
        raise DevClusterError(f"the nodes of cluster {cluster.name} cannot be started: {error}", remedy) from error
    if not _answers(cluster, progress):
        states = ", ".join(f"{node} {state}" for node, state in kind.nodes(cluster.name).items())
        raise DevClusterError(
            f"cluster {cluster.name} is there, but has not answered for {_READY_SECONDS:g} s ({states})", remedy
        )


def _answers(cluster: Cluster, progress: Progress) -> bool:
    """Whether a cluster's API server becomes ready, if it is not."""
    kubectl = cluster.kubectl(progress)

    def ready() -> bool:
        return kubectl.works("get", "--raw", "/readyz", timeout=10)

    if ready():
        return True
    with progress.stage(f"wait until cluster {cluster.name} answers"):
        end = time.monotonic() + _READY_SECONDS
        while time.monotonic() < end:
            time.sleep(_PAUSE_SECONDS)
            if ready():
                return True
    return False


def _create(name: str, nodes: Mapping[str, str], workers: int, progress: Progress) -> Cluster:
    unfinished = paths.state_root() / name / _UNFINISHED
    if nodes and not unfinished.exists():
        raise DevClusterError(
            f"there is a kind cluster {name} already ({', '.join(nodes)}), and no record that `dev up` has made it",
            f"choose another --name; or, if it is not needed: kueue-flux dev down --name {name}",
        )
    image = node_image.ensure(progress)
    if nodes:
        with progress.stage(f"delete what an interrupted `up` has left of cluster {name}"):
            kind.delete(name, progress)
    with progress.stage("make the cluster's network"):
        bridge = kind.ensure_network(name)
        guarded = guard.possible()
        if guarded:
            guard.block(bridge)
    if not guarded:
        progress.note("what the nodes send elsewhere is not rejected: that needs root and iptables")
    binaries.ensure(["kind", "kubectl"], progress)
    cluster = Cluster(name, image.reference, image.assembled, guarded)
    record = paths.state_dir(name) / _STATE
    unfinished.touch()
    record.unlink(missing_ok=True)  # of a cluster whose nodes somebody has removed
    with progress.stage(f"create cluster {name} with kind"):
        kind.create(name, image.reference, workers=workers, progress=progress)
    record.write_text(json.dumps(asdict(cluster)))
    unfinished.unlink()
    return cluster


@contextmanager
def _locked(progress: Progress) -> Iterator[None]:
    """One `up` or `down` at a time: they share the engine."""
    file = paths.cache_dir() / "kind.lock"
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.stage("wait for another `kueue-flux dev up` or `down`"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
