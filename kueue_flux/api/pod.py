"""What a MiniCluster says of its pods, their network and their logs."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from kueue_flux.api.base import AbsolutePath, ApiModel, Labels, Line, ObjectName, ServiceName
from kueue_flux.api.core import PodSecurityContext, ResourceList

ARCHIVE_ENDING = r"\.(tar|tgz|tar\.gz|tar\.bz2|tar\.xz)$"
"""Of the formats that flux-dump(1) chooses by a file's name."""


class Toleration(ApiModel):
    """A taint of nodes that the pods tolerate."""

    key: Line = Field(default="", description="The taint's key; empty, with operator Exists, tolerates all.")
    operator: Literal["", "Exists", "Equal"] = Field(default="", description="How key and value are compared.")
    value: Line = Field(default="", description="The taint's value, for operator Equal.")
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(
        default="", description="The taint's effect; empty tolerates each of them."
    )


class PodSpec(ApiModel):
    """Settings of the pods."""

    annotations: Labels = Field(default_factory=dict, description="Annotations of each pod.")
    labels: Labels = Field(default_factory=dict, description="Labels of each pod.")
    node_selector: Labels = Field(default_factory=dict, description="Labels that a node must have.")
    node_affinity: Annotated[dict[str, list[str]], Field(max_length=64)] = Field(
        default_factory=dict, description="Node labels, each with the values of which a node must have one."
    )
    tolerations: list[Toleration] = Field(
        default_factory=list, max_length=64, description="Taints of nodes that the pods tolerate."
    )
    service_account_name: ObjectName = Field(default="", description="The ServiceAccount that the pods run as.")
    automount_service_account_token: bool = Field(
        default=False, description="Give the containers the ServiceAccount's token."
    )
    scheduler_name: ObjectName = Field(default="", description="The scheduler that places the pods.")
    runtime_class_name: ObjectName = Field(default="", description="The RuntimeClass of the pods.")
    security_context: PodSecurityContext = Field(
        default_factory=lambda: PodSecurityContext(), description="Security settings of the pods."
    )
    dns_policy: Literal["", "ClusterFirst", "ClusterFirstWithHostNet", "Default"] = Field(
        default="",
        description=(
            "Where the pods look up names; empty means ClusterFirst, and with `network.hostNetwork` "
            "ClusterFirstWithHostNet."
        ),
    )
    restart_policy: Literal["", "Never", "OnFailure"] = Field(
        default="",
        description=(
            "When service containers that have ended are started again: OnFailure, the default, or Never. In the "
            "MiniCluster's own pods none is, whatever stands here: a broker that was started again would not belong "
            "to its instance. Lost pods are replaced as a whole, see `backoffLimit`."
        ),
    )
    host_ipc: bool = Field(default=False, alias="hostIPC", description="Share the node's IPC namespace.")
    host_pid: bool = Field(default=False, alias="hostPID", description="Share the node's process namespace.")
    resources: ResourceList = Field(
        default_factory=dict,
        description=(
            "The overhead of each pod, counted besides what its containers ask for. It must be the one that the "
            "RuntimeClass named by `runtimeClassName` declares; Kubernetes refuses pods with any other."
        ),
    )


class Network(ApiModel):
    """The pods' network."""

    headless_name: ServiceName = Field(
        default="",
        description="The headless Service that gives pods their DNS names; the MiniCluster's name if empty.",
    )
    set_hostname_as_fqdn: bool = Field(
        default=False,
        alias="setHostnameAsFQDN",
        description=(
            "The pods' host names are their full DNS names, and Flux knows them by these. An addition to the Flux "
            "Operator's fields."
        ),
    )
    host_network: bool = Field(
        default=False,
        description=(
            "The pods use their nodes' network, and no two pods that do, of any MiniCluster, share a node. "
            "`hostname` prints the node's name; Flux knows the brokers by the pods' names all the same. No "
            "NetworkPolicy protects these pods. An addition to the Flux Operator's fields."
        ),
    )
    disable_affinity: bool = Field(
        default=False,
        description=(
            "Leave the pods' places to the scheduler. Else each pod prefers, without insisting, a node that has none "
            "of the MiniCluster's pods, in the zone of the others."
        ),
    )


class LoggingSpec(ApiModel):
    """What appears in the log of the lead pod."""

    quiet: bool = Field(default=False, description="Print the job's own output and nothing else.")
    strict: bool | None = Field(
        default=None,
        description=(
            "What follows when one of `commands` fails. Unset: a failed init, pre, brokerPre or workerPre ends the "
            "MiniCluster. True: the first command in them that fails does, and a failed post too. False: none does."
        ),
    )
    debug: bool = Field(default=False, description="Have Flux say what it does.")
    zeromq: bool = Field(default=False, description="Log ZeroMQ's socket events, with all else that brokers log.")
    timed: bool = Field(
        default=False, description="Print how long Flux ran (fluxstart) and how long the command (fluxsubmit)."
    )


class MiniClusterArchive(ApiModel):
    """Flux's state, saved at the end and loaded at the start."""

    path: AbsolutePath = Field(
        default="",
        description=(
            "A file that ends in .tar, .tar.gz, .tgz, .tar.bz2 or .tar.xz, or a directory for an archive.tar.gz, on a "
            "volume that outlives the pods. Flux's jobs and KVS are loaded from it if it is there, and saved to it at "
            "the end."
        ),
    )

    @property
    def file(self) -> str:
        """The archive's file; empty for no archive."""
        if not self.path or re.search(ARCHIVE_ENDING, self.path):
            return self.path
        return f"{self.path.rstrip('/')}/archive.tar.gz"
