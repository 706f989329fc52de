"""The controller: every failure is a later try, no key harms another, and stopping waits for the work under way."""

import asyncio
from itertools import count, pairwise
from typing import Any

import pytest
import structlog
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from kueue_flux.runtime import metrics
from kueue_flux.runtime.controller import Controller, Reconcile, Result
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Key
from tests.runtime.virtual_time import virtual

_names = (f"controller-{n}" for n in count())


def start(reconcile: Reconcile, **options: Any) -> tuple[Controller, asyncio.Task[None]]:
    controller = Controller(next(_names), reconcile, **options)
    return controller, asyncio.create_task(controller.run())


def now() -> float:
    return asyncio.get_running_loop().time()


def counted(controller: Controller, result: str) -> float:
    labels = {"controller": controller.name, "result": result}
    return metrics.REGISTRY.get_sample_value("controller_runtime_reconcile_total", labels) or 0.0


@virtual
async def test_failures_are_repeated_with_back_off_until_success() -> None:
    tries: list[float] = []

    async def reconcile(key: Key) -> None:
        tries.append(now())
        if len(tries) <= 5:
            raise ApiError(500, "InternalError", "no")

    controller, _ = start(reconcile)
    controller.enqueue("ns", "a")
    await asyncio.sleep(10)
    gaps = [later - earlier for earlier, later in pairwise(tries)]
    assert gaps == pytest.approx([0.005, 0.01, 0.02, 0.04, 0.08])
    assert counted(controller, "error") == 5
    assert counted(controller, "success") == 1
    assert controller.queue.failures(("ns", "a")) == 0


@virtual
async def test_one_key_that_always_fails_does_not_hold_up_others() -> None:
    done: list[str] = []

    async def reconcile(key: Key) -> None:
        if key[1] == "bad":
            raise RuntimeError("bug")
        done.append(key[1])

    controller, _ = start(reconcile, workers=1)
    controller.enqueue("ns", "bad")
    for number in range(100):
        controller.enqueue("ns", f"good-{number}")
    await asyncio.sleep(3600)
    assert len(done) == 100
    assert counted(controller, "error") < 80, "an hour of failing is a try a minute"


@virtual
async def test_the_log_has_a_traceback_for_bugs_only() -> None:
    errors: dict[str, Exception] = {"api": ApiError(403, "Forbidden", "no pods for you"), "bug": KeyError("x")}

    async def reconcile(key: Key) -> None:
        if error := errors.pop(key[1], None):
            raise error

    with capture_logs(processors=[merge_contextvars]) as logs:
        controller, _ = start(reconcile)
        controller.enqueue("ns", "api")
        controller.enqueue("", "bug")
        await asyncio.sleep(1)
    entries = {entry[controller.name]: entry for entry in logs}
    assert entries["ns/api"]["error"] == "403 Forbidden: no pods for you"
    assert entries["ns/api"]["exc_info"] is None
    assert isinstance(entries["bug"]["exc_info"], KeyError), "a cluster-scoped object has no namespace"


@virtual
async def test_what_a_reconcile_logs_names_the_object_at_hand() -> None:
    log = structlog.get_logger()

    async def reconcile(key: Key) -> None:
        log.info("begun")
        await asyncio.sleep(1)
        log.info("done")

    with capture_logs(processors=[merge_contextvars]) as logs:
        controller, _ = start(reconcile, workers=2)
        controller.enqueue("ns", "a")
        controller.enqueue("ns", "b")
        await asyncio.sleep(5)
        log.info("idle")
    said = [(entry["event"], entry.get(controller.name)) for entry in logs]
    assert said == [("begun", "ns/a"), ("begun", "ns/b"), ("done", "ns/a"), ("done", "ns/b"), ("idle", None)]


@virtual
async def test_what_the_server_asks_to_wait_is_waited() -> None:
    tries: list[float] = []

    async def reconcile(key: Key) -> None:
        tries.append(now())
        if len(tries) == 1:
            raise ApiError(429, "TooManyRequests", "later", retry_after=90.0)

    controller, _ = start(reconcile)
    controller.enqueue("ns", "a")
    await asyncio.sleep(200)
    assert tries[1] - tries[0] == pytest.approx(90)


@virtual
async def test_requeue_after() -> None:
    tries: list[float] = []

    async def reconcile(key: Key) -> Result:
        tries.append(now())
        return Result(requeue_after=30.0) if len(tries) < 3 else Result()

    controller, _ = start(reconcile)
    controller.enqueue("ns", "a")
    await asyncio.sleep(500)
    assert [t - tries[0] for t in tries] == pytest.approx([0, 30, 60])
    assert counted(controller, "requeue_after") == 2


@virtual
async def test_a_reconcile_that_hangs_is_cut_off_and_tried_again() -> None:
    tries = 0

    async def reconcile(key: Key) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            await asyncio.sleep(100_000)

    controller, _ = start(reconcile, timeout=60)
    controller.enqueue("ns", "a")
    await asyncio.sleep(59)
    assert tries == 1
    await asyncio.sleep(2)
    assert tries == 2


@virtual
async def test_workers_work_side_by_side_but_never_on_one_key() -> None:
    busy: set[Key] = set()
    most = 0

    async def reconcile(key: Key) -> None:
        nonlocal most
        assert key not in busy
        busy.add(key)
        most = max(most, len(busy))
        await asyncio.sleep(1)
        busy.remove(key)

    controller, _ = start(reconcile, workers=4)
    for _ in range(10):
        for name in "abcdef":
            controller.enqueue("ns", name)
        await asyncio.sleep(0.3)
    await asyncio.sleep(10)
    assert most == 4
    assert counted(controller, "error") == 0


@virtual
async def test_work_that_never_waits_leaves_others_their_turn() -> None:
    done = 0

    async def reconcile(key: Key) -> None:
        nonlocal done
        done += 1

    controller, running = start(reconcile, workers=4)
    for number in range(10_000):
        controller.enqueue("ns", str(number))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert 0 < done < 100
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert done < 100, "and it can be stopped at once"


@virtual
async def test_shut_down_waits_for_the_work_under_way_and_starts_no_more() -> None:
    started, ended = [], []

    async def reconcile(key: Key) -> None:
        started.append(key[1])
        await asyncio.sleep(5)
        ended.append(key[1])

    controller, running = start(reconcile, workers=2)
    for name in "abcd":
        controller.enqueue("ns", name)
    await asyncio.sleep(1)
    controller.queue.shut_down(discard=True)
    await asyncio.wait_for(running, 5)
    assert started == ended == ["a", "b"]


@virtual
async def test_cancelling_stops_at_once_and_gives_keys_back() -> None:
    cancelled = False

    async def reconcile(key: Key) -> None:
        nonlocal cancelled
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            cancelled = True
            raise

    controller, running = start(reconcile)
    controller.enqueue("ns", "a")
    await asyncio.sleep(1)
    stopped = now()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert cancelled
    assert now() == stopped
    await asyncio.wait_for(controller.queue.drained(), 1)
