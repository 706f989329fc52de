"""Kueue's objects that a FluxSetup stands for, one builder each.

They belong to the FluxSetup by ownerReferences, several where FluxSetups share an object, so that Kubernetes deletes
what nobody's any more is. There is no `controller` among the owners, and no `blockOwnerDeletion`, which would take the
permission to set finalizers. Source of the formats: Kueue 0.19, `apis/kueue/v1beta2`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kueue_flux.api.pod import Toleration
from kueue_flux.api.setup import API_VERSION, KIND, FluxSetup
from kueue_flux.manifests.common import MANAGED_BY, MANAGER

KUEUE = "kueue.x-k8s.io/v1beta2"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
DEFINED_BY = "flux-framework.org/defined-by"
"""Annotation on a ResourceFlavor: the uid of the FluxSetup that says what it is, where others use it too."""
HELD = "flux-framework.org/held"
"""Annotation on a LocalQueue: it admits nothing more, and is deleted once what runs in it has ended."""

Object = dict[str, Any]
Amounts = Mapping[str, str]
"""Quantities by resource."""


def owner(setup: FluxSetup) -> Object:
    """The ownerReference of what a FluxSetup made."""
    return {"apiVersion": API_VERSION, "kind": KIND, "name": setup.name, "uid": setup.metadata.uid}


def resource_flavor(
    setup: FluxSetup, name: str, node_labels: Mapping[str, str], tolerations: Sequence[Toleration]
) -> Object:
    """Build a ResourceFlavor.

    Args:
        setup: Whose it is.
        name: Its name.
        node_labels: Of the nodes that it stands for.
        tolerations: What pods on these nodes tolerate.
    """
    flavor = _object(setup, "ResourceFlavor", name)
    flavor["metadata"]["annotations"] = {DEFINED_BY: setup.metadata.uid}
    flavor["spec"] = flavor_spec(node_labels, tolerations)
    return flavor


def flavor_spec(node_labels: Mapping[str, str], tolerations: Sequence[Toleration]) -> Object:
    """The spec of a ResourceFlavor, without what is empty."""
    spec: Object = {}
    if node_labels:
        spec["nodeLabels"] = dict(node_labels)
    if tolerations:
        spec["tolerations"] = [
            {key: value for key, value in each.model_dump(by_alias=True).items() if value} for each in tolerations
        ]
    return spec


def flavor_quotas(name: str, quota: Amounts, borrowing: Amounts, lending: Amounts) -> Object:
    """A flavor as a ClusterQueue lists it.

    Args:
        name: The ResourceFlavor.
        quota: Of each resource; the limits of others are left out.
        borrowing: Borrowing limits.
        lending: Lending limits.
    """
    limits = (("borrowingLimit", borrowing), ("lendingLimit", lending))
    resources = [
        {
            "name": resource,
            "nominalQuota": amount,
            **{key: amounts[resource] for key, amounts in limits if resource in amounts},
        }
        for resource, amount in quota.items()
    ]
    return {"name": name, "resources": resources}


def cluster_queue(setup: FluxSetup, namespaces: Iterable[str], flavors: Sequence[Object]) -> Object:
    """Build the ClusterQueue.

    Args:
        setup: Whose it is.
        namespaces: Which may use it.
        flavors: As `flavor_quotas` builds them, all with the same resources, the first to be tried first.
    """
    queue = _object(setup, "ClusterQueue", setup.name)
    names = {"key": NAMESPACE_LABEL, "operator": "In", "values": sorted(namespaces)}
    preemption = setup.spec.preemption
    borrowing = preemption.borrow_within_cohort.model_dump(by_alias=True, exclude_none=True)
    queue["spec"] = {
        "cohortName": setup.spec.cohort or None,
        "queueingStrategy": setup.spec.queueing_strategy,
        # a selector of no values is refused, and one of none selects nothing
        "namespaceSelector": {"matchExpressions": [names]} if names["values"] else None,
        "preemption": {
            "withinClusterQueue": preemption.within_cluster_queue,
            "reclaimWithinCohort": preemption.reclaim_within_cohort,
            "borrowWithinCohort": borrowing,
        },
        "resourceGroups": [
            {"coveredResources": [each["name"] for each in flavors[0]["resources"]], "flavors": list(flavors)}
        ],
    }
    return queue


def local_queue(setup: FluxSetup, namespace: str) -> Object:
    """Build the LocalQueue of a namespace."""
    queue = _object(setup, "LocalQueue", setup.spec.queue)
    queue["metadata"]["namespace"] = namespace
    queue["spec"] = {"clusterQueue": setup.name}
    return queue


def priority_class(setup: FluxSetup, name: str) -> Object:
    """Build a WorkloadPriorityClass."""
    return {**_object(setup, "WorkloadPriorityClass", name), "value": setup.spec.priorities[name]}


def _object(setup: FluxSetup, kind: str, name: str) -> Object:
    return {
        "apiVersion": KUEUE,
        "kind": kind,
        "metadata": {"name": name, "labels": {MANAGED_BY: MANAGER}, "ownerReferences": [owner(setup)]},
    }
