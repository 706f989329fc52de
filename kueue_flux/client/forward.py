"""Ports of a pod on this machine, as kubectl port-forward does it: one WebSocket for each TCP connection.

Each message is a byte that names a channel, and then its data; the first on each channel is the port's number.
Source: Kubernetes, k8s.io/cri-streaming/pkg/streaming/portforward (v4.channel.k8s.io).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx_ws

from kueue_flux.client.connection import Connection
from kueue_flux.client.errors import ClientError

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
HOST = "127.0.0.1"
_CHUNK = 65536
_LAST_ANSWER_SECONDS = 30

OnError = Callable[[ClientError], None]


@asynccontextmanager
async def forwarded(
    connection: Connection, pod: str, port: int, *, local_port: int = 0, on_error: OnError | None = None
) -> AsyncIterator[int]:
    """Hand on what connects to a port of this machine's loopback to a port of a pod, for as long as the block lasts.

    Args:
        connection: The cluster.
        pod: The API path of the pod.
        port: The pod's port.
        local_port: This machine's port; 0 takes one that is free.
        on_error: Called with the error each time that a connection cannot be handed on; it is closed then.

    Yields:
        This machine's port.

    Raises:
        ClientError: The port cannot be listened on.
    """
    tasks: set[asyncio.Task[None]] = set()

    async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _hand_on(connection, pod, port, reader, writer)
        except ClientError as error:
            if on_error is not None:
                on_error(error)
        finally:
            writer.close()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(hand_on(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    try:
        server = await asyncio.start_server(take, HOST, local_port)
    except (OSError, OverflowError) as error:
        raise ClientError(
            f"port {local_port} of this machine cannot be used: {error}", "name another; 0 takes any that is free"
        ) from error
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _hand_on(
    connection: Connection, pod: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Hand on one connection, until one of its sides closes it."""
    async with connection.websocket(f"{pod}/portforward", [("ports", str(port))], PROTOCOL) as socket:
        directions = [asyncio.create_task(_to_pod(socket, reader)), asyncio.create_task(_from_pod(socket, writer))]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            # who has said all that it had to say may still be listening
            await asyncio.wait(directions[1:], timeout=_LAST_ANSWER_SECONDS)
        finally:
            for direction in directions:
                direction.cancel()
            ends = await asyncio.gather(*directions, return_exceptions=True)
    for end in ends:
        if isinstance(end, ClientError):
            raise end


async def _to_pod(socket: Any, reader: asyncio.StreamReader) -> None:
    with suppress(httpx_ws.HTTPXWSException, ConnectionError):  # whichever side is gone, the connection has ended
        while data := await reader.read(_CHUNK):
            await socket.send_bytes(bytes([DATA]) + data)


async def _from_pod(socket: Any, writer: asyncio.StreamWriter) -> None:
    begun: set[int] = set()
    with suppress(httpx_ws.HTTPXWSException, ConnectionError):
        while True:
            message: bytes = await socket.receive_bytes()
            channel, data = message[0], message[1:]
            if channel not in begun:
                begun.add(channel)  # its first message is the port's number
            elif channel == ERROR:
                raise ClientError(f"the pod does not take the connection: {data.decode(errors='replace').strip()}")
            else:
                writer.write(data)
                await writer.drain()
