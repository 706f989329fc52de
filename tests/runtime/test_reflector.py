"""The reflector in good times: it follows every change, lists once, and asks for little. In virtual time."""

import asyncio
import json
from copy import deepcopy
from typing import Any

import pytest

from kueue_flux.runtime.resource import Object
from tests.runtime.fake_api import JOBS, PODS, FakeApi, pod
from tests.runtime.fake_server import client_of
from tests.runtime.mirror import mirror, now, seen, there, with_pods
from tests.runtime.virtual_time import virtual


@virtual
async def test_follows_every_change() -> None:
    api = with_pods(2)
    changes: list[tuple[str | None, str | None]] = []

    def note(old: Object | None, new: Object | None) -> None:
        changes.append(tuple(o["metadata"]["name"] if o else None for o in (old, new)))  # type: ignore[arg-type]

    async with mirror(api) as reflector:
        assert reflector.synced
        assert reflector.problem is None
        reflector.store.subscribe(note)
        api.put(PODS, pod("new"))
        api.put(PODS, pod("new", status={"phase": "Running"}))
        api.remove(PODS, "ns", "p0000")
        api.put(JOBS, {"metadata": {"name": "other", "namespace": "ns"}})
        await asyncio.sleep(1)
        assert seen(reflector) == there(api)
        assert changes == [(None, "new"), ("new", "new"), ("p0000", None)]
    assert [r.verb for r in api.requests] == ["LIST", "WATCH"]
    assert api.asked("WATCH")[0].query["resourceVersion"] == "102"


@virtual
async def test_objects_of_a_list_get_apiversion_and_kind() -> None:
    async with mirror(with_pods(1)) as reflector:
        kept = reflector.store.get("ns", "p0000")
        assert kept
        assert (kept["apiVersion"], kept["kind"]) == ("v1", "Pod")


@virtual
async def test_selectors_and_namespace_are_the_servers_business() -> None:
    api = FakeApi()
    api.put(PODS, pod("mine", metadata={"labels": {"a": "b"}}))
    api.put(PODS, pod("other"))
    api.put(PODS, pod("elsewhere", namespace="far", metadata={"labels": {"a": "b"}}))
    options = {"namespace": "ns", "label_selector": "a=b", "field_selector": "spec.nodeName!="}
    async with mirror(api, **options) as reflector:
        api.put(PODS, pod("mine2", metadata={"labels": {"a": "b"}}))
        await asyncio.sleep(1)
        assert sorted(seen(reflector)) == ["mine", "mine2"]
    for request in api.requests:
        assert request.path == "/api/v1/namespaces/ns/pods"
        assert (request.query["labelSelector"], request.query["fieldSelector"]) == ("a=b", "spec.nodeName!=")


@virtual
async def test_lists_in_pages() -> None:
    api = with_pods(240)
    async with mirror(api) as reflector:
        assert seen(reflector) == there(api)
    lists = api.asked("LIST")
    assert [r.query.get("limit") for r in lists] == ["100"] * 3
    assert ["continue" in r.query for r in lists] == [False, True, True]


@virtual
async def test_steady_state_lists_once_and_watches_for_hours() -> None:
    api = with_pods(3)
    async with mirror(api) as reflector:
        for hour in range(6):
            await asyncio.sleep(3600)
            api.put(PODS, pod(f"hour{hour}"))
            await asyncio.sleep(1)
            assert seen(reflector) == there(api)
            assert reflector.problem is None
    assert len(api.asked("LIST")) == 1
    watches = api.asked("WATCH")
    assert 6 * 6 <= len(watches) <= 6 * 12 + 1
    seconds = [int(r.query["timeoutSeconds"]) for r in watches]
    assert min(seconds) >= 300
    assert max(seconds) <= 600
    assert len(set(seconds)) > 10, "jittered"


@virtual
async def test_a_clean_close_goes_on_at_once_from_the_last_version() -> None:
    api = with_pods(1)
    async with mirror(api) as reflector:
        await asyncio.sleep(30)
        api.put(PODS, pod("a"))
        await asyncio.sleep(0.01)
        api.live[0].close()
        closed = now()
        await asyncio.sleep(0.01)
        api.put(PODS, pod("b"))
        await asyncio.sleep(0.1)
        assert seen(reflector) == there(api)
    last = api.asked("WATCH")[-1]
    assert last.at == pytest.approx(closed)
    assert last.query["resourceVersion"] == "102"
    assert len(api.asked("LIST")) == 1


