"""`submit`: from flags and a command, or from a file, to MiniClusters in the cluster, and on to their results."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.setup import DEFAULT_QUEUE
from kueue_flux.cli import failures
from kueue_flux.cli.failures import InputError
from kueue_flux.cli.given import Given
from kueue_flux.cli.manifest import documents, if_meant_as_command
from kueue_flux.cli.options import Cluster
from kueue_flux.cli.terminal import say
from kueue_flux.kueue.labels import QUEUE_NAME

if TYPE_CHECKING:
    from kueue_flux.client.miniclusters import AsyncMiniClusters

Object = dict[str, Any]


def read_file(file: str) -> list[Given]:
    """Read the MiniClusters of a file; `-` is stdin.

    Raises:
        InputError: The file cannot be read, or holds something else.
    """
    source = "stdin" if file == "-" else file
    try:
        return documents(sys.stdin.read() if file == "-" else Path(file).read_text(), source)
    except UnicodeDecodeError as error:
        raise InputError(f"{source} is no text", if_meant_as_command(source)) from error
    except OSError as error:
        raise InputError(f"{source}: {error.strerror or error}", if_meant_as_command(source)) from error


def valid(given: Sequence[Given]) -> bool:
    """Check all MiniClusters before any is sent, and print what is wrong with them."""
    good = True
    for one in given:
        if problems := one.problems():
            good = False
            failures.invalid(problems, one.title)
    return good


async def send(objects: Sequence[Object], cluster: Cluster, tell: Callable[[str], None]) -> list[Object]:
    """Create the MiniClusters.

    Args:
        objects: The MiniClusters, valid.
        cluster: Where to.
        tell: Takes the name of each that was created.

    Returns:
        The objects as created.

    Raises:
        InputError: A queue or a priority class does not exist; nothing is created.
        ClientError: One could not be created. Its remedy says which were, and which were not, if there are several.
    """
    from kueue_flux.client.errors import ClientError

    created: list[Object] = []
    async with AsyncExitStack() as stack:
        clients = {ns: await stack.enter_async_context(cluster.client(ns)) for ns in map(_namespace, objects)}
        for namespace, client in clients.items():
            await _check_queues(client, [MiniCluster.from_object(o) for o in objects if _namespace(o) == namespace])
        try:
            if len(objects) > 1:  # of which one may exist already, or not be permitted: all of them, or none
                for obj in objects:
                    await clients[_namespace(obj)].submit(obj, dry_run=True)
            for obj in objects:
                created.append(await clients[_namespace(obj)].submit(obj))
                tell(obj["metadata"]["name"])
        except ClientError as error:
            if len(objects) > 1:
                error.remedy = "; ".join(part for part in (error.remedy, _how_far(objects, len(created))) if part)
            raise
    return created


def _how_far(objects: Sequence[Object], created: int) -> str:
    names = [obj["metadata"]["name"] for obj in objects]
    if not created:
        return "nothing was submitted"
    return f"submitted: {', '.join(names[:created])}; not submitted: {', '.join(names[created:])}"


async def _check_queues(client: AsyncMiniClusters, minis: Sequence[MiniCluster]) -> None:
    """Look for the queues and the priority classes, for they are easily misspelt, and Kueue says little of it."""
    from kueue_flux.client.errors import NotFound

    queued = [mc for mc in minis if mc.queue]
    classes = {mc.priority_class for mc in queued if mc.priority_class}
    namespace = await client.namespace()
    try:
        queues = await _readable(client.queues())
        _find({str(mc.queue) for mc in queued}, queues, f"namespace {namespace} has no LocalQueue")
        there = await _readable(client.priority_classes()) if classes else None
        _find(classes, there, "there is no WorkloadPriorityClass")
        without = [mc.name for mc in minis if not mc.queue]
        if without and not (queues and DEFAULT_QUEUE in queues and await client.gives_default_queue()):
            _say_without_queue(without, queues)
    except NotFound:
        if queued:
            say("warning: this cluster has no Kueue; the MiniCluster waits until Kueue is installed")


def _say_without_queue(names: Sequence[str], queues: tuple[str, ...] | None) -> None:
    """Tell of what passes by the quota, for that may be an oversight."""
    known = f"; there are: {', '.join(queues)}" if queues else ""
    verbs = ("names", "it runs") if len(names) == 1 else ("name", "they run")
    unless = f", unless there is a LocalQueue {DEFAULT_QUEUE}" if queues is None else ""
    if queues and DEFAULT_QUEUE in queues:
        unless = f", for LocalQueue {DEFAULT_QUEUE}, which would be given, is stopped"
    say(f"note: {', '.join(names)} {verbs[0]} no queue: {verbs[1]} at once, past any quota{unless}")
    say(f"  to wait for quota: --queue NAME, or the label {QUEUE_NAME}{known}")


async def _readable(names: Awaitable[tuple[str, ...]]) -> tuple[str, ...] | None:
    """The names, or None where they cannot be read: that is no reason to submit nothing, the conditions will tell."""
    from kueue_flux.client.errors import Forbidden, Unavailable

    try:
        return await names
    except (Forbidden, Unavailable):
        return None


def _find(asked: set[str], there: tuple[str, ...] | None, without: str) -> None:
    for name in sorted(asked):
        if there is not None and name not in there:
            known = f"there are: {', '.join(there)}" if there else "there are none: ask your cluster's admin for one"
            raise InputError(f"{without} {name}", known)


async def follow(
    created: Sequence[Object], cluster: Cluster, going_on: list[str], *, logs: bool, limit: float | None
) -> int:
    """Wait for the results, showing progress.

    Args:
        created: The MiniClusters.
        cluster: Where they are.
        going_on: Takes those that are waited for, so that an interruption can name them.
        logs: Whether to show the command's output.
        limit: Seconds; None waits for ever.

    Returns:
        The exit code: that of the first that failed, 0 if none did.

    Raises:
        ClientError: One of them cannot be followed.
    """
    from kueue_flux.cli.follow import Follower, write_output

    targets = {
        obj["metadata"]["uid"]: cluster.target(obj["metadata"]["name"], obj["metadata"]["namespace"]) for obj in created
    }
    going_on.extend(targets.values())
    width = max(len(obj["metadata"]["name"]) for obj in created)

    async def one(obj: Object) -> int:
        name = obj["metadata"]["name"]
        prefix = f"{name.ljust(width)}  " if len(created) > 1 else ""
        async with cluster.client(obj["metadata"]["namespace"]) as client:
            follower = Follower(
                client, name, output=write_output if logs else None, say=lambda text: say(f"{prefix}{text}")
            )
            result = await follower.run(limit)
        going_on.remove(targets[obj["metadata"]["uid"]])
        return failures.exit_code(result)

    codes = await asyncio.gather(*(one(obj) for obj in created))
    return next((code for code in codes if code), 0)


def _namespace(obj: Object) -> str | None:
    namespace: str | None = obj["metadata"].get("namespace")
    return namespace


def into_namespace(given: Sequence[Given], namespace: str | None) -> list[Given]:
    """Put the MiniClusters into the namespace that was named, where they name none.

    Raises:
        InputError: One names another.
    """
    placed = []
    for one in given:
        metadata = one.object.get("metadata")
        if namespace is None or not isinstance(metadata, dict):
            placed.append(one)
            continue
        own = metadata.get("namespace") or namespace
        if own != namespace:
            raise InputError(f"{one.title} is for namespace {own}, and --namespace says {namespace}", "leave one out")
        placed.append(replace(one, object={**one.object, "metadata": {**metadata, "namespace": namespace}}))
    return placed


def as_one(objects: Sequence[Object]) -> Object:
    """One object, or a List of several, as kubectl reads and writes them."""
    if len(objects) == 1:
        return objects[0]
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}
