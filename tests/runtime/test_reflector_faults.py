"""The reflector in bad times: the store equals the server after every fault, and no fault makes it run hot."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kueue_flux.runtime.reflector import Reflector
from kueue_flux.runtime.store import Store
from tests.runtime.fake_api import PODS, Cut, FakeApi, Reply, Stream, pod, refusal
from tests.runtime.fake_server import client_of
from tests.runtime.mirror import mirror, seen, there, with_pods
from tests.runtime.virtual_time import virtual


@virtual
async def test_410_between_pages_lists_again_in_one_piece() -> None:
    api = with_pods(1200)

    api.latency = 0.1
    reflector = Reflector(client_of(api), PODS, Store())
    running = asyncio.create_task(reflector.run())
    await asyncio.sleep(0.15)  # after the first page
    api.remove(PODS, "ns", "p0001")
    api.compact()
    await asyncio.sleep(2)
    running.cancel()
    assert seen(reflector) == there(api)
    assert [("limit" in r.query, "continue" in r.query) for r in api.asked("LIST")] == [
        (True, False),
        (True, True),
        (False, False),
    ]


def expire_on_http(api: FakeApi, stream: Stream) -> None:
    api.compact()
    stream.close()


def expire_in_stream(api: FakeApi, stream: Stream) -> None:
    stream.error(410, "Expired", "too old resource version")


@pytest.mark.parametrize("expire", [expire_on_http, expire_in_stream])
@virtual
async def test_410_lists_once_and_finds_what_was_lost(expire: Callable[[FakeApi, Stream], None]) -> None:
    api = with_pods(5)
    gone: list[str] = []
    async with mirror(api) as reflector:
        reflector.store.subscribe(lambda old, new: gone.append(old["metadata"]["name"]) if old and not new else None)
        await asyncio.sleep(100)
        api.silent = True  # the watch hears nothing of these
        api.remove(PODS, "ns", "p0000")
        api.put(PODS, pod("p0001", status={"phase": "Running"}))
        api.put(PODS, pod("new"))
        api.silent = False
        expire(api, api.live[0])
        await asyncio.sleep(1)
        assert seen(reflector) == there(api)
        assert gone == ["p0000"]
        api.put(PODS, pod("newer"))
        await asyncio.sleep(1)
        assert seen(reflector) == there(api)
    assert len(api.asked("LIST")) == 2


@virtual
async def test_a_hung_watch_is_opened_anew() -> None:
    api = with_pods(1)
    api.bookmark_seconds = 0
    async with mirror(api) as reflector:
        api.silent = True
        api.put(PODS, pod("unheard"))
        await asyncio.sleep(140)
        assert "unheard" not in seen(reflector)
        api.silent = False
        await asyncio.sleep(15)
        assert seen(reflector) == there(api)
    assert [r.query["limit"] for r in api.asked("LIST")] == ["100", "1"]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b'{"type":"MODIFIED","object":{"metadata":{"na', id="truncated"),
        pytest.param(b"not json\n", id="not JSON"),
        pytest.param(b'{"type":"MODIFIED"}\n', id="no object"),
        pytest.param(b'{"type":"SURPRISE","object":{}}\n', id="unknown type"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":{}}}\n', id="no name"),
        pytest.param(b"[]\n", id="not an object"),
        pytest.param(b'{"type":"BOOKMARK","object":null}\n', id="empty bookmark"),
    ],
)
@virtual
async def test_a_garbled_stream_is_opened_anew(raw: bytes) -> None:
    api = with_pods(1)
    async with mirror(api) as reflector:
        await asyncio.sleep(10)
        api.silent = True
        api.put(PODS, pod("unheard"))
        api.silent = False
        api.live[0].send(raw)
        api.live[0].close()
        await asyncio.sleep(5)
        assert seen(reflector) == there(api)
        assert reflector.problem is None
    assert len([r for r in api.asked("LIST") if r.query["limit"] != "1"]) == 1


@pytest.mark.parametrize("verb", ["LIST", "WATCH"])
@pytest.mark.parametrize(("status", "reason"), [(403, "Forbidden"), (401, "Unauthorized"), (500, "InternalError")])
@virtual
async def test_refused_then_allowed(verb: str, status: int, reason: str) -> None:
    """Visible while it lasts, gentle on the server, well again soon after."""
    api = with_pods(1)
    api.fail(verb, refusal(status, reason, "pods is forbidden"), times=10_000)
    async with mirror(api) as reflector:
        await asyncio.sleep(600)
        assert reflector.problem is not None
        assert "pods is forbidden" in reflector.problem
        assert reflector.synced is (verb == "WATCH")
        assert len(api.requests) < 120, "ten minutes of refusals are few requests"
        api._faults.clear()
        api.put(PODS, pod("b"))
        await asyncio.sleep(21)
        assert reflector.problem is None
        assert seen(reflector) == there(api)


@virtual
async def test_retry_after_of_a_refused_watch_is_kept() -> None:
    api = with_pods(1)
    api.fail("WATCH", refusal(429, "TooManyRequests", Retry_After="90"))
    async with mirror(api):
        await asyncio.sleep(100)
    first, second = (r.at for r in api.asked("WATCH"))
    assert second - first >= 90


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(lambda s: s.close(), id="clean close"),
        pytest.param(lambda s: s.cut(), id="cut"),
        pytest.param(lambda s: s.error(410, "Expired"), id="410 in stream"),
        pytest.param(lambda s: s.error(500, "InternalError"), id="500 in stream"),
        pytest.param(lambda s: s.send(b"garbage\n"), id="garbage"),
        pytest.param(
            lambda s: (s.event("ADDED", pod("x", metadata={"resourceVersion": "101"})), s.close()), id="one event"
        ),
    ],
)
@virtual
async def test_no_fault_that_repeats_for_ever_makes_it_run_hot(ending: Callable[[Stream], Any]) -> None:
    class Hostile(FakeApi):
        def _watch(self, *args: Any) -> Reply:
            reply = super()._watch(*args)
            assert reply.stream
            ending(reply.stream)
            return reply

    api = Hostile()
    async with mirror(api):
        await asyncio.sleep(600)
    assert len(api.requests) <= 100, "ten minutes"
    late = [r for r in api.requests if r.at > 1000 + 300]
    assert len(late) <= 50, "and it does not get worse"


@virtual
async def test_server_away_for_30_seconds() -> None:
    api = with_pods(3)
    async with mirror(api) as reflector:
        await asyncio.sleep(100)
        api.leave()
        before = len(api.requests)
        await asyncio.sleep(30)
        assert reflector.problem is not None
        assert "connection refused" in reflector.problem
        assert len(reflector.store) == 3, "what was known stays known"
        assert len(api.requests) - before <= 8
        api.away = False
        api.put(PODS, pod("meanwhile"))
        await asyncio.sleep(21)
        assert seen(reflector) == there(api)
        assert reflector.problem is None
    assert [r.query["limit"] for r in api.asked("LIST")] == ["100", *["1"] * (len(api.asked("LIST")) - 1)]
    assert len(api.asked("WATCH")) == 2, "goes on where it was"


@virtual
async def test_server_away_at_the_start() -> None:
    api = with_pods(3)
    api.away = True
    async with mirror(api) as reflector:
        await asyncio.sleep(300)
        assert not reflector.synced
        assert len(api.requests) <= 30
        api.away = False
        await asyncio.wait_for(reflector.wait_synced(), 21)
        assert seen(reflector) == there(api)


@virtual
async def test_a_server_restored_from_a_backup() -> None:
    api = with_pods(3)
    async with mirror(api) as reflector:
        api.put(PODS, pod("lost"))
        await asyncio.sleep(100)
        api.leave()
        await asyncio.sleep(1)
        api.restore(102)
        api.away = False
        await asyncio.sleep(5)
        assert seen(reflector) == there(api)
        assert sorted(seen(reflector)) == ["p0000", "p0001"]
        api.put(PODS, pod("after"))
        await asyncio.sleep(1)
        assert seen(reflector) == there(api)


@virtual
async def test_server_errors_that_a_watch_cannot_pass_are_cured_by_a_list() -> None:
    """Such as an object in the history that the server cannot decode any more."""
    api = with_pods(1)
    async with mirror(api) as reflector:
        await asyncio.sleep(10)
        for stream in api.live:
            stream.close()
        api.fail("WATCH", refusal(500, "InternalError"), times=5)
        await asyncio.sleep(120)
        assert reflector.problem is None
    assert 2 <= len(api.asked("LIST")) <= 4


@virtual
async def test_a_cut_list_is_repeated_whole() -> None:
    api = with_pods(1200)
    api.fail("LIST", Cut("reset"))
    async with mirror(api) as reflector:
        await asyncio.sleep(3)
        assert seen(reflector) == there(api)
