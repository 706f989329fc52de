from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kueue_flux.client import AsyncMiniClusters, logs, watch
from tests.client.server import Server, kubeconfig, start


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "FIRST_PAUSE_SECONDS", 0.005)
    monkeypatch.setattr(watch, "LONGEST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(logs, "PAUSE_SECONDS", 0.005)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    runner = await start(server)
    yield server
    server.closing.set()
    await runner.cleanup()


@pytest.fixture
async def client(server: Server, tmp_path: Path) -> AsyncIterator[AsyncMiniClusters]:
    async with AsyncMiniClusters(kubeconfig=kubeconfig(tmp_path / "kubeconfig", server.url)) as client:
        yield client
