"""Queues as admins make them: flavors, cohorts, checks and topologies, each with a name of its own."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from kueue_flux.devcluster.kubernetes_api import Manifest
from tests.control_plane.kit import FLAVOR, KUEUE, Namespace, cluster_queue

Quotas = Mapping[str, int | Mapping[str, int]]
"""cpu by flavor; where it is a mapping, as in a ClusterQueue: nominalQuota, borrowingLimit, lendingLimit."""


def unique(word: str) -> str:
    """A name that no other test has."""
    return f"{word}-{secrets.token_hex(3)}"


def flavor(name: str = "flavor", **spec: Any) -> Manifest:
    """A ResourceFlavor; its spec as in YAML."""
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": unique(name)}, "spec": spec}


def topology(*levels: str) -> Manifest:
    """A Topology of node labels, the widest first."""
    spec = {"levels": [{"nodeLabel": level} for level in levels]}
    return {"apiVersion": KUEUE, "kind": "Topology", "metadata": {"name": unique("topology")}, "spec": spec}


def check() -> Manifest:
    """An AdmissionCheck whose controller is the test."""
    spec = {"controllerName": "example.com/test"}
    return {"apiVersion": KUEUE, "kind": "AdmissionCheck", "metadata": {"name": unique("check")}, "spec": spec}


def group(quotas: Quotas) -> Manifest:
    """A resource group of cpu and as much memory as anybody could want."""
    flavors = []
    for name, amount in quotas.items():
        cpu = {"nominalQuota": amount} if isinstance(amount, int) else dict(amount)
        memory = {"name": "memory", "nominalQuota": "1Ti"}
        flavors.append({"name": name, "resources": [{"name": "cpu", **cpu}, memory]})
    return {"coveredResources": ["cpu", "memory"], "flavors": flavors}


def set_queue(namespace: Namespace, quotas: Quotas | int, **spec: Any) -> None:
    """Give a namespace's ClusterQueue these quotas and this spec; a number is cpu of the one flavor of all tests."""
    given = {FLAVOR: quotas} if isinstance(quotas, int) else quotas
    manifest = cluster_queue(namespace.name, namespace.name, cpu=0, memory_gib=0, preemption=False)
    manifest["spec"] |= {"resourceGroups": [group(given)], **spec}
    namespace.api.apply(manifest)
