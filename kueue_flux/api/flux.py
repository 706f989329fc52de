"""How a MiniCluster sets up Flux itself: where Flux comes from, and the broker's settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kueue_flux.api.base import (
    AbsolutePath,
    ApiModel,
    ContainerName,
    Duration,
    Environment,
    Image,
    Line,
    MountPath,
    ObjectName,
    OptionalSize,
    Topology,
    Words,
)
from kueue_flux.api.core import ResourceRequirements, SecurityContext

BROKER_PORT = 8050
"""On which every broker listens (flux-config-bootstrap(5)), where no brokerConfig says otherwise."""


class FluxContainer(ApiModel):
    """The image that Flux is taken from, or the word that the application's own image has it."""

    disable: bool = Field(default=False, description="The application's image has Flux: bring none along.")
    image: Image = Field(
        default="ghcr.io/converged-computing/flux-view-ubuntu:tag-noble",
        description="The image that Flux is taken from; its system must match the application's.",
    )
    image_volume: bool = Field(
        default=False,
        description=(
            "Mount the image as a volume instead of copying Flux out of it in an init container. Needs "
            "Kubernetes 1.35 or later. An addition to the Flux Operator's fields."
        ),
    )
    name: ContainerName = Field(default="flux-view", description="The name of the container that brings Flux.")
    mount_path: MountPath = Field(default="/mnt/flux", description="Where the application's container sees Flux.")
    pull_always: bool = Field(default=False, description="Pull the image each time, even if the node has it.")
    image_pull_secret: ObjectName = Field(default="", description="An existing Secret with the registry's credentials.")
    resources: ResourceRequirements = Field(
        default_factory=lambda: ResourceRequirements(),
        description="What the container that brings Flux asks for.",
    )
    security_context: SecurityContext = Field(
        default_factory=lambda: SecurityContext(),
        description="Security settings of the container that brings Flux.",
    )
    working_dir: AbsolutePath = Field(default="", description="The directory of the container that brings Flux.")
    python_path: Line = Field(
        default="", description="PYTHONPATH for Flux's commands, in place of the packages that the image brings."
    )


class FluxScheduler(ApiModel):
    """Flux's scheduler."""

    simple: bool = Field(
        default=False, description="Use sched-simple, which knows no GPUs, even where the image has Fluxion."
    )
    queue_policy: Literal["", "fcfs", "easy", "hybrid", "conservative"] = Field(
        default="",
        description=(
            "The order in which waiting jobs start: fcfs (in turn, the default), or with backfill: easy, hybrid, "
            "conservative. Without Fluxion Flux knows fcfs, and since 0.84 easy."
        ),
    )


class FluxBroker(ApiModel):
    """The lead broker of another cluster, which this one joins."""

    address: Line = Field(default="", description="Its host name or IP address.")
    name: Line = Field(default="", description="Its MiniCluster's name, from which host names are made.")
    size: OptionalSize = Field(default=None, description="Its number of brokers.")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(default=BROKER_PORT, description="Its port.")


class BurstedCluster(ApiModel):
    """A cluster that this one bursts to."""

    name: Line = Field(default="", description="The prefix of its host names.")
    size: OptionalSize = Field(default=None, description="Its number of brokers; the MiniCluster's size if unset.")


class Bursting(ApiModel):
    """One Flux instance over several clusters."""

    lead_broker: FluxBroker = Field(
        default_factory=FluxBroker, description="The cluster to join; unset on the first one."
    )
    hostlist: Line = Field(default="", description="All hosts, in Flux's hostlist form, in place of `clusters`.")
    clusters: list[BurstedCluster] = Field(
        default_factory=list, max_length=64, description="The clusters to burst to, the same list on each."
    )


class FluxSpec(ApiModel):
    """Where Flux comes from and how its brokers run."""

    container: FluxContainer = Field(default_factory=FluxContainer, description="Where Flux comes from.")
    option_flags: Words = Field(
        default="", description='Flags for the flux command that runs the job, e.g. "-ompi=openmpi@5 -c 2".'
    )
    connect_timeout: Duration = Field(
        default="5s",
        description=(
            "How long a broker waits for one connection attempt to its parent before it tries again, as a Flux "
            "Standard Duration (RFC 23), e.g. 5s or 500ms; 0 for no limit."
        ),
    )
    log_level: Annotated[int, Field(ge=0, le=7)] = Field(
        default=6,
        description="The most verbose messages that brokers print, as syslog counts: 0 (none) to 7 (debug).",
    )
    environment: Environment = Field(
        default_factory=dict,
        description="Environment variables of the Flux brokers, by name; they win over the container's.",
    )
    topology: Topology = Field(
        default="", description="The shape of the brokers' tree: kary:K, mincrit, mincrit:K or binomial."
    )
    scheduler: FluxScheduler = Field(default_factory=FluxScheduler, description="Flux's scheduler.")
    submit_command: Words = Field(
        default="",
        description=(
            "What submits the command, in place of flux run; it is given the nodes, tasks and flags of flux run, and "
            "where its last word is submit, --quiet --watch."
        ),
    )
    wrap: Line = Field(default="", description="Words to run the brokers with, separated by commas: strace,-f.")
    arch: Line = Field(default="", description="The architecture of binaries to download.")
    minimal_service: bool = Field(
        default=False,
        description="Give only the lead a DNS name, which spares the DNS: all other brokers connect to it.",
    )
    disable_socket: bool = Field(default=False, description="Leave the path of the broker's socket to Flux.")
    no_wait_socket: bool = Field(default=False, description="Start sidecars without waiting for the broker's socket.")
    complete_workers: bool = Field(
        default=False,
        description=(
            "A worker whose broker fails counts as completed, and is not started again: what is left of the instance "
            "goes on without it."
        ),
    )
    rejoin: bool = Field(
        default=False,
        description=(
            "When a worker is lost, keep the other pods: its pod is started again and joins the instance, in which "
            "the command then runs anew. Else all pods are started again. An addition to the Flux Operator's fields."
        ),
    )
    curve_cert: Annotated[str, Field(max_length=4096, repr=False)] = Field(
        default="",
        description=(
            "The brokers' CURVE certificate, as flux keygen writes it, in place of a new one at each admission. "
            "Everybody who may read the MiniCluster can read it here: see curveCertSecret."
        ),
    )
    curve_cert_secret: ObjectName = Field(
        default="",
        description=(
            "A Secret with the brokers' CURVE certificate under the key curve.cert, in place of a new one at each "
            "admission. An addition to the Flux Operator's fields."
        ),
    )
    munge_secret: ObjectName = Field(
        default="",
        description=(
            "A Secret with a munge key under the key munge.key, which is put at /etc/munge/munge.key, in place of the "
            "image's own. Needs a container that runs as root, or as the owner of /etc/munge."
        ),
    )
    bursting: Bursting = Field(default_factory=Bursting, description="One Flux instance over several clusters.")
    broker_config: Annotated[str, Field(max_length=65536)] = Field(
        default="",
        description=(
            "The brokers' configuration (TOML), in place of a generated one. What it leaves out is filled in. The "
            "paths of certificate and R are always kueue-flux's, connect endpoints of the pods get the domain that "
            "they are in, and of its hosts, which must be the pods', those remain that are admitted."
        ),
    )
