"""The NetworkPolicy: only the MiniCluster's own pods reach its brokers and its MPI ports, others what it declares.

CURVE already keeps strangers out of the overlay network; the policy also keeps them from trying,
and covers what user programs open. Enforced only where the cluster's network plugin does so.
"""

from typing import Any

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.manifests.common import metadata, pod_labels
from kueue_flux.manifests.restful import is_wanted
from kueue_flux.restful.settings import DEFAULT_PORT


def network_policy(mc: MiniCluster) -> dict[str, Any]:
    """Build the NetworkPolicy. Outgoing traffic stays as the cluster has it."""
    own = {"matchLabels": pod_labels(mc)}
    ports = {port for container in (*mc.spec.containers, *mc.spec.services) for port in container.ports}
    declared = sorted(ports | ({DEFAULT_PORT} if is_wanted(mc) else set()))
    # A declared port is there to be reached, from within the namespace.
    anybody = {"from": [{"podSelector": {}}], "ports": [{"port": port, "protocol": "TCP"} for port in declared]}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(mc, mc.name),
        "spec": {
            "podSelector": own,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": own}]}, *([anybody] if declared else [])],
        },
    }
