"""Queues and Workloads as an API server would return them, for the tests of client and command."""

from typing import Any

from tests.client.server import Reply, Server, listing

API = "/apis/kueue.x-k8s.io/v1beta2"
LOCAL_QUEUES = f"{API}/namespaces/team/localqueues"
ALL_LOCAL_QUEUES = f"{API}/localqueues"
CLUSTER_QUEUES = f"{API}/clusterqueues"
COHORT = f"{API}/cohorts/all"
WORKLOADS = f"{API}/namespaces/team/workloads"
ALL_WORKLOADS = f"{API}/workloads"
PENDING = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/team/localqueues/team-a/pendingworkloads"

AT = "2030-01-31T12:00:05Z"
MISSING = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor small, 3 more needed"


def _active(inactive: str) -> list[dict[str, Any]]:
    answer = {"status": "False" if inactive else "True", "reason": "R", "message": inactive or "can admit"}
    return [{"type": "Active", **answer}]


def local_queue(
    name: str, *, namespace: str = "team", pending: int = 2, stop: str = "None", inactive: str = ""
) -> dict[str, Any]:
    """Build a LocalQueue of ClusterQueue science that uses 2 cpu."""
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterQueue": "science", "stopPolicy": stop},
        "status": {
            "conditions": _active(inactive),
            "pendingWorkloads": pending,
            "admittedWorkloads": 1,
            "flavorsReservation": [{"name": "small", "resources": [{"name": "cpu", "total": "2"}]}],
        },
    }


def cluster_queue(
    name: str, *, used: int = 5, cohort: str = "all", stop: str = "None", inactive: str = ""
) -> dict[str, Any]:
    """Build a ClusterQueue with quota for 4 cpu."""
    flavor = {"name": "small", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    usage = {"name": "cpu", "total": str(used), "borrowed": str(max(0, used - 4))}
    return {
        "metadata": {"name": name},
        "spec": {
            "cohortName": cohort,
            "queueingStrategy": "StrictFIFO",
            "stopPolicy": stop,
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
        },
        "status": {
            "conditions": _active(inactive),
            "flavorsReservation": [{"name": "small", "resources": [usage]}],
        },
    }


def workload(name: str, *, queue: str = "team-a", admitted: int = 0, priority: int = 0) -> dict[str, Any]:
    """Build the Workload of a MiniCluster of 4 nodes with 1 cpu each: it waits, or has quota for some of them."""
    template = {
        "metadata": {"labels": {"flux-framework.org/minicluster": name}},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
    }
    assignment = {
        "name": "main",
        "count": admitted,
        "flavors": {"cpu": "small"},
        "resourceUsage": {"cpu": str(admitted)},
    }
    answers = {"QuotaReserved": bool(admitted), "Admitted": bool(admitted)}
    return {
        "metadata": {
            "name": f"job-{name}",
            "namespace": "team",
            "uid": f"uid-{name}",
            "creationTimestamp": "2030-01-31T12:00:00Z",
            "ownerReferences": [{"kind": "Job", "name": name, "controller": True}],
        },
        "spec": {
            "queueName": queue,
            "priority": priority,
            "podSets": [{"name": "main", "count": 4, "minCount": 2, "template": template}],
        },
        "status": {
            "conditions": [
                {
                    "type": kind,
                    "status": str(holds),
                    "reason": "Pending",
                    "message": "" if holds else MISSING,
                    "lastTransitionTime": AT,
                }
                for kind, holds in answers.items()
            ],
            **({"admission": {"clusterQueue": "science", "podSetAssignments": [assignment]}} if admitted else {}),
        },
    }


def waiting(name: str, position: int) -> dict[str, Any]:
    """Build what the visibility API tells of the Workload of a MiniCluster."""
    owner = {"kind": "Job", "name": name}
    return {
        "metadata": {"name": f"job-{name}", "namespace": "team", "ownerReferences": [owner]},
        "positionInClusterQueue": position,
        "localQueueName": "team-a",
    }


def a_queue(server: Server) -> None:
    """LocalQueue team-a: one runs, two wait behind those of other queues, and a cohort could lend 1 cpu more."""
    server.on("GET", f"{LOCAL_QUEUES}/team-a", Reply(local_queue("team-a")))
    server.on("GET", CLUSTER_QUEUES, listing(cluster_queue("science"), cluster_queue("other", used=2)))
    server.on("GET", COHORT, Reply("404 page not found", status=404))
    server.on("GET", WORKLOADS, listing(workload("runs", admitted=2), workload("next"), workload("later", priority=5)))
    server.on("GET", PENDING, Reply({"items": [waiting("next", 1), waiting("later", 3)]}))
