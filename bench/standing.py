"""What it costs to have MiniClusters that do nothing: finished ones, and ones that wait for a queue."""

from __future__ import annotations

import asyncio
from typing import Any

from bench import requests
from bench.control_plane import namespace_with_queue, start
from bench.load import minicluster, submit
from bench.machine import usage
from bench.observer import JOB_CREATED, observing
from kueue_flux.controller.resources import MINICLUSTERS
from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.progress import Progress
from kueue_flux.runtime.client import Client
from tests.control_plane import kit
from tests.control_plane.adapter import Adapter

SETTLE_SECONDS = 5.0
TIMEOUT_SECONDS = 1800.0


async def memory(cluster: Cluster, adapter: Adapter, progress: Progress, what: str) -> dict[str, Any]:
    """Start the adapter with all that is there, and say how much memory it takes.

    Args:
        cluster: The control plane.
        adapter: The adapter, not running; nor is it at the end.
        progress: Told what is done.
        what: What is there, in words.
    """
    with progress.stage(f"memory of the adapter, started with {what}"):
        try:
            start(adapter)
            await asyncio.sleep(SETTLE_SECONDS)
            return _memory(adapter, what)
        finally:
            adapter.close()


async def idle(adapter: Adapter, progress: Progress, what: str, seconds: float) -> dict[str, Any]:
    """What the adapter does while nothing happens.

    Args:
        adapter: The adapter, running.
        progress: Told what is done.
        what: What is there, in words.
        seconds: How long to look.
    """
    with progress.stage(f"idle for {seconds:g} s with {what}"):
        await asyncio.sleep(SETTLE_SECONDS)
        metrics, used = adapter.metrics(), usage(adapter.pid)
        await asyncio.sleep(seconds)
        later, used_later = adapter.metrics(), usage(adapter.pid)
    made = requests.of_client(later) - requests.of_client(metrics)

    def counted(name: str) -> float:
        return requests.total(later, name) - requests.total(metrics, name)

    return {
        "what": what,
        "seconds": seconds,
        "requests": dict(made),
        "lists": counted("reflector_lists_total"),
        "watches_reopened": counted("reflector_watches_total"),
        "reconciles": counted("controller_runtime_reconcile_total"),
        "cpu_seconds": used_later.cpu_seconds - used.cpu_seconds,
    }


async def finished(
    cluster: Cluster, adapter: Adapter, progress: Progress, count: int, seconds: float
) -> dict[str, Any]:
    """Idle cost, with `count` MiniClusters that have finished and whose pods are still there."""
    try:
        start(adapter)
        return await idle(adapter, progress, f"{count} finished MiniClusters", seconds)
    finally:
        adapter.close()


async def pending(
    cluster: Cluster, adapter: Adapter, progress: Progress, *, count: int, size: int, seconds: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Submit MiniClusters to a queue that is stopped, with the adapter running.

    Args:
        cluster: The control plane.
        adapter: The adapter, not running; nor is it at the end.
        progress: Told what is done.
        count: How many.
        size: Pods of each.
        seconds: How long to look at them waiting.

    Returns:
        The adapter's memory once all of them wait, and what it does while they do.
    """
    what = f"{count} waiting MiniClusters"
    namespace = namespace_with_queue(cluster, pods=size, stopped=True)
    client = await Client.connect(str(cluster.kubeconfig))
    try:
        start(adapter)
        with progress.stage(f"submit {what}"):
            async with observing(client, namespace) as seen:
                manifests = [minicluster(namespace, f"wait-{i:05}", kit.QUEUE, size=size) for i in range(count)]
                await submit(client, MINICLUSTERS, manifests, seen)
                await seen.until(JOB_CREATED, count, TIMEOUT_SECONDS)
            await asyncio.sleep(SETTLE_SECONDS)
        waiting = await idle(adapter, progress, what, seconds)
        return _memory(adapter, f"{what}, submitted while it ran"), waiting
    finally:
        adapter.close()
        await client.close()


def _memory(adapter: Adapter, what: str) -> dict[str, Any]:
    used = usage(adapter.pid)
    return {"what": what, "resident_mib": used.resident_mib, "peak_mib": used.peak_mib}
