"""Whether a Workload can ever fit its ClusterQueue: what it asks for, and the most that it can be given.

Kueue says so itself, once it has looked at the Workload; deep in a queue that may be hours later. The bound is
Kueue's own (`potentialAvailable`): all that the cohort would lend were nobody else there. Flavors whose nodes would
not fit, admission checks and what others may take count for nothing here, so that what is said to be too much is.
What Kueue's configuration may leave out of the count, resources that no group covers, is Kueue's to judge.

Source: Kueue 0.19, ``pkg/cache/scheduler/resource_node.go`` and ``pkg/workload/resources.go``; of a pod's requests
Kubernetes, ``component-helpers/resource/helpers.go``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

from kueue_flux.api import quantity
from kueue_flux.kueue.queues import Cell, ClusterQueueView, Quota, quotas
from kueue_flux.kueue.workload import Signal

EXCEEDS = "ExceedsMaxQuota"
"""Kueue's reason for a request above the maximum."""
AT_MOST = "can give at most"
"""What our words for it contain, and Kueue's do not."""

_PODS = "pods"
"""Counted by Kueue wherever a ClusterQueue covers it, though no container asks for it."""
_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_POD_LEVEL = ("cpu", "memory", "hugepages-")
"""What `spec.resources` of a pod may speak of, in place of its containers."""
_OVERCOMMITTED = ("cpu", "memory", "ephemeral-storage")
"""Of which a limit may be more than the request."""

Amounts = dict[str, Decimal]
"""By resource, in the resource's own unit (cores, bytes, pieces)."""


@dataclass(frozen=True)
class Request:
    """What a Workload asks for.

    Attributes:
        count: Pods that are still to run.
        fewest: The fewest of them with which it starts.
        per_pod: (resource, amount) of each pod, without those of which it asks nothing.
    """

    count: int
    fewest: int
    per_pod: tuple[tuple[str, Decimal], ...]


@dataclass(frozen=True)
class CohortView:
    """A Cohort: quota that all of its members share.

    Attributes:
        name: Its name.
        parent: The Cohort that it is part of; empty for none.
        quotas: Quota of each (flavor, resource), on top of its members' own.
    """

    name: str
    parent: str
    quotas: Mapping[Cell, Quota]


def read_cohort(obj: Mapping[str, Any]) -> CohortView:
    """Read a ``kueue.x-k8s.io`` Cohort as the API server returns it."""
    spec = obj.get("spec", {})
    return CohortView(
        obj["metadata"]["name"], spec.get("parentName", ""), dict(quotas(spec.get("resourceGroups") or []))
    )


def read_request(workload: Mapping[str, Any]) -> Request | None:
    """Read what a Workload of one pod set asks for; None where that cannot be read.

    Once Kueue has looked at it, it says what it counts, by its configuration and the namespace's LimitRanges.
    """
    pod_sets, status = workload.get("spec", {}).get("podSets") or [], workload.get("status", {})
    if len(pod_sets) != 1:
        return None
    try:
        return _read(pod_sets[0], status)
    except (ValueError, KeyError):  # somebody else's Workload, or one of a Kueue that is not known here
        return None


def _read(pod_set: Mapping[str, Any], status: Mapping[str, Any]) -> Request | None:
    name, count = pod_set.get("name"), int(pod_set["count"])
    reclaimed = next((int(r["count"]) for r in status.get("reclaimablePods") or [] if r["name"] == name), 0)
    left = count - reclaimed
    if left < 1:
        return None
    counted = next((r for r in status.get("resourceRequests") or [] if r.get("name") == name), None)
    if counted is not None:
        per_pod = {key: quantity.counted(value) / left for key, value in (counted.get("resources") or {}).items()}
    else:
        per_pod = pod_requests(pod_set["template"]["spec"])
    fewest = max(1, int(pod_set.get("minCount") or count) - reclaimed)
    return _request(left, fewest, tuple(sorted((key, value) for key, value in per_pod.items() if value)))


_request = lru_cache(maxsize=4096)(Request)  # thousands of Workloads ask for the same


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """What Kueue counts at least for a pod: containers, init containers as they run one after the other, and overhead.

    Args:
        spec: A pod's specification.

    Raises:
        ValueError: An amount is no quantity.
    """
    total = _sum(_requests(container) for container in spec.get("containers") or [])
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            sidecars = _sum([sidecars, _requests(container)])
            peak = _most(peak, sidecars)
        else:
            peak = _most(peak, _sum([sidecars, _requests(container)]))
    whole = {key: value for key, value in _requests(spec).items() if key.startswith(_POD_LEVEL)}
    inside = {**_most(_sum([total, sidecars]), peak), **whole}
    return _sum([inside, _amounts(spec.get("overhead"))])


