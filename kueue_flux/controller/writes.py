"""Writes that can be repeated safely, and that never touch what belongs to somebody else."""

import asyncio
from collections.abc import Iterable
from enum import IntEnum

from kueue_flux.controller.resources import BY_KIND, CONFIG_MAPS, PODS, SECRETS
from kueue_flux.manifests.common import (
    ADMISSION,
    API_VERSION,
    KIND,
    MANAGED_BY,
    MANAGER,
    MINICLUSTER,
    MINICLUSTER_UID,
    ROLE,
    SERVICES,
)
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Object


class NameTakenError(Exception):
    """An object of the name that is needed exists and is not this MiniCluster's.

    Args:
        what: The object: kind and name.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is there and is not ours: rename the MiniCluster, or delete that")
        self.what = what


class ConflictingControllerError(Exception):
    """The object belongs to this MiniCluster, but another controller made it."""


class LeftoverError(Exception):
    """The object belongs to a deleted MiniCluster of the same name; garbage collection will take it."""


async def create(client: Client, manifest: Object) -> Object:
    """Create an object owned by its MiniCluster, or return it when it is there already.

    Args:
        client: The API client.
        manifest: The object, with its ownerReference.

    Returns:
        The object as the API server has it.

    Raises:
        NameTakenError, ConflictingControllerError, LeftoverError: It exists, and is not ours to use.
        ApiError: The API server refused.
    """
    resource = BY_KIND[manifest["kind"]]
    meta = manifest["metadata"]
    try:
        return await client.create(resource, manifest)
    except ApiError as error:
        if not error.already_exists:
            raise
    found = await client.get(resource, meta["name"], meta["namespace"])
    wanted = meta["ownerReferences"][0]
    for owner in found["metadata"].get("ownerReferences", []):
        if owner["uid"] == wanted["uid"]:
            if found["metadata"].get("labels", {}).get(MANAGED_BY) == MANAGER:
                return found
            raise ConflictingControllerError(f"{resource.kind} {meta['name']} was made by another controller")
        if (owner["apiVersion"], owner["kind"], owner["name"]) == (API_VERSION, KIND, wanted["name"]):
            raise LeftoverError(f"{resource.kind} {meta['name']} of a deleted MiniCluster is still there")
    raise _taken(manifest)


def _taken(manifest: Object) -> NameTakenError:
    return NameTakenError(f"{manifest['kind']} {manifest['metadata']['name']}")


class Written(IntEnum):
    """What was found where a file was to be written."""

    PRESENT = 0
    """The file of this admission."""
    CREATED = 1
    """Nothing."""
    REPLACED = 2
    """The file of another admission."""


async def write_files(client: Client, manifests: Iterable[Object]) -> Written:
    """Put the files of one admission in place, in place of those of any other.

    The controller may not read Secrets, so it cannot look: it creates, and what is in the way and carries
    another admission's label is deleted first. Files of this admission that are already there stay: a
    former turn wrote them and was interrupted, and pods may have started with them.

    Returns:
        The most that was found of any of them.

    Raises:
        NameTakenError: Something is in the way that is not ours.
        ApiError: The API server refused.
    """
    return max(await asyncio.gather(*(_write_file(client, manifest) for manifest in manifests)))


async def _write_file(client: Client, manifest: Object) -> Written:
    if await create_if_missing(client, manifest):
        return Written.CREATED
    meta = manifest["metadata"]
    resource, ours, admission = BY_KIND[manifest["kind"]], _of(meta["labels"][MINICLUSTER]), meta["labels"][ADMISSION]
    await client.delete_collection(resource, meta["namespace"], label_selector=f"{ours},{ADMISSION}!={admission}")
    if await create_if_missing(client, manifest):
        return Written.REPLACED
    present = await client.would_delete(resource, meta["namespace"], label_selector=f"{ours},{ADMISSION}={admission}")
    if meta["name"] not in {obj["metadata"]["name"] for obj in present}:
        raise _taken(manifest)
    return Written.PRESENT


async def create_if_missing(client: Client, manifest: Object) -> bool:
    """Create an object unless one of its name is there, whosoever that is. Returns whether it was created.

    Raises:
        ApiError: The API server refused.
    """
    try:
        await client.create(BY_KIND[manifest["kind"]], manifest)
    except ApiError as error:
        if not error.already_exists:
            raise
        return False
    return True


async def delete_files(client: Client, namespace: str, name: str) -> None:
    """Delete the certificate and the configuration of the MiniCluster `name`; nothing of anyone else's."""
    await asyncio.gather(
        *(client.delete_collection(r, namespace, label_selector=_of(name)) for r in (SECRETS, CONFIG_MAPS))
    )


async def pods_run(client: Client, namespace: str, uid: str) -> bool:
    """Whether pods of the MiniCluster with this uid run, as the API server knows it now, and are not about to end."""
    found = await client.list_page(
        PODS, namespace, limit=0, label_selector=_brokers(uid), field_selector="status.phase=Running"
    )
    return any("deletionTimestamp" not in pod["metadata"] for pod in found.get("items") or [])


async def delete_pods(client: Client, namespace: str, uid: str) -> None:
    """Delete the pods of the MiniCluster with this uid: all that there are, not those that a store has heard of."""
    await client.delete_collection(PODS, namespace, label_selector=_brokers(uid))


def _brokers(uid: str) -> str:
    """Selects its own pods, and not that of its services, which reads no files of ours."""
    return f"{MINICLUSTER_UID}={uid},{ROLE}!={SERVICES}"


def _of(name: str) -> str:
    return f"{MANAGED_BY}={MANAGER},{MINICLUSTER}={name}"
