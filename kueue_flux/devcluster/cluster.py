"""The kind profile: a real cluster with real Kueue, brought up and taken down whole.

`up` reuses whatever is there already; `down` leaves nothing on the machine but the cache. What must be known in
between is in the cluster's state folder.
"""

import fcntl
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from kueue_flux.devcluster.kueue import Kubectl
from kueue_flux.devcluster.progress import Progress

_STATE = "cluster.json"


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
        cluster = load(name)
        if cluster is None or not _healthy(cluster, progress):
            cluster = _create(name, workers, progress)
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
            with progress.stage(f"delete cluster {name}"):
                if kind.nodes(name):
                    kind.delete(name, progress)
                kind.remove_network(name)
        shutil.rmtree(paths.state_root() / name, ignore_errors=True)
        if not any(paths.state_root().glob(f"*/{_STATE}")):
            limits.restore_limits()
        return engine.release(progress)


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


def _healthy(cluster: Cluster, progress: Progress) -> bool:
    states = kind.nodes(cluster.name)
    if not states or any(state != "running" for state in states.values()):
        return False
    return cluster.kubectl(progress).works("get", "--raw", "/readyz", timeout=30)


def _create(name: str, workers: int, progress: Progress) -> Cluster:
    image = node_image.ensure(progress)
    if kind.nodes(name):
        with progress.stage(f"delete what is left of cluster {name}"):
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
    with progress.stage(f"create cluster {name} with kind"):
        kind.create(name, image.reference, workers=workers, progress=progress)
    (paths.state_dir(name) / _STATE).write_text(json.dumps(asdict(cluster)))
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
