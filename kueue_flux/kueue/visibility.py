"""Where pending Workloads stand in their queue, from Kueue's visibility API.

Source: Kueue 0.19, ``apis/visibility/v1beta2``; positions count from 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GROUP_VERSION = "visibility.kueue.x-k8s.io/v1beta2"


def pending_workloads_path(namespace: str, local_queue: str) -> str:
    """The API path of one LocalQueue's pending Workloads, in the order in which they wait."""
    return f"/apis/{GROUP_VERSION}/namespaces/{namespace}/localqueues/{local_queue}/pendingworkloads"


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


def positions(summary: Mapping[str, Any]) -> dict[str, int]:
    """Workload name -> position in its ClusterQueue, from the PendingWorkloadsSummary of a LocalQueue."""
    return {name: place.position for name, place in places(summary).items()}


def places(summary: Mapping[str, Any]) -> dict[str, Place]:
    """Read the PendingWorkloadsSummary of a LocalQueue.

    Args:
        summary: The answer of :func:`pending_workloads_path`.

    Returns:
        Workload name -> its place.
    """
    found = sorted(
        ((int(item.get("positionInClusterQueue", 0)), item["metadata"]) for item in summary.get("items") or []),
        key=lambda each: each[0],
    )
    names = [""] + [_job_or_itself(meta) for _, meta in found]
    return {meta["name"]: Place(position, names[index], index) for index, (position, meta) in enumerate(found)}


def _job_or_itself(meta: Mapping[str, Any]) -> str:
    """What a Workload stands for, under the name that its user gave it."""
    owners = meta.get("ownerReferences") or [meta]
    return str(owners[0]["name"])
