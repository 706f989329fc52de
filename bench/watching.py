"""Looking on from outside: what changed, and when that became visible, by one clock for all of it.

Two views. As a client of the API server, which is what the adapter and everyone else see; and at etcd, where a
change becomes true, before any of the API server's own delays in telling of it.
"""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import aiohttp
import orjson

from kueue_flux.runtime.answers import error_from, lines_of
from kueue_flux.runtime.client import HEADERS, Client
from kueue_flux.runtime.resource import Object, Resource

# neither the certificates nor their size are of any interest here
_METADATA_ONLY = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
_HOUR = 3600


async def version(client: Client, resource: Resource, namespace: str) -> str:
    """The resourceVersion from which `changes` tells all that happens from now on."""
    found: str = (await client.list_page(resource, namespace, limit=1))["metadata"]["resourceVersion"]
    return found


async def changes(
    client: Client, resource: Resource, namespace: str, since: str, *, metadata_only: bool = False
) -> AsyncGenerator[tuple[float, Object], None]:
    """The objects that were added or modified, each with the time of its arrival (seconds since the epoch).

    Args:
        client: The API client.
        resource: What to watch.
        namespace: Where.
        since: See `version`.
        metadata_only: Leave the contents out.
    """
    path = resource.path(namespace)
    query = {"watch": "1", "resourceVersion": since, "timeoutSeconds": str(_HOUR)}
    headers = {**HEADERS, **(_METADATA_ONLY if metadata_only else {})}
    response = await client.transport.request("GET", path, query, headers, None)
    try:
        if response.status != 200:
            raise await error_from(response, f"WATCH {path}")
        async with aclosing(lines_of(response, _HOUR, f"WATCH {path}")) as lines:
            async for line in lines:
                at = time.time()
                event = orjson.loads(line)
                if event["type"] in ("ADDED", "MODIFIED"):
                    yield at, event["object"]
    finally:
        response.close()


async def stored(etcd: str, kind: str, namespace: str) -> AsyncGenerator[tuple[float, str, bytes], None]:
    """What is written to etcd: the time at which it was seen there, the object's name, and its encoded content.

    Args:
        etcd: URL of an etcd that asks for no certificate.
        kind: What to look for: the plural, after its group where that is a CRD's (`kueue.x-k8s.io/workloads`).
        namespace: Where.

    Source: https://etcd.io/docs/latest/dev-guide/api_grpc_gateway/
    """
    prefix = f"/registry/{kind}/{namespace}/"
    asked = {"create_request": {"key": _encoded(prefix), "range_end": _encoded(prefix[:-1] + "0")}}
    timeout = aiohttp.ClientTimeout(total=None)
    rest = b""
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(f"{etcd}/v3/watch", json=asked) as answer,
    ):
        answer.raise_for_status()
        async for chunk in answer.content.iter_any():
            at = time.time()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                for event in _events(orjson.loads(line)):
                    value = event["kv"].get("value")
                    if value is not None:  # else a deletion
                        name = base64.b64decode(event["kv"]["key"]).decode().removeprefix(prefix)
                        yield at, name, base64.b64decode(value)


def _events(answer: dict[str, Any]) -> list[dict[str, Any]]:
    if "error" in answer:
        raise RuntimeError(f"etcd: {answer['error']}")
    events: list[dict[str, Any]] = answer["result"].get("events", [])
    return events


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
