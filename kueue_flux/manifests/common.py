"""What every object of a MiniCluster shares: its names, labels and owner."""

from typing import Any

from kueue_flux.api.minicluster import MiniCluster

MANAGER = "kueue-flux"
MANAGED_BY = "app.kubernetes.io/managed-by"
MINICLUSTER = "flux-framework.org/minicluster"
MINICLUSTER_UID = "flux-framework.org/minicluster-uid"
ADMISSION = "flux-framework.org/admission"
# The Job controller's, on each pod of an Indexed Job.
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
# On the Job of the service containers and on its pod, which bear the MiniCluster's own labels too.
ROLE = "flux-framework.org/role"
SERVICES = "services"

API_VERSION = "flux-framework.org/v1alpha2"
KIND = "MiniCluster"


def labels(name: str) -> dict[str, str]:
    """The labels by which everything that belongs to the MiniCluster `name` is found."""
    return {MANAGED_BY: MANAGER, MINICLUSTER: name}


def pod_labels(mc: MiniCluster) -> dict[str, str]:
    """The labels of its pods, by which Service and NetworkPolicy select them.

    The uid keeps apart the pods of a deleted MiniCluster of the same name: while they end, they still have
    the same host names, and a broker would find two addresses under its lead's name.
    """
    return {**labels(mc.name), MINICLUSTER_UID: mc.uid}


def certificate_name(name: str) -> str:
    """The Secret that holds the CURVE certificate of the current admission."""
    return f"{name}-curve"


def config_map_name(name: str) -> str:
    """The ConfigMap that holds broker.toml, R and the start script of the current admission."""
    return f"{name}-flux"


def metadata(mc: MiniCluster, name: str) -> dict[str, Any]:
    """Metadata for an object that lives and dies with its MiniCluster.

    The ownerReference makes Kubernetes' garbage collector delete it; there are no finalizers, so
    a MiniCluster can be deleted while kueue-flux is away.
    """
    return {
        "name": name,
        "namespace": mc.namespace,
        "labels": labels(mc.name),
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": mc.name,
                "uid": mc.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
