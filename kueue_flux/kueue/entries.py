"""Workloads as those who look at a queue see them: what each is, how much it asks for, where it stands and why.

Source: Kueue 0.19, ``apis/kueue/v1beta2/workload_types.go``. Amounts are exact numbers in the resource's own unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from kueue_flux.api import quantity
from kueue_flux.kueue import workload as workloads
from kueue_flux.kueue.visibility import Pending
from kueue_flux.kueue.workload import MAIN_POD_SET, Owner, Signal

# On the pods of a MiniCluster; those of its services bear a role as well.
MINICLUSTER = "flux-framework.org/minicluster"
ROLE = "flux-framework.org/role"


class Standing(StrEnum):
    """Where a Workload stands in its queue."""

    WAITING = "waiting"
    RESERVED = "reserved"  # has quota, and waits for admission checks
    ADMITTED = "admitted"
    STOPPING = "stopping"  # evicted; it keeps its quota until its pods have ended


@dataclass(frozen=True)
class Entry:
    """One Workload of a queue.

    Attributes:
        workload: Its name.
        namespace: Its namespace.
        queue: Its LocalQueue.
        owner: What it stands for: a MiniCluster, or another's Job, Pod and so on.
        standing: Where it stands.
        size: Pods asked for, of a MiniCluster its nodes; None where its Workload may not be read.
        min_size: The fewest with which it would start.
        admitted_size: Pods that have quota; None while none have.
        amounts: By resource, what it uses, or while it waits asks for, all pods together.
        flavors: The flavors that it uses, sorted.
        priority: Its priority.
        created: When it was created.
        since: When it was admitted, or got its quota; None while it waits.
        position: Workloads before it in its ClusterQueue; None where that is not known.
        why: Why it is not admitted, in Kueue's words; None once it is.
        cluster_queue: The ClusterQueue whose quota it has; empty while it has none.
    """

    workload: str
    namespace: str
    queue: str
    owner: Owner
    standing: Standing
    size: int | None
    min_size: int | None
    admitted_size: int | None
    amounts: Mapping[str, Decimal]
    flavors: tuple[str, ...]
    priority: int
    created: datetime | None
    since: datetime | None
    position: int | None = None
    why: Signal | None = None
    cluster_queue: str = ""

    @property
    def partial(self) -> bool:
        """Whether it would start with fewer pods than it asks for."""
        return self.size is not None and self.min_size is not None and self.min_size < self.size


def read(workload: Mapping[str, Any]) -> Entry | None:
    """Read a Workload of any kind.

    Args:
        workload: A ``kueue.x-k8s.io`` Workload as the API server returns it.

    Returns:
        The entry; None where it is in no queue any more, because it has finished.
    """
    meta, spec, status = workload["metadata"], workload.get("spec", {}), workload.get("status", {})
    view = workloads.read(workload)
    if view.finished:
        return None
    standing = _standing(view)
    pod_sets = spec.get("podSets") or []
    assigned = (status.get("admission") or {}).get("podSetAssignments") or [] if view.quota_reserved else []
    size = sum(_count(pod_set) for pod_set in pod_sets)
    return Entry(
        workload=meta["name"],
        namespace=meta.get("namespace", ""),
        queue=spec.get("queueName", ""),
        owner=_stands_for(meta, pod_sets),
        standing=standing,
        size=size,
        min_size=sum(int(pod_set.get("minCount") or _count(pod_set)) for pod_set in pod_sets),
        admitted_size=sum(int(a.get("count", 0)) for a in assigned) or size if assigned else None,
        amounts=_used(assigned, status) if assigned else _asked(pod_sets, status),
        flavors=tuple(sorted({flavor for a in assigned for flavor in (a.get("flavors") or {}).values()})),
        priority=view.priority,
        created=_time(meta.get("creationTimestamp")),
        since=_since(status, standing),
        why=view.evicted if standing is Standing.STOPPING else view.waiting,
        cluster_queue=status["admission"].get("clusterQueue", "") if assigned else "",
    )


def of_pending(item: Pending) -> Entry:
    """What the visibility API alone tells of a Workload that waits."""
    nothing: dict[str, Decimal] = {}
    return Entry(
        item.workload, item.namespace, item.queue, item.owner, Standing.WAITING, None, None, None, nothing, (),
        item.priority, item.created, None, item.position,
    )  # fmt: skip


def in_order(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Those that wait in the order in which Kueue looks at them; without positions by priority and age."""

    def key(entry: Entry) -> tuple[bool, int, int, float, str]:
        age = entry.created.timestamp() if entry.created else 0.0
        return entry.position is None, entry.position or 0, -entry.priority, age, entry.workload

    return tuple(sorted(entries, key=key))


