"""ClusterQueues and LocalQueues read into small values: what they may give, and what is given.

Source: Kueue 0.19, ``apis/kueue/v1beta2/clusterqueue_types.go`` and ``localqueue_types.go``. Amounts are exact
numbers in the resource's own unit (cores, bytes, pieces).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kueue_flux.api import quantity
from kueue_flux.kueue.workload import Signal

Cell = tuple[str, str]
"""(flavor, resource): quota is counted for each such pair."""


@dataclass(frozen=True)
class Quota:
    """What a ClusterQueue has of one resource in one flavor.

    Attributes:
        nominal: Its own.
        borrowing_limit: How much more it may take of what others of its cohort leave unused; None for no limit.
        lending_limit: How much of its own others may take; None for all of it.
    """

    nominal: Decimal
    borrowing_limit: Decimal | None = None
    lending_limit: Decimal | None = None


@dataclass(frozen=True)
class Usage:
    """What is taken of one resource in one flavor.

    Attributes:
        total: All that is taken.
        borrowed: What of it is above the ClusterQueue's own quota; 0 for a LocalQueue, which has none.
    """

    total: Decimal
    borrowed: Decimal = Decimal(0)


@dataclass(frozen=True)
class ClusterQueueView:
    """A ClusterQueue.

    Attributes:
        name: Its name.
        cohort: The cohort in which it lends and borrows; empty for none.
        groups: The resource groups: resources, and the flavors in the order in which they are tried. The resources
            of a group get the same flavor.
        quotas: Quota of each (flavor, resource).
        reserved: What is reserved of it by Workloads, admitted or not.
        stop_policy: "None", "Hold" or "HoldAndDrain".
        inactive: Why it admits nothing; None where it is active.
        pending: Workloads that wait.
        admitted: Workloads that are admitted.
        strategy: "StrictFIFO" (who is next and does not fit lets nobody pass) or "BestEffortFIFO".
    """

    name: str
    cohort: str
    groups: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    quotas: Mapping[Cell, Quota]
    reserved: Mapping[Cell, Usage]
    stop_policy: str
    inactive: Signal | None
    pending: int
    admitted: int
    strategy: str = "BestEffortFIFO"


@dataclass(frozen=True)
class LocalQueueView:
    """A LocalQueue.

    Attributes:
        name: Its name.
        namespace: Its namespace.
        cluster_queue: The ClusterQueue whose quota it hands out.
        reserved: What is reserved by its Workloads, admitted or not.
        stop_policy: "None", "Hold" or "HoldAndDrain".
        inactive: Why it admits nothing; None where it is active.
        pending: Workloads that wait.
        admitted: Workloads that are admitted.
    """

    name: str
    namespace: str
    cluster_queue: str
    reserved: Mapping[Cell, Usage]
    stop_policy: str
    inactive: Signal | None
    pending: int
    admitted: int


def read_cluster_queue(obj: Mapping[str, Any]) -> ClusterQueueView:
    """Read a ``kueue.x-k8s.io`` ClusterQueue as the API server returns it."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    groups = spec.get("resourceGroups") or []
    return ClusterQueueView(
        name=obj["metadata"]["name"],
        cohort=spec.get("cohortName", ""),
        groups=tuple(
            (tuple(group.get("coveredResources") or []), tuple(flavor["name"] for flavor in group.get("flavors") or []))
            for group in groups
        ),
        quotas=dict(quotas(groups)),
        reserved=dict(_usages(status)),
        stop_policy=spec.get("stopPolicy") or "None",
        inactive=_inactive(status),
        pending=status.get("pendingWorkloads", 0),
        admitted=status.get("admittedWorkloads", 0),
        strategy=spec.get("queueingStrategy") or "BestEffortFIFO",
    )


def read_local_queue(obj: Mapping[str, Any]) -> LocalQueueView:
    """Read a ``kueue.x-k8s.io`` LocalQueue as the API server returns it."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    return LocalQueueView(
        name=obj["metadata"]["name"],
        namespace=obj["metadata"]["namespace"],
        cluster_queue=spec.get("clusterQueue", ""),
        reserved=dict(_usages(status)),
        stop_policy=spec.get("stopPolicy") or "None",
        inactive=_inactive(status),
        pending=status.get("pendingWorkloads", 0),
        admitted=status.get("admittedWorkloads", 0),
    )


def quotas(groups: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Cell, Quota]]:
    """Read resource groups as they stand in a ClusterQueue or in a Cohort."""
    for group in groups:
        for flavor in group.get("flavors") or []:
            for resource in flavor.get("resources") or []:
                yield (
                    (flavor["name"], resource["name"]),
                    Quota(
                        nominal=quantity.counted(resource.get("nominalQuota", 0)),
                        borrowing_limit=_amount(resource.get("borrowingLimit")),
                        lending_limit=_amount(resource.get("lendingLimit")),
                    ),
                )


def _amount(value: int | str | None) -> Decimal | None:
    return None if value is None else quantity.counted(value)


def _usages(status: Mapping[str, Any]) -> Iterator[tuple[Cell, Usage]]:
    for flavor in status.get("flavorsReservation") or []:
        for resource in flavor.get("resources") or []:
            total, borrowed = (quantity.counted(resource.get(key, 0)) for key in ("total", "borrowed"))
            yield (flavor["name"], resource["name"]), Usage(total, borrowed)


def _inactive(status: Mapping[str, Any]) -> Signal | None:
    active = next((c for c in status.get("conditions") or [] if c["type"] == "Active"), None)
    if active is None or active["status"] == "True":
        return None
    return Signal(active.get("reason", ""), active.get("message", ""))
