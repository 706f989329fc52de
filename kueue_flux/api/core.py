"""The parts of Kubernetes' core/v1 that a MiniCluster embeds.

They stay plain dictionaries, for they are copied into the pod template as they are; as TypedDicts they still
give the CRD a real schema, so that a misspelt `runAsUsr` is found when the MiniCluster is submitted and not
when its pods fail to appear.
Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from typing import Literal, Required

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from kueue_flux.api.base import Quantity

_STRICT = ConfigDict(extra="forbid", strict=True)

ResourceList = dict[str, Quantity]
"""Amounts by resource name: cpu in cores, memory in bytes, extended resources in pieces."""


@with_config(_STRICT)
class ResourceClaim(TypedDict, total=False):
    """A device claim of the pod that the container uses."""

    name: Required[str]
    request: str


@with_config(_STRICT)
class ResourceRequirements(TypedDict, total=False):
    """What a container asks for (requests) and may use at most (limits)."""

    limits: ResourceList
    requests: ResourceList
    claims: list[ResourceClaim]


@with_config(_STRICT)
class Capabilities(TypedDict, total=False):
    """Linux capabilities to add to or drop from what the container runtime gives."""

    add: list[str]
    drop: list[str]


@with_config(_STRICT)
class SELinuxOptions(TypedDict, total=False):
    """The SELinux context."""

    user: str
    role: str
    type: str
    level: str


@with_config(_STRICT)
class SeccompProfile(TypedDict, total=False):
    """Which system calls are allowed."""

    type: Required[Literal["Localhost", "RuntimeDefault", "Unconfined"]]
    localhostProfile: str


@with_config(_STRICT)
class AppArmorProfile(TypedDict, total=False):
    """The AppArmor profile."""

    type: Required[Literal["Localhost", "RuntimeDefault", "Unconfined"]]
    localhostProfile: str


@with_config(_STRICT)
class WindowsOptions(TypedDict, total=False):
    """Settings for Windows nodes; Flux does not run there, the field is here for completeness."""

    gmsaCredentialSpec: str
    gmsaCredentialSpecName: str
    hostProcess: bool
    runAsUserName: str


@with_config(_STRICT)
class SecurityContext(TypedDict, total=False):
    """Security settings of one container."""

    allowPrivilegeEscalation: bool
    appArmorProfile: AppArmorProfile
    capabilities: Capabilities
    privileged: bool
    procMount: Literal["Default", "Unmasked"]
    readOnlyRootFilesystem: bool
    runAsGroup: int
    runAsNonRoot: bool
    runAsUser: int
    seLinuxOptions: SELinuxOptions
    seccompProfile: SeccompProfile
    windowsOptions: WindowsOptions


@with_config(_STRICT)
class Sysctl(TypedDict, total=False):
    """A kernel parameter of the pod."""

    name: Required[str]
    value: Required[str]


@with_config(_STRICT)
class PodSecurityContext(TypedDict, total=False):
    """Security settings of the whole pod."""

    appArmorProfile: AppArmorProfile
    fsGroup: int
    fsGroupChangePolicy: Literal["Always", "OnRootMismatch"]
    runAsGroup: int
    runAsNonRoot: bool
    runAsUser: int
    seLinuxChangePolicy: Literal["MountOption", "Recursive"]
    seLinuxOptions: SELinuxOptions
    seccompProfile: SeccompProfile
    supplementalGroups: list[int]
    supplementalGroupsPolicy: Literal["Merge", "Strict"]
    sysctls: list[Sysctl]
    windowsOptions: WindowsOptions
