"""What a ClusterQueue could still borrow: what the others of its cohort leave unused, as Kueue counts it.

Source: Kueue 0.19, ``pkg/cache/scheduler/resource_node.go``.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from kueue_flux.kueue.queues import Cell, ClusterQueueView, Quota, Usage, quotas


def borrowable(
    queue: ClusterQueueView, members: Iterable[ClusterQueueView], cohort: Mapping[str, Any] | None
) -> dict[Cell, Decimal] | None:
    """How much more a ClusterQueue could take beyond its own quota, if it took it now.

    Args:
        queue: The ClusterQueue.
        members: All ClusterQueues of its cohort, itself among them or not.
        cohort: The ``kueue.x-k8s.io`` Cohort, which may bring quota of its own; None where there is no such object.

    Returns:
        By (flavor, resource); None where the cohort is part of another, whose quota counts as well.
    """
    spec = (cohort or {}).get("spec", {})
    if not queue.cohort or spec.get("parentName"):
        return {} if not queue.cohort else None
    others = [member for member in members if member.cohort == queue.cohort and member.name != queue.name]
    of_cohort = dict(quotas(spec.get("resourceGroups") or []))
    return {
        cell: _more(queue, cell, quota, others, of_cohort.get(cell, Quota(Decimal(0))).nominal)
        for cell, quota in queue.quotas.items()
    }


def _more(
    queue: ClusterQueueView, cell: Cell, quota: Quota, others: Iterable[ClusterQueueView], shared: Decimal
) -> Decimal:
    # Lent and taken are one sum for the whole cohort: what one borrows no longer is there for another.
    left = shared + sum((_lendable(other, cell) - _taken(other, cell) for other in others), Decimal(0))
    borrowed = _borrowed(queue, cell)
    left -= borrowed
    if quota.borrowing_limit is not None:
        left = min(left, quota.borrowing_limit - borrowed)
    return max(Decimal(0), left)


def _lendable(queue: ClusterQueueView, cell: Cell) -> Decimal:
    quota = queue.quotas.get(cell)
    if quota is None:
        return Decimal(0)
    return quota.nominal if quota.lending_limit is None else min(quota.nominal, quota.lending_limit)


def _taken(queue: ClusterQueueView, cell: Cell) -> Decimal:
    """What its use takes out of what it lends: what is kept for itself is used first."""
    quota = queue.quotas.get(cell, Quota(Decimal(0)))
    return max(Decimal(0), _used(queue, cell) - (quota.nominal - _lendable(queue, cell)))


def _borrowed(queue: ClusterQueueView, cell: Cell) -> Decimal:
    return max(Decimal(0), _used(queue, cell) - queue.quotas[cell].nominal)


def _used(queue: ClusterQueueView, cell: Cell) -> Decimal:
    return queue.reserved.get(cell, Usage(Decimal(0))).total
