"""The containers of a MiniCluster and what hangs on them: environment, volumes, commands, life cycle."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kueue_flux.api.base import (
    AbsolutePath,
    ApiModel,
    ContainerName,
    DataKey,
    DriverName,
    Environment,
    Image,
    MountPath,
    ObjectName,
    OptionalImage,
    OptionalQuantity,
    RelativePath,
    RequiredName,
    Words,
)
from kueue_flux.api.core import ResourceRequirements, SecurityContext

PullPolicy = Literal["", "Always", "IfNotPresent", "Never"]
# Characters. The Job keeps the specification that it was made from in an annotation, which may have 256 KiB.
TEXT_LIMIT = 200_000
Port = Annotated[int, Field(ge=1, le=65535)]


class EnvironmentSecret(ApiModel):
    """One key of a Secret, given to the container as an environment variable."""

    name: RequiredName = Field(description="The Secret, in the MiniCluster's namespace.")
    key: DataKey = Field(description="The key in that Secret.")


class ContainerVolume(ApiModel):
    """A volume, and where the container sees it.

    It comes from one source. Where none is named it is an empty directory, for `data: {path: /data}` asks for no
    more than a place to write to.
    """

    path: MountPath = Field(
        default="",
        description="Where the container sees the volume; an `emptyDir` without it is shared memory, at /dev/shm.",
    )
    host_path: AbsolutePath = Field(default="", description="A directory of the node, which must exist.")
    config_map_name: ObjectName = Field(default="", description="An existing ConfigMap; see `items`.")
    items: Annotated[dict[str, RelativePath], Field(max_length=256)] = Field(
        default_factory=dict,
        description="Which keys of the ConfigMap or Secret become which files; empty for all.",
    )
    claim_name: ObjectName = Field(default="", description="An existing PersistentVolumeClaim.")
    secret_name: ObjectName = Field(default="", description="An existing Secret; see `items`.")
    image: OptionalImage = Field(
        default="",
        description=(
            "An image whose files are the volume, read-only, with nothing to copy. Needs Kubernetes 1.35 or later. "
            "An addition to the Flux Operator's fields."
        ),
    )
    read_only: bool = Field(default=False, description="Mount it so that the container cannot write.")
    empty_dir: bool = Field(default=False, description="A directory that is empty at first and lives with the pod.")
    empty_dir_medium: Literal["", "memory", "Memory"] = Field(
        default="", description="What holds the empty directory: the node's disk, or its memory."
    )
    empty_dir_size_limit: OptionalQuantity = Field(
        default="", description="The most that the empty directory may hold."
    )
    csi_driver: DriverName = Field(default="", description="The name of a CSI driver that provides the volume.")
    csi_driver_attributes: Annotated[dict[str, str], Field(max_length=64)] = Field(
        default_factory=dict, description="Attributes that the CSI driver takes."
    )

    @property
    def mount_path(self) -> str:
        """Where the container sees the volume, /dev/shm if an empty directory does not say."""
        return self.path or "/dev/shm"  # noqa: S108

    @property
    def source(self) -> dict[str, object]:
        """Where the volume comes from, without what each container that mounts it may say for itself."""
        return self.model_dump(exclude={"path", "read_only"}, exclude_defaults=True)


class LifeCycle(ApiModel):
    """Commands that the kubelet runs in the container."""

    post_start_exec: str = Field(default="", description="Runs right after the container has started.")
    pre_stop_exec: str = Field(default="", description="Runs before the container is stopped.")


class Commands(ApiModel):
    """Shell text that is run around the Flux broker."""

    prefix: Words = Field(default="", description="Words put before the command that submits or launches, on the lead.")
    script: str = Field(
        default="",
        description=(
            "A script to run in place of `command`, with bash where the image has it, else with sh. As in the Flux "
            "Operator, a backslash before $, `, \\ or a line's end is taken away."
        ),
    )
    init: str = Field(
        default="",
        description=(
            "Sourced before anything else, by bash where the image has it, else by sh: what it exports, its "
            "directory and limits are those of Flux and of the command."
        ),
    )
    pre: str = Field(
        default="",
        description=(
            "Sourced like `init`, on every pod, when Flux has been put on the PATH and before its broker starts."
        ),
    )
    post: str = Field(
        default="",
        description=(
            "Runs when the command has ended, well or not, and the broker with it, on every pod; on workers for the "
            "time that the lead takes, or a pod's grace period. Its output is part of the log."
        ),
    )
    worker_pre: str = Field(default="", description="Sourced after `pre`, on workers only.")
    broker_pre: str = Field(default="", description="Sourced after `pre`, on the lead only.")
    service_pre: str = Field(default="", description="Runs before a service container starts.")


class MiniClusterContainer(ApiModel):
    """A container of the MiniCluster's pods; the one with `runFlux` starts Flux and runs the command."""

    image: Image = Field(default="ghcr.io/rse-ops/accounting:app-latest", description="The image with the application.")
    name: ContainerName = Field(
        default="", description="The container's name. Needed only where the container does not run Flux."
    )
    command: Annotated[str, Field(max_length=TEXT_LIMIT)] = Field(
        default="",
        description=(
            "The command that Flux runs, as one line. It is split into words as a shell would; where it has what "
            "only a shell understands outside of quotes (pipes, redirection, variables, patterns of file names), "
            "each task runs it with sh."
        ),
    )
    run_flux: bool = Field(
        default=False,
        description="This container runs Flux. Exactly one does; a container that is alone need not say so.",
    )
    working_dir: AbsolutePath = Field(default="", description="The directory in which the command runs.")
    environment: Environment = Field(
        default_factory=dict, description="Environment variables by name, their values taken as they are."
    )
    secrets: dict[str, EnvironmentSecret] = Field(
        default_factory=dict,
        max_length=256,
        description="Environment variables by name, their values taken from Secrets.",
    )
    launcher: bool = Field(
        default=False,
        description="The command submits its own jobs to Flux: it runs once, as the initial program.",
    )
    resources: ResourceRequirements = Field(
        default_factory=lambda: ResourceRequirements(),
        description="What the container asks for in each pod; Kueue counts it, and Flux schedules its cores.",
    )
    security_context: SecurityContext = Field(
        default_factory=lambda: SecurityContext(), description="Security settings of the container."
    )
    image_pull_secret: ObjectName = Field(default="", description="An existing Secret with the registry's credentials.")
    pull_always: bool = Field(default=False, description="Pull the image each time, even if the node has it.")
    image_pull_policy: PullPolicy = Field(
        default="", description="When to pull the image; empty: if the node lacks it."
    )
    ports: list[Port] = Field(default_factory=list, max_length=256, description="Ports that other containers reach.")
    batch: bool = Field(
        default=False,
        description=(
            "Each line of `command` is a job, and all of them are one Flux batch job, of as many tasks as `tasks` "
            "says. A line is read by a shell, or begins with options of flux submit. Lines that are empty or begin "
            "with # are none."
        ),
    )
    batch_raw: bool = Field(
        default=False, description="With `batch`: `command` is the batch script itself, submitted as it is."
    )
    logs: AbsolutePath = Field(
        default="",
        description=(
            "The directory on the lead for the output of batch jobs, job-0.out and job-0.err for the first line. "
            "Where it is unset the output is printed, in the order of the lines, and also kept in /tmp/fluxout."
        ),
    )
    no_wrap_entrypoint: bool = Field(default=False, description="Start a sidecar at once, without waiting for Flux.")
    volumes: dict[str, ContainerVolume] = Field(
        default_factory=dict,
        max_length=64,
        description=(
            "Volumes to mount, by name. The same name in two containers is the same volume, which each may mount "
            "elsewhere."
        ),
    )
    life_cycle: LifeCycle = Field(
        default_factory=LifeCycle, description="Commands that the kubelet runs in the container."
    )
    commands: Commands = Field(default_factory=Commands, description="Shell text that is run around the Flux broker.")

    @property
    def runs_text(self) -> bool:
        """Whether a sidecar runs shell text of the user's, and not what its image runs by itself."""
        around = () if self.no_wrap_entrypoint else self.commands.model_dump(exclude_defaults=True)
        return bool(self.command or around)
