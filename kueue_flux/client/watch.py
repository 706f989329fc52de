"""Watching, as a stream of states: what is there now, said again after each change.

A caller sees no watch events and no reconnections: it decides from the state alone, so a lost event, a
closed stream or an expired resourceVersion costs it nothing.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from kueue_flux.client.connection import Connection
from kueue_flux.client.errors import ClientError, Expired, Unavailable, Unreachable, from_response

# The server ends each watch after this time; more silence than that is a lost connection. Seconds.
WATCH_SECONDS = 60
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0

Objects = list[dict[str, Any]]
OnOutage = Callable[[ClientError], None]


async def states(
    connection: Connection,
    path: str,
    params: Mapping[str, str],
    *,
    on_outage: OnOutage | None = None,
) -> AsyncGenerator[Objects, None]:
    """Yield all objects of a collection, first at once and then after each change.

    The API server may go away and come back: the stream then goes on from what is there.

    Args:
        connection: Where to ask.
        path: Path of the collection.
        params: `labelSelector`, `fieldSelector`.
        on_outage: Called with the error each time that the API server cannot be asked.

    Yields:
        The objects in the order of their creation.

    Raises:
        ClientError: The first list failed, or a later request was refused for good.
    """
    known: dict[str, dict[str, Any]] = {}
    version = ""
    first = True
    pause = FIRST_PAUSE_SECONDS
    while True:
        began = time.monotonic()
        try:
            if not version:
                items, version = await connection.collect(path, params)
                known = {item["metadata"]["uid"]: item for item in items}
                first = False
                yield _ordered(known)
            async with aclosing(_events(connection, path, params, version)) as events:
                async for kind, item in events:
                    version = item["metadata"]["resourceVersion"]
                    if kind == "BOOKMARK":
                        continue
                    if kind == "DELETED":
                        known.pop(item["metadata"]["uid"], None)
                    else:
                        known[item["metadata"]["uid"]] = item
                    yield _ordered(known)
        except Expired:
            version = ""
        except (Unreachable, Unavailable) as error:
            if first:
                raise
            if on_outage is not None:
                on_outage(error)
        # A server that ends each watch at once must not be asked in a hot loop.
        if time.monotonic() - began > LONGEST_PAUSE_SECONDS:
            pause = FIRST_PAUSE_SECONDS
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


async def _events(
    connection: Connection, path: str, params: Mapping[str, str], version: str
) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
    query = {
        **params,
        "watch": "true",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(WATCH_SECONDS),
    }
    async with aclosing(connection.lines(path, query, silence=WATCH_SECONDS + 10)) as lines:
        async for line in lines:
            try:
                event = json.loads(line)
            except ValueError as error:
                # The connection broke within a line.
                raise Unreachable("the watch ended within an event") from error
            if event["type"] == "ERROR":
                status = event["object"]
                raise from_response(int(status.get("code") or 500), json.dumps(status).encode(), path)
            yield event["type"], event["object"]


def _ordered(known: Mapping[str, dict[str, Any]]) -> Objects:
    return sorted(known.values(), key=lambda item: str(item["metadata"].get("creationTimestamp", "")))
