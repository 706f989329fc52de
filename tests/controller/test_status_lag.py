"""Mere progress is written a moment later, many steps at once; whatever turns is written at once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kueue_flux.controller import status
from kueue_flux.controller.reconcile import Reconciler
from kueue_flux.controller.resources import JOBS, MINICLUSTERS, PODS, WORKLOADS
from tests.builders import minicluster
from tests.controller.world import Adapter, World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def adapter(world: World) -> Adapter:
    return lagging(world)


def lagging(world: World) -> Adapter:
    adapter = Adapter(world)
    adapter.reconciler = Reconciler(
        adapter.client,  # type: ignore[arg-type]
        miniclusters=adapter.stores[MINICLUSTERS],
        jobs=adapter.stores[JOBS],
        workloads=adapter.stores[WORKLOADS],
        pods=adapter.stores[PODS],
        positions=world.positions,
        quota=adapter.quota,
        events=adapter,
        status_lag=timedelta(seconds=1),
        clock=lambda: world.api.now,
    )
    return adapter


async def turn(adapter: Adapter) -> float | None:
    """Hear the news and reconcile. Returns when the control loop wants another turn, in seconds."""
    adapter.hear_all()
    result = await adapter.turn()
    return result.requeue_after if result else None


def written(adapter: Adapter) -> int:
    """How often the status was written."""
    return sum(write.resource == MINICLUSTERS for write in adapter.client.writes)


async def submit(world: World, adapter: Adapter) -> None:
    world.submit(minicluster().queue("q").size(2))
    await turn(adapter)


async def test_progress_is_written_once_when_its_time_has_come(world: World, adapter: Adapter):
    await submit(world, adapter)
    world.pass_time(0.4)
    world.make_workload()
    assert await turn(adapter) == pytest.approx(0.6)
    assert written(adapter) == 0
    world.pass_time(0.6)
    world.keep_waiting()
    await turn(adapter)
    assert written(adapter) == 1
    assert world.reasons()["QuotaReserved"] == "False WaitingForQuota"


async def test_later_progress_lags_again(world: World, adapter: Adapter):
    await submit(world, adapter)
    world.pass_time(1)
    await turn(adapter)
    world.make_workload()
    assert await turn(adapter) == pytest.approx(1)
    assert written(adapter) == 1


async def test_what_the_steps_did_is_told_at_once(world: World, adapter: Adapter):
    await submit(world, adapter)
    assert [reason for _, reason, _ in adapter.told] == ["Created"]
    assert written(adapter) == 0


async def test_an_admission_is_written_at_once_and_progress_with_it(world: World, adapter: Adapter):
    await submit(world, adapter)
    world.make_workload()
    world.admit()
    await turn(adapter)
    assert written(adapter) == 1
    assert world.status["admission"]["size"] == 2
    assert world.status["workload"]


async def test_brokers_that_are_all_up_and_the_end_are_written_at_once(world: World, adapter: Adapter):
    await submit(world, adapter)
    world.make_workload()
    world.admit()
    await turn(adapter)
    world.work()
    await turn(adapter)
    assert (written(adapter), world.reasons()["Ready"]) == (2, "True BrokersUp")
    world.end_lead()
    await turn(adapter)
    assert written(adapter) == 2
    world.decide_job()
    await turn(adapter)
    assert (written(adapter), world.reasons()["Finished"]) == (3, "True Succeeded")


async def test_progress_that_was_taken_back_is_not_written(world: World, adapter: Adapter):
    await submit(world, adapter)
    world.pass_time(1)
    await turn(adapter)
    world.make_workload()
    await turn(adapter)
    workload = world.workload()["metadata"]
    world.api.delete(WORKLOADS, workload["name"], workload["namespace"])
    assert await turn(adapter) != pytest.approx(1)
    assert written(adapter) == 1


async def test_another_process_writes_what_this_one_held_back(world: World, adapter: Adapter):
    await submit(world, adapter)
    other = lagging(world)
    assert await turn(other) == pytest.approx(1)
    world.pass_time(1)
    await turn(other)
    assert written(other) == 1


def conditions(**statuses: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": value} for kind, value in statuses.items()]


@pytest.mark.parametrize(
    ("old", "new", "turned"),
    [
        ({}, {"Accepted": "True", "Admitted": "False", "Finished": "False"}, False),
        ({}, {"Accepted": "False"}, True),
        ({}, {"Accepted": "True", "Admitted": "True"}, True),
        ({"Ready": "False"}, {"Ready": "True"}, True),
        ({"Ready": "True"}, {"Ready": "False"}, True),
        ({"Ready": "True"}, {"Ready": "True"}, False),
    ],
)
def test_a_condition_that_turns_is_more_than_progress(old: dict[str, str], new: dict[str, str], turned: bool):
    assert status.turned({"conditions": conditions(**old)}, {"conditions": conditions(**new)}) is turned


def test_another_admission_is_more_than_progress():
    assert status.turned({"admission": {"id": "a"}}, {"admission": {"id": "b"}, "conditions": []})
    assert not status.turned({"admission": {"id": "a"}}, {"admission": {"id": "a"}, "conditions": [], "podsRunning": 3})
