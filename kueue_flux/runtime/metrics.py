"""Every metric of the runtime in one place, so that their names and labels can be read at a glance.

Names follow client-go and controller-runtime where those have one, so that existing dashboards work. No label
takes an object's name: the number of series does not grow with the number of objects.

Source: https://book.kubebuilder.io/reference/metrics-reference
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

REGISTRY = CollectorRegistry()
"""Our own registry rather than the library's global one: importing this package must not change another program's."""
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

QUEUE_BUCKETS = (1e-4, 1e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

requests = Counter(
    "rest_client_requests_total",
    "API requests by status code and verb.",
    ["code", "method"],
    registry=REGISTRY,
)

lists = Counter("reflector_lists_total", "Complete lists, by resource.", ["name"], registry=REGISTRY)
watches = Counter("reflector_watches_total", "Watches opened, by resource.", ["name"], registry=REGISTRY)
watch_events = Counter(
    "reflector_events_total", "Watch events by resource and type.", ["name", "type"], registry=REGISTRY
)
failures = Counter(
    "reflector_failures_total",
    "Failed lists and watches, by resource and reason.",
    ["name", "reason"],
    registry=REGISTRY,
)
cached = Gauge("reflector_objects", "Objects in the cache, by resource.", ["name"], registry=REGISTRY)

depth = Gauge("workqueue_depth", "Keys that wait for a worker.", ["name"], registry=REGISTRY)
adds = Counter("workqueue_adds_total", "Keys added.", ["name"], registry=REGISTRY)
retries = Counter("workqueue_retries_total", "Keys added again after a failure.", ["name"], registry=REGISTRY)
queue_duration = Histogram(
    "workqueue_queue_duration_seconds",
    "How long a key waits for a worker.",
    ["name"],
    buckets=QUEUE_BUCKETS,
    registry=REGISTRY,
)
work_duration = Histogram(
    "workqueue_work_duration_seconds",
    "How long the work on a key takes.",
    ["name"],
    buckets=QUEUE_BUCKETS,
    registry=REGISTRY,
)
unfinished_work = Gauge(
    "workqueue_unfinished_work_seconds",
    "Seconds of work under way, summed over workers.",
    ["name"],
    registry=REGISTRY,
)
longest_running = Gauge(
    "workqueue_longest_running_processor_seconds",
    "Seconds of the longest work under way.",
    ["name"],
    registry=REGISTRY,
)

reconciles = Counter(
    "controller_runtime_reconcile_total",
    "Reconciles by controller and result.",
    ["controller", "result"],
    registry=REGISTRY,
)
reconcile_errors = Counter(
    "controller_runtime_reconcile_errors_total", "Failed reconciles.", ["controller"], registry=REGISTRY
)
reconcile_time = Histogram(
    "controller_runtime_reconcile_time_seconds",
    "How long one reconcile takes.",
    ["controller"],
    buckets=QUEUE_BUCKETS,
    registry=REGISTRY,
)
max_workers = Gauge(
    "controller_runtime_max_concurrent_reconciles",
    "Workers of a controller.",
    ["controller"],
    registry=REGISTRY,
)
active_workers = Gauge("controller_runtime_active_workers", "Workers at work.", ["controller"], registry=REGISTRY)

leader = Gauge("leader_election_master_status", "1 while this process leads.", ["name"], registry=REGISTRY)

events_sent = Counter("events_sent_total", "Events written to the API server.", registry=REGISTRY)
events_dropped = Counter("events_dropped_total", "Events not written, by reason.", ["reason"], registry=REGISTRY)
