"""Where pending Workloads stand in their queue, from Kueue's visibility API.

Source: Kueue 0.19, ``apis/visibility/v1beta2``; positions count from 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kueue_flux.kueue.workload import Owner, owner

GROUP_VERSION = "visibility.kueue.x-k8s.io/v1beta2"
# The most that one answer holds unless more is asked for; how many to ask for at a time.
PAGE = 1000


@dataclass(frozen=True)
class Pending:
    """A Workload that waits, as the visibility API tells of it.

    Attributes:
        workload: The Workload's name.
        namespace: Its namespace.
        queue: Its LocalQueue.
        priority: Its priority.
        position: Workloads before it in its ClusterQueue.
        local_position: Workloads before it in its LocalQueue.
        owner: What it stands for.
        created: When it was created.
    """

    workload: str
    namespace: str
    queue: str
    priority: int
    position: int
    local_position: int
    owner: Owner
    created: datetime | None


def pending_workloads_path(namespace: str, local_queue: str) -> str:
    """The API path of one LocalQueue's pending Workloads, in the order in which they wait."""
    return f"/apis/{GROUP_VERSION}/namespaces/{namespace}/localqueues/{local_queue}/pendingworkloads"


def pending(summary: Mapping[str, Any]) -> tuple[Pending, ...]:
    """Read a PendingWorkloadsSummary, in its order.

    Args:
        summary: The answer of :func:`pending_workloads_path`.
    """
    return tuple(_pending(item) for item in summary.get("items") or [])


def _pending(item: Mapping[str, Any]) -> Pending:
    meta = item["metadata"]
    created = meta.get("creationTimestamp")
    return Pending(
        workload=meta["name"],
        namespace=meta.get("namespace", ""),
        queue=item.get("localQueueName", ""),
        priority=int(item.get("priority", 0)),
        position=int(item.get("positionInClusterQueue", 0)),
        local_position=int(item.get("positionInLocalQueue", 0)),
        owner=owner(meta),
        created=datetime.fromisoformat(created) if created else None,
    )


NEAR = 10
"""Up to where it is told who is ahead."""


@dataclass(frozen=True)
class Place:
    """Where a pending Workload stands.

    Attributes:
        position: In its ClusterQueue, from 0: quota is handed out there, and a LocalQueue's own order hides whoever
            is ahead in another namespace.
        next: The Workload or Job directly ahead of it in its LocalQueue; empty for none.
        same: How many are ahead of it in its LocalQueue.
    """

    position: int
    next: str = ""
    same: int = 0

    @property
    def behind(self) -> str:
        """Who is ahead, in words; empty where nobody is, or too many are for that to be of use."""
        if self.position >= NEAR:
            return ""
        others = max(0, self.position - self.same)
        parts = [
            self.next,
            f"{self.same - 1} more of this queue" if self.same > 1 else "",
            f"{others} of other queues" if others else "",
        ]
        *most, last = [part for part in parts if part] or [""]
        return f"{', '.join(most)} and {last}" if most else last


def places(summary: Mapping[str, Any]) -> dict[str, Place]:
    """Read the PendingWorkloadsSummary of a LocalQueue.

    Args:
        summary: The answer of :func:`pending_workloads_path`.

    Returns:
        Workload name -> its place.
    """
    found = sorted(pending(summary), key=lambda each: each.position)
    names = ["", *(each.owner.name or each.workload for each in found)]
    return {each.workload: Place(each.position, names[index], index) for index, each in enumerate(found)}
