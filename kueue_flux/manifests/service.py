"""The headless Service: gives each broker the DNS name under which its peers connect."""

from typing import Any

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.manifests.common import BROKER_PORT, COMPLETION_INDEX, metadata, pod_labels


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
