"""The control plane that carries the measurements at scale, and the adapter as a process beside it."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import requests
from bench.load import CPU_MILLIS
from bench.machine import Usage, usage
from kueue_flux.devcluster import control_plane
from kueue_flux.devcluster.control_plane import PROGRAMS, Cluster
from kueue_flux.devcluster.kubernetes_api import Manifest
from kueue_flux.devcluster.progress import Progress
from tests.control_plane import kit
from tests.control_plane.adapter import Adapter, install

POD_SECONDS = 1.0
"""How long a pod runs: short, so that what is measured is the control plane and not the waiting."""
NODES = 20
CLIENT_QPS, CLIENT_BURST = 500, 1000
"""Of kube-controller-manager and kube-scheduler, whose own limits would otherwise be all that is measured."""


@contextmanager
def running(name: str | None, progress: Progress) -> Iterator[tuple[Cluster, Adapter]]:
    """A control plane, and the adapter for it, which is not started yet.

    Args:
        name: One to use, or to make, and to leave behind; None makes one that is taken down at the end.
        progress: Told what is done.
    """
    called = name or f"bench-{os.getpid()}"
    try:
        cluster = control_plane.up(
            called,
            progress,
            nodes=NODES,
            pod_seconds=POD_SECONDS,
            client_qps=CLIENT_QPS,
            client_burst=CLIENT_BURST,
        )
        cluster.api.apply(kit.resource_flavor())
        install(cluster.api)
        with tempfile.TemporaryDirectory() as directory:
            adapter = Adapter(cluster, Path(directory))
            try:
                yield cluster, adapter
            finally:
                adapter.close()
    finally:
        if name is None:
            control_plane.down(called, progress)


def namespace_with_queue(cluster: Cluster, *, pods: int, stopped: bool = False) -> str:
    """Make a namespace with a LocalQueue `kit.QUEUE`.

    Args:
        cluster: The control plane.
        pods: How many pods its quota allows at a time.
        stopped: Its queue admits nothing.

    Returns:
        Its name.
    """
    name = f"bench-{secrets.token_hex(4)}"
    api = cluster.api
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    namespace = kit.Namespace(name, api)
    api.apply(_queue(name, pods))
    if stopped:
        namespace.stop_queue("Hold")
    local = {"apiVersion": kit.KUEUE, "kind": "LocalQueue", "metadata": {"name": kit.QUEUE}}
    namespace.create({**local, "spec": {"clusterQueue": name}})
    if not stopped:
        kit.wait_for("the queue", lambda: kit.is_true(api.get(kit.KUEUE, "ClusterQueue", name), "Active"))
    return name


def start(adapter: Adapter) -> None:
    """Start the adapter, and wait until it has looked at all that is there."""

    def idle() -> bool:
        metrics = adapter.metrics()
        return not requests.total(metrics, "workqueue_depth") and not requests.total(
            metrics, "controller_runtime_active_workers"
        )

    adapter.start()
    kit.wait_for("the adapter to have nothing to do", idle, timeout=300)


def usages(cluster: Cluster, adapter: Adapter | None) -> dict[str, Usage]:
    """What each of the processes has used so far.

    Args:
        cluster: The control plane.
        adapter: The adapter where it runs, else None.
    """
    pids = {name: cluster.processes.pid(name) for name in PROGRAMS}
    pids |= {"adapter": adapter.pid if adapter else None, "the benchmark itself": os.getpid()}
    return {name: usage(pid) for name, pid in pids.items() if pid is not None}


def _queue(name: str, pods: int) -> Manifest:
    queue = kit.cluster_queue(name, name, cpu=1, memory_gib=100_000, preemption=False)
    resources = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    resources[0]["nominalQuota"] = f"{pods * CPU_MILLIS}m"
    return queue
