"""The MiniCluster: a Flux instance to be booted in a set of pods, and the command that it runs.

The same fields as the Flux Operator's `flux-framework.org/v1alpha2`, so that its YAML works unchanged, and a
few optional ones more. `MiniCluster.from_object` is the only way in for what a user wrote: it returns an
object that the manifest builders can rely on, or says all that is wrong at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from kueue_flux.api import command, kueue_keys, labels, quantity, record
from kueue_flux.api.base import INT32_MAX, ApiModel, Int32, Labels, OptionalSize, Size, Timestamp
from kueue_flux.api.conditions import Condition
from kueue_flux.api.container import MiniClusterContainer
from kueue_flux.api.flux import FluxSpec
from kueue_flux.api.mode import Mode
from kueue_flux.api.pod import LoggingSpec, MiniClusterArchive, Network, PodSpec
from kueue_flux.api.problems import InvalidMiniCluster, Problem, from_pydantic, unreadable
from kueue_flux.api.rules import SERVICES_SUFFIX
from kueue_flux.api.validation import problems_of

GROUP = "flux-framework.org"
VERSION = "v1alpha2"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "MiniCluster"
PLURAL = "miniclusters"
# Names of resources that are whole GPUs, by the device plugins of their makers; no slices of them (nvidia.com/mig-*),
# nor what goes with them (gpu.intel.com/memory.max), of which Flux would make GPUs that are not there.
GPUS = r"(nvidia|amd)\.com/gpu|gpu\.intel\.com/(i915|xe)"


class ObjectMeta(ApiModel):
    """The part of an object's metadata that matters here; the rest is left alone."""

    model_config = ConfigDict(extra="ignore")

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class MiniClusterSpec(ApiModel):
    """What the user wants: how many pods, which containers, what Flux runs."""

    containers: list[MiniClusterContainer] = Field(
        min_length=1,
        max_length=16,
        description="The containers of each pod; exactly one of them runs Flux.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    size: Size = Field(default=1, description="The number of pods, each with one Flux broker.")
    min_size: OptionalSize = Field(
        default=None,
        description="The fewest pods to start with, when the queue's quota does not suffice for `size`.",
    )
    max_size: OptionalSize = Field(default=None, description="The most pods that scaling may ask for.")
    tasks: Int32 = Field(
        default=1,
        description=(
            "The number of tasks, over all pods, that Flux starts for the command, or that a batch may run at a "
            "time; 0 for whole pods, with one task each."
        ),
    )
    deadline_seconds: Annotated[int, Field(ge=1, le=INT32_MAX)] = Field(
        default=31500000,
        description="The most seconds that the MiniCluster may run, from when its pods are started.",
    )
    backoff_limit: Int32 | None = Field(
        default=None,
        description=(
            "How often failed pods are started anew before the MiniCluster fails; 0 for never. When a broker is lost "
            "all of its instance fails, so each retry of the whole costs up to `size`."
        ),
    )
    ttl_seconds_after_finished: Int32 | None = Field(
        default=None,
        description=(
            "Delete the MiniCluster, and all that belongs to it, so many seconds after it has finished. "
            "An addition to the Flux Operator's fields."
        ),
    )
    job_labels: Labels = Field(
        default_factory=dict,
        description="Labels of the Job; the queue's name may stand here as well as in metadata.labels.",
    )
    flux: FluxSpec = Field(default_factory=FluxSpec, description="Where Flux comes from and how its brokers run.")
    logging: LoggingSpec = Field(default_factory=LoggingSpec, description="What appears in the log of the lead pod.")
    network: Network = Field(default_factory=Network, description="The pods' network.")
    pod: PodSpec = Field(default_factory=PodSpec, description="Settings of the pods.")
    interactive: bool = Field(
        default=False,
        description=(
            "Start Flux and wait for people and programs to use it (kueue-flux shell, run, submit-job), until "
            "kueue-flux stop, flux shutdown or the deadline. A command that is given is not run."
        ),
    )
    services: list[MiniClusterContainer] = Field(
        default_factory=list,
        max_length=16,
        description=(
            "Containers in one pod of their own beside the MiniCluster, which is started before it, counted against "
            "the same queue's quota, and ends with it. It is reached at <name>-services.<headless Service>. The fields "
            "are those of `containers`; `command` is shell text, and without it the image runs what it runs. A service "
            "with `ports` is ready when the first of them takes connections."
        ),
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    archive: MiniClusterArchive = Field(
        default_factory=MiniClusterArchive,
        description="Flux's state, saved at the end and loaded at the start.",
    )
    share_process_namespace: bool = Field(
        default=False, description="The containers of a pod see each other's processes."
    )
    cleanup: bool = Field(
        default=False,
        description=(
            "Delete the MiniCluster, and all that belongs to it, as soon as it has finished: "
            "`ttlSecondsAfterFinished: 0` in other words, and that field goes before this one."
        ),
    )


class AdmissionStatus(ApiModel):
    """The admission that the MiniCluster's files were last written for."""

    model_config = ConfigDict(extra="ignore")

    id: str = Field(default="", description="Tells this admission from earlier ones.")
    size: Int32 = Field(default=0, description="The number of pods that were admitted.")
    injected_at: Timestamp | None = Field(default=None, description="When the files were written (RFC 3339).")


class MiniClusterStatus(ApiModel):
    """Where the MiniCluster stands."""

    model_config = ConfigDict(extra="ignore")  # another version's status must not make a MiniCluster unreadable

    conditions: list[Condition] = Field(
        default_factory=list,
        max_length=16,
        description="Accepted, QuotaReserved, Admitted, Injected, Ready and Finished.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    observed_generation: int = Field(default=0, description="The metadata.generation that this status speaks of.")
    queue: str = Field(default="", description="The LocalQueue; empty if there is none.")
    queue_position: int | None = Field(
        default=None, description="How many workloads stand before this one in its LocalQueue."
    )
    workload: str = Field(default="", description="The name of Kueue's Workload.")
    admission: AdmissionStatus | None = Field(default=None, description="The admission in force.")
    admissions: int = Field(default=0, description="How often the MiniCluster was admitted and given its files.")
    pods_running: int = Field(default=0, description="The number of pods whose containers run.")
    brokers_ready: int = Field(default=0, description="The number of Flux brokers that are up.")
    exit_code: int | None = Field(default=None, description="The exit code of the command.")
    start_time: Timestamp | None = Field(default=None, description="When the pods were started (RFC 3339).")
    completion_time: Timestamp | None = Field(default=None, description="When the MiniCluster finished (RFC 3339).")
    size: int = Field(default=0, description="The present number of pods, for the scale subresource.")
    selector: str = Field(default="", description="The pods' label selector, for the scale subresource.")
    jobid: str = Field(default="", description="Not used; kept for the Flux Operator's clients.")
    maximum_size: int = Field(default=0, description="The most pods that scaling may ask for.")


class MiniCluster(ApiModel):
    """A Flux instance in a set of pods, started when its queue admits it, and the command that it runs."""

    api_version: Literal["flux-framework.org/v1alpha2"] = "flux-framework.org/v1alpha2"
    kind: Literal["MiniCluster"] = "MiniCluster"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: MiniClusterSpec = Field(description="What the user wants.")
    status: MiniClusterStatus | None = Field(default=None, description="Where the MiniCluster stands.")

    @classmethod
    def from_object(cls, obj: Mapping[str, Any]) -> MiniCluster:
        """Return the MiniCluster that an object describes, as it stands in YAML or comes from the API server.

        Raises:
            InvalidMiniCluster: it cannot be run; all that is wrong is listed.
        """
        try:
            return cls._checked(obj)
        except InvalidMiniCluster:
            raise
        except Exception as error:  # to a caller, whatever a user's text makes a parser raise is a refusal
            raise InvalidMiniCluster([unreadable("", error)]) from error

    @classmethod
    def _checked(cls, obj: Mapping[str, Any]) -> MiniCluster:
        try:
            mc = cls.model_validate(obj, by_alias=True, by_name=False)
        except ValidationError as error:
            details = error.errors(include_url=False)
            raise InvalidMiniCluster(from_pydantic(detail, cls) for detail in details) from None
        if problems := list(record.problems(obj["spec"])) or problems_of(mc):
            raise InvalidMiniCluster(problems)
        return mc

    def to_object(self) -> dict[str, Any]:
        """Return the object to send to the API server: apiVersion, kind, and what was set."""
        body = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return {"apiVersion": API_VERSION, "kind": KIND, **body}

    @property
    def name(self) -> str:
        """The MiniCluster's name, also that of its Job."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace; `default` where the object does not say."""
        return self.metadata.namespace or "default"

    @property
    def uid(self) -> str:
        """The API server's id of this object; empty before it is created."""
        return self.metadata.uid

    @property
    def generation(self) -> int:
        """Counts changes of the spec; 0 before the object is created."""
        return self.metadata.generation

    @property
    def flux_container(self) -> MiniClusterContainer:
        """The container that runs Flux: the one that says so, or the only one."""
        containers = self.spec.containers
        return next((container for container in containers if container.run_flux), containers[0])

    @property
    def mode(self) -> Mode:
        """How the instance is used. `interactive` goes before any command, as in the Flux Operator."""
        container = self.flux_container
        if self.spec.interactive:
            return Mode.INTERACTIVE
        if not container.command.strip() and not container.commands.script.strip():
            return Mode.RESTFUL
        if container.batch:
            return Mode.BATCH
        return Mode.LAUNCHER if container.launcher else Mode.RUN

    @property
    def flux_container_path(self) -> str:
        """Where the container that runs Flux stands in the YAML, e.g. `spec.containers[0]`."""
        flux = self.flux_container
        return f"spec.containers[{next(i for i, c in enumerate(self.spec.containers) if c is flux)}]"

    @property
    def sidecars(self) -> list[MiniClusterContainer]:
        """The containers beside the one that runs Flux."""
        flux = self.flux_container
        return [container for container in self.spec.containers if container is not flux]

    @cached_property
    def command(self) -> Sequence[str]:
        """The command's words, as a program receives them; empty where there is a script in its place."""
        return command.argv(self.flux_container.command)

    @cached_property
    def prefix(self) -> Sequence[str]:
        """The words of commands.prefix."""
        return command.split(self.flux_container.commands.prefix)

    @cached_property
    def submit_command(self) -> Sequence[str]:
        """The words of spec.flux.submitCommand; empty where it is not set."""
        return command.split(self.spec.flux.submit_command)

    @cached_property
    def option_flags(self) -> Sequence[str]:
        """The words of spec.flux.optionFlags."""
        return command.split(self.spec.flux.option_flags)

    @property
    def queue(self) -> str | None:
        """The LocalQueue that the MiniCluster is submitted to, None if it names none."""
        return self._label(labels.QUEUE)

    @property
    def priority_class(self) -> str | None:
        """The WorkloadPriorityClass, None if it names none."""
        return self._label(labels.PRIORITY_CLASS)

    @property
    def max_exec_time_seconds(self) -> int | None:
        """The most seconds that Kueue lets it run once admitted, None for no limit."""
        text = self._label(labels.MAX_EXEC_TIME)
        return int(text) if text else None

    @property
    def topology(self) -> dict[str, str]:
        """Kueue's annotations that say where the pods lie to one another, as its pod template is to have them."""
        return kueue_keys.topology(self.metadata.annotations, self.spec.pod.annotations)

    @property
    def services_name(self) -> str:
        """The name of the Job of its service containers, and the host name of that Job's pod."""
        return f"{self.name}{SERVICES_SUFFIX}"

    @property
    def seconds_to_live(self) -> int | None:
        """How long it stays once it has finished; None for ever."""
        ttl = self.spec.ttl_seconds_after_finished
        return 0 if ttl is None and self.spec.cleanup else ttl

    @property
    def headless_name(self) -> str:
        """The name of the headless Service."""
        return self.spec.network.headless_name or self.name

    def domain(self, cluster_domain: str = "cluster.local") -> str:
        """The DNS domain of the pods.

        Args:
            cluster_domain: That of the cluster.
        """
        return f"{self.headless_name}.{self.namespace or 'default'}.svc.{cluster_domain}"

    def hosts(self, indexes: Iterable[int], cluster_domain: str = "cluster.local") -> list[str]:
        """The names by which Flux knows the pods' hosts: as `hostname` prints them, unless that is the node's name.

        Args:
            indexes: Those of the pods.
            cluster_domain: The DNS domain of the cluster.
        """
        suffix = f".{self.domain(cluster_domain)}" if self.spec.network.set_hostname_as_fqdn else ""
        return [f"{self.name}-{index}{suffix}" for index in indexes]

    @property
    def cores_per_rank(self) -> int:
        """The cores that each broker offers to Flux.

        The container's cpu limit, else its request, rounded down; never less than one, nor than its share of
        the tasks needs, for a MiniCluster without cpu resources would otherwise never start its tasks.
        """
        resources = self.flux_container.resources
        cpu = resources.get("limits", {}).get("cpu") or resources.get("requests", {}).get("cpu") or 1
        return max(1, math.floor(quantity.parse(cpu)), -(-self.spec.tasks // self.spec.size))

    @property
    def gpus_per_rank(self) -> int:
        """The GPUs that each broker offers to Flux: those of the container that runs it, of which there are no halves.

        Source: Kubernetes, "Schedule GPUs": they are asked for by limits, which a request can only repeat.
        """
        limits = self.flux_container.resources.get("limits", {})
        return sum(math.floor(quantity.parse(limits[name])) for name in limits if re.fullmatch(GPUS, name))

    def _label(self, key: str) -> str | None:
        return self.metadata.labels.get(key) or self.spec.job_labels.get(key) or None


__all__ = ["InvalidMiniCluster", "MiniCluster", "MiniClusterSpec", "MiniClusterStatus", "Problem"]
