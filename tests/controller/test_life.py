"""One MiniCluster followed through its life in the log, by one key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from kueue_flux.controller import steps
from kueue_flux.controller.resources import JOBS, MINICLUSTERS, SERVICES
from tests import builders
from tests.builders import NAME, NAMESPACE, minicluster
from tests.controller.test_reconcile import run_until, scribble
from tests.controller.world import KEY, Adapter, Life, World

WHO = "team/hello"
Line = dict[str, Any]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def life(world: World) -> Life:
    return Life(world)


@pytest.fixture
def log() -> Iterator[list[Line]]:
    """All that is logged, as it would be printed."""
    with capture_logs(processors=[merge_contextvars]) as lines:
        yield lines


def told(log: list[Line]) -> list[str]:
    """Each line of the MiniCluster as `event key=value ...`, without what all of them have."""
    common = ("event", "minicluster", "uid", "log_level")
    mine = [line for line in log if line.get("minicluster") == WHO]
    return [" ".join([line["event"], *(f"{k}={line[k]}" for k in line if k not in common)]) for line in mine]


async def test_a_whole_life(world: World, life: Life, log: list[Line]) -> None:
    mc = minicluster().queue("q").size(4).command("launch --password hunter2")
    await run_until(life, world.make_workload, world.admit, world.evict, world.suspend, world.release, mc=mc)
    await life.stage(lambda: world.admit(2))
    for stage in (lambda: world.end_lead(3), lambda: world.decide_job(False), lambda: world.finish_job(False)):
        await life.stage(stage)
    uid = world.get(MINICLUSTERS)["metadata"]["uid"]
    await life.stage(lambda: world.api.delete(MINICLUSTERS, NAME, NAMESPACE))
    assert told(log) == [
        "created size=4 queue=q",
        "admitted size=4 asked=4 queue=q cluster_queue=cq again=False seconds=20.0",
        "injected brokers=4 seconds=0.0",
        "brokers up brokers=4 seconds=0.0",
        "evicted reason=Preempted seconds=10.0",
        "admitted size=2 asked=4 queue=q cluster_queue=cq again=True seconds=30.0",
        "injected brokers=2 seconds=0.0",
        "brokers up brokers=2 seconds=0.0",
        "finished result=Failed reason=CommandFailed exit_code=3 seconds=20.0",
        "deleted",
    ]
    assert len(log) == len(told(log)), "each line has the key"
    assert {line["uid"] for line in log} == {uid}
    assert {line["log_level"] for line in log} == {"info"}
    assert "hunter2" not in str(log)
    assert "launch" not in str(log)


async def test_in_steady_state_nothing_is_said(world: World, life: Life, log: list[Line]) -> None:
    await run_until(life, world.make_workload, world.keep_waiting)
    log.clear()
    for _ in range(3):
        await life.stage(world.keep_waiting)
    await life.stage(world.admit)
    log.clear()
    for _ in range(3):
        await life.stage(lambda: None)
    assert log == []


async def test_another_process_says_nothing_again(world: World, life: Life, log: list[Line]) -> None:
    await run_until(life, world.make_workload, world.admit)
    log.clear()
    await Adapter(world).turn()
    assert log == []


async def test_a_job_that_was_made_by_a_process_that_died_is_told_of(world: World, log: list[Line]) -> None:
    world.submit(minicluster().queue("q"))
    first = Adapter(world)
    for step in steps.STEPS[:2]:  # up to the Job, without a word
        turn = _turn(first, world)
        await step(turn)
    assert world.get(JOBS)
    await Adapter(world).turn()
    assert told(log) == ["created size=4 queue=q"]


def _turn(adapter: Adapter, world: World) -> steps.Turn:
    reconciler = adapter.reconciler
    obj = adapter.stores[MINICLUSTERS].get(*KEY)
    assert obj is not None
    mc = reconciler._parsed.get(obj, None)
    return steps.Turn(
        client=reconciler._client,
        jobs=adapter.stores[JOBS],
        facts=reconciler._gather(mc, obj, None),
        obj=obj,
        now=world.api.now,
        cluster_domain="cluster.local",
        conflicts=reconciler.conflicts,
        restored={},
    )


async def test_a_refusal_and_its_end(world: World, life: Life, log: list[Line]) -> None:
    bad = minicluster().queue("q").spec(flux={"bursting": {"leadBroker": {"address": "a"}}})
    await run_until(life, lambda: None, mc=bad)
    good = minicluster().queue("q").obj()["spec"]
    await life.stage(lambda: world.edit(MINICLUSTERS, lambda obj: obj.update(spec=good)))
    assert told(log) == ["not accepted reason=UnsupportedField", "created size=4 queue=q", "accepted again"]
    assert log[0]["log_level"] == "warning"


async def test_a_job_that_could_not_be_made_at_first(world: World, life: Life, log: list[Line]) -> None:
    world.api.create(SERVICES, {"metadata": {"name": "net", "namespace": NAMESPACE}})
    await run_until(life, lambda: None, mc=minicluster().queue("q").network(headlessName="net"))
    await life.stage(lambda: world.api.delete(SERVICES, "net", NAMESPACE))
    assert told(log) == ["not accepted reason=NameTaken", "created size=4 queue=q", "accepted again"]


async def test_what_holds_it_up(world: World, life: Life, log: list[Line]) -> None:
    world.unpullable = {1}
    await run_until(life, world.make_workload, world.admit, mc=minicluster().queue("q").size(4))
    assert told(log)[-1] == "held up reason=ImagePullFailed"
    world.unpullable = set()
    log.clear()
    await life.stage(lambda: None)
    assert told(log) == ["brokers up brokers=4 seconds=10.0"]


async def test_a_broker_that_is_lost(world: World, life: Life, log: list[Line]) -> None:
    await run_until(life, world.make_workload, world.admit, mc=minicluster().queue("q").size(4))
    log.clear()
    world.unmountable = {2}
    lost = world.running()[2]
    await life.stage(lambda: world._set_pod(lost, builders.pod(world.get(JOBS), 2).ended(137).obj()["status"]))
    assert told(log) == ["brokers lost reason=PodsPending brokers=3"]


async def test_a_fault_of_ours_and_a_write_that_comes_too_late(
    world: World, life: Life, log: list[Line], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(turn: object) -> bool:
        raise KeyError("a secret")

    world.submit(minicluster().queue("q"))
    monkeypatch.setattr(steps, "STEPS", (fails,))
    adapter = Adapter(world)
    world.edit(MINICLUSTERS, lambda obj: obj["metadata"].update(labels={"a": "b"}))  # the adapter has not heard of it
    with pytest.raises(KeyError):
        await adapter.turn()
    adapter.hear_all()
    with pytest.raises(KeyError):
        await adapter.turn()
    assert [line.partition(" error=")[0] for line in told(log)] == [
        "status not written",
        "not accepted reason=InternalError",
    ]


async def test_another_operator(world: World, life: Life, log: list[Line]) -> None:
    await run_until(life, world.make_workload, world.admit)
    log.clear()
    await life.stage(lambda: scribble(world, maximumSize=9))
    assert told(log)[0].startswith("another operator is at work: run only one seen=flux-operator writes its status")
    assert told(log)[1:] == ["not accepted reason=ConflictingController"]
    assert all(line["minicluster"] == WHO for line in log)


async def test_made_anew_under_the_same_name(world: World, life: Life, log: list[Line]) -> None:
    await run_until(life, world.make_workload)
    before = world.get(MINICLUSTERS)["metadata"]["uid"]
    log.clear()
    world.api.delete(MINICLUSTERS, NAME, NAMESPACE)
    await life.stage(lambda: world.submit(minicluster().queue("q")))
    assert [(line["event"], line["uid"] == before) for line in log][:1] == [("deleted", True)]
    assert log[1]["uid"] == world.get(MINICLUSTERS)["metadata"]["uid"]
