"""Turns what came over the wire into JSON objects, lines of a watch, or the error that it means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import orjson

from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Object
from kueue_flux.runtime.transport import Response


def parse(raw: bytes, what: str) -> Object:
    """The JSON object in a body.

    Args:
        raw: the body.
        what: the request, for the error.

    Raises:
        ApiError: reason "BadResponse".
    """
    try:
        answer = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ApiError(0, "BadResponse", f"not JSON: {error}", request=what) from error
    if not isinstance(answer, dict):
        raise ApiError(0, "BadResponse", "not a JSON object", request=what)
    return answer


async def lines_of(response: Response, inactivity: float, what: str) -> AsyncGenerator[bytes, None]:
    """A body as lines, as they arrive. Not aiohttp's readline, which refuses long ones: big objects.

    Args:
        response: whose body is not yet read.
        inactivity: seconds without a byte after which the connection counts as dead.
        what: the request, for the error.

    Raises:
        ApiError: cut in the middle of a line, or inactive.
    """
    rest = b""
    async with aclosing(response.chunks()) as chunks:
        while True:
            try:
                async with asyncio.timeout(inactivity):
                    chunk = await anext(chunks, None)
            except ApiError as error:
                error.request = what
                raise
            except TimeoutError:
                raise ApiError(0, "Timeout", f"nothing received for {inactivity:g} s", request=what) from None
            if chunk is None:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line:
                    yield line
    if rest.strip():
        raise ApiError(0, "Unreachable", "the stream ended in the middle of a line", request=what)


async def error_from(response: Response, what: str) -> ApiError:
    """The error that a response with a status of 400 or more means.

    Args:
        response: whose body is not yet read.
        what: the request, for the error.
    """
    retry_after = _seconds(response.headers.get("Retry-After"))
    raw = await response.read()
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:  # a proxy's page, or the server's plain text
        body = {"message": raw[:200].decode(errors="replace").strip()}
    if not isinstance(body, dict):
        body = {"message": str(body)[:200]}
    return ApiError.from_status(body, response.status, retry_after, what)


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After in seconds; Kubernetes sends whole seconds, never a date."""
    return float(retry_after) if retry_after and retry_after.isdigit() else None
