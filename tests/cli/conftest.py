import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kueue_flux.cli.main import run
from tests.client.server import Server, kubeconfig, start


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Invoke = Callable[..., Awaitable[Ended]]


@pytest.fixture(autouse=True)
def nobodys_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests from a cluster that the machine may have."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Invoke:
    """Run the command in a thread of its own, as its event loop needs."""

    async def call(*args: str) -> Ended:
        async with asyncio.timeout(10):
            code = await asyncio.to_thread(run, args)
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return call


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    server = Server()
    runner = await start(server)
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path / "kubeconfig", server.url))
    yield server
    server.closing.set()
    await runner.cleanup()