def _requests(of: Mapping[str, Any]) -> Amounts:
    """The requests of a container, as far as it has them itself.

    A limit without a request is one too, unless a LimitRange has a lower default, which Kueue alone knows: until it
    says what it counts (see `read_request`), nothing is. What cannot be overcommitted has a limit that is its request.
    """
    resources = of.get("resources") or {}
    limits = {name: limit for name, limit in (resources.get("limits") or {}).items() if name not in _OVERCOMMITTED}
    return {**_amounts(limits), **_amounts(resources.get("requests"))}


def _amounts(given: Mapping[str, int | str] | None) -> Amounts:
    return {key: quantity.counted(value) for key, value in (given or {}).items()}


def _sum(each: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for amounts in each:
        for key, value in amounts.items():
            total[key] = total.get(key, Decimal(0)) + value
    return total


def _most(one: Amounts, other: Amounts) -> Amounts:
    return {key: max(one.get(key, Decimal(0)), other.get(key, Decimal(0))) for key in {**one, **other}}


class Capacity:
    """The most that ClusterQueues can ever give, by their quota and that of their cohorts.

    Args:
        cluster_queues: All that there are.
        cohorts: The Cohort objects; one that is only named has no quota and no limits of its own.
    """

    def __init__(self, cluster_queues: Iterable[ClusterQueueView], cohorts: Iterable[CohortView]) -> None:
        self._queues = {queue.name: queue for queue in cluster_queues}
        self._cohorts = {cohort.name: cohort for cohort in cohorts}
        self._members: dict[str, list[ClusterQueueView | CohortView]] = {}
        for queue in self._queues.values():
            self._members.setdefault(queue.cohort, []).append(queue)
        for cohort in self._cohorts.values():
            self._members.setdefault(cohort.parent, []).append(cohort)
        self._subtrees: dict[tuple[str, Cell], Decimal] = {}

    def most(self, queue: ClusterQueueView, cell: Cell) -> Decimal | None:
        """The most of one resource in one flavor that a ClusterQueue can have; None where its cohorts are a circle."""
        path = self._path(queue.cohort)
        if path is None:
            return None
        available: Decimal | None = None
        for cohort in reversed(path):
            available = _with_parent(cohort.quotas.get(cell), self._subtree(cohort, cell), available)
        own = queue.quotas.get(cell)
        return _with_parent(own, _rounded(cell, own.nominal if own else Decimal(0)), available)

    def related(self, cohort: str) -> set[str]:
        """The ClusterQueues whose bound depends on a cohort: all below the root of its tree."""
        path = self._path(cohort)
        root = path[-1].name if path else cohort
        found: set[str] = set()
        seen, todo = {""}, [root]
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            for member in self._members.get(name, []):
                if isinstance(member, CohortView):
                    todo.append(member.name)
                else:
                    found.add(member.name)
        return found

    def _path(self, name: str) -> list[CohortView] | None:
        """The cohorts from this one up to the root."""
        path: list[CohortView] = []
        while name:
            if any(cohort.name == name for cohort in path):
                return None
            path.append(self._cohorts.get(name) or CohortView(name, "", {}))
            name = path[-1].parent
        return path

    def _subtree(self, cohort: CohortView, cell: Cell) -> Decimal:
        """What a cohort has of its own and from its members, as far as they lend it."""
        key = (cohort.name, cell)
        if key not in self._subtrees:
            own = cohort.quotas.get(cell)
            total = _rounded(cell, own.nominal) if own else Decimal(0)
            for member in self._members.get(cohort.name, []):
                quota = member.quotas.get(cell)
                has = _rounded(cell, quota.nominal) if quota else Decimal(0)
                if isinstance(member, CohortView):
                    has = self._subtree(member, cell)
                total += has - _kept(quota, has)
            self._subtrees[key] = total
        return self._subtrees[key]


def _with_parent(quota: Quota | None, has: Decimal, parent: Decimal | None) -> Decimal:
    """What a member can have: `has` alone, or with what its parent can have in all (`parent`)."""
    if parent is None:
        return has
    available = _kept(quota, has) + parent
    if quota is not None and quota.borrowing_limit is not None:
        available = min(has + quota.borrowing_limit, available)
    return available


def _kept(quota: Quota | None, has: Decimal) -> Decimal:
    """What a member does not lend."""
    if quota is None or quota.lending_limit is None:
        return Decimal(0)
    return max(Decimal(0), has - quota.lending_limit)


def _rounded(cell: Cell, amount: Decimal) -> Decimal:
    """An amount as Kueue counts it: whole thousandths of a core, whole pieces of all else."""
    return amount.quantize(Decimal("0.001") if cell[1] == "cpu" else Decimal(1), ROUND_CEILING)


def shortfall(
    request: Request, queue: ClusterQueueView, capacity: Capacity, *, of_services: bool = False
) -> Signal | None:
    """Why a request can never fit a ClusterQueue, and what to do; None where it may.

    Args:
        request: What is asked for.
        queue: The ClusterQueue.
        capacity: The most that it can give.
        of_services: It is that of a MiniCluster's service containers, which stand elsewhere in its specification.
    """
    asked = dict(request.per_pod)
    for resources, flavors in queue.groups:
        wanted = {name: asked[name] for name in resources if name in asked}
        if _PODS in resources:
            wanted[_PODS] = Decimal(1)
        tight = [_tightest(request, wanted, queue, flavor, capacity) for flavor in flavors]
        if wanted and all(lack is not None for lack in tight):
            best = max((lack for lack in tight if lack is not None), key=lambda lack: lack.share, default=None)
            if best is not None:
                return Signal(EXCEEDS, _too_much(request, best, queue, flavors, of_services))
    return None


def uncovered(request: Request, queue: ClusterQueueView) -> list[str]:
    """Resources for which a ClusterQueue has no quota at all: Kueue admits none of them unless it is told otherwise."""
    covered = {name for resources, _ in queue.groups for name in resources}
    return [name for name, _ in request.per_pod if name not in covered]


def not_covered(resource: str, queue: ClusterQueueView) -> Signal:
    """Say that a ClusterQueue has no quota for a resource, and what to do."""
    return Signal(
        EXCEEDS,
        f"asks for {resource}; ClusterQueue {queue.name} {AT_MOST} 0, for it has no quota for {resource}: leave that "
        "out of spec.containers[].resources, or choose another queue",
    )


@dataclass(frozen=True)
class _Lack:
    flavor: str
    resource: str
    per_pod: Decimal
    most: Decimal
    share: Decimal  # of what is asked for


def _tightest(
    request: Request, wanted: Amounts, queue: ClusterQueueView, flavor: str, capacity: Capacity
) -> _Lack | None:
    """The resource of which a flavor has least, as a share of what is asked for; None where all of them may fit."""
    found = None
    for resource, per_pod in wanted.items():
        most = capacity.most(queue, (flavor, resource))
        if most is None or most >= per_pod * request.fewest:
            continue
        share = most / (per_pod * request.fewest)
        if found is None or share < found.share:
            found = _Lack(flavor, resource, per_pod, most, share)
    return found


def _too_much(
    request: Request, lack: _Lack, queue: ClusterQueueView, flavors: tuple[str, ...], of_services: bool
) -> str:
    resource, nodes = lack.resource, request.fewest
    least = "at least " if nodes < request.count else ""
    asked = f"{least}{nodes} {'node' if nodes == 1 else 'nodes'}"
    if resource != _PODS:
        total = f" = {_shown(resource, lack.per_pod * nodes)} {resource}" if nodes > 1 else ""
        asked += f" x {_shown(resource, lack.per_pod)} {resource}{total}"
    quota = queue.quotas.get((lack.flavor, resource))
    own = quota.nominal if quota else Decimal(0)
    parts = f"{_shown(resource, own)} of its own"
    if lack.most > own:
        borrowed = _shown(resource, lack.most - own)
        parts += f" and {borrowed} that may be borrowed in cohort {queue.cohort}"
    where = f" in one flavor ({lack.flavor})" if len(flavors) > 1 else ""
    most = _shown(resource, lack.most)
    return (
        f"asks for {asked}; ClusterQueue {queue.name} {AT_MOST} {most}{where} ({parts}): {_less(resource, of_services)}"
    )


def _less(resource: str, of_services: bool) -> str:
    if of_services:
        return f"ask for less {resource} (spec.services[].resources), or choose another queue"
    less = "" if resource == _PODS else f" or less {resource}"
    return f"ask for fewer nodes{less} (spec.size, spec.minSize, spec.containers[].resources), or choose another queue"


def _shown(resource: str, amount: Decimal) -> str:
    """An amount as people write it: bytes in the largest unit that leaves no fraction, all else as a number."""
    if resource.startswith(_BYTES):
        for unit, power in (("Ti", 4), ("Gi", 3), ("Mi", 2), ("Ki", 1)):
            count = amount / Decimal(1024) ** power
            if count and count == int(count):
                return f"{int(count)}{unit}"
    return f"{amount.normalize():f}"
