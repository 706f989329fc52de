"""The FluxSetup: what an admin says in one object, and Kueue's queues, flavors and priorities are made from.

All of it is optional: a name alone gives the namespace of that name a queue with all that the nodes have. Limits are
Kueue's own (0.19, `apis/kueue/v1beta2`), so that what passes here is not refused there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from kueue_flux.api.base import (
    INT32_MAX,
    LABEL_1123,
    ApiModel,
    ObjectName,
    Pattern,
    Quantity,
    RequiredName,
)
from kueue_flux.api.conditions import Condition
from kueue_flux.api.minicluster import ObjectMeta
from kueue_flux.api.pod import Toleration
from kueue_flux.api.problems import InvalidFluxSetup, from_pydantic, unreadable
from kueue_flux.api.setup_rules import problems_of

GROUP = "flux-framework.org"
VERSION = "v1alpha2"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "FluxSetup"
PLURAL = "fluxsetups"

DEFAULT_QUEUE = "default"
"""The LocalQueue that Kueue gives to whoever names none."""
DEFAULT_FLAVOR = "default-flavor"

NamespaceName = Annotated[
    str,
    Pattern(
        LABEL_1123,
        "a namespace's name: lower-case letters, digits and dashes, at most 63 characters",
        63,
        optional=False,
    ),
]
Quotas = Annotated[dict[str, Quantity], Field(max_length=32)]
"""Amounts by resource."""
NodeLabels = Annotated[dict[str, str], Field(max_length=8)]


class SetupFlavor(ApiModel):
    """A kind of nodes, and what of it may be used."""

    name: RequiredName = Field(description="The name of the ResourceFlavor, which all FluxSetups of the cluster share.")
    node_labels: NodeLabels | None = Field(
        default=None,
        description=(
            "Labels of these nodes. Unset: all nodes, or, where somebody else made the ResourceFlavor, its own."
        ),
    )
    tolerations: Annotated[list[Toleration], Field(max_length=8)] | None = Field(
        default=None,
        description="Taints of these nodes, which the pods then tolerate. Unset: as with `nodeLabels`.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    quota: Quotas = Field(
        default_factory=dict,
        description="What may be used of each resource. What is not named here: all that these nodes have.",
    )
    borrowing_limit: Quotas = Field(
        default_factory=dict,
        description="How much more may be taken of what others of the cohort leave unused. Not named: no limit.",
    )
    lending_limit: Quotas = Field(
        default_factory=dict,
        description="How much of the quota others of the cohort may take; all of what is not named.",
    )


class BorrowWithinCohort(ApiModel):
    """Preemption for a workload that borrows."""

    policy: Literal["Never", "LowerPriority"] = Field(
        default="Never", description="Whether a workload that must borrow may preempt others of lower priority."
    )
    max_priority_threshold: Annotated[int, Field(ge=-INT32_MAX - 1, le=INT32_MAX)] | None = Field(
        default=None, description="Only workloads of at most this priority are preempted for it."
    )


class SetupPreemption(ApiModel):
    """Who may be evicted so that another can run: Kueue's own values, with other defaults."""

    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = Field(
        default="LowerPriority", description="Whom a workload may preempt of those under the same FluxSetup."
    )
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = Field(
        default="Any", description="Whom a workload may preempt of those that borrow what is this FluxSetup's own."
    )
    borrow_within_cohort: BorrowWithinCohort = Field(
        default_factory=BorrowWithinCohort, description="Preemption for a workload that borrows."
    )