def _standing(view: workloads.WorkloadView) -> Standing:
    if not view.quota_reserved:
        return Standing.WAITING
    if view.evicted:
        return Standing.STOPPING
    return Standing.ADMITTED if view.admission else Standing.RESERVED


def _stands_for(meta: Mapping[str, Any], pod_sets: list[Mapping[str, Any]]) -> Owner:
    labels = (((pod_sets or [{}])[0].get("template") or {}).get("metadata") or {}).get("labels") or {}
    if MINICLUSTER in labels and ROLE not in labels:
        return Owner("MiniCluster", str(labels[MINICLUSTER]))
    return workloads.owner(meta)


def _count(pod_set: Mapping[str, Any]) -> int:
    return int(pod_set.get("count", 1))


def _used(assigned: list[Mapping[str, Any]], status: Mapping[str, Any]) -> dict[str, Decimal]:
    """What is reserved; pods that have ended give theirs back before the rest."""
    given_back = {pod["name"]: int(pod.get("count", 0)) for pod in status.get("reclaimablePods") or []}
    amounts: dict[str, Decimal] = {}
    for assignment in assigned:
        count = int(assignment.get("count") or 0)
        left = max(0, count - given_back.get(assignment.get("name", MAIN_POD_SET), 0))
        for resource, amount in (assignment.get("resourceUsage") or {}).items():
            used = quantity.counted(amount)
            amounts[resource] = amounts.get(resource, Decimal(0)) + (used * left / count if count else used)
    return amounts


def _asked(pod_sets: list[Mapping[str, Any]], status: Mapping[str, Any]) -> dict[str, Decimal]:
    """What Kueue has counted; before it has looked at it, what the pods' specifications say."""
    counted = status.get("resourceRequests") or []
    amounts: dict[str, Decimal] = {}
    for pod_set in counted:
        for resource, amount in (pod_set.get("resources") or {}).items():
            amounts[resource] = amounts.get(resource, Decimal(0)) + quantity.counted(amount)
    if counted:
        return amounts
    for pod_set in pod_sets:
        for resource, each in _of_pod((pod_set.get("template") or {}).get("spec") or {}).items():
            amounts[resource] = amounts.get(resource, Decimal(0)) + each * _count(pod_set)
    return amounts


def _of_pod(spec: Mapping[str, Any]) -> dict[str, Decimal]:
    """The request of one pod: its containers together, or the init container that asks for more; and the overhead.

    Source: https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
    """
    lasting = list(spec.get("containers") or [])
    most: dict[str, Decimal] = {}
    sidecars: list[Mapping[str, Any]] = []
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            sidecars.append(container)
            continue
        for resource, amount in _sum([*sidecars, container]).items():
            most[resource] = max(most.get(resource, Decimal(0)), amount)
    total = _sum([*lasting, *sidecars])
    overhead = {resource: quantity.counted(amount) for resource, amount in (spec.get("overhead") or {}).items()}
    return {
        resource: max(total.get(resource, Decimal(0)), most.get(resource, Decimal(0)))
        + overhead.get(resource, Decimal(0))
        for resource in {**total, **most, **overhead}
    }


def _sum(containers: Iterable[Mapping[str, Any]]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for container in containers:
        resources = container.get("resources") or {}
        for resource, amount in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            total[resource] = total.get(resource, Decimal(0)) + quantity.counted(amount)
    return total


def _since(status: Mapping[str, Any], standing: Standing) -> datetime | None:
    if standing is Standing.WAITING:
        return None
    kind = "Admitted" if standing is Standing.ADMITTED else "QuotaReserved"
    found: Mapping[str, Any] = next((c for c in status.get("conditions") or [] if c["type"] == kind), {})
    return _time(found.get("lastTransitionTime"))


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
