"""How many requests were made, from the counters of the API server and of the adapter.

The API server's counters do not say who asked. The adapter's do not say for what. Together they tell what one
MiniCluster costs the cluster, and how much of that is the adapter's doing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
_STREAMS = frozenset({"WATCH", "CONNECT"})
# what goes on whether anything runs or not: nodes' heartbeats and elections
_BACKGROUND = frozenset({"leases", "nodes"})
# questions that are asked by POST and write nothing
_REVIEWS = frozenset({"tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"})

Calls = Counter[tuple[str, str]]
"""(verb, resource) -> requests; the resource as `jobs/status`."""


def of_server(metrics: str) -> Calls:
    """The requests that an API server has answered, without watches, leases and nodes.

    Args:
        metrics: Its /metrics.

    Source: https://kubernetes.io/docs/reference/instrumentation/metrics/ (apiserver_request_total)
    """
    calls: Calls = Counter()
    for sample in _samples(metrics, "apiserver_request_total"):
        labels = sample.labels
        if labels["verb"] in _STREAMS or labels["resource"] in _BACKGROUND or not labels["resource"]:
            continue
        what = "/".join(labels[key] for key in ("resource", "subresource") if labels.get(key))
        calls[labels["verb"], what] += int(sample.value)
    return calls


def of_client(metrics: str) -> Counter[str]:
    """The requests that the adapter has made, by HTTP method, without watches.

    Args:
        metrics: Its /metrics.
    """
    calls: Counter[str] = Counter()
    for sample in _samples(metrics, "rest_client_requests_total"):
        if sample.labels["method"] != "WATCH":
            calls[sample.labels["method"]] += int(sample.value)
    return calls


def total(metrics: str, name: str) -> float:
    """The sum of all series of a metric."""
    return sum(sample.value for sample in _samples(metrics, name))


def writes(calls: Mapping[tuple[str, str], int]) -> int:
    """How many of the requests write."""
    return sum(n for (verb, what), n in calls.items() if verb in WRITES and what not in _REVIEWS)


def _samples(metrics: str, name: str) -> Iterator[Sample]:
    # an API server's metrics are megabytes, nearly all of them something else
    lines = "\n".join(line for line in metrics.splitlines() if line.startswith((f"{name}{{", f"{name} ")))
    for family in text_string_to_metric_families(lines + "\n"):
        yield from family.samples
