"""The kinds of object that the controller reads or writes, and what its stores keep of each.

Stores hold every watched object for the life of the process, so each kind is cut down to what is read:
a pod to some 500 bytes of its 5 KiB.
"""

from typing import Any

from kueue_flux.kueue.capacity import read_request
from kueue_flux.runtime.resource import Resource
from kueue_flux.runtime.store import strip

MINICLUSTERS = Resource("flux-framework.org", "v1alpha2", "miniclusters", "MiniCluster")
JOBS = Resource("batch", "v1", "jobs", "Job")
PODS = Resource("", "v1", "pods", "Pod")
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
CLUSTER_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False)
LOCAL_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue")
COHORTS = Resource("kueue.x-k8s.io", "v1beta2", "cohorts", "Cohort", namespaced=False)
SERVICES = Resource("", "v1", "services", "Service")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
SECRETS = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")

BY_KIND = {r.kind: r for r in (JOBS, SERVICES, NETWORK_POLICIES, SECRETS, CONFIG_MAPS)}

_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
)

POD_CONDITIONS = frozenset({"Ready", "PodScheduled", "PodReadyToStartContainers"})

# Where a transform leaves which other controllers wrote the status, and when last; no real field is called so.
FOREIGN_WRITERS = "kueue-flux/foreign-status-writers"
# Where a transform leaves what a Workload asks for (`kueue.capacity.Request`), in place of its pod templates.
REQUEST = "kueue-flux/request"


def keep_minicluster(obj: dict[str, Any]) -> dict[str, Any]:
    """Keep spec and status; of managedFields only who else writes the status (another operator at work)."""
    meta = obj["metadata"]
    foreign = {
        entry.get("manager", ""): entry.get("time", "")
        for entry in sorted(meta.get("managedFields", []), key=lambda entry: str(entry.get("time", "")))
        if entry.get("subresource") == "status" and entry.get("manager") != "kueue-flux"
    }
    kept = {
        "apiVersion": MINICLUSTERS.api_version,
        "kind": MINICLUSTERS.kind,
        "metadata": _metadata(meta),
        "spec": obj.get("spec", {}),
        "status": obj.get("status", {}),
    }
    if foreign:
        kept[FOREIGN_WRITERS] = foreign
    return kept


def keep_job(obj: dict[str, Any]) -> dict[str, Any]:
    """Keep the size, whether it is suspended, and the status."""
    spec = obj.get("spec", {})
    kept = {key: spec[key] for key in ("suspend", "parallelism", "completions") if key in spec}
    return {"metadata": _metadata(obj["metadata"]), "spec": kept, "status": obj.get("status", {})}


def keep_workload(obj: dict[str, Any]) -> dict[str, Any]:
    """Keep what `kueue_flux.kueue.workload.read` reads, and what is asked for; not the copies of pod templates."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    return {
        REQUEST: read_request(obj),
        "metadata": _metadata(obj["metadata"]),
        "spec": {
            "podSets": [{"name": p.get("name"), "count": p.get("count")} for p in spec.get("podSets", [])],
            **{key: spec[key] for key in ("active", "priority", "queueName") if key in spec},
        },
        "status": {key: status[key] for key in ("conditions", "admission", "admissionChecks") if key in status},
    }


def keep_pod(obj: dict[str, Any]) -> dict[str, Any]:
    """Keep the phase, how far it is with starting, and how its containers stand."""
    status = obj.get("status", {})
    conditions = [c for c in status.get("conditions", []) if c["type"] in POD_CONDITIONS]
    kept = {key: status[key] for key in ("phase", "containerStatuses", "initContainerStatuses") if key in status}
    return {"metadata": _metadata(obj["metadata"]), "status": {**kept, "conditions": conditions}}


def keep_queue(obj: dict[str, Any]) -> dict[str, Any]:
    """Keep a ClusterQueue, LocalQueue or Cohort whole; a specification that is left out is an empty one."""
    return strip({"spec": {}, **obj})


def _metadata(meta: dict[str, Any]) -> dict[str, Any]:
    return {key: meta[key] for key in _METADATA if key in meta}
