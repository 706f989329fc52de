"""The server on loopback, over a Flux from memory."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kueue_flux.restful.api import ROUTES
from kueue_flux.restful.auth import Gate
from kueue_flux.restful.call import App
from kueue_flux.restful.routes import Routes
from kueue_flux.restful.server import Server
from kueue_flux.restful.settings import Limits
from tests.flux.conftest import flux_path
from tests.restful.fake_flux import FakeFlux

__all__ = ["flux_path"]

TOKEN = "sesame-0123456789"


def client(url: str, **fields: Any) -> httpx.Client:
    """A client that does not look for proxies, nor for certificates, which takes a while."""
    limits = httpx.Limits(max_connections=None)
    return httpx.Client(base_url=url, timeout=60, trust_env=False, verify=False, limits=limits, **fields)


class Running:
    """A server that runs; `get` and `post` carry the token."""

    def __init__(self, server: Server, app: App, flux: FakeFlux, ended: threading.Event) -> None:
        self.server, self.app, self.flux, self.ended = server, app, flux, ended
        self.address = ("127.0.0.1", server.port)
        self.url = f"http://127.0.0.1:{server.port}"
        self.http = self.anonymous(headers={"Authorization": f"Bearer {TOKEN}"})
        self.get, self.post = self.http.get, self.http.post

    def anonymous(self, **fields: Any) -> httpx.Client:
        return client(self.url, **fields)


@contextmanager
def running(workdir: Path, token: str | None = TOKEN, **limits: Any) -> Iterator[Running]:
    flux, ended = FakeFlux(), threading.Event()
    bounds = Limits(**limits)
    app = App(
        Routes(ROUTES),
        Gate(token, "fluxuser"),
        flux,
        job_env={"PATH": "/bin", "HOME": "/"},
        workdir=str(workdir),
        options={"cpu-affinity": "off"},
        stop=ended.set,
        limits=bounds,
    )
    server = Server("127.0.0.1", 0, app.serve, bounds)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    found = Running(server, app, flux, ended)
    try:
        yield found
    finally:
        found.http.close()
        server.stop(patience=30)
        thread.join()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts servers with limits of one's own."""
    with ExitStack() as stack:
        yield lambda **fields: stack.enter_context(running(tmp_path, **fields))


@pytest.fixture
def api(serve: Callable[..., Running]) -> Running:
    """A server."""
    return serve()
