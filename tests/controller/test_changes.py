"""What is changed of a MiniCluster after its Job was made: what the Job follows, and what the user is told."""

from __future__ import annotations

from typing import Any

import pytest

from kueue_flux.controller.accepted import MADE_FROM
from kueue_flux.controller.resources import JOBS, MINICLUSTERS, WORKLOADS
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Object
from tests.builders import GATED, NAME, QUEUE, MiniClusterBuilder, minicluster
from tests.controller.world import SERVICES_NAME, Life, World

PRIORITY = "kueue.x-k8s.io/priority-class"
MAX_EXEC = "kueue.x-k8s.io/max-exec-time-seconds"
RACK = "kueue.x-k8s.io/podset-required-topology"


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def life(world: World) -> Life:
    return Life(world)


def queued() -> MiniClusterBuilder:
    return minicluster().queue("q").size(4)


async def run_until(life: Life, *stages: Any, mc: MiniClusterBuilder | None = None) -> None:
    """Submit, and let things happen one after the other."""
    await life.stage(lambda: life.world.submit(mc or queued()))
    for stage in stages:
        await life.stage(stage)


async def label(life: Life, key: str, value: str | None) -> None:
    """The user changes a label of the MiniCluster, or takes it away."""

    def change(obj: Object) -> None:
        labels = obj["metadata"].setdefault("labels", {})
        labels.pop(key, None)
        labels.update({key: value} if value else {})

    await life.stage(lambda: life.world.edit(MINICLUSTERS, change))


def labels(world: World, job: str = NAME) -> dict[str, str]:
    found: dict[str, str] = world.get(JOBS, job)["metadata"]["labels"]
    return found


def told(life: Life, reason: str) -> list[str]:
    """What the user was told with this reason, as type and note."""
    return [f"{kind} {note}" for each in life.adapters for kind, why, note in each.told if why == reason]


async def test_a_waiting_job_follows_into_another_queue(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.keep_waiting)
    await label(life, QUEUE, "other")
    assert labels(world)[QUEUE] == "other"
    assert world.status["queue"] == "other"
    assert world.reasons()["Accepted"] == "True Accepted"
    assert told(life, "QueueChanged") == ["Normal it waits in queue other now, and no longer in q"]
    await life.stage(world.admit)
    assert world.reasons()["Ready"] == "True BrokersUp"


async def test_the_queue_may_be_changed_in_the_labels_of_the_job_too(world: World, life: Life) -> None:
    mc = minicluster().size(4).spec(jobLabels={QUEUE: "q", "team": "hpc"})
    await run_until(life, world.make_workload, world.keep_waiting, mc=mc)
    await life.stage(lambda: world.edit(MINICLUSTERS, lambda obj: obj["spec"]["jobLabels"].update({QUEUE: "other"})))
    assert labels(world)[QUEUE] == "other"
    assert world.reasons()["Accepted"] == "True Accepted"
    await life.stage(lambda: world.edit(MINICLUSTERS, lambda obj: obj["spec"]["jobLabels"].update(team="bio")))
    assert world.reasons()["Accepted"] == "False SpecChanged"