class FluxSetupSpec(ApiModel):
    """What the admin wants."""

    namespaces: list[NamespaceName] = Field(
        default_factory=list,
        max_length=128,
        description=(
            "Who may use the quota: each of these namespaces gets a LocalQueue. Empty: the namespace with the "
            "FluxSetup's own name. A namespace belongs to one FluxSetup, the oldest that names it."
        ),
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    queue: NamespaceName = Field(
        default=DEFAULT_QUEUE,
        description="The name of the LocalQueue in each namespace. `default` is given to whoever names none.",
    )
    cohort: ObjectName = Field(
        default="", description="What is unused is shared with the other ClusterQueues of this cohort; empty for none."
    )
    quota: Quotas = Field(
        default_factory=dict,
        description=(
            "What may be used of all nodes (ResourceFlavor `default-flavor`). What is not named here: all that the "
            "schedulable nodes have; 0 gives none. Not beside `flavors`."
        ),
    )
    flavors: list[SetupFlavor] = Field(
        default_factory=list,
        max_length=32,
        description="Several kinds of nodes, each with its quota, tried in this order.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    queueing_strategy: Literal["BestEffortFIFO", "StrictFIFO"] = Field(
        default="BestEffortFIFO",
        description=(
            "BestEffortFIFO lets those who fit pass by those who do not; with StrictFIFO a large MiniCluster at the "
            "head holds up all others until it fits."
        ),
    )
    preemption: SetupPreemption = Field(
        default_factory=SetupPreemption, description="Who may be evicted so that another can run."
    )
    priorities: Annotated[dict[str, Annotated[int, Field(ge=-INT32_MAX - 1, le=INT32_MAX)]], Field(max_length=32)] = (
        Field(
            default_factory=dict,
            description="WorkloadPriorityClasses by name, each with its value; higher goes first.",
        )
    )


class UsedQuota(ApiModel):
    """How much of one resource of one flavor is used."""

    model_config = ConfigDict(extra="ignore")

    flavor: str = Field(description="The ResourceFlavor.")
    resource: str = Field(description="The resource.")
    quota: str = Field(default="0", description="The quota in force.")
    used: str = Field(default="0", description="What is used, borrowed or not.")
    borrowed: str = Field(default="0", description="What of it is borrowed from others of the cohort.")


class FluxSetupStatus(ApiModel):
    """What has become of it."""

    model_config = ConfigDict(extra="ignore")

    conditions: list[Condition] = Field(
        default_factory=list,
        max_length=16,
        description="Accepted and Ready.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    observed_generation: int = Field(default=0, description="The metadata.generation that this status speaks of.")
    namespaces: list[str] = Field(
        default_factory=list, max_length=256, description="The namespaces that have their LocalQueue."
    )
    waiting: int = Field(default=0, description="MiniClusters that wait for quota.")
    admitted: int = Field(default=0, description="MiniClusters that are admitted, and whose brokers are not all up.")
    running: int = Field(default=0, description="MiniClusters whose brokers are all up.")
    finished: int = Field(default=0, description="MiniClusters that have finished, and are still there.")
    usage: str = Field(default="", description="What is used of the quota, in short, over all flavors.")
    used: list[UsedQuota] = Field(
        default_factory=list,
        max_length=2048,
        description="What is used of the quota, by flavor and resource.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class FluxSetup(ApiModel):
    """Quota, flavors, queues and priorities of some namespaces, said in one object."""

    api_version: Literal["flux-framework.org/v1alpha2"] = "flux-framework.org/v1alpha2"
    kind: Literal["FluxSetup"] = "FluxSetup"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: FluxSetupSpec = Field(default_factory=FluxSetupSpec, description="What the admin wants.")
    status: FluxSetupStatus | None = Field(default=None, description="What has become of it.")

    @classmethod
    def from_object(cls, obj: Mapping[str, Any]) -> FluxSetup:
        """Return the FluxSetup that an object describes, as it stands in YAML or comes from the API server.

        Raises:
            InvalidFluxSetup: it cannot be carried out; all that is wrong is listed.
        """
        try:
            setup = cls.model_validate(obj, by_alias=True, by_name=False)
        except ValidationError as error:
            details = error.errors(include_url=False)
            raise InvalidFluxSetup(from_pydantic(detail, cls) for detail in details) from None
        except Exception as error:  # to a caller, whatever a user's text makes a parser raise is a refusal
            raise InvalidFluxSetup([unreadable("", error)]) from error
        if problems := list(problems_of(setup)):
            raise InvalidFluxSetup(problems)
        return setup

    def to_object(self) -> dict[str, Any]:
        """Return the object to send to the API server: apiVersion, kind, and what was set."""
        body = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return {"apiVersion": API_VERSION, "kind": KIND, **body}

    @property
    def name(self) -> str:
        """Its name, also that of its ClusterQueue."""
        return self.metadata.name

    @property
    def namespaces(self) -> list[str]:
        """The namespaces that it claims, in the order in which they are named, each once."""
        return list(dict.fromkeys(self.spec.namespaces)) or [self.name]

    @property
    def flavors(self) -> list[SetupFlavor]:
        """Its flavors, the first of which is tried first; at least one."""
        return self.spec.flavors or [SetupFlavor(name=DEFAULT_FLAVOR, quota=self.spec.quota)]


__all__ = ["FluxSetup", "FluxSetupSpec", "FluxSetupStatus", "SetupFlavor", "SetupPreemption"]