@virtual
async def test_bookmarks_move_the_starting_point() -> None:
    api = with_pods(1)
    async with mirror(api):
        api.version = 5000  # other resource types moved on
        await asyncio.sleep(61)
        api.compact()
        api.live[0].close()
        await asyncio.sleep(1)
    assert [r.query["resourceVersion"] for r in api.asked("WATCH")] == ["101", "5000"]
    assert len(api.asked("LIST")) == 1, "without bookmarks this would have been a 410"


@virtual
async def test_a_quiet_watch_with_bookmarks_is_left_alone() -> None:
    api = with_pods(1)
    async with mirror(api):
        await asyncio.sleep(290)
        assert len(api.asked("WATCH")) == 1


@virtual
async def test_events_twice_and_out_of_order_change_nothing() -> None:
    api = with_pods(1)
    async with mirror(api) as reflector:
        api.put(PODS, pod("a"))
        old = deepcopy(api.collections["api/v1/pods"]["ns", "a"])
        api.put(PODS, pod("a", status={"phase": "Running"}))
        await asyncio.sleep(1)
        heard: list[Any] = []
        reflector.store.subscribe(lambda *change: heard.append(change))
        stream = api.live[0]
        stream.event("ADDED", old)
        stream.event("MODIFIED", api.collections["api/v1/pods"]["ns", "a"])
        await asyncio.sleep(1)
        assert seen(reflector) == there(api)
        assert heard == []


@virtual
async def test_a_burst_of_events_leaves_others_their_turn() -> None:
    api = FakeApi()
    async with mirror(api) as reflector:
        api.silent = True
        events = [{"type": "ADDED", "object": api.put(PODS, pod(f"p{n}"))} for n in range(1000)]
        api.live[0].send(b"".join(json.dumps(event).encode() + b"\n" for event in events))
        turns = 0
        while len(reflector.store) < 1000:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 10


@virtual
async def test_an_optional_type_that_is_not_installed() -> None:
    api = FakeApi()
    api.missing.add("api/v1/pods")
    async with mirror(api, optional=True) as reflector:
        assert reflector.synced
        assert reflector.absent
        assert reflector.problem is None, "its absence is no reason to be unready"
        await asyncio.sleep(300)
        assert len(api.requests) <= 31
        api.missing.clear()
        api.put(PODS, pod("a"))
        await asyncio.sleep(16)
        assert not reflector.absent
        assert seen(reflector) == there(api) != {}
        api.missing.add("api/v1/pods")  # and is removed again
        for stream in api.live:
            stream.close()
        await asyncio.sleep(16)
        assert reflector.absent
        assert seen(reflector) == {}


@virtual
async def test_a_type_that_is_needed_and_not_installed() -> None:
    api = FakeApi()
    api.missing.add("api/v1/pods")
    async with mirror(api) as reflector:
        await asyncio.sleep(100)
        assert not reflector.synced
        assert "could not find the requested resource" in (reflector.problem or "")


@virtual
async def test_own_writes_and_the_watch_end_in_the_same_state() -> None:
    """Writes put their answers into the store while their events are on the way, in any order."""
    api = FakeApi()
    client = client_of(api)
    async with mirror(api) as reflector:

        async def write(number: int) -> None:
            made = await client.create(PODS, pod(f"w{number}"))
            await asyncio.sleep(0.013 * (number % 7))
            reflector.store.put(made)
            changed = await client.merge_patch(PODS, f"w{number}", {"status": {"n": number}}, "ns")
            if number % 3 == 0:
                api.remove(PODS, "ns", f"w{number}")
            await asyncio.sleep(0.017 * (number % 5))
            reflector.store.put(changed)

        async with asyncio.TaskGroup() as group:
            for number in range(60):
                group.create_task(write(number))
        await asyncio.sleep(1)
        assert seen(reflector) == there(api)
        assert len(reflector.store) == 40
