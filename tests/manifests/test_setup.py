"""What a FluxSetup becomes: Kueue's objects, one builder each."""

from __future__ import annotations

from typing import Any

from kueue_flux.api.pod import Toleration
from kueue_flux.api.setup import FluxSetup
from kueue_flux.manifests import setup as manifests


def setup(**spec: Any) -> FluxSetup:
    return FluxSetup.from_object({"metadata": {"name": "physics", "uid": "1-2"}, "spec": spec})


OWNER = {"apiVersion": "flux-framework.org/v1alpha2", "kind": "FluxSetup", "name": "physics", "uid": "1-2"}
META = {"labels": {"app.kubernetes.io/managed-by": "kueue-flux"}, "ownerReferences": [OWNER]}


def test_resource_flavor() -> None:
    tolerations = [Toleration(key="spot", operator="Exists", effect="NoSchedule")]
    assert manifests.resource_flavor(setup(), "spot", {"pool": "spot"}, tolerations) == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "spot", **META, "annotations": {"flux-framework.org/defined-by": "1-2"}},
        "spec": {
            "nodeLabels": {"pool": "spot"},
            "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }


def test_a_flavor_of_all_nodes_has_an_empty_spec() -> None:
    assert manifests.resource_flavor(setup(), "default-flavor", {}, [])["spec"] == {}


def test_cluster_queue() -> None:
    flavor = manifests.flavor_quotas("spot", {"cpu": "40", "memory": "1Gi"}, {"cpu": "8"}, {"cpu": "4", "x": "1"})
    assert flavor == {
        "name": "spot",
        "resources": [
            {"name": "cpu", "nominalQuota": "40", "borrowingLimit": "8", "lendingLimit": "4"},
            {"name": "memory", "nominalQuota": "1Gi"},
        ],
    }
    threshold = {"borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 3}}
    made = manifests.cluster_queue(setup(cohort="science", preemption=threshold), ["b", "a"], [flavor])
    assert made == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "physics", **META},
        "spec": {
            "cohortName": "science",
            "queueingStrategy": "BestEffortFIFO",
            "namespaceSelector": {
                "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}]
            },
            "preemption": {
                "withinClusterQueue": "LowerPriority",
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 3},
            },
            "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [flavor]}],
        },
    }


def test_without_namespaces_nobody_is_selected() -> None:
    made = manifests.cluster_queue(setup(), [], [manifests.flavor_quotas("f", {"cpu": "1"}, {}, {})])
    assert (made["spec"]["namespaceSelector"], made["spec"]["cohortName"]) == (None, None)


def test_local_queue() -> None:
    assert manifests.local_queue(setup(queue="batch"), "team") == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "batch", "namespace": "team", **META},
        "spec": {"clusterQueue": "physics"},
    }


def test_priority_class() -> None:
    assert manifests.priority_class(setup(priorities={"low": -10}), "low") == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": "low", **META},
        "value": -10,
    }
