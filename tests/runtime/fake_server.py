"""The two ways to reach a FakeApi: a transport without sockets, for virtual time, and a real HTTP server."""

import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from kueue_flux.runtime.client import Client
from kueue_flux.runtime.errors import ApiError
from tests.runtime.fake_api import Cut, FakeApi, Reply


class _MemoryResponse:
    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.status = reply.status
        self.headers: Mapping[str, str] = reply.headers

    async def read(self) -> bytes:
        return self._reply.body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        if self._reply.stream is None:
            yield self._reply.body
            return
        try:
            async for chunk in self._reply.stream.chunks():
                yield chunk
        except Cut as error:
            raise ApiError(0, "Unreachable", str(error)) from error

    def close(self) -> None:
        if self._reply.stream:
            self._reply.stream.open = False


class MemoryTransport:
    """A transport straight into a FakeApi."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.refreshes = 0
        self.closed = False

    async def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any
    ) -> _MemoryResponse:
        try:
            return _MemoryResponse(await self.api.handle(method, path, query, headers, body))
        except Cut as error:
            raise ApiError(0, "Unreachable", str(error)) from error

    async def refresh(self) -> bool:
        self.refreshes += 1
        return True

    async def close(self) -> None:
        self.closed = True


def client_of(api: FakeApi, **options: Any) -> Client:
    """A client without sockets."""
    return Client(MemoryTransport(api), **{"field_manager": "me", **options})


@asynccontextmanager
async def serve(api: FakeApi, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve on loopback; yields the URL."""

    async def answer(request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        try:
            reply = await api.handle(
                request.method, request.path, request.query, request.headers, json.loads(raw) if raw else None
            )
        except Cut:
            _abort(request)
            return web.Response()
        if reply.stream is None:
            return web.Response(status=reply.status, body=reply.body, headers=reply.headers)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            async for chunk in reply.stream.chunks():
                await response.write(chunk)
        except Cut:
            _abort(request)
        except ConnectionError:
            reply.stream.open = False  # the client went away
        return response

    def _abort(request: web.Request) -> None:
        if request.transport:
            request.transport.abort()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"{'https' if tls else 'http'}://{host}:{port}"
    finally:
        for stream in api.live:
            stream.close()
        await runner.cleanup()
