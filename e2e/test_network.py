"""The pods' network: full host names, the nodes' own network, and a lead that is the only one with a name."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.kit import Cluster, Namespace, Ran, as_yaml, manifest

pytestmark = [pytest.mark.real_flux, pytest.mark.extended]


def run(namespace: Namespace, name: str, command: str, *, size: int = 2, **fields: Any) -> Ran:
    """Submit a command with settings of the network, and wait until it has ended."""
    spec = {
        "size": size,
        "tasks": size,
        "logging": {"quiet": True},
        "containers": [{"image": namespace.cluster.flux.reference, "command": command}],
        **fields,
        "flux": {"container": {"disable": True}, **fields.get("flux", {})},
    }
    return namespace.kueue_flux("submit", "-", "--wait", stdin=as_yaml(manifest(name, spec)))


def test_full_host_names_are_the_same_to_the_kernel_and_to_flux(namespace: Namespace):
    ran = run(namespace, "full", "hostname", network={"headlessName": "net", "setHostnameAsFQDN": True})
    assert ran.code == 0, ran.err
    names = [f"full-{rank}.net.{namespace.name}.svc.cluster.local" for rank in range(2)]
    assert sorted(ran.lines) == names

    ran = run(namespace, "listed", "flux getattr hostlist", size=1, network={"setHostnameAsFQDN": True})
    assert ran.code == 0, ran.err
    assert ran.lines == [f"listed-0.listed.{namespace.name}.svc.cluster.local"]


def test_on_the_nodes_network_each_node_has_one_broker(namespace: Namespace, cluster: Cluster):
    nodes = [
        node["metadata"]["name"]
        for node in cluster.api.list("v1", "Node")
        if not any(taint["effect"] == "NoSchedule" for taint in node["spec"].get("taints", []))
    ]
    ran = run(namespace, "host", "hostname", size=len(nodes), network={"hostNetwork": True})
    assert ran.code == 0, ran.err
    assert sorted(ran.lines) == sorted(nodes)


def test_a_lead_with_a_name_is_enough(namespace: Namespace):
    command = "sh -c 'getent hosts minimal-0.minimal >/dev/null && ! getent hosts minimal-1.minimal && hostname'"
    ran = run(namespace, "minimal", command, flux={"minimalService": True})
    assert ran.code == 0, ran.err
    assert sorted(ran.lines) == ["minimal-0", "minimal-1"]
