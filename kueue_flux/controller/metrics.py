"""What the controller counts, beyond the runtime's own metrics; docs/monitoring.md says what each means.

No label for each object, but for each queue: `namespace` and `queue` (the LocalQueue; `NO_QUEUE` for MiniClusters that
name none). What was counted of a queue is forgotten a while after the last MiniCluster in it is gone, since
namespaces come and go. What there is at the moment is counted from the store when somebody asks.
"""

import asyncio
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from kueue_flux.api.conditions import Reason
from kueue_flux.controller import life
from kueue_flux.controller.life import Moment
from kueue_flux.kueue import labels
from kueue_flux.kueue.workload import TIMED_OUT
from kueue_flux.runtime.metrics import REGISTRY
from kueue_flux.runtime.resource import Object

Queue = tuple[str, str]
"""(namespace, LocalQueue)."""

BY_QUEUE = ("namespace", "queue")
NO_QUEUE = "-"
"""The label of those without a queue; no LocalQueue can be called so."""

KEEP_SECONDS = 3600.0
"""How long the series of a queue without MiniClusters stay: many times the interval at which anybody scrapes."""

MOST_QUEUES = 100
"""Of one namespace that have series of their own: who submits may name any queue, whether there is one or not."""
OTHERS = "..."
"""The label of all others; no LocalQueue can be called so."""

STAGES = ("waiting", "admitted", "running", "finished")

EVICTIONS = frozenset(
    {
        "Preempted",
        "PodsReadyTimeout",
        "AdmissionCheck",
        "ClusterQueueStopped",
        "LocalQueueStopped",
        "NodeFailures",
        "FlavorMigration",
        "EvictedOnManagerCluster",
        "Deactivated",
        "DeactivatedDueToAdmissionCheck",
        "DeactivatedDueToRequeuingLimitExceeded",
        TIMED_OUT,
        life.UNKNOWN,
    }
)
"""Why Kueue evicts (0.19, `apis/kueue/v1beta2/workload_types.go`); anything else is counted as `life.OTHER`."""

REFUSALS = frozenset(
    {
        Reason.INVALID_SPEC,
        Reason.UNSUPPORTED_FIELD,
        Reason.SPEC_CHANGED,
        Reason.NAME_TAKEN,
        Reason.REFUSED,
        Reason.CONFLICTING_CONTROLLER,
        "InternalError",
    }
)
"""Why a MiniCluster is not accepted; anything else is counted as `life.OTHER`."""

# Ten each: a scrape takes time for every bucket of every queue.
SHORT = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
MEDIUM = (1, 2, 5, 10, 20, 30, 60, 120, 300, 900)
LONG = (1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600)


