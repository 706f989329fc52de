"""The adapter killed right before and right after each of its writes, in the whole life of a MiniCluster.

Whoever comes next knows nothing but what the API server holds. The end must be as if nothing had happened, and no
pods of one admission may ever have been given two certificates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from kueue_flux.controller.resources import JOBS, PODS, SECRETS
from tests.builders import NAMESPACE, minicluster
from tests.controller.fake_api import Fault, Write, copied, timeout
from tests.controller.world import SERVICES_NAME, Adapter, Life, World

Stage = Callable[[World], object]
Story = tuple[Stage, ...]

QUEUED: Story = (
    lambda world: world.submit(minicluster().queue("q").size(4)),
    World.make_workload,
    World.keep_waiting,
    World.admit,
    World.evict,
    World.suspend,
    World.release,
    lambda world: world.admit(3),
    World.end_lead,
    World.decide_job,
    World.finish_job,
)
"""Submitted, admitted, evicted, admitted again with fewer pods, and finished."""

LOOSE: Story = (
    lambda world: world.submit(minicluster().size(2)),
    lambda world: world.end_lead(3),
    lambda world: world.decide_job(succeeded=False),
    lambda world: world.finish_job(succeeded=False),
)
"""Without a queue: run at once, and failed."""

SERVED: Story = (
    lambda world: world.submit(minicluster().queue("q").size(2).service("web", ports=[80])),
    World.make_workload,
    lambda world: world.make_workload(SERVICES_NAME),
    World.admit_services,
    World.admit,
    World.end_lead,
    World.decide_job,
    World.finish_job,
)
"""With services, which come first and go with it."""

STORIES = {"queued": QUEUED, "loose": LOOSE, "served": SERVED}


async def live(story: Story, **options: Any) -> Life:
    """Let a MiniCluster live, and check what must hold however often its adapter dies."""
    world = World()
    life = Life(world, **options)
    for stage in story:
        await life.stage(lambda stage=stage: stage(world))  # type: ignore[misc]
    await life.finish()
    await check(life)
    return life


async def check(life: Life) -> None:
    world = life.world
    finished = world.reasons()["Finished"]
    assert finished in ("True Succeeded", "True Failed")
    assert world.kinds().isdisjoint({"Secret", "ConfigMap"}), "files are left of a run that has ended"
    assert world.reasons()["Injected"].startswith("False ")

    # Once an admission has its Secret, no other takes its place.
    made = [e.obj for e in world.api.history if e.resource == SECRETS and e.kind == "ADDED"]
    admissions = [secret["metadata"]["labels"]["flux-framework.org/admission"] for secret in made]
    assert len(admissions) == len(set(admissions))
    assert len({secret["data"]["curve.cert"] for secret in made}) == len(made)

    # Only a Job without a queue is ours to unsuspend.
    queued = "kueue.x-k8s.io/queue-name" in world.get(JOBS)["metadata"]["labels"]
    assert any("spec" in write.body for write in writes(life, "patch")) == (not queued)
    assert world.api.get(JOBS, SERVICES_NAME, NAMESPACE) is None, "services are left of a run that has ended"

    # Where all is as it should be, nothing is written: neither by the last process nor by a new one.
    for adapter in (life.adapter, Adapter(world)):
        assert adapter is not None
        before = adapter.writes
        for _ in range(3):
            await adapter.turn()
        assert adapter.writes == before


def writes(life: Life, verb: str, resource: Any = None) -> list[Write]:
    """What all processes wrote, of one kind."""
    every = [write for adapter in life.adapters for write in adapter.client.writes if write.verb == verb]
    return [write for write in every if resource in (None, write.resource)]


def end_state(world: World) -> dict[Any, Any]:
    """All objects, without what counts how often they were written."""
    state = {place: copied(obj) for place, obj in world.api.objects.items()}
    for obj in state.values():
        del obj["metadata"]["resourceVersion"]
        obj["metadata"].pop("managedFields", None)
    return state


_clean: dict[str, Life] = {}


async def undisturbed(story: str) -> Life:
    """The life of a MiniCluster whose adapter never dies."""
    if story not in _clean:
        _clean[story] = await live(STORIES[story])
    return _clean[story]


async def number_of_writes(story: str) -> int:
    life = await undisturbed(story)
    assert len(life.adapters) == 1
    return life.adapters[0].writes


async def test_a_life_without_a_crash() -> None:
    queued, loose = await undisturbed("queued"), await undisturbed("loose")
    assert [(s.index, s.period, s.brokers) for s in queued.world.starts] == [
        *((index, 1, 4) for index in range(4)),
        *((index, 2, 3) for index in range(3)),
    ]
    first, second = ({s.certificate for s in queued.world.starts if s.period == period} for period in (1, 2))
    assert (len(first), len(second), len(first | second)) == (1, 1, 2)
    assert len({s.certificate for s in loose.world.starts}) == 1
    assert queued.world.status["exitCode"] == 0
    assert loose.world.status["exitCode"] == 3
    assert queued.world.status["admissions"] == 2
    # 3 objects, 2 files an admission, 2 deletions an admission, and the status
    assert await number_of_writes("queued") <= 24
    assert await number_of_writes("loose") <= 14


@cache
def _counted() -> dict[str, int]:
    return {story: asyncio.run(number_of_writes(story)) for story in STORIES}


def each_write() -> list[Any]:
    """Every write of every story, by number."""
    return [
        pytest.param(story, number, id=f"{story}-{number}")
        for story, count in _counted().items()
        for number in range(1, count + 1)
    ]


@pytest.mark.parametrize(("story", "number"), each_write())
async def test_killed_and_replaced_at_once(story: str, number: int) -> None:
    clean = await undisturbed(story)
    for when in ("before", "after"):
        for last in ("ConfigMap", "Secret"):  # which of two writes that are under way at the same time is later
            life = await live(STORIES[story], fault=Fault(number, when), last=last)  # type: ignore[arg-type]
            assert len(life.adapters) == 2
            # Nobody can tell that it happened: not from what there is, nor from what was started when.
            assert end_state(life.world) == end_state(clean.world)
            assert [(s.pod, s.index, s.period, s.brokers) for s in life.world.starts] == [
                (s.pod, s.index, s.period, s.brokers) for s in clean.world.starts
            ]
            for period in range(3):
                assert len({s.certificate for s in life.world.starts if s.period == period}) <= 1
            assert not writes(life, "deletecollection", PODS)


@pytest.mark.parametrize(("story", "number"), each_write())
async def test_killed_and_replaced_after_the_world_went_on(story: str, number: int) -> None:
    """Pods may start with files of a former admission while nobody is there; whoever comes next must see to it."""
    clean = await undisturbed(story)
    for away in (1, 2, 4):
        for when in ("before", "after"):
            last = "Secret" if away % 2 else "ConfigMap"
            life = await live(STORIES[story], fault=Fault(number, when), away=away, last=last)  # type: ignore[arg-type]
            assert life.world.reasons()["Finished"] == clean.world.reasons()["Finished"]
            assert life.world.status["exitCode"] == clean.world.status["exitCode"]
            assert life.world.kinds() == clean.world.kinds()


@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_again_while_it_replaces_files_of_a_former_admission(number: int, when: Any) -> None:
    world = World()
    life = Life(world)
    for stage in QUEUED[:4]:
        await life.stage(lambda stage=stage: stage(world))  # type: ignore[misc]
    assert world.reasons()["Ready"] == "True BrokersUp"
    for happens in (world.evict, world.suspend, world.work, world.release, lambda: world.admit(3), world.work):
        world.pass_time()
        happens()
    life.adapter = Adapter(world, Fault(number, when))
    life.adapters.append(life.adapter)
    await life.settle()
    for stage in QUEUED[-3:]:
        await life.stage(lambda stage=stage: stage(world))  # type: ignore[misc]
    await check(life)


@pytest.mark.parametrize(("story", "number"), each_write())
async def test_a_write_without_an_answer(story: str, number: int) -> None:
    """The process goes on, with stores that know nothing of a write that did take effect."""
    clean = await undisturbed(story)
    for when, last in (("before", "ConfigMap"), ("after", "Secret")):
        fault = Fault(number, when, timeout)  # type: ignore[arg-type]
        life = await live(STORIES[story], fault=fault, last=last)
        assert len(life.adapters) == 1
        assert end_state(life.world) == end_state(clean.world)
        assert not writes(life, "deletecollection", PODS)
