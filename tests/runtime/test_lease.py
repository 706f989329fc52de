"""Leader election: at most one leads, a loser stops before the next one starts, and a release is a hand-over."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kueue_flux.runtime.clock import micro_time
from kueue_flux.runtime.lease import LEASES, Elector, LeadershipLostError, LeaseConfig
from tests.runtime.fake_api import FakeApi, refusal
from tests.runtime.fake_server import client_of
from tests.runtime.virtual_time import virtual


def elector(api: FakeApi, identity: str, **options: Any) -> Elector:
    """With its wall clock an hour off for every letter: only the local clock may matter."""
    skew = timedelta(hours=ord(identity[0]))
    client = client_of(api, timeout=5.0, max_retries=0)
    return Elector(client, LeaseConfig("ns", "lock", identity), now=lambda: datetime.now(UTC) - skew, **options)


def spec(api: FakeApi) -> dict[str, Any]:
    found: dict[str, Any] = api.collections[LEASES.path()[1:]]["ns", "lock"]["spec"]
    return found


def now() -> float:
    return asyncio.get_running_loop().time()


async def until_leading(who: Elector) -> None:
    for _ in range(1000):
        if who.leading:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it never leads")


def start(who: Elector) -> asyncio.Task[None]:
    async def lead() -> None:
        await who.acquire()
        await who.keep()

    return asyncio.create_task(lead())


def test_micro_time() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 0, UTC)
    assert micro_time(moment) == "2026-01-02T03:04:05.000000Z"
    assert micro_time(datetime.fromisoformat("2026-01-02T04:04:05.000600+01:00")) == "2026-01-02T03:04:05.000600Z"


def test_times_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="renew_deadline < duration"):
        LeaseConfig("ns", "lock", "a", duration=10, renew_deadline=10)


@virtual
async def test_the_first_leads_and_renews_without_reading() -> None:
    api = FakeApi()
    a = elector(api, "a")
    start(a)
    await asyncio.sleep(60)
    assert a.leading
    a.check()
    assert spec(api)["holderIdentity"] == "a"
    assert spec(api)["leaseDurationSeconds"] == 15
    assert spec(api)["leaseTransitions"] == 0
    for name in ("acquireTime", "renewTime"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", spec(api)[name])
    assert spec(api)["acquireTime"] < spec(api)["renewTime"]
    assert len(api.asked("GET")) == 1
    assert len(api.asked("PUT")) == pytest.approx(30, abs=1)


@virtual
async def test_a_dead_leader_is_replaced_after_the_leases_duration() -> None:
    api = FakeApi()
    a, b = elector(api, "a"), elector(api, "b")
    first = start(a)
    await asyncio.sleep(10)
    start(b)
    await asyncio.sleep(60)
    assert (a.leading, b.leading) == (True, False)
    first.cancel()  # as kill -9: no release
    died = now()
    await until_leading(b)
    assert 12 <= now() - died <= 20
    assert spec(api)["holderIdentity"] == "b"
    assert spec(api)["leaseTransitions"] == 1


@virtual
async def test_release_hands_over_in_seconds() -> None:
    api = FakeApi()
    a, b = elector(api, "a"), elector(api, "b")
    first = start(a)
    await asyncio.sleep(5)
    start(b)
    await asyncio.sleep(5)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await a.release()
    assert not a.leading
    assert spec(api)["holderIdentity"] == ""
    await asyncio.sleep(4.5)
    assert b.leading


@virtual
async def test_a_leader_cut_off_stops_before_the_next_one_starts() -> None:
    api = FakeApi()
    b_api = FakeApi()
    b_api.collections = api.collections  # the same cluster, by another road
    b_api.version = 10_000
    a, b = elector(api, "a"), elector(b_api, "b")
    leading = start(a)
    await asyncio.sleep(10)
    start(b)
    await asyncio.sleep(20)
    api.away = True
    cut = now()
    await leading  # keep() returns
    assert not a.leading
    with pytest.raises(LeadershipLostError):
        a.check()
    assert now() - cut <= 10.1
    assert not b.leading
    await until_leading(b)
    assert now() - cut >= 12


@virtual
async def test_a_server_that_hangs_counts_as_away() -> None:
    api = FakeApi()
    a = elector(api, "a")
    leading = start(a)
    await asyncio.sleep(10)
    api.latency = 1000
    hung = now()
    await leading
    assert now() - hung <= 12.1
    assert not a.leading


@virtual
async def test_a_short_absence_of_the_server_is_survived() -> None:
    api = FakeApi()
    a = elector(api, "a")
    leading = start(a)
    await asyncio.sleep(10)
    api.away = True
    await asyncio.sleep(5)
    api.away = False
    await asyncio.sleep(30)
    assert a.leading
    assert not leading.done()


@virtual
async def test_a_frozen_process_may_not_write_when_it_wakes() -> None:
    """Nothing of it ran meanwhile, so only the clock can tell."""
    api = FakeApi()
    a = elector(api, "a")
    leading = start(a)
    await asyncio.sleep(10)
    asyncio.get_running_loop()._jumping.now += 20  # type: ignore[attr-defined]
    with pytest.raises(LeadershipLostError):
        a.check()
    await asyncio.wait_for(leading, 5)


@virtual
async def test_who_loses_the_lease_to_another_stops_at_once() -> None:
    api = FakeApi()
    a = elector(api, "a")
    leading = start(a)
    await asyncio.sleep(10)
    taken = api.collections[LEASES.path()[1:]]["ns", "lock"]
    api.put(LEASES, {**taken, "spec": {**taken["spec"], "holderIdentity": "thief"}})
    await asyncio.wait_for(leading, 5)
    assert not a.leading
    assert spec(api)["holderIdentity"] == "thief"
    await a.release()
    assert spec(api)["holderIdentity"] == "thief", "a release never takes what is not ours"


@virtual
async def test_an_annotated_lease_is_still_ours() -> None:
    api = FakeApi()
    a = elector(api, "a")
    leading = start(a)
    await asyncio.sleep(10)
    lease = api.collections[LEASES.path()[1:]]["ns", "lock"]
    api.put(LEASES, {**lease, "metadata": {**lease["metadata"], "annotations": {"x": "y"}}})
    await asyncio.sleep(60)
    assert not leading.done()
    assert api.collections[LEASES.path()[1:]]["ns", "lock"]["metadata"]["annotations"] == {"x": "y"}


@virtual
async def test_a_deleted_lease_is_made_again() -> None:
    api = FakeApi()
    a = elector(api, "a")
    start(a)
    await asyncio.sleep(10)
    api.remove(LEASES, "ns", "lock")
    await asyncio.sleep(5)
    assert a.leading
    assert spec(api)["holderIdentity"] == "a"


@virtual
async def test_of_two_that_start_together_one_leads() -> None:
    api = FakeApi()
    api.latency = 0.01
    electors = [elector(api, name) for name in "abcde"]
    for each in electors:
        start(each)
    for _ in range(600):
        await asyncio.sleep(0.1)
        assert sum(e.leading for e in electors) <= 1
    assert sum(e.leading for e in electors) == 1


@virtual
async def test_acquire_waits_for_a_server_that_refuses_or_is_away() -> None:
    api = FakeApi()
    api.fail("GET", refusal(403, "Forbidden"), times=5)
    a = elector(api, "a")
    start(a)
    await asyncio.sleep(30)
    assert a.leading
    assert len(api.asked("GET")) == 6


@virtual
async def test_release_does_not_wait_for_a_server_that_is_away() -> None:
    api = FakeApi()
    a = elector(api, "a")
    leading = start(a)
    await asyncio.sleep(10)
    leading.cancel()
    api.latency = 1000
    before = now()
    await a.release()
    assert now() - before <= 2.1