class Miniclusters(Collector):
    """MiniClusters by stage, and those that are not accepted, counted from the store when they are asked for."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._miniclusters: Iterable[Object] = ()
        self._met: Tally[str] = Tally()  # queues by namespace
        self._last: dict[Queue, float] = {}  # by queue whose series are kept: when there last was a MiniCluster in it

    async def count(self, miniclusters: Iterable[Object]) -> None:
        """Count these until cancelled: one process does so, of several that have the same store."""
        self._miniclusters = miniclusters
        try:
            await asyncio.Event().wait()
        finally:
            self._miniclusters = ()

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The metrics, without values."""
        yield GaugeMetricFamily("kueue_flux_miniclusters", "MiniClusters at each stage", labels=[*BY_QUEUE, "stage"])
        yield GaugeMetricFamily(
            "kueue_flux_not_accepted",
            "MiniClusters that are not accepted, or the last change of which is not",
            labels=[*BY_QUEUE, "reason"],
        )

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The metrics."""
        stages: Tally[tuple[Queue, str]] = Tally()
        refused: Tally[tuple[Queue, str]] = Tally()
        for obj in self._miniclusters:
            queue = self.meet(queue_of(obj))
            stage, refusal = _standing(obj.get("status", {}))
            stages[queue, stage] += 1
            if refusal is not None:
                refused[queue, refusal] += 1
        used = {queue for queue, _ in stages}
        self._keep(used)
        by_stage, not_accepted = self.describe()
        for queue in used:
            for stage in STAGES:
                by_stage.add_metric([*queue, stage], stages[queue, stage])
        for (queue, reason), number in refused.items():
            not_accepted.add_metric([*queue, reason], number)
        yield by_stage
        yield not_accepted

    def meet(self, queue: Queue) -> Queue:
        """Begin the series of a queue, if they have not begun, and see to it that they end.

        Returns:
            The labels under which it is counted.
        """
        namespace, _ = queue
        if queue not in self._last:
            if self._met[namespace] >= MOST_QUEUES:
                queue = (namespace, OTHERS)
            if queue not in self._last:
                _begin(queue)
                self._last[queue] = self._now()
                self._met[namespace] += 1
        return queue

    def _keep(self, used: set[Queue]) -> None:
        now = self._now()
        for queue in used:
            self._last[queue] = now
        for queue in [queue for queue, last in self._last.items() if now - last > KEEP_SECONDS]:
            _forget(queue)
            del self._last[queue]
            self._met[queue[0]] -= 1
        self._met = +self._met


# First in the registry: what it begins and forgets is right in the same answer.
miniclusters = Miniclusters()
REGISTRY.register(miniclusters)

wait_seconds = Histogram(
    "kueue_flux_admission_wait_seconds",
    "From submission to admission, and (again=true) from the end of an admission to the next one, in seconds",
    [*BY_QUEUE, "again"],
    registry=REGISTRY,
    buckets=LONG,
)
injection_seconds = Histogram(
    "kueue_flux_injection_seconds",
    "From the controller seeing an admission to certificate and configuration being written, in seconds",
    BY_QUEUE,
    registry=REGISTRY,
    buckets=SHORT,
)
boot_seconds = Histogram(
    "kueue_flux_boot_seconds",
    "From certificate and configuration being written to all brokers being up, in seconds",
    BY_QUEUE,
    registry=REGISTRY,
    buckets=MEDIUM,
)
injections = Counter(
    "kueue_flux_injections",
    "Admissions for which certificate and configuration were written",
    BY_QUEUE,
    registry=REGISTRY,
)
evictions = Counter(
    "kueue_flux_evictions",
    "Admissions that ended before the run did, by Kueue's reason",
    [*BY_QUEUE, "reason"],
    registry=REGISTRY,
)
finished = Counter(
    "kueue_flux_finished", "MiniClusters that finished, by result", [*BY_QUEUE, "result"], registry=REGISTRY
)
failures = Counter(
    "kueue_flux_failures", "MiniClusters that finished and failed, by reason", [*BY_QUEUE, "reason"], registry=REGISTRY
)
contested = Gauge(
    "kueue_flux_contested", "MiniClusters on which another operator was at work in the last minute", registry=REGISTRY
)

OF_QUEUE: tuple[MetricWrapperBase, ...] = (
    wait_seconds,
    injection_seconds,
    boot_seconds,
    injections,
    evictions,
    finished,
    failures,
)


def queue_of(obj: Object) -> Queue:
    """The labels of a MiniCluster: its namespace and its queue, which may be one that Kueue chose."""
    meta = obj["metadata"]
    named = obj.get("status", {}).get("queue") or meta.get("labels", {}).get(labels.QUEUE_NAME)
    return meta["namespace"], named or NO_QUEUE


def observe(moment: Moment, queue: Queue) -> None:
    """Count a moment of the life of a MiniCluster that is in a queue."""
    details = moment.details
    queue = miniclusters.meet(queue)
    match moment.what:
        case life.ADMITTED if moment.seconds is not None:
            wait_seconds.labels(*queue, _flag(bool(details["again"]))).observe(moment.seconds)
        case life.INJECTED:
            injections.labels(*queue).inc()
            if moment.seconds is not None:
                injection_seconds.labels(*queue).observe(moment.seconds)
        case life.UP if moment.seconds is not None:
            boot_seconds.labels(*queue).observe(moment.seconds)
        case life.EVICTED:
            evictions.labels(*queue, _among(str(details["reason"]), EVICTIONS)).inc()
        case life.FINISHED:
            finished.labels(*queue, details["result"]).inc()
            if "reason" in details:
                failures.labels(*queue, details["reason"]).inc()


def _begin(queue: Queue) -> None:
    """Let a queue's series begin at zero: of a series that begins with 1, Prometheus does not see the first increase.

    Not those by reason, nor what comes after an eviction: most of these would be zero for ever.
    """
    for metric in (injection_seconds, boot_seconds, injections):
        metric.labels(*queue)
    wait_seconds.labels(*queue, "false")
    for result in (Reason.SUCCEEDED, Reason.FAILED):
        finished.labels(*queue, result)


def _forget(queue: Queue) -> None:
    for metric in OF_QUEUE:
        metric.remove_by_labels(dict(zip(BY_QUEUE, queue, strict=True)))


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _among(reason: str, known: Iterable[str]) -> str:
    return reason if reason in known else life.OTHER


def _standing(status: Mapping[str, Any]) -> tuple[str, str | None]:
    """The stage, and why it is not accepted (None where it is)."""
    holds = set()
    refusal = None
    for condition in status.get("conditions", ()):
        if condition["status"] == "True":
            holds.add(condition["type"])
        elif condition["type"] == "Accepted":
            refusal = _among(condition["reason"], REFUSALS)
    if "Finished" in holds:
        return "finished", refusal
    if "Ready" in holds:
        return "running", refusal
    return "admitted" if "Admitted" in holds else "waiting", refusal