async def test_what_holds_quota_stays_in_its_queue_until_it_is_evicted(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    await label(life, QUEUE, "other")
    assert labels(world)[QUEUE] == "q"
    assert world.reasons()["Accepted"] == "False SpecChanged"
    assert world.message("Accepted").startswith("the queue was changed to other, but it holds quota of queue q: undo")
    assert len(told(life, "SpecChanged")) == 1
    for stage in (world.evict, world.suspend):
        await life.stage(stage)
    assert labels(world)[QUEUE] == "q"
    assert world.reasons()["Accepted"] == "True Accepted", "it will follow in a moment"
    await life.stage(world.release)
    assert labels(world)[QUEUE] == "other"


async def test_quota_that_is_reserved_keeps_it_in_its_queue_before_it_is_admitted(world: World, life: Life) -> None:
    def reserve() -> None:
        world.admit()
        world.edit(JOBS, lambda job: job["spec"].update(suspend=True))
        world.edit(WORKLOADS, lambda obj: obj["status"]["conditions"].pop(), f"job-{NAME}")

    await run_until(life, world.make_workload, reserve)
    assert world.reasons()["Admitted"].startswith("False")
    await label(life, QUEUE, "other")
    assert labels(world)[QUEUE] == "q"
    assert "it holds quota of queue q" in world.message("Accepted")


async def test_without_a_queue_it_gets_none_later(world: World, life: Life) -> None:
    await run_until(life, mc=minicluster())
    await label(life, QUEUE, "other")
    assert QUEUE not in labels(world)
    assert world.message("Accepted").startswith("the queue was changed to other after the Job was created for no queue")


async def test_its_services_follow_too(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, lambda: world.make_workload(SERVICES_NAME), mc=queued().service())
    await label(life, QUEUE, "other")
    assert labels(world)[QUEUE] == labels(world, SERVICES_NAME)[QUEUE] == "other"
    assert len(told(life, "QueueChanged")) == 1


async def test_services_that_hold_quota_keep_it_in_its_queue(world: World, life: Life) -> None:
    both = (world.make_workload, lambda: world.make_workload(SERVICES_NAME), world.admit_services)
    await run_until(life, *both, mc=queued().service())
    assert GATED not in world.get(JOBS)["metadata"].get("annotations", {})
    await label(life, QUEUE, "other")
    assert labels(world)[QUEUE] == labels(world, SERVICES_NAME)[QUEUE] == "q"
    assert "its services hold quota of queue q" in world.message("Accepted")


async def test_kueues_refusal_is_told_in_its_words_and_nothing_is_lost(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.keep_waiting)

    def webhook(obj: Object) -> None:
        if obj["kind"] == "Job" and labels_of(obj)[QUEUE] == "other":
            raise ApiError(403, "Forbidden", "queue-name: field is immutable")

    world.api.webhooks.append(webhook)
    await label(life, QUEUE, "other")
    assert world.reasons()["Accepted"] == "False SpecChanged"
    assert "queue-name: field is immutable" in world.message("Accepted")
    await life.stage(world.admit)
    assert world.reasons()["Ready"] == "True BrokersUp"


def labels_of(obj: Object) -> dict[str, str]:
    found: dict[str, str] = obj["metadata"]["labels"]
    return found


@pytest.mark.parametrize(
    ("was", "stages", "follows"),
    [(None, 0, True), ("low", 0, True), ("low", 1, True), (None, 1, False)],
    ids=["waits, had none", "waits", "runs", "runs, had none"],
)
async def test_the_priority_class_follows_as_far_as_kueue_lets_it(
    world: World, life: Life, was: str | None, stages: int, follows: bool
) -> None:
    mc = queued().label(PRIORITY, was) if was else queued()
    await run_until(life, world.make_workload, *[world.admit][:stages], mc=mc)
    await label(life, PRIORITY, "high")
    assert (labels(world).get(PRIORITY) == "high") is follows
    assert world.reasons()["Accepted"] == ("True Accepted" if follows else "False SpecChanged")
    assert (
        told(life, "PriorityChanged") == [f"Normal its priority class is high now, and no longer {was or 'none'}"]
    ) is follows


async def test_a_class_or_queue_that_is_taken_away_stays(world: World, life: Life) -> None:
    """Kueue takes none away, and may have given its default."""
    await run_until(life, world.make_workload, mc=queued().label(PRIORITY, "low"))
    await label(life, PRIORITY, None)
    await label(life, QUEUE, None)
    assert (labels(world)[PRIORITY], labels(world)[QUEUE]) == ("low", "q")
    assert world.reasons()["Accepted"] == "True Accepted"


async def test_a_changed_time_is_told(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, mc=queued().label(MAX_EXEC, "60"))
    await label(life, MAX_EXEC, "120")
    assert world.message("Accepted").startswith(f"label {MAX_EXEC} changed after the Job was created: undo the change")


async def test_a_label_that_cannot_be_run_with_does_not_stop_what_runs(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    await label(life, MAX_EXEC, "soon")
    assert world.reasons()["Accepted"] == "False SpecChanged"
    assert "'soon' is not a whole number of seconds" in world.message("Accepted")
    await life.stage(world.evict)
    assert world.certificate() is None, "the files are withdrawn as ever"
    for stage in (world.suspend, world.release, world.admit, world.end_lead, world.decide_job):
        await life.stage(stage)
    assert world.reasons()["Finished"] == "True Succeeded"


async def test_changed_topology_is_told_and_what_was_is_kept(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, mc=queued().meta(annotations={RACK: "rack", "note": "a"}))
    assert '"annotations":{"' + RACK in world.get(JOBS)["metadata"]["annotations"][MADE_FROM]

    def annotate(**annotations: str) -> None:
        world.edit(MINICLUSTERS, lambda obj: obj["metadata"].update(annotations=annotations))

    await life.stage(lambda: annotate(**{RACK: "block", "note": "b"}))
    assert world.message("Accepted").startswith(f"metadata.annotations.{RACK} changed after the Job was created")
    await life.stage(lambda: annotate(**{RACK: "no label!"}))
    assert world.reasons()["Accepted"] == "False SpecChanged", "what runs is not refused"
    await life.stage(lambda: annotate(**{RACK: "rack"}))
    assert world.reasons()["Accepted"] == "True Accepted"
