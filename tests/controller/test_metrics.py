"""What is counted: by queue, once each, whichever process counts; and what the registry then exports."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import subprocess
from datetime import datetime, timedelta
from typing import Any

import pytest
from prometheus_client import generate_latest

from kueue_flux.controller import life as life_
from kueue_flux.controller import metrics
from kueue_flux.controller.metrics import KEEP_SECONDS, Miniclusters
from kueue_flux.controller.resources import JOBS, MINICLUSTERS, WORKLOADS
from kueue_flux.kueue.workload import read
from kueue_flux.runtime.metrics import REGISTRY
from kueue_flux.runtime.store import Store
from tests import builders
from tests.builders import AT, NAME, NAMESPACE, MiniClusterBuilder, minicluster
from tests.controller.test_reconcile import run_until, suspended, time_out
from tests.controller.world import SERVICES_NAME, Adapter, Life, World

QUEUE = ("team", "q")


@pytest.fixture(autouse=True)
def from_zero() -> None:
    """Each test counts from zero."""
    for metric in metrics.OF_QUEUE:
        metric.clear()
    metrics.miniclusters._last.clear()
    metrics.miniclusters._met.clear()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def life(world: World) -> Life:
    return Life(world)


def counted(queue: tuple[str, str] = QUEUE) -> dict[str, float]:
    """What is exported for a queue and is not zero, but for buckets and times of creation."""
    by_queue = {"namespace": queue[0], "queue": queue[1]}
    found = {}
    for family in REGISTRY.collect():
        for sample in family.samples:
            labels = dict(sample.labels)
            mine = all(labels.pop(name, None) == value for name, value in by_queue.items())
            if mine and sample.value and not sample.name.endswith(("_bucket", "_created")):
                found[" ".join([sample.name.removeprefix("kueue_flux_"), *labels.values()])] = sample.value
    return found


async def end(life: Life, code: int = 0, message: str = "") -> None:
    world = life.world
    for stage in (lambda: world.end_lead(code, message), lambda: world.decide_job(code == 0)):
        await life.stage(stage)


async def test_what_is_counted_of_a_life(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit, world.evict, world.suspend, world.release, world.admit)
    await end(life)
    await life.stage(world.finish_job)
    assert counted() == {
        "admission_wait_seconds_count false": 1,
        "admission_wait_seconds_sum false": 20,  # from the submission to the first admission
        "admission_wait_seconds_count true": 1,
        "admission_wait_seconds_sum true": 30,  # from the eviction to the second
        "injections_total": 2,
        "injection_seconds_count": 2,  # in no time, by this world's clock
        "boot_seconds_count": 2,
        "evictions_total Preempted": 1,
        "finished_total Succeeded": 1,
    }


async def test_another_process_counts_nothing_again(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit, world.evict, world.suspend, world.release, world.admit)
    before = counted()
    for _ in range(2):
        await Adapter(world).turn()
    assert counted() == before
    await end(life, 3)
    before = counted()
    await Adapter(world).turn()
    assert counted() == before
    assert before["failures_total CommandFailed"] == 1


async def test_without_a_queue_nothing_was_waited_for(world: World, life: Life) -> None:
    await run_until(life, lambda: None, mc=minicluster().size(4))
    assert counted() == {}
    assert counted((NAMESPACE, "-")) == {"injections_total": 1, "boot_seconds_count": 1}


async def test_the_queue_is_the_one_that_kueue_chose(world: World, life: Life) -> None:
    world.with_default_queue()
    await run_until(life, world.make_workload, world.admit, mc=minicluster().size(4))
    assert counted((NAMESPACE, "default"))["injections_total"] == 1


# -- how long it took


async def admitted_after(world: World, seconds: float, adapter: Adapter) -> None:
    """Let an adapter see an admission, and have it act on it so much later."""
    world.submit(minicluster().queue("q").size(4))
    adapter.hear_all()
    await adapter.turn()
    world.make_workload()
    adapter.hear_all()
    await adapter.turn()
    world.admit()
    adapter.hear_all()
    world.pass_time(seconds)
    await adapter.turn()


async def test_an_injection_is_timed_from_the_moment_when_the_admission_was_seen(world: World) -> None:
    await admitted_after(world, 0.25, Adapter(world))
    assert counted()["injection_seconds_sum"] == pytest.approx(0.25)


async def test_an_admission_that_was_there_at_the_start_is_not_timed(world: World) -> None:
    adapter = Adapter(world)
    world.submit(minicluster().queue("q").size(4))
    adapter.hear_all()
    await adapter.turn()
    world.make_workload()
    world.admit()
    world.pass_time(3600)
    await Adapter(world).turn()
    found = counted()
    assert found["injections_total"] == 1
    assert "injection_seconds_count" not in found


async def test_the_time_that_services_take_is_not_the_injections(world: World, life: Life) -> None:
    workloads = (world.make_workload, lambda: world.make_workload(SERVICES_NAME))
    mc = minicluster().queue("q").size(4).service("web", ports=[80])
    await run_until(life, *workloads, world.admit_services, world.admit, mc=mc)
    found = counted()
    assert found["injections_total"] == 1
    assert "injection_seconds_count" not in found


async def test_what_was_seen_is_forgotten_with_the_admission(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    assert life.adapter
    seen = life.adapter.reconciler._sightings
    assert len(seen) == 1
    await life.stage(world.evict)
    assert len(seen) == 0
    await run_until_again(life)
    assert len(seen) == 1
    await life.stage(lambda: world.api.delete(WORKLOADS, f"job-{NAME}", NAMESPACE))
    assert len(seen) == 0


async def run_until_again(life: Life) -> None:
    world = life.world
    for stage in (world.suspend, world.release, world.admit):
        await life.stage(stage)


async def test_workloads_of_others_are_not_followed(world: World) -> None:
    adapter = Adapter(world)
    theirs = builders.workload(builders.job(minicluster("theirs").queue("q")))
    for version, obj in enumerate((theirs.waiting().obj(), theirs.admitted().obj()), 100):
        adapter.stores[WORKLOADS].observe({**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}})
    assert len(adapter.reconciler._sightings) == 0


def test_which_admissions_are_seen_to_come() -> None:
    job = builders.job(minicluster().queue("q"))
    jobs, workloads = Store(), Store()
    now = datetime.fromisoformat(AT)
    jobs.observe(job.obj())
    seen = life_.Sightings(workloads, jobs, lambda: now)
    version = itertools.count(100)

    def age(workload: builders.WorkloadBuilder) -> float | None:
        obj = workload.meta(resourceVersion=str(next(version))).obj()
        workloads.observe(obj)
        admission = read(obj).admission
        return seen.seconds(NAMESPACE, admission) if admission else None

    assert age(builders.workload(job).admitted()) is None, "it was there before"
    assert age(builders.workload(job).admitted().condition("PodsReady")) is None, "the same admission"
    assert age(builders.workload(job).admitted().evicted()) is None
    assert age(builders.workload(job).admitted(at="2030-01-31T12:00:09Z")) == 0
    now += timedelta(seconds=2)
    assert age(builders.workload(job).admitted(at="2030-01-31T12:00:09Z").condition("PodsReady")) == 2
    assert age(builders.workload(job).admitted(at="2030-01-31T12:00:19Z")) == 0, "an eviction went by unseen"


async def test_brokers_that_come_back_have_not_booted_again(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    lost = world.running()[2]
    world.unpullable = {2}
    await life.stage(lambda: world._set_pod(lost, builders.pod(world.get(JOBS), 2).ended(137).obj()["status"]))
    assert world.reasons()["Ready"].startswith("False")
    world.unpullable = set()
    await life.stage(lambda: None)
    assert world.reasons()["Ready"] == "True BrokersUp"
    assert counted()["boot_seconds_count"] == 1


async def test_no_time_is_negative_where_the_clocks_differ(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, lambda: world.pass_time(-3600), world.admit)
    found = counted()
    assert found["admission_wait_seconds_count false"] == 1
    assert "admission_wait_seconds_sum false" not in found


# -- why


@pytest.mark.parametrize(
    ("reason", "label"),
    [
        ("PodsReadyTimeout", "PodsReadyTimeout"),
        ("DeactivatedDueToRequeuingLimitExceeded", "DeactivatedDueToRequeuingLimitExceeded"),
        ("DeactivatedDueToSomebodysOwnCheck", "Other"),
    ],
)
async def test_evictions_by_reason(world: World, life: Life, reason: str, label: str) -> None:
    await run_until(life, world.make_workload, world.admit, lambda: world.evict(reason))
    assert counted()[f"evictions_total {label}"] == 1


async def test_an_eviction_that_went_by_unseen_is_counted_too(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    world.pass_time()
    world.evict()
    world.suspend()
    world.work()
    world.release()
    world.pass_time()
    await life.stage(world.admit)
    found = counted()
    assert (found["injections_total"], found["evictions_total Unknown"]) == (2, 1)
    assert "admission_wait_seconds_count true" not in found, "nobody knows since when it had waited"


async def test_the_end_of_a_run_is_no_eviction(world: World, life: Life) -> None:
    """Even where all of it is seen at once: the run has ended, and its Workload is gone."""
    await run_until(life, world.make_workload, world.admit, world.end_lead)
    await life.stage(lambda: (world.decide_job(), world.api.delete(WORKLOADS, f"job-{NAME}", NAMESPACE)))
    found = counted()
    assert found["finished_total Succeeded"] == 1
    assert not [name for name in found if name.startswith("evictions")]


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        (3, "exit-code=3\nreason=CommandFailed\n", "CommandFailed"),
        (127, "exit-code=127\nreason=CommandNotFound\n", "CommandNotFound"),
        (1, "exit-code=1\nreason=FluxFailed\nnote=no\n", "FluxFailed"),
        (5, "", "CommandFailed"),
        (5, "reason=made up by the command\n", "CommandFailed"),
    ],
)
async def test_failures_by_reason(world: World, life: Life, code: int, message: str, reason: str) -> None:
    await run_until(life, world.make_workload, world.admit)
    await end(life, code, message)
    found = counted()
    assert (found["finished_total Failed"], found[f"failures_total {reason}"]) == (1, 1)
    assert reason in life_.FAILURES


@pytest.mark.parametrize(
    ("reason", "label"),
    [("DeadlineExceeded", "DeadlineExceeded"), ("BackoffLimitExceeded", "BackoffLimitExceeded"), ("New", "Other")],
)
async def test_a_job_that_fails_without_a_word_of_its_lead(world: World, life: Life, reason: str, label: str) -> None:
    await run_until(life, world.make_workload, world.admit)
    await life.stage(lambda: world.finish_job(False, reason, "no words"))
    await life.stage(lambda: None)  # its last words are waited for
    assert counted()[f"failures_total {label}"] == 1


async def test_too_long_a_run_has_one_reason(world: World, life: Life) -> None:
    stages = (lambda: time_out(world), lambda: suspended(world), lambda: None)
    await run_until(life, world.make_workload, world.admit, *stages)
    found = counted()
    assert found["failures_total MaximumExecutionTimeExceeded"] == 1
    assert found["evictions_total DeactivatedDueToMaximumExecutionTimeExceeded"] == 1


# -- what there is at the moment


def standing(name: str, *true: str, queue: str = "q", **reasons: str) -> dict[str, Any]:
    """A MiniCluster of which these conditions hold, and these others do not, for a reason."""
    made: MiniClusterBuilder = minicluster(name)
    if queue:
        made.queue(queue)
    for kind in true:
        made.condition(kind)
    for kind, reason in reasons.items():
        made.condition(kind, "False", reason)
    return made.obj()


def exported(collector: Miniclusters, *, zero: bool = False) -> dict[str, float]:
    samples = [sample for family in collector.collect() for sample in family.samples]
    return {" ".join(sample.labels.values()): sample.value for sample in samples if sample.value or zero}


async def counting(collector: Miniclusters, *objects: dict[str, Any]) -> asyncio.Task[None]:
    task = asyncio.create_task(collector.count(objects))
    await asyncio.sleep(0)
    return task


STANDING = (
    standing("new"),
    standing("waits", "Accepted", QuotaReserved="Pending", Admitted="Pending"),
    standing("reserved", "Accepted", "QuotaReserved", Admitted="AdmissionChecks"),
    standing("starts", "Accepted", "QuotaReserved", "Admitted", Ready="PodsPending"),
    standing("runs", "Accepted", "QuotaReserved", "Admitted", "Injected", "Ready", Finished="Running"),
    standing("ended", "Accepted", "Admitted", "Finished", Ready="Finished"),
    standing("loose", "Accepted", "Admitted", "Ready", queue=""),
    standing("bad", Accepted="InvalidSpec"),
    standing("odd", "Admitted", "Ready", Accepted="SomethingElse"),
)


async def test_miniclusters_by_stage() -> None:
    collector = Miniclusters()
    await counting(collector, *STANDING)
    assert exported(collector) == {
        "team q waiting": 4,
        "team q admitted": 1,
        "team q running": 2,
        "team q finished": 1,
        "team - running": 1,
        "team q InvalidSpec": 1,
        "team q Other": 1,
    }
    assert exported(collector, zero=True)["team - waiting"] == 0


async def test_only_the_process_that_leads_counts_them() -> None:
    collector = Miniclusters()
    assert exported(collector) == {}
    task = await counting(collector, *STANDING)
    assert exported(collector)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert exported(collector) == {}


async def test_the_series_of_a_queue_begin_at_zero_and_end_a_while_after_its_last_minicluster() -> None:
    now = 0.0
    collector = Miniclusters(lambda: now)

    def series() -> set[str]:
        return {name for name in generate_latest(REGISTRY).decode().splitlines() if 'queue="q"' in name}

    task = await counting(collector, standing("a"))
    list(collector.collect())
    names = {line.partition("{")[0] for line in series()}
    assert "kueue_flux_injections_total" in names
    assert 'kueue_flux_finished_total{namespace="team",queue="q",result="Failed"} 0.0' in series()
    metrics.injections.labels(*QUEUE).inc()
    for _ in range(3):
        now += KEEP_SECONDS
        list(collector.collect())
    assert 'kueue_flux_injections_total{namespace="team",queue="q"} 1.0' in series(), "there still is one in it"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    now += KEEP_SECONDS - 1
    list(collector.collect())
    assert series()
    now += 2
    list(collector.collect())
    assert series() == set()


async def test_what_is_counted_before_anybody_asks_ends_as_well(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    assert QUEUE in metrics.miniclusters._last


def test_of_one_namespace_a_hundred_queues_have_series_of_their_own() -> None:
    now = 0.0
    collector = Miniclusters(lambda: now)
    names = [collector.meet(("team", f"q{number}"))[1] for number in range(metrics.MOST_QUEUES + 10)]
    assert names == [f"q{number}" for number in range(metrics.MOST_QUEUES)] + [metrics.OTHERS] * 10
    assert collector.meet(("team", "q7")) == ("team", "q7")
    assert collector.meet(("others", "q200")) == ("others", "q200")
    now += KEEP_SECONDS + 1
    list(collector.collect())
    assert collector.meet(("team", "q200")) == ("team", "q200"), "there is room again"


async def test_what_is_beyond_is_counted_together(monkeypatch: pytest.MonkeyPatch, world: World, life: Life) -> None:
    monkeypatch.setattr(metrics, "MOST_QUEUES", 0)
    await run_until(life, world.make_workload, world.admit)
    assert counted() == {}
    assert counted((NAMESPACE, metrics.OTHERS))["injections_total"] == 1


# -- the format


@pytest.fixture
async def exposition(world: World, life: Life) -> bytes:
    """What is scraped when something has happened."""
    await run_until(life, world.make_workload, world.admit, world.evict)
    task = await counting(metrics.miniclusters, *STANDING)
    text = generate_latest(REGISTRY)
    task.cancel()
    return text


def test_promtool_has_nothing_against_the_exposition(exposition: bytes) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on PATH (apt-get install --no-install-recommends prometheus)")
    checked = subprocess.run([promtool, "check", "metrics"], input=exposition, capture_output=True)
    assert checked.stderr.decode() == ""


def test_a_minicluster_in_a_store_is_counted_as_its_status_says(world: World) -> None:
    world.submit(minicluster().queue("q"))
    obj = Adapter(world).stores[MINICLUSTERS].get(NAMESPACE, NAME)
    assert obj is not None
    assert metrics.queue_of(obj) == QUEUE
    assert metrics.queue_of({**obj, "status": {"queue": "other"}}) == ("team", "other")
