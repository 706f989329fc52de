"""The same over real sockets: aiohttp's behaviour, not ours, is what these can find out."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kubernetes.aio.client.configuration import Configuration

from kueue_flux.runtime.client import Client
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.reflector import Reflector
from kueue_flux.runtime.store import Store
from kueue_flux.runtime.transport import KubeTransport
from tests.runtime.fake_api import PODS, Cut, FakeApi, pod, refusal
from tests.runtime.fake_server import serve

pytestmark = pytest.mark.usefixtures("client")


@pytest.fixture
async def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[Client]:
    async with serve(api) as url:
        client = Client(KubeTransport(Configuration(host=url)), field_manager="me")
        yield client
        await client.close()


async def until(condition: Any, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the condition is not ours to signal
            await asyncio.sleep(0.01)


async def test_verbs(client: Client, api: FakeApi) -> None:
    await client.create(PODS, pod("a"))
    await client.apply(PODS, pod("a", spec={"x": 1}))
    await client.merge_patch(PODS, "a", {"spec": {"y": 2}}, "ns")
    await client.json_patch(PODS, "a", [{"op": "test", "path": "/x", "value": 1}], "ns")
    assert (await client.get(PODS, "a", "ns"))["spec"] == {"x": 1, "y": 2}
    await client.delete(PODS, "a", "ns")
    with pytest.raises(ApiError) as raised:
        await client.get(PODS, "a", "ns")
    assert raised.value.not_found
    types = [r.headers["Content-Type"] for r in api.requests if r.verb in ("POST", "PATCH")]
    assert types == [
        "application/json",
        "application/apply-patch+yaml",
        "application/merge-patch+json",
        "application/json-patch+json",
    ]


async def test_names_cannot_leave_their_place_in_the_path(client: Client, api: FakeApi) -> None:
    with pytest.raises(ApiError):
        await client.get(PODS, "../../../nodes", "ns")
    assert api.requests[0].path.startswith("/api/v1/namespaces/ns/pods/")


async def test_selectors_arrive_whole(client: Client, api: FakeApi) -> None:
    await client.list_page(PODS, label_selector="a/b in (c,d),e!=f&g")
    assert api.requests[0].query["labelSelector"] == "a/b in (c,d),e!=f&g"


async def test_a_refused_connection() -> None:
    client = Client(KubeTransport(Configuration(host="http://127.0.0.1:1")))
    with pytest.raises(ApiError) as raised:
        await client.get(PODS, "a", "ns")
    assert raised.value.unreachable
    await client.close()


async def test_a_connection_that_breaks(client: Client, api: FakeApi) -> None:
    api.fail("POST", Cut("reset"))
    with pytest.raises(ApiError) as raised:
        await client.create(PODS, pod("a"))
    assert raised.value.unreachable
    await client.create(PODS, pod("a"))


async def test_throttled(client: Client, api: FakeApi) -> None:
    api.put(PODS, pod("a"))
    api.fail("GET", refusal(429, "TooManyRequests", Retry_After="1"))
    await client.get(PODS, "a", "ns")
    assert api.requests[1].at - api.requests[0].at >= 1


async def test_a_403_harms_no_watch(client: Client, api: FakeApi) -> None:
    """Every request has its own fate: one that is refused must not close what others use."""
    reflector = Reflector(client, PODS, Store())
    running = asyncio.create_task(reflector.run())
    await until(lambda: api.live)
    api.fail("GET", refusal(403, "Forbidden"), times=3)
    for _ in range(3):
        with pytest.raises(ApiError, match="Forbidden"):
            await client.get(PODS, "x", "ns")
    api.put(PODS, pod("a"))
    await until(lambda: len(reflector.store) == 1)
    assert len(api.asked("WATCH")) == 1
    running.cancel()


@pytest.mark.parametrize("ending", ["close", "cut"])
async def test_a_watch_that_ends_is_taken_up_again(client: Client, api: FakeApi, ending: str) -> None:
    reflector = Reflector(client, PODS, Store())
    running = asyncio.create_task(reflector.run())
    await until(lambda: api.live)
    api.put(PODS, pod("a"))
    await until(lambda: len(reflector.store) == 1)
    getattr(api.live[0], ending)()
    api.put(PODS, pod("b"))
    await until(lambda: len(reflector.store) == 2)
    assert len(api.asked("WATCH")) == 2
    assert [r.query["limit"] for r in api.asked("LIST")] == ["100", *(["1"] if ending == "cut" else [])]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await until(lambda: not api.live, 2)


async def test_a_hung_watch_is_opened_anew(client: Client, api: FakeApi) -> None:
    reflector = Reflector(client, PODS, Store(), inactivity_seconds=0.3)
    running = asyncio.create_task(reflector.run())
    await until(lambda: len(api.asked("WATCH")) >= 2)
    assert [r.query["limit"] for r in api.asked("LIST")][:3] == ["100", "1"]
    running.cancel()


async def test_objects_larger_than_any_buffer(client: Client, api: FakeApi) -> None:
    reflector = Reflector(client, PODS, Store())
    running = asyncio.create_task(reflector.run())
    await until(lambda: api.live)
    api.put(PODS, pod("big", data="x" * 6_000_000))
    await until(lambda: len(reflector.store) == 1)
    running.cancel()


async def test_many_events_fast_and_others_get_their_turn(client: Client, api: FakeApi) -> None:
    reflector = Reflector(client, PODS, Store())
    running = asyncio.create_task(reflector.run())
    await until(lambda: api.live)
    loop = asyncio.get_running_loop()
    for number in range(5000):
        api.put(PODS, pod(f"p{number % 1000}"))
    started = loop.time()
    longest, last = 0.0, loop.time()
    async with asyncio.timeout(30):
        while reflector.store.position < api.version:
            await asyncio.sleep(0)
            longest, last = max(longest, loop.time() - last), loop.time()
    assert len(reflector.store) == 1000
    assert loop.time() - started < 5, "a thousand a second at the very least"
    assert longest < 0.5, "seconds for which nothing else could run"
    running.cancel()
