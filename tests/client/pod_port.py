"""What a kubelet does for pods/portforward, on loopback: one TCP connection of a server on this machine."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress

from aiohttp import WSMsgType, web

from tests.client.server import Server

DATA, ERROR = 0, 1


def serve(server: Server, target: int, error: str = "") -> list[dict[str, str]]:
    """Let a server forward to a port of this machine, or say that the pod does not take the connection.

    Returns:
        The queries, as they come.
    """
    queries: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        queries.append(dict(request.query))
        socket = web.WebSocketResponse(protocols=["v4.channel.k8s.io"])
        await socket.prepare(request)
        assert socket.ws_protocol == "v4.channel.k8s.io"
        port = struct.pack("<H", int(request.query["ports"]))
        for channel in (DATA, ERROR):
            await socket.send_bytes(bytes([channel]) + port)
        if error:
            await socket.send_bytes(bytes([ERROR]) + error.encode())
        else:
            await _connect(socket, target)
        await socket.close()
        return socket

    server.sockets = answer
    return queries


async def _connect(socket: web.WebSocketResponse, target: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", target)

    async def back() -> None:
        while data := await reader.read(1000):
            await socket.send_bytes(bytes([DATA]) + data)
        await socket.close()

    answering = asyncio.create_task(back())
    async for message in socket:
        assert message.type is WSMsgType.BINARY
        assert message.data[0] == DATA
        writer.write(message.data[1:])
        await writer.drain()
    writer.close()
    answering.cancel()
    with suppress(asyncio.CancelledError):
        await answering
