"""`submit`: from flags and a command, or from a file, to MiniClusters in the cluster, and on to their results."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.cli import failures
from kueue_flux.cli.failures import InputError
from kueue_flux.cli.given import Given
from kueue_flux.cli.manifest import documents, if_meant_as_command
from kueue_flux.cli.options import Cluster
from kueue_flux.cli.terminal import say

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
        InputError: A queue does not exist; nothing is created.
        ClientError: One could not be created; those before it were.
    """
    created: list[Object] = []
    for namespace in _namespaces(objects):
        async with cluster.client(namespace) as client:
            here = [obj for obj in objects if obj["metadata"].get("namespace") == namespace]
            await _check_queues(client, {MiniCluster.from_object(obj).queue for obj in here} - {None})
            for obj in here:
                created.append(await client.submit(obj))
                tell(obj["metadata"]["name"])
    return created


async def _check_queues(client: Any, queues: set[str | None]) -> None:
    from kueue_flux.client.errors import Forbidden, NotFound, Unavailable

    if not queues:
        return
    namespace = await client.namespace()
    try:
        existing = await client.queues()
    except NotFound:
        say("warning: this cluster has no Kueue; the MiniCluster waits until Kueue is installed")
        return
    except (Forbidden, Unavailable):
        return  # a check for convenience: the conditions will tell
    for queue in sorted(queue for queue in queues if queue and queue not in existing):
        there = f"there are: {', '.join(existing)}" if existing else "there are none: ask your cluster's admin for one"
        raise InputError(f"namespace {namespace} has no LocalQueue {queue}", there)


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


def _namespaces(objects: Sequence[Object]) -> list[str | None]:
    return list(dict.fromkeys(obj["metadata"].get("namespace") for obj in objects))


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
