"""What a kubelet does for pods/exec, on loopback: programs are Python functions that read and print."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from tests.client.server import Reply, Server

STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255


@dataclass
class Process:
    """A program that somebody runs in a container.

    Args:
        words: The program and its arguments.
        query: Query parameters of the request, each with its last value.
    """

    words: list[str]
    query: dict[str, str]
    socket: web.WebSocketResponse
    stdin: bytes = b""
    sizes: list[tuple[int, int]] = field(default_factory=list)
    stdin_closed: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def print(self, text: str | bytes, channel: int = STDOUT) -> None:
        data = text if isinstance(text, bytes) else text.encode()
        await self.socket.send_bytes(bytes([channel]) + data)

    async def end(self, code: int) -> None:
        if code == 0:
            status: dict[str, object] = {"status": "Success"}
        else:
            cause = {"reason": "ExitCode", "message": str(code)}
            status = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}}
        await self.print(json.dumps(status), STATUS)

    async def until(self, true: Callable[[], bool]) -> None:
        while not true():
            self.changed.clear()
            await self.changed.wait()

    async def listen(self) -> None:
        async for message in self.socket:
            if message.type is WSMsgType.BINARY:
                channel, data = message.data[0], message.data[1:]
                if channel == STDIN:
                    self.stdin += data
                elif channel == RESIZE:
                    size = json.loads(data)
                    self.sizes.append((size["Width"], size["Height"]))
                elif channel == CLOSE:
                    assert data == bytes([STDIN])
                    self.stdin_closed.set()
                self.changed.set()
        self.changed.set()


Program = Callable[[Process], Awaitable[int | None]]


def serve(server: Server, program: Program) -> list[Process]:
    """Let a server answer exec with a program; its result is the exit code, None ends without a word.

    Returns:
        The processes, as they come.
    """
    processes: list[Process] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=["v5.channel.k8s.io"])
        await socket.prepare(request)
        process = Process(request.query.getall("command"), dict(request.query), socket)
        processes.append(process)
        listening = asyncio.create_task(process.listen())
        code = await program(process)
        if code is not None:
            await process.end(code)
        await socket.close()
        await listening
        return socket

    server.sockets = answer
    return processes


def refuse(server: Server, reply: Reply) -> None:
    """Let a server refuse exec."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(reply.body, status=reply.status)

    server.sockets = answer
