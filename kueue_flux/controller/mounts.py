"""What pods are waiting for when their volumes cannot be had.

Why a volume cannot be mounted a kubelet says only in events, and whoever may list events reads those of everybody.
What is named and does not exist can be found out without: an attempt to create it, as a dry run, tells whether the
name is taken, by the permission that the controller has anyway. A claim that is missing keeps a pod from being
scheduled, and the scheduler says so in the pod's condition.
"""

import re
from collections.abc import Iterable
from datetime import timedelta

from kueue_flux.api.container import MiniClusterContainer
from kueue_flux.controller.resources import CONFIG_MAPS, SECRETS
from kueue_flux.kueue.workload import Signal
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Resource

# A kubelet tries at once, and then ever more rarely; the next look comes as long after.
GRACE = timedelta(seconds=5)

_NO_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')
_UNBOUND = "unbound immediate PersistentVolumeClaims"


async def unmounted(
    client: Client, namespace: str, containers: Iterable[MiniClusterContainer], secrets: Iterable[str] = ()
) -> Signal | None:
    """Say what a pod waits for that has a node and whose volumes are not mounted; None where it has none.

    Args:
        client: The API client.
        namespace: The pod's namespace.
        containers: Those of the pod.
        secrets: The Secrets that it mounts beside their volumes.
    """
    containers = list(containers)
    named = dict.fromkeys([*((SECRETS, name) for name in secrets), *_named(containers)])
    missing = [f"{r.kind} {name}" for r, name in named if await _is_missing(client, r, name, namespace)]
    if missing:
        are, it = ("does", "it, and the pods start") if len(missing) == 1 else ("do", "them, and the pods start")
        where = f"not exist in namespace {namespace}: create {it}"
        return Signal("VolumeMissing", f"{' and '.join(missing)} {are} {where}")
    if doubts := list(_doubts(containers)):
        return Signal("PodsPending", f"volumes are not mounted yet: {'; '.join(doubts)}; kubectl describe tells more")
    return None


async def missing_secrets(client: Client, namespace: str, names: Iterable[str]) -> list[str]:
    """Those of the named Secrets that do not exist."""
    return [name for name in dict.fromkeys(names) if name and await _is_missing(client, SECRETS, name, namespace)]


def unbound(stuck: Signal, containers: Iterable[MiniClusterContainer]) -> Signal | None:
    """Say what a pod waits for that the scheduler leaves without a node because of a claim; None for other reasons."""
    if found := _NO_CLAIM.search(stuck.message):
        return Signal(
            "VolumeMissing", f"PersistentVolumeClaim {found[1]} does not exist: create it, and the pods start"
        )
    if _UNBOUND in stuck.message:
        claims = " ".join(sorted({v.claim_name for c in containers for v in c.volumes.values() if v.claim_name}))
        return Signal("VolumePending", f"{stuck.message} (kubectl describe pvc {claims} tells what is missing)")
    return None


def _named(containers: Iterable[MiniClusterContainer]) -> list[tuple[Resource, str]]:
    volumes = [volume for container in containers for volume in container.volumes.values()]
    named = [(CONFIG_MAPS, v.config_map_name) for v in volumes] + [(SECRETS, v.secret_name) for v in volumes]
    return [(resource, name) for resource, name in dict.fromkeys(named) if name]


async def _is_missing(client: Client, resource: Resource, name: str, namespace: str) -> bool:
    try:
        return not await client.exists(resource, name, namespace)
    except ApiError as error:
        if error.status in (400, 403, 422):  # a policy or a quota forbids to make it, so there is no telling
            return False
        raise


def _doubts(containers: Iterable[MiniClusterContainer]) -> Iterable[str]:
    """What may be wrong with volumes whose objects exist, or are none."""
    for container in containers:
        for name, volume in sorted(container.volumes.items()):
            if volume.host_path:
                yield f"{volume.host_path} must be a directory of the node ({name})"
            elif volume.items:
                yield f"{volume.config_map_name or volume.secret_name} must have {', '.join(volume.items)} ({name})"
            elif volume.csi_driver:
                yield f"the node must have the CSI driver {volume.csi_driver} ({name})"
            elif volume.claim_name:
                yield f"the volume of claim {volume.claim_name} must be one that the node can mount ({name})"
