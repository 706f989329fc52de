"""The Services: the headless one, by which brokers find their peers, and one for each sidecar that others call."""

from typing import Any

from kueue_flux.api.flux import BROKER_PORT
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.manifests.common import COMPLETION_INDEX, metadata, pod_labels

# The Job controller's label on a Job's pods (batch/v1).
JOB_NAME = "batch.kubernetes.io/job-name"


def service(mc: MiniCluster) -> dict[str, Any]:
    """Build the headless Service that the pod template's `subdomain` names.

    Brokers look one another up before any pod is ready, hence `publishNotReadyAddresses`.
    """
    lead = {COMPLETION_INDEX: "0"} if mc.spec.flux.minimal_service else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(mc, mc.headless_name),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {**pod_labels(mc), **lead},
            "ports": [{"name": "flux-broker", "port": BROKER_PORT, "protocol": "TCP"}],
        },
    }


def sidecar_services(mc: MiniCluster) -> list[dict[str, Any]]:
    """Build a Service for each sidecar with ports, of the sidecar's name: it leads to all of the MiniCluster's pods."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(mc, sidecar.name),
            "spec": {
                "selector": {**pod_labels(mc), JOB_NAME: mc.name},
                "ports": [{"name": f"port-{port}", "port": port, "protocol": "TCP"} for port in sidecar.ports],
            },
        }
        for sidecar in mc.sidecars
        if sidecar.ports
    ]
