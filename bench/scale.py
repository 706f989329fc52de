"""Many at once: MiniClusters beside plain Jobs, through the real API server and the real Kueue.

The sides take turns within one run, each in a namespace of its own, with the order reversed from round to round:
the machine may be slow or busy, but then it is for both. The adapter runs only while MiniClusters do: plain Jobs
are what one would have without it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

from bench import requests
from bench.control_plane import namespace_with_queue, start, usages
from bench.load import minicluster, plain_job, submit
from bench.machine import Usage, busy_seconds
from bench.observer import (
    ADMITTED,
    CONFIG_MAP,
    ETCD_ADMITTED,
    ETCD_FILES,
    FINISHED,
    JOB_FINISHED,
    SECRET,
    SUBMITTED,
    TURN,
    UNSUSPENDED,
    Seen,
    observing,
)
from kueue_flux.controller.resources import JOBS, MINICLUSTERS
from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.progress import Progress
from kueue_flux.runtime.client import Client
from tests.control_plane import kit
from tests.control_plane.adapter import Adapter

SETTLE_SECONDS = 3.0
"""After the last has finished, for what still follows: events, deleted pods, deleted files."""
PAUSE_SECONDS = 0.5
"""Between one at a time and the next."""
TIMEOUT_SECONDS = 900.0
JOB_SIDE, MINICLUSTER_SIDE = "plain Jobs", "MiniClusters"


@dataclass(frozen=True)
class Variant:
    """One way to load the cluster.

    Attributes:
        name: In words.
        at_once: How many Jobs or MiniClusters the quota lets run together; None for all.
    """

    name: str
    at_once: int | None


@dataclass(frozen=True)
class Round:
    """One side's turn.

    Attributes:
        variant: How the cluster is loaded.
        number: Which round it is, from 1.
        side: `JOB_SIDE` or `MINICLUSTER_SIDE`.
        count: How many Jobs or MiniClusters.
        size: Pods of each.
    """

    variant: Variant
    number: int
    side: str
    count: int
    size: int


VARIANTS = (Variant("quota for all", None), Variant("quota for 20 at once", 20))


async def compare(
    cluster: Cluster, adapter: Adapter, progress: Progress, *, count: int, size: int, rounds: int = 2
) -> list[dict[str, Any]]:
    """Run all variants.

    Args:
        cluster: The control plane.
        adapter: The adapter, not running; nor is it at the end.
        progress: Told what is done.
        count: Plain Jobs, and MiniClusters, in each variant: over all of its rounds.
        size: Pods of each.
        rounds: In how many turns each side runs them.

    Returns:
        One record for each round of each side.
    """
    records = []
    client = await Client.connect(str(cluster.kubeconfig), max_in_flight=64)
    try:
        for variant in VARIANTS:
            for number in range(rounds):
                sides = (JOB_SIDE, MINICLUSTER_SIDE)
                for side in sides if number % 2 == 0 else reversed(sides):
                    with progress.stage(f"{variant.name}, round {number + 1}: {count // rounds} {side}"):
                        round_ = Round(variant, number + 1, side, count // rounds, size)
                        records.append(await _run(cluster, adapter, client, round_))
    finally:
        await client.close()
    return records


async def one_at_a_time(
    cluster: Cluster, adapter: Adapter, progress: Progress, *, count: int, size: int
) -> dict[str, Any]:
    """Run MiniClusters, each when the one before has finished: how fast it is where nothing else goes on.

    Args:
        cluster: The control plane.
        adapter: The adapter, not running; nor is it at the end.
        progress: Told what is done.
        count: How many.
        size: Pods of each.

    Returns:
        See `times`.
    """
    namespace = namespace_with_queue(cluster, pods=size)
    client = await Client.connect(str(cluster.kubeconfig))
    try:
        start(adapter)
        with progress.stage(f"one at a time: {count} {MINICLUSTER_SIDE}"):
            async with observing(client, namespace, _etcd(cluster)) as seen:
                for i in range(count):
                    manifest = minicluster(namespace, f"run-{i:04}", kit.QUEUE, size=size)
                    await submit(client, MINICLUSTERS, [manifest], seen)
                    await seen.until(FINISHED, i + 1, TIMEOUT_SECONDS)
                    await asyncio.sleep(PAUSE_SECONDS)
        return times(seen, FINISHED)
    finally:
        adapter.close()
        await client.close()


async def _run(cluster: Cluster, adapter: Adapter, client: Client, turn: Round) -> dict[str, Any]:
    namespace = namespace_with_queue(cluster, pods=(turn.variant.at_once or turn.count) * turn.size)
    manifests = [minicluster(namespace, f"run-{i:04}", kit.QUEUE, size=turn.size) for i in range(turn.count)]
    resource, end = MINICLUSTERS, FINISHED
    running: Adapter | None = adapter
    if turn.side == JOB_SIDE:
        manifests, resource, end, running = [plain_job(each) for each in manifests], JOBS, JOB_FINISHED, None
    try:
        if running:
            start(running)
        async with observing(client, namespace, _etcd(cluster)) as seen:
            await asyncio.sleep(SETTLE_SECONDS)
            before = Reading.take(cluster, running)
            await submit(client, resource, manifests, seen)
            await seen.until(end, turn.count, TIMEOUT_SECONDS)
            await asyncio.sleep(SETTLE_SECONDS)
            after = Reading.take(cluster, running)
    finally:
        adapter.close()
    return {
        "variant": turn.variant.name,
        "round": turn.number,
        "side": turn.side,
        "count": turn.count,
        "times": times(seen, end),
        "cost": cost(before, after, turn.count),
    }


def times(seen: Seen, end: str) -> dict[str, Any]:
    """Rates a second, and seconds that each one took from one point to another.

    Args:
        seen: What was seen of a round.
        end: The point at which a run counts as finished.
    """
    return {
        "admitted_per_second": seen.rate(ADMITTED),
        "finished_per_second": seen.rate(end),
        "unsuspended": seen.between(SUBMITTED, UNSUSPENDED),
        "finished": seen.between(SUBMITTED, end),
        "job_finished_to_finished": seen.between(JOB_FINISHED, end),
        "injection": seen.between(ADMITTED, CONFIG_MAP, SECRET),
        "injection_in_etcd": seen.between(ETCD_ADMITTED, *ETCD_FILES),
        "admission_to_turn": seen.between(ETCD_ADMITTED, TURN),
    }


@dataclass(frozen=True)
class Reading:
    """All counters at one moment.

    Attributes:
        server: Requests that the API server has answered.
        adapter: The adapter's own /metrics; empty where it does not run.
        usages: What each process has used.
        busy: Processor seconds used on the machine by whatever runs there.
    """

    server: requests.Calls
    adapter: str
    usages: dict[str, Usage]
    busy: float

    @classmethod
    def take(cls, cluster: Cluster, adapter: Adapter | None) -> Reading:
        """Read them now.

        Args:
            cluster: The control plane.
            adapter: The adapter where it runs, else None.
        """
        server = requests.of_server(cluster.api.text("GET", "/metrics"))
        return cls(server, adapter.metrics() if adapter else "", usages(cluster, adapter), busy_seconds())


def cost(before: Reading, after: Reading, count: int) -> dict[str, Any]:
    """What was used between two readings, for each of `count` Jobs or MiniClusters."""
    calls = after.server - before.server
    own: Counter[str] = requests.of_client(after.adapter) - requests.of_client(before.adapter)
    cpu = {name: after.usages[name].cpu_seconds - used.cpu_seconds for name, used in before.usages.items()}

    def counted(metric: str) -> float:
        return (requests.total(after.adapter, metric) - requests.total(before.adapter, metric)) / count

    def mean(histogram: str) -> float:
        number = counted(f"{histogram}_count")
        return counted(f"{histogram}_sum") / number if number else 0.0

    return {
        "requests": calls.total() / count,
        "writes": requests.writes(calls) / count,
        "calls": {f"{verb} {what}": n / count for (verb, what), n in calls.most_common()},
        "cpu_seconds": cpu,
        "cpu_seconds_of_others": after.busy - before.busy - sum(cpu.values()),
        "resident_mib": {name: used.resident_mib for name, used in after.usages.items()},
        "adapter": {
            "requests": own.total() / count,
            "writes": (own.total() - own["GET"]) / count,
            "reconciles": counted("controller_runtime_reconcile_total"),
            "events": counted("events_sent_total"),
            "watch_events": counted("reflector_events_total"),
            # for each turn, unlike the others
            "queue_seconds": mean("workqueue_queue_duration_seconds"),
            "turn_seconds": mean("workqueue_work_duration_seconds"),
        },
    }


def _etcd(cluster: Cluster) -> str:
    return f"http://127.0.0.1:{cluster.ports['etcd']}"
