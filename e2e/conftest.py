"""Fixtures of the e2e tests: one kind cluster for the run, one namespace with a queue for each test.

The cluster is called `e2e`, is brought up by the first test that needs it and taken down at the end. To work with one
that stays, `KUEUE_FLUX_E2E_CLUSTER=dev pytest e2e`; to keep the one of the run, set `KUEUE_FLUX_E2E_KEEP`.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e import kit
from e2e.kit import Cluster, Namespace
from kueue_flux.devcluster import binaries, deploy, kind, paths
from kueue_flux.devcluster import cluster as kind_cluster
from kueue_flux.devcluster.errors import CommandFailed, DevClusterError
from kueue_flux.devcluster.images import view_image
from kueue_flux.devcluster.kubernetes_api import KubernetesApi, Manifest
from kueue_flux.devcluster.progress import Progress
from tests.control_plane.kit import KUEUE, QUEUE

OURS = "e2e-session"  # in the cluster's state: it is a test run that brought it up
# What disturbs the cluster as a whole comes late, and what takes it away comes last.
ORDER = {"test_faults.py": 1, "test_kills.py": 1, "test_down.py": 2}

OTHERS_SECONDS = 600  # how long another `kueue-flux dev up` may take

failed = pytest.StashKey[bool]()


def pytest_configure() -> None:
    # a run that is cancelled puts back what it has disturbed, and takes its cluster down, as after a Ctrl-C
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)
    items.sort(key=lambda item: ORDER.get(item.path.name, 0) if item.path.parent == here else 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    item.stash[failed] = item.stash.get(failed, False) or report.failed
    return report


@dataclass(frozen=True)
class BroughtUp:
    """The kind cluster of the run.

    Args:
        cluster: it.
        ours: whether this run is to take it down.
    """

    cluster: kind_cluster.Cluster
    ours: bool


@pytest.fixture(scope="session")
def brought_up() -> Iterator[BroughtUp]:
    """The kind cluster, up."""
    name, progress = os.environ.get("KUEUE_FLUX_E2E_CLUSTER", "e2e"), Progress()
    mark = paths.state_root() / name / OURS
    ours = kind_cluster.load(name) is None or mark.exists()
    try:
        cluster = _up(name, progress)
    except CommandFailed:
        raise  # something that is there does not work
    except DevClusterError as error:
        pytest.skip(f"no kind cluster can be had here: {error}")
    if ours:
        mark.touch()
    found = BroughtUp(cluster, ours and "KUEUE_FLUX_E2E_KEEP" not in os.environ)
    yield found
    if found.ours:
        kind_cluster.down(name, progress)


def _up(name: str, progress: Progress) -> kind_cluster.Cluster:
    """Bring the cluster up, once nobody else on this machine is at it."""
    end = time.monotonic() + OTHERS_SECONDS
    while True:
        try:
            return kind_cluster.up(name, progress, deploy=deploy.deploy)
        except DevClusterError as error:
            if "at work" not in error.message or time.monotonic() > end:
                raise
        time.sleep(2)


@pytest.fixture(scope="session")
def cluster(brought_up: BroughtUp) -> Iterator[Cluster]:
    """The cluster, with Kueue and this checkout's kueue-flux in it."""
    found = brought_up.cluster
    kubectl = binaries.ensure(["kubectl"], Progress())["kubectl"]
    api = KubernetesApi(found.kubeconfig)
    yield Cluster(found.name, found.kubeconfig, kubectl, kit.deployed(found.name), api)
    api.close()


@pytest.fixture(scope="session")
def image_without_flux(cluster: Cluster) -> str:
    """An application's image that every cluster has: the controller's own, in which Python runs as a user."""
    deployment = cluster.api.get("apps/v1", "Deployment", "kueue-flux-controller", kit.CONTROLLER[0])
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


@pytest.fixture(scope="session")
def view(cluster: Cluster) -> str:
    """The image with a Flux view, in the cluster."""
    try:
        reference = view_image(Progress())
    except CommandFailed:
        raise
    except DevClusterError as error:
        pytest.skip(f"no Flux view can be made here: {error}")
    kind.load_image(cluster.name, reference)
    return reference


@pytest.fixture(autouse=True)
def _needs_real_flux(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("real_flux"):
        flux = request.getfixturevalue("cluster").flux
        if not flux.real:
            pytest.skip(flux.origin)


@pytest.fixture(scope="session")
def make_namespace(cluster: Cluster) -> Iterator[Callable[..., Namespace]]:
    """Makes namespaces, each with a LocalQueue named `queue` on a ClusterQueue of its own."""
    made: list[Namespace] = []

    def make(*, pods: int = 20, preemption: bool = False) -> Namespace:
        name = f"e2e-{secrets.token_hex(4)}"
        namespace = Namespace(name, cluster.api, cluster)
        made.append(namespace)
        cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        namespace.set_pods(pods, preemption=preemption)
        namespace.create(local_queue(QUEUE, name))
        return namespace

    yield make
    if kind_cluster.load(cluster.name) is not None:  # else a test has taken it down
        for namespace in made:
            remove(namespace)


@pytest.fixture
def namespace(request: pytest.FixtureRequest, make_namespace: Callable[..., Namespace]) -> Iterator[Namespace]:
    """A namespace with quota for 20 pods, or for as many as the mark `quota` says."""
    mark = request.node.get_closest_marker("quota")
    found = make_namespace(**(mark.kwargs if mark else {}))
    yield found
    if request.node.stash.get(failed, False):
        print(found.autopsy())
    remove(found)


def local_queue(name: str, cluster_queue: str) -> Manifest:
    return {
        "apiVersion": KUEUE,
        "kind": "LocalQueue",
        "metadata": {"name": name},
        "spec": {"clusterQueue": cluster_queue},
    }


def remove(namespace: Namespace) -> None:
    """Delete a namespace and its ClusterQueue, without waiting for the end of it."""
    api = namespace.api
    api.delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace.name}})
    api.delete({"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": namespace.name}})
