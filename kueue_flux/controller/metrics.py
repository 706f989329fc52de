"""What the controller counts, beyond the runtime's own metrics. No label for each object: those never end."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from kueue_flux.controller.facts import Facts
from kueue_flux.runtime.metrics import REGISTRY

injections = Counter(
    "kueue_flux_injections",
    "Admissions for which certificate and configuration were written",
    registry=REGISTRY,
)
evictions = Counter("kueue_flux_evictions", "Admissions that ended before the run did", registry=REGISTRY)
finished = Counter("kueue_flux_finished", "MiniClusters that finished", ["result"], registry=REGISTRY)
contested = Gauge(
    "kueue_flux_contested", "MiniClusters on which another operator was at work in the last minute", registry=REGISTRY
)
wait_seconds = Histogram(
    "kueue_flux_wait_seconds",
    "From submission to the first injection, in seconds",
    registry=REGISTRY,
    buckets=(1, 2, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600),
)


def observe(
    obj: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any], facts: Facts, now: datetime
) -> None:
    """Count what a status that was just written means."""
    if new.get("admissions", 0) > old.get("admissions", 0):
        injections.inc()
        if not old.get("admissions"):
            wait_seconds.observe((now - datetime.fromisoformat(obj["metadata"]["creationTimestamp"])).total_seconds())
    if "admission" in old and "admission" not in new:
        evictions.inc()
    if not facts.finished:
        for condition in new["conditions"]:
            if condition["type"] == "Finished" and condition["status"] == "True":
                finished.labels(condition["reason"]).inc()
