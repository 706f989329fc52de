"""An API server on loopback that answers by script: lists, watches that break, logs that are cut short."""

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

Step = str | bytes | dict[str, Any] | asyncio.Event | type[ConnectionError]


@dataclass
class Reply:
    """One answer: a JSON body, or a stream whose steps are sent one by one.

    In a stream a dict is a line of JSON, text and bytes are sent as they are, an Event is waited for, and
    ConnectionError breaks the connection off; a stream without it ends cleanly.
    """

    body: Any = None
    status: int = 200
    stream: list[Step] | None = None


def watch(*events: Step) -> Reply:
    return Reply(stream=list(events))


def event(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": obj}


def gone() -> dict[str, Any]:
    return event("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version", "metadata": {}})


def failure(code: int, message: str, **details: Any) -> Reply:
    return Reply({"kind": "Status", "code": code, "message": message, "details": details}, status=code)


def listing(*items: dict[str, Any], version: str = "1") -> Reply:
    return Reply({"items": list(items), "metadata": {"resourceVersion": version}})


class Server:
    """Scripts are queues by method, path and kind (list, watch, log ...); the last reply of each repeats.

    A watch that has no script hangs, as one on which nothing happens does.
    """

    def __init__(self) -> None:
        self.scripts: dict[tuple[str, str], deque[Reply]] = defaultdict(deque)
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.tokens: list[str] = []
        self.bodies: list[Any] = []
        self.hook: Callable[[web.Request], Awaitable[Reply | None]] | None = None
        self.sockets: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        self.closing = asyncio.Event()
        self.arrived = asyncio.Event()
        self.url = ""

    def on(self, method: str, path: str, *replies: Reply) -> None:
        self.scripts[method, path].extend(replies)

    def watched(self, path: str) -> list[dict[str, str]]:
        return [query for method, at, query in self.requests if method == "WATCH" and at == path]

    def asked(self, method: str, path: str) -> int:
        return sum((m, p) == (method, path) for m, p, _ in self.requests)

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait until the requests so far fulfil a condition."""
        while not happened():
            self.arrived.clear()
            await self.arrived.wait()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        method = "WATCH" if request.query.get("watch") == "true" else request.method
        self.requests.append((method, request.path, dict(request.query)))
        self.arrived.set()
        self.tokens.append(request.headers.get("Authorization", ""))
        if self.sockets is not None and request.path.endswith(("/exec", "/portforward")):
            return await self.sockets(request)
        if request.can_read_body:
            self.bodies.append(await request.json())
        if self.hook is not None and (reply := await self.hook(request)) is not None:
            return await self._send(request, reply)
        script = self.scripts.get((method, request.path))
        if not script:
            if method == "WATCH":
                return await self._send(request, watch(asyncio.Event()))
            return await self._send(request, Reply("404 page not found", status=404))
        return await self._send(request, script.popleft() if len(script) > 1 else script[0])

    async def _send(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        if reply.stream is None:
            text = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
            return web.Response(text=text, status=reply.status)
        response = web.StreamResponse()
        await response.prepare(request)
        for step in reply.stream:
            if isinstance(step, asyncio.Event):
                waits = [asyncio.create_task(e.wait()) for e in (step, self.closing)]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for wait in waits:
                    wait.cancel()
            elif step is ConnectionError:
                assert request.transport is not None
                request.transport.abort()
                return response
            else:
                assert isinstance(step, str | bytes | dict)
                data = json.dumps(step) + "\n" if isinstance(step, dict) else step
                await response.write(data if isinstance(data, bytes) else data.encode())
        return response


async def start(server: Server) -> web.AppRunner:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    server.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    return runner


def kubeconfig(path: Path, url: str, user: dict[str, Any] | None = None, **cluster: Any) -> str:
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
                "users": [{"name": "u", "user": user or {"token": "t1"}}],
                "contexts": [
                    {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
                    {"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "elsewhere"}},
                    {"name": "plain", "context": {"cluster": "c", "user": "u"}},
                ],
            }
        )
    )
    return str(path)
