"""Events: said once and counted after, bounded in size and rate, and never in a reconcile's way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from kueue_flux.runtime import metrics
from kueue_flux.runtime.events import EVENTS, PENDING, Recorder
from kueue_flux.runtime.resource import Object
from tests.runtime.fake_api import Cut, FakeApi, pod, refusal
from tests.runtime.fake_server import client_of
from tests.runtime.virtual_time import virtual


@asynccontextmanager
async def recorder(api: FakeApi) -> AsyncIterator[Recorder]:
    made = Recorder(client_of(api), "kueue-flux", "pod-1")
    running = asyncio.create_task(made.run())
    yield made
    running.cancel()


def say(to: Recorder, note: str = "hello", name: str = "a", **more: Any) -> None:
    to.event(pod(name, metadata={"uid": "u"}), "Normal", "Admitted", note, action=more.get("action", "Inject"))


def written(api: FakeApi) -> list[Object]:
    return list(api.collections.get(EVENTS.path()[1:], {}).values())


def dropped(reason: str) -> float:
    return metrics.REGISTRY.get_sample_value("events_dropped_total", {"reason": reason}) or 0.0


@virtual
async def test_an_event_has_what_the_api_asks() -> None:
    api = FakeApi()
    async with recorder(api) as to:
        say(to)
        await asyncio.sleep(1)
    (event,) = written(api)
    assert event["metadata"]["namespace"] == "ns"
    assert event["metadata"]["name"].startswith("a.")
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Pod", "name": "a", "namespace": "ns", "uid": "u"}
    assert (event["reportingController"], event["reportingInstance"]) == ("kueue-flux", "pod-1")
    assert (event["type"], event["reason"], event["action"], event["note"]) == ("Normal", "Admitted", "Inject", "hello")
    assert len(event["eventTime"]) == len("2026-01-02T03:04:05.000006Z")
    assert "series" not in event


@virtual
async def test_of_a_cluster_scoped_object_they_are_in_default() -> None:
    api = FakeApi()
    async with recorder(api) as to:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
        to.event(node, "Warning", "Odd", "x", action="Look")
        await asyncio.sleep(1)
    assert written(api)[0]["metadata"]["namespace"] == "default"


@virtual
async def test_the_same_again_counts_in_the_series() -> None:
    api = FakeApi()
    async with recorder(api) as to:
        for _ in range(3):
            say(to)
            await asyncio.sleep(10)
        say(to, "something else")
        say(to, name="b")
        await asyncio.sleep(1)
    events = {(e["regarding"]["name"], e["note"]): e for e in written(api)}
    assert len(events) == 3
    assert events["a", "hello"]["series"]["count"] == 3
    assert len(events["a", "hello"]["series"]["lastObservedTime"]) == 27
    assert [r.verb for r in api.requests] == ["POST", "PATCH", "PATCH", "POST", "POST"]


@virtual
async def test_a_thousand_times_at_once_is_one_write() -> None:
    api = FakeApi()
    async with recorder(api) as to:
        for _ in range(1000):
            say(to)
        await asyncio.sleep(1)
    (event,) = written(api)
    assert event["series"]["count"] == 1000
    assert len(api.requests) == 1


@virtual
async def test_after_a_silence_a_new_series_starts() -> None:
    api = FakeApi()
    async with recorder(api) as to:
        say(to)
        await asyncio.sleep(361)
        say(to)
        await asyncio.sleep(1)
    assert len(written(api)) == 2


@virtual
async def test_a_series_whose_event_was_removed_goes_on_as_a_new_event() -> None:
    api = FakeApi()
    async with recorder(api) as to:
        say(to)
        await asyncio.sleep(1)
        api.remove(EVENTS, "ns", written(api)[0]["metadata"]["name"])
        say(to)
        await asyncio.sleep(1)
    assert written(api)[0]["series"]["count"] == 2


@pytest.mark.parametrize(("note", "size"), [("x" * 1024, 1024), ("x" * 1025, 1024), ("ü" * 1000, 1024), ("", 0)])
@virtual
async def test_notes_fit(note: str, size: int) -> None:
    api = FakeApi()
    async with recorder(api) as to:
        say(to, note)
        await asyncio.sleep(1)
    sent = written(api)[0]["note"].encode()
    assert size - 2 <= len(sent) <= size
    assert len(note.encode()) <= 1024 or sent.endswith("…".encode())


@virtual
async def test_a_flood_is_dropped_and_counted_and_blocks_nobody() -> None:
    api = FakeApi()
    before = dropped("flood")
    async with recorder(api) as to:
        started = asyncio.get_running_loop().time()
        for number in range(5000):
            say(to, f"note {number}")
        assert asyncio.get_running_loop().time() == started
        await asyncio.sleep(10)
        assert len(api.requests) == pytest.approx(300, abs=3), "100 at once, then 20 a second"
        await asyncio.sleep(3600)
    assert len(api.requests) == PENDING
    assert dropped("flood") - before == 5000 - PENDING


@pytest.mark.parametrize(
    ("fault", "times", "arrives"),
    [
        pytest.param(Cut("reset"), 2, True, id="a short absence"),
        pytest.param(refusal(500, "InternalError"), 3, True, id="server errors"),
        pytest.param(refusal(500, "InternalError"), 4, False, id="too many"),
        pytest.param(refusal(403, "Forbidden"), 1, False, id="forbidden: given up at once"),
    ],
)
@virtual
async def test_faults(fault: Any, times: int, arrives: bool) -> None:
    api = FakeApi()
    api.fail("POST", fault, times)
    async with recorder(api) as to:
        say(to)
        say(to, "next")
        await asyncio.sleep(60)
    notes = [e["note"] for e in written(api)]
    assert notes == (["hello", "next"] if arrives else ["next"])


@virtual
async def test_the_log_names_the_object_of_an_event_that_is_given_up() -> None:
    api = FakeApi()
    api.fail("POST", refusal(403, "Forbidden"), 1)
    with capture_logs() as logs:
        async with recorder(api) as to:
            say(to)
            await asyncio.sleep(60)
    said = [(line["event"], line["reason"], line["pod"], line["uid"]) for line in logs]
    assert said == [("event not written", "Admitted", "ns/a", "u")]


@virtual
async def test_flush_waits_for_the_last() -> None:
    api = FakeApi()
    api.latency = 0.5
    async with recorder(api) as to:
        await asyncio.wait_for(to.flush(), 0.01)
        for number in range(4):
            say(to, f"note {number}")
        await to.flush()
        assert len(written(api)) == 4
