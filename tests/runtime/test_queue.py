"""The work queue: client-go's semantics, one by one, in virtual time."""

import asyncio
from itertools import count
from typing import Any

import pytest

from kueue_flux.runtime import metrics
from kueue_flux.runtime.queue import QueueShutDownError, WorkQueue
from tests.runtime.virtual_time import virtual

_names = (f"queue-{n}" for n in count())


def new_queue(**options: Any) -> WorkQueue[str]:
    return WorkQueue(next(_names), **options)


def sample(name: str, queue: WorkQueue[str]) -> float:
    value = metrics.REGISTRY.get_sample_value(name, {"name": queue.name})
    assert value is not None
    return value


async def take(queue: WorkQueue[str]) -> list[str]:
    """Everything that is ready, in order."""
    taken = []
    while len(queue):
        key = await queue.get()
        taken.append(key)
        queue.done(key)
    return taken


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize(
    ("script", "handed_out"),
    [
        pytest.param("+a +b +c get get get", "abc", id="first in, first out"),
        pytest.param("+a +a +b +a get get", "ab", id="a key that waits is one key"),
        pytest.param("+a get +a ?0 done-a ?1 get", "aa", id="added while worked on: again afterwards"),
        pytest.param("+a get +a +a +a done-a ?1 get done-a ?0", "aa", id="added thrice while worked on: once more"),
        pytest.param("+a get done-a ?0", "a", id="done and not added: not again"),
        pytest.param("+a +b get +a done-a get get", "aba", id="again means at the end of the line"),
        pytest.param("+a get +b ?1 get done-b done-a ?0", "ab", id="others go on while one is worked on"),
    ],
)
@virtual
async def test_deduplication(script: str, handed_out: str) -> None:
    queue = new_queue()
    taken = ""
    for word in script.split():
        if word == "get":
            taken += await queue.get()
        elif word.startswith("+"):
            queue.add(word[1:])
        elif word.startswith("done-"):
            queue.done(word[5:])
        else:
            assert len(queue) == int(word[1:]), word
    assert taken == handed_out


@virtual
async def test_two_workers_never_have_the_same_key() -> None:
    queue = new_queue()
    busy: set[str] = set()
    worked = 0

    async def work() -> None:
        nonlocal worked
        while True:
            try:
                key = await queue.get()
            except QueueShutDownError:
                return
            assert key not in busy
            busy.add(key)
            await asyncio.sleep(0.01)
            busy.remove(key)
            worked += 1
            queue.done(key)

    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(work())
        for round_ in range(50):
            for key in "abc":
                queue.add(key)
            await asyncio.sleep(0.003 * (round_ % 3))
        queue.shut_down()
    assert worked >= 3


@pytest.mark.parametrize(
    ("delays", "due"),
    [
        pytest.param([5.0], 5.0, id="one delay"),
        pytest.param([5.0, 2.0], 2.0, id="an earlier one counts"),
        pytest.param([2.0, 5.0], 2.0, id="a later one does not"),
        pytest.param([0.0], 0.0, id="no delay"),
        pytest.param([-1.0], 0.0, id="in the past"),
    ],
)
@virtual
async def test_add_after(delays: list[float], due: float) -> None:
    queue = new_queue()
    started = now()
    for delay in delays:
        queue.add_after("a", delay)
    assert await queue.get() == "a"
    assert now() - started == pytest.approx(due)
    queue.done("a")
    await asyncio.sleep(10)
    assert len(queue) == 0, "it came once only"


@virtual
async def test_back_off_doubles_to_its_cap_and_forget_resets_it() -> None:
    queue = new_queue(base_delay=0.005, max_delay=1.0)
    delays = [queue.add_rate_limited("a") for _ in range(10)]
    assert delays == pytest.approx([0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0])
    assert queue.failures("a") == 10
    assert queue.add_rate_limited("b") == 0.005, "each key has its own"
    queue.forget("a")
    assert queue.failures("a") == 0
    assert queue.add_rate_limited("a") == 0.005
    assert queue.add_rate_limited("a", at_least=7.0) == 7.0
    for _ in range(2000):
        assert queue.add_rate_limited("c") <= 1.0


@virtual
async def test_waiting_workers_are_woken_one_per_key() -> None:
    queue = new_queue()
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.add("a")
    queue.add("b")
    await asyncio.sleep(0.01)
    assert sorted(w.result() for w in workers if w.done()) == ["a", "b"]
    queue.shut_down()
    with pytest.raises(QueueShutDownError):
        await workers[2]


@virtual
async def test_a_cancelled_worker_does_not_take_a_key_along() -> None:
    queue = new_queue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")  # wakes the first ...
    first.cancel()  # ... which is cancelled before it runs
    assert await asyncio.wait_for(second, 1) == "a"


@virtual
async def test_shut_down_hands_out_what_is_ready_and_takes_no_more() -> None:
    queue = new_queue()
    queue.add("a")
    queue.add_after("later", 1.0)
    queue.shut_down()
    queue.add("b")
    queue.add_after("c", 0.1)
    assert queue.shutting_down
    assert await take(queue) == ["a"]
    await asyncio.sleep(5)
    with pytest.raises(QueueShutDownError):
        await queue.get()


@virtual
async def test_discard_leaves_only_the_work_under_way() -> None:
    queue = new_queue()
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "a"
    queue.add("a")
    queue.shut_down(discard=True)
    with pytest.raises(QueueShutDownError):
        await queue.get()
    drained = asyncio.create_task(queue.drained())
    await asyncio.sleep(1)
    assert not drained.done(), "a is still worked on"
    queue.done("a")
    await asyncio.wait_for(drained, 1)
    with pytest.raises(QueueShutDownError):
        await queue.get()


@virtual
async def test_metrics() -> None:
    queue = new_queue()
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert sample("workqueue_depth", queue) == 2
    assert sample("workqueue_adds_total", queue) == 2
    await asyncio.sleep(3)
    await queue.get()
    assert sample("workqueue_queue_duration_seconds_sum", queue) == pytest.approx(3)
    await asyncio.sleep(2)
    await queue.get()
    await asyncio.sleep(1)
    assert sample("workqueue_depth", queue) == 0
    assert sample("workqueue_unfinished_work_seconds", queue) == pytest.approx(4)
    assert sample("workqueue_longest_running_processor_seconds", queue) == pytest.approx(3)
    queue.done("a")
    assert sample("workqueue_work_duration_seconds_sum", queue) == pytest.approx(3)
    queue.add_rate_limited("a")
    assert sample("workqueue_retries_total", queue) == 1
