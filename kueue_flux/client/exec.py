"""Running a program in a container, over one WebSocket: what kubectl exec does.

Each message is a byte that names a channel, and then its data. The last one says how the program ended.
Source: Kubernetes, k8s.io/apimachinery/pkg/util/remotecommand (v5.channel.k8s.io).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx_ws

from kueue_flux.client.connection import Connection
from kueue_flux.client.errors import ClientError, Unreachable

PROTOCOL = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255

Bytes = AsyncIterator[bytes]
Sizes = AsyncIterator[tuple[int, int]]
Take = Callable[[bytes], None]


@dataclass(frozen=True)
class Streams:
    """Where a program's input comes from and where its output goes.

    Args:
        stdout: Takes each piece of its standard output; with a terminal, of all that it prints.
        stderr: Takes each piece of its standard error; not called with a terminal.
        stdin: Its standard input; None for an empty one.
        sizes: With these it gets a terminal: (columns, rows), at first and after each change.
    """

    stdout: Take
    stderr: Take
    stdin: Bytes | None = None
    sizes: Sizes | None = None


async def execute(connection: Connection, pod: str, container: str, words: Sequence[str], streams: Streams) -> int:
    """Run a program to its end.

    Args:
        connection: The cluster.
        pod: The API path of the pod.
        container: The container's name; it runs.
        words: The program and its arguments.
        streams: Its input and output.

    Returns:
        Its exit code.

    Raises:
        Unreachable: The connection was lost before the end.
        ClientError: The program cannot be run.
    """
    terminal = streams.sizes is not None
    query = [
        *(("command", word) for word in words),
        ("container", container),
        ("stdin", str(streams.stdin is not None).lower()),
        ("stdout", "true"),
        ("stderr", str(not terminal).lower()),
        ("tty", str(terminal).lower()),
    ]
    async with connection.websocket(f"{pod}/exec", query, PROTOCOL) as socket:
        senders = [asyncio.create_task(sender) for sender in _senders(socket, streams)]
        try:
            return await _receive(socket, streams)
        finally:
            for sender in senders:
                sender.cancel()
            await asyncio.gather(*senders, return_exceptions=True)


def _senders(socket: Any, streams: Streams) -> list[Any]:
    found = []
    if streams.stdin is not None:
        found.append(_send_input(socket, streams.stdin))
    if streams.sizes is not None:
        found.append(_send_sizes(socket, streams.sizes))
    return found


async def _send_input(socket: Any, stdin: Bytes) -> None:
    # where the connection is gone, the receiving side says so
    with suppress(httpx_ws.HTTPXWSException):
        async for data in stdin:
            await socket.send_bytes(bytes([STDIN]) + data)
        await socket.send_bytes(bytes([CLOSE, STDIN]))


async def _send_sizes(socket: Any, sizes: Sizes) -> None:
    with suppress(httpx_ws.HTTPXWSException):
        async for columns, rows in sizes:
            size = json.dumps({"Width": columns, "Height": rows}).encode()
            await socket.send_bytes(bytes([RESIZE]) + size)


async def _receive(socket: Any, streams: Streams) -> int:
    """Hand on the output until the server has closed the connection: the status may come before the last output."""
    status: Mapping[str, Any] | None = None
    while True:
        try:
            message: bytes = await socket.receive_bytes()
        except httpx_ws.WebSocketDisconnect:
            break
        except httpx_ws.WebSocketNetworkError:
            break  # the status tells whether the program had ended before
        channel, data = message[0], message[1:]
        if channel == STATUS:
            status = json.loads(data)
        elif data:
            (streams.stderr if channel == STDERR else streams.stdout)(data)
    if status is None:
        raise Unreachable("the connection to the command was lost before the command had ended")
    return _exit_code(status)


def _exit_code(status: Mapping[str, Any]) -> int:
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or []
    for cause in causes:
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise ClientError(f"the command cannot be run: {status.get('message', 'the kubelet does not say why')}")
