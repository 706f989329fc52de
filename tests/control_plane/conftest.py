"""Fixtures of the control-plane tests: a real API server with real Kueue, kwok's pods, and the adapter.

One control plane serves the whole run; each test has a namespace and a queue of its own in it. To keep one between
runs: `KUEUE_FLUX_TEST_CLUSTER=NAME pytest tests/control_plane`, and `kueue-flux dev down --profile control-plane
--name NAME` when done.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.kubernetes_api import Manifest
from tests.control_plane import clusters, kit
from tests.control_plane.adapter import Adapter
from tests.control_plane.kit import Namespace


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.control_plane)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A control plane whose pods run until a test ends them, with the adapter's CRD and RBAC but no adapter."""
    with clusters.running() as found:
        yield found


@pytest.fixture
def make_namespace(cluster: Cluster) -> Iterator[Callable[..., Namespace]]:
    """Makes namespaces, each with a LocalQueue named `queue`; takes what `Namespace.set_quota` takes."""
    made: list[Namespace] = []

    def make(*, cpu: int = 4, memory_gib: int = 1024, preemption: bool = False) -> Namespace:
        name = f"t-{secrets.token_hex(4)}"
        namespace = Namespace(name, cluster.api)
        made.append(namespace)
        cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        namespace.set_quota(cpu=cpu, memory_gib=memory_gib, preemption=preemption)
        queue = {"apiVersion": kit.KUEUE, "kind": "LocalQueue", "metadata": {"name": kit.QUEUE}}
        namespace.create({**queue, "spec": {"clusterQueue": name}})
        return namespace

    yield make
    for namespace in made:
        cluster.api.delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace.name}})
        cluster.api.delete({"apiVersion": kit.KUEUE, "kind": "ClusterQueue", "metadata": {"name": namespace.name}})


@pytest.fixture
def make(cluster: Cluster) -> Iterator[Callable[[Manifest], str]]:
    """Makes objects that belong to the whole cluster, and returns their names; they go when the test ends."""
    made: list[Manifest] = []

    def create(manifest: Manifest) -> str:
        made.append(cluster.api.create(manifest))
        name: str = manifest["metadata"]["name"]
        return name

    yield create
    for manifest in reversed(made):
        cluster.api.delete(manifest)


@pytest.fixture
def namespace(make_namespace: Callable[..., Namespace]) -> Namespace:
    """A namespace with quota for four cores."""
    return make_namespace()


@pytest.fixture(scope="session")
def _one_adapter(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adapter]:
    """The adapter of the whole run: one, since two without a Lease would work against each other."""
    found = Adapter(cluster, tmp_path_factory.mktemp("adapter"))
    yield found
    found.close()


@pytest.fixture
def adapter(_one_adapter: Adapter) -> Iterator[Adapter]:
    """An adapter that runs and is ready, perhaps since an earlier test; its log is shown where the test fails."""
    with _shown(_one_adapter.log):
        if not _one_adapter.runs:
            _one_adapter.close()
            _one_adapter.start()
        yield _one_adapter


@pytest.fixture
def stopped_adapter(_one_adapter: Adapter) -> Iterator[Adapter]:
    """An adapter that does not run, for the test to start; its log is shown where the test fails."""
    _one_adapter.close()
    with _shown(_one_adapter.log):
        yield _one_adapter


@contextmanager
def _shown(log: Path) -> Iterator[None]:
    """Print what is written to a log meanwhile; pytest shows it where the test fails."""
    start = log.stat().st_size if log.exists() else 0
    try:
        yield
    finally:
        if log.exists():
            print(f"--- the adapter's log\n{log.read_bytes()[start:].decode()}")
