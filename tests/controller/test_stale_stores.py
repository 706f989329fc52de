"""Events that are late, repeated, or heard in another order than they happened: the end is the same.

Each store follows its own watch, so each lags behind in its own way; only the order within one store is certain.
"""

from __future__ import annotations

import random

import pytest

from kueue_flux.controller.resources import JOBS, PODS, WORKLOADS
from kueue_flux.runtime.resource import Resource
from tests.controller.test_crashes import QUEUED, STORIES, check, end_state, undisturbed
from tests.controller.world import Adapter, Life, NotYetError, World

ROUNDS = 6


class LaggingLife(Life):
    """A life in which the adapter hears of things late, and of some twice.

    Args:
        world: The cluster.
        chance: What decides how late.
    """

    def __init__(self, world: World, chance: random.Random) -> None:
        super().__init__(world)
        assert self.adapter
        self._chance = chance
        self._most = {resource: chance.choice((0, 1, 1, 2, 9)) for resource in self.adapter.stores}

    async def stage(self, happens) -> None:  # type: ignore[no-untyped-def]
        self.world.pass_time(1)  # the lead's last words must not be later than those that wait for them
        try:
            happens()
        except NotYetError:
            await self.settle()
            happens()
        for _ in range(self._chance.randrange(ROUNDS)):
            await self._hear_something()

    async def _hear_something(self) -> None:
        assert self.adapter
        for resource in self.adapter.stores:
            count = self._chance.randint(0, self._most[resource])
            self.adapter.hear(resource, count, self._chance.choice((1, 1, 2)))
        await self.adapter.turn()
        self.world.work()


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("seed", range(30))
async def test_stores_that_lag(story: str, seed: int) -> None:
    world = World()
    life = LaggingLife(world, random.Random(seed))
    for stage in STORIES[story]:
        await life.stage(lambda stage=stage: stage(world))
    await life.settle()
    await check(life)
    clean = (await undisturbed(story)).world
    assert world.reasons()["Finished"] == clean.reasons()["Finished"]
    assert world.status["exitCode"] == clean.status["exitCode"]
    assert world.kinds() == clean.kinds()


@pytest.mark.parametrize("story", STORIES)
async def test_every_turn_twice_and_every_event_twice(story: str) -> None:
    world = World()
    life = Life(world)
    for stage in STORIES[story]:
        world.pass_time()
        stage(world)
        for _ in range(10):
            world.work()
            assert life.adapter
            for resource in life.adapter.stores:
                life.adapter.hear(resource, times=2)
            await life.adapter.turn()
            await life.adapter.turn()
        await life.settle()
    assert end_state(world) == end_state((await undisturbed(story)).world)
    await check(life)


@pytest.mark.parametrize("story", STORIES)
async def test_no_event_is_ever_heard(story: str) -> None:
    """Each stage meets a new process, which knows only what it has listed."""
    world = World()
    life = Life(world)
    for stage in STORIES[story]:
        life.adapter = Adapter(world)
        life.adapters.append(life.adapter)
        await life.stage(lambda stage=stage: stage(world))
    assert end_state(world) == end_state((await undisturbed(story)).world)
    await check(life)


@pytest.mark.parametrize("resource", [WORKLOADS, JOBS, PODS], ids=str)
@pytest.mark.parametrize("behind", [1, 2, 3, 4])
async def test_a_standby_takes_over_with_a_store_that_lags(resource: Resource, behind: int) -> None:
    """It reads of an admission that its predecessor wrote, and has not yet heard that Kueue gave it."""
    world = World()
    life = Life(world)
    *before, end, decided, finished = QUEUED
    for stage in before:
        await life.stage(lambda stage=stage: stage(world))
    life.adapter = Adapter(world, behind={resource: behind})
    life.adapters.append(life.adapter)
    await life.adapter.turn()
    while life.adapter.hear(resource, 1):
        await life.adapter.turn()
    for stage in (lambda world: None, end, decided, finished):
        await life.stage(lambda stage=stage: stage(world))
    assert world.reasons()["Finished"] == "True Succeeded"
    assert not world.kinds() & {"Secret", "ConfigMap"}
