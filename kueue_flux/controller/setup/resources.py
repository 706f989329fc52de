"""The kinds of object that the FluxSetup's control loop reads or writes, and what its stores keep of them."""

from typing import Any

from kueue_flux.controller.resources import CLUSTER_QUEUES, LOCAL_QUEUES
from kueue_flux.runtime.resource import Object, Resource

FLUX_SETUPS = Resource("flux-framework.org", "v1alpha2", "fluxsetups", "FluxSetup", namespaced=False)
FLAVORS = Resource("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False)
PRIORITY_CLASSES = Resource(
    "kueue.x-k8s.io", "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False
)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)

BY_KIND = {each.kind: each for each in (FLAVORS, CLUSTER_QUEUES, LOCAL_QUEUES, PRIORITY_CLASSES)}

_IDENTITY = ("name", "uid", "resourceVersion", "deletionTimestamp")


def keep_node(obj: dict[str, Any]) -> Object:
    """Keep labels, taints, whether it is cordoned, and what pods may use of it."""
    spec = {key: value for key, value in obj.get("spec", {}).items() if key in ("taints", "unschedulable")}
    allocatable = obj.get("status", {}).get("allocatable", {})
    labels = obj["metadata"].get("labels", {})
    return {"metadata": {**_identity(obj), "labels": labels}, "spec": spec, "status": {"allocatable": allocatable}}


def keep_namespace(obj: dict[str, Any]) -> Object:
    """Keep its name, and whether it is being deleted."""
    return {"metadata": _identity(obj)}


def _identity(obj: dict[str, Any]) -> dict[str, Any]:
    return {key: obj["metadata"][key] for key in _IDENTITY if key in obj["metadata"]}
