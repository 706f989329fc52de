"""Where pending Workloads stand in their queue, from Kueue's visibility API.

Source: Kueue 0.19, ``apis/visibility/v1beta2``; positions count from 0.
"""

from collections.abc import Mapping
from typing import Any

GROUP_VERSION = "visibility.kueue.x-k8s.io/v1beta2"


def pending_workloads_path(namespace: str, local_queue: str) -> str:
    """The API path of one LocalQueue's pending Workloads, in the order in which they wait."""
    return f"/apis/{GROUP_VERSION}/namespaces/{namespace}/localqueues/{local_queue}/pendingworkloads"


def positions(summary: Mapping[str, Any]) -> dict[str, int]:
    """Read a PendingWorkloadsSummary.

    Args:
        summary: The answer of :func:`pending_workloads_path`.

    Returns:
        Workload name -> position in its ClusterQueue, from 0: quota is handed out there, and a
        LocalQueue's own order hides whoever is ahead in another namespace.
    """
    return {item["metadata"]["name"]: int(item.get("positionInClusterQueue", 0)) for item in summary.get("items") or []}
