"""The parts of Kubernetes' core/v1 that a MiniCluster embeds.

They stay plain dictionaries, for they are copied into the pod template as they are; as TypedDicts they still
give the CRD a real schema, so that a misspelt `runAsUsr` is found when the MiniCluster is submitted and not
when its pods fail to appear.
Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from typing import Literal, Required

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from kueue_flux.api.base import Int32, Line, Quantity

_STRICT = ConfigDict(extra="forbid", strict=True)

ResourceList = dict[str, Quantity]
"""Amounts by resource name: cpu in cores, memory in bytes, extended resources in pieces."""


@with_config(_STRICT)
class ResourceClaim(TypedDict, total=False):
    """A device claim of the pod that the container uses."""

    name: Required[Line]
    request: Line


@with_config(_STRICT)
class ResourceRequirements(TypedDict, total=False):
    """What a container asks for (requests) and may use at most (limits)."""

    limits: ResourceList
    requests: ResourceList
    claims: list[ResourceClaim]


@with_config(_STRICT)
class Capabilities(TypedDict, total=False):
    """Linux capabilities to add to or drop from what the container runtime gives."""

    add: list[Line]
    drop: list[Line]


@with_config(_STRICT)
class SELinuxOptions(TypedDict, total=False):
    """The SELinux context."""

    user: Line
    role: Line
    type: Line
    level: Line


@with_config(_STRICT)
class SeccompProfile(TypedDict, total=False):
    """Which system calls are allowed."""

    type: Required[Literal["Localhost", "RuntimeDefault", "Unconfined"]]
    localhostProfile: Line


@with_config(_STRICT)
class AppArmorProfile(TypedDict, total=False):
    """The AppArmor profile."""

    type: Required[Literal["Localhost", "RuntimeDefault", "Unconfined"]]
    localhostProfile: Line


@with_config(_STRICT)
class WindowsOptions(TypedDict, total=False):
    """Settings for Windows nodes; Flux does not run there, the field is here for completeness."""

    gmsaCredentialSpec: str
    gmsaCredentialSpecName: Line
    hostProcess: bool
    runAsUserName: Line


@with_config(_STRICT)
class SecurityContext(TypedDict, total=False):
    """Security settings of one container."""

    allowPrivilegeEscalation: bool
    appArmorProfile: AppArmorProfile
    capabilities: Capabilities
    privileged: bool
    procMount: Literal["Default", "Unmasked"]
    readOnlyRootFilesystem: bool
    runAsGroup: Int32
    runAsNonRoot: bool
    runAsUser: Int32
    seLinuxOptions: SELinuxOptions
    seccompProfile: SeccompProfile
    windowsOptions: WindowsOptions


@with_config(_STRICT)
class Sysctl(TypedDict, total=False):
    """A kernel parameter of the pod."""

    name: Required[Line]
    value: Required[Line]


@with_config(_STRICT)
class PodSecurityContext(TypedDict, total=False):
    """Security settings of the whole pod."""

    appArmorProfile: AppArmorProfile
    fsGroup: Int32
    fsGroupChangePolicy: Literal["Always", "OnRootMismatch"]
    runAsGroup: Int32
    runAsNonRoot: bool
    runAsUser: Int32
    seLinuxChangePolicy: Literal["MountOption", "Recursive"]
    seLinuxOptions: SELinuxOptions
    seccompProfile: SeccompProfile
    supplementalGroups: list[Int32]
    supplementalGroupsPolicy: Literal["Merge", "Strict"]
    sysctls: list[Sysctl]
    windowsOptions: WindowsOptions
