"""The process: starts in order, says what it waits for, and stops in order. In virtual time, signals and all."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from kueue_flux.runtime.events import EVENTS
from kueue_flux.runtime.health import report
from kueue_flux.runtime.lease import LEASES, LeaseConfig
from kueue_flux.runtime.manager import Manager
from kueue_flux.runtime.reflector import Reflector
from kueue_flux.runtime.resource import Key
from tests.runtime.fake_api import JOBS, PODS, FakeApi, pod, refusal
from tests.runtime.fake_server import MemoryTransport, client_of
from tests.runtime.virtual_time import virtual

Work = Callable[[Key], Awaitable[None]]


def now() -> float:
    return asyncio.get_running_loop().time()


class Process:
    """A manager with one watch and one controller, as a program would wire them."""

    def __init__(self, api: FakeApi, work: Work, *, identity: str = "me", lease: bool = True, **options: Any) -> None:
        self.api = api
        self.client = client_of(api)
        config = LeaseConfig("ns", "lock", identity) if lease else None
        self.manager = Manager(self.client, name="test", identity=identity, lease=config, health_port=None, **options)
        self.pods: Reflector = self.manager.watch(PODS)
        controller = self.manager.controller("pods", work, workers=2)
        self.pods.store.subscribe(lambda old, new: controller.enqueue("ns", (new or old)["metadata"]["name"]))  # type: ignore[index]
        self.running = asyncio.create_task(self.manager.run())

    def ready(self) -> tuple[bool, str]:
        return report("readyz", self.manager._ready)

    def holder(self) -> str | None:
        lease = self.api.collections.get(LEASES.path()[1:], {}).get(("ns", "lock"))
        return lease["spec"]["holderIdentity"] if lease else None


def recorder() -> tuple[list[str], Work]:
    worked: list[str] = []

    async def work(key: Key) -> None:
        worked.append(key[1])

    return worked, work


@virtual
async def test_from_start_to_sigterm() -> None:
    api = FakeApi()
    api.put(PODS, pod("a"))
    worked, work = recorder()
    process = Process(api, work)
    await asyncio.sleep(5)
    assert process.ready() == (True, "ok")
    assert worked == ["a"]
    assert process.holder() == "me"
    api.put(PODS, pod("b"))
    await asyncio.sleep(1)
    assert worked == ["a", "b"]
    os.kill(os.getpid(), signal.SIGTERM)
    assert await process.running == 0
    assert process.holder() == "", "the Lease was given back"
    transport = process.client.transport
    assert isinstance(transport, MemoryTransport)
    assert transport.closed
    assert not api.live


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@virtual
async def test_signals_drain(number: signal.Signals) -> None:
    """What is under way ends and may write; what waits is left to the next process; the Lease goes last."""
    api = FakeApi()
    for name in "abcd":
        api.put(PODS, pod(name))
    ended: list[str] = []

    async def work(key: Key) -> None:
        await asyncio.sleep(10)
        await process.client.merge_patch(PODS, key[1], {"done": True}, "ns")
        ended.append(key[1])

    process = Process(api, work)
    await asyncio.sleep(5)
    told = now()
    os.kill(os.getpid(), number)
    assert await process.running == 0
    assert sorted(ended) == ["a", "b"]
    assert 5 <= now() - told <= 5.5
    assert [r.verb for r in api.requests if r.verb in ("PATCH", "PUT")][-1] == "PUT", "the release comes last"
    assert process.holder() == ""


@virtual
async def test_the_drain_is_bounded() -> None:
    api = FakeApi()
    api.put(PODS, pod("a"))
    cut = False

    async def work(key: Key) -> None:
        nonlocal cut
        try:
            await asyncio.sleep(10_000)
        except asyncio.CancelledError:
            cut = True
            raise

    process = Process(api, work, drain_seconds=7.0)
    await asyncio.sleep(5)
    told = now()
    process.manager.stop()
    assert await process.running == 0
    assert cut
    assert now() - told == pytest.approx(7, abs=0.1)
    assert process.holder() == ""


@virtual
async def test_events_said_last_are_sent() -> None:
    api = FakeApi()
    api.put(PODS, pod("a"))
    api.latency = 0.1

    async def work(key: Key) -> None:
        await asyncio.sleep(3)
        process.manager.recorder.event(process.pods.store.get(*key) or {}, "Normal", "Done", "x", action="Work")

    process = Process(api, work)
    await asyncio.sleep(2)
    process.manager.stop()
    assert await process.running == 0
    assert [e["reason"] for e in api.collections[EVENTS.path()[1:]].values()] == ["Done"]


@virtual
async def test_losing_the_lease_stops_the_work_at_once() -> None:
    api = FakeApi()
    api.put(PODS, pod("a"))
    writes: list[float] = []

    async def work(key: Key) -> None:
        while True:
            await asyncio.sleep(0.5)
            await process.client.merge_patch(PODS, key[1], {"at": now()}, "ns")
            writes.append(now())

    process = Process(api, work)
    await asyncio.sleep(10)
    lease = api.collections[LEASES.path()[1:]]["ns", "lock"]
    api.put(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "other"}})
    stolen = now()
    assert await process.running == 1
    assert now() - stolen <= 4.1
    assert writes[-1] <= now()
    assert process.holder() == "other"


@virtual
async def test_an_api_server_that_stays_away_costs_the_lease_and_a_restart() -> None:
    api = FakeApi()
    _, work = recorder()
    process = Process(api, work)
    await asyncio.sleep(10)
    api.leave()
    left = now()
    assert await process.running == 1
    assert 8 <= now() - left <= 13


@virtual
async def test_without_a_lease_30_seconds_away_are_sat_out() -> None:
    api = FakeApi()
    api.put(PODS, pod("a"))
    worked, work = recorder()
    process = Process(api, work, lease=False)
    await asyncio.sleep(10)
    api.leave()
    await asyncio.sleep(30)
    healthy, text = process.ready()
    assert not healthy
    assert "watch-pods failed" in text
    assert "connection refused" in text
    api.away = False
    api.put(PODS, pod("b"))
    await asyncio.sleep(40)
    assert worked == ["a", "b"]
    assert process.ready()[0]
    process.manager.stop()
    assert await process.running == 0


@virtual
async def test_start_without_an_api_server_waits_and_says_so() -> None:
    api = FakeApi()
    api.put(PODS, pod("a"))
    api.away = True
    worked, work = recorder()
    with capture_logs() as logs:
        process = Process(api, work)
        await asyncio.sleep(120)
    waiting = [entry["waiting"] for entry in logs if entry["event"] == "waiting for the API server"]
    assert len(waiting) == pytest.approx(12, abs=1)
    assert "connection refused" in waiting[0]["pods"]
    assert not process.ready()[0]
    assert len(api.requests) < 15
    api.away = False
    await asyncio.sleep(65)
    assert process.ready()[0]
    assert worked == ["a"]
    process.manager.stop()
    assert await process.running == 0


@virtual
async def test_stopped_before_it_ever_started() -> None:
    api = FakeApi()
    api.away = True
    process = Process(api, recorder()[1])
    await asyncio.sleep(5)
    process.manager.stop()
    assert await process.running == 0


@virtual
async def test_a_standby_is_ready_idle_and_takes_over_warm() -> None:
    api = FakeApi()
    api.put(PODS, pod("a"))
    _, first_work = recorder()
    second_worked, second_work = recorder()
    first = Process(api, first_work, identity="one")
    await asyncio.sleep(5)
    second = Process(api, second_work, identity="two")
    await asyncio.sleep(30)
    assert second.ready()[0]
    assert second_worked == []
    lists = len(api.asked("LIST"))
    first.manager.stop()
    assert await first.running == 0
    await asyncio.sleep(5)
    assert second.holder() == "two"
    assert second_worked == ["a"], "everything is looked at again by the new leader"
    assert len(api.asked("LIST")) == lists, "its store was warm"
    second.manager.stop()
    assert await second.running == 0


@virtual
async def test_a_standby_writes_nothing() -> None:
    api = FakeApi()
    Process(api, recorder()[1], identity="one")
    await asyncio.sleep(5)
    second = Process(api, recorder()[1], identity="two")
    await asyncio.sleep(5)
    with pytest.raises(Exception, match="two does not hold lock"):
        await second.client.create(PODS, pod("x"))


@virtual
async def test_a_part_that_fails_takes_the_process_with_it() -> None:
    api = FakeApi()

    async def broken() -> None:
        await asyncio.sleep(3)
        raise RuntimeError("bug")

    process = Process(api, recorder()[1])
    process.manager.while_leading(broken)
    with capture_logs() as logs:
        assert await process.running == 1
    assert any(entry["event"] == "stopping: a part ended" for entry in logs)
    assert process.holder() == "", "nothing acts any more, so the Lease can go"


@virtual
async def test_tasks_run_only_while_leading() -> None:
    api = FakeApi()
    ticks: dict[str, int] = {"one": 0, "two": 0}

    def ticking(name: str) -> Callable[[], Any]:
        async def tick() -> None:
            while True:
                ticks[name] += 1
                await asyncio.sleep(1)

        return tick

    first = Process(api, recorder()[1], identity="one")
    first.manager.while_leading(ticking("one"))
    await asyncio.sleep(5)
    second = Process(api, recorder()[1], identity="two")
    second.manager.while_leading(ticking("two"))
    await asyncio.sleep(10)
    assert ticks["one"] > 10
    assert ticks["two"] == 0
    first.manager.stop()
    await first.running
    stopped = ticks["one"]
    await asyncio.sleep(10)
    assert ticks["one"] == stopped
    assert ticks["two"] > 3


@virtual
async def test_tasks_stop_when_the_drain_begins() -> None:
    api = FakeApi()
    api.put(PODS, pod("a"))
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(now())
            await asyncio.sleep(1)

    async def work(_: Key) -> None:
        await asyncio.sleep(15)

    process = Process(api, work)
    process.manager.while_leading(tick)
    await asyncio.sleep(5)
    told = now()
    process.manager.stop()
    assert await process.running == 0
    assert now() - told > 5
    assert ticks[-1] <= told


@virtual
async def test_readiness_names_what_is_forbidden() -> None:
    api = FakeApi()
    api.fail("LIST", refusal(403, "Forbidden", "pods is forbidden: no list"), times=100)
    process = Process(api, recorder()[1])
    process.manager.add_ready_check("mine", lambda: "also not well")
    await asyncio.sleep(5)
    healthy, text = process.ready()
    assert not healthy
    assert "[-]watch-pods failed: GET /api/v1/pods: 403 Forbidden: pods is forbidden: no list" in text
    assert "[-]mine failed: also not well" in text


@virtual
async def test_an_optional_type_does_not_hold_up_the_start() -> None:
    api = FakeApi()
    api.missing.add(JOBS.path()[1:])
    api.put(PODS, pod("a"))
    worked, work = recorder()
    process = Process(api, work)
    jobs = process.manager.watch(JOBS, optional=True)
    await asyncio.sleep(5)
    assert worked == ["a"]
    assert jobs.absent
    assert process.ready()[0]


@virtual
async def test_steady_state_is_quiet() -> None:
    """An hour with nothing to do: watches and renewals, no list and no other write."""
    api = FakeApi()
    for number in range(100):
        api.put(PODS, pod(f"p{number}"))
    process = Process(api, recorder()[1])
    await asyncio.sleep(10)
    api.requests.clear()
    await asyncio.sleep(3600)
    verbs = {verb: len(api.asked(verb)) for verb in {r.verb for r in api.requests}}
    assert set(verbs) == {"WATCH", "PUT"}
    assert verbs["WATCH"] <= 12
    assert verbs["PUT"] == pytest.approx(1800, abs=2), "a Lease is renewed every two seconds"
    process.manager.stop()
    await process.running
