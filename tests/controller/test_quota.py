"""What can never fit is said at once, and no longer once it may; who is woken by a change of quota, and who is not."""

from __future__ import annotations

from typing import Any

import pytest

from kueue_flux.controller import quota
from kueue_flux.controller.quota import Quota
from kueue_flux.controller.resources import JOBS, WORKLOADS, keep_job, keep_queue
from kueue_flux.controller.services import JOB_INDEXES
from kueue_flux.runtime.store import Store
from tests import builders
from tests.builders import GATED, NAME, MiniClusterBuilder, minicluster
from tests.controller.world import SERVICES_NAME, Life, World


@pytest.fixture
def world() -> World:
    world = World()
    world.give_quota(cpu=6)
    return world


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


def warnings(life: Life) -> list[str]:
    return [
        note
        for each in life.adapters
        for kind, reason, note in each.told
        if (kind, reason) == ("Warning", "ExceedsMaxQuota")
    ]


async def test_what_can_never_fit_is_said_before_kueue_has_looked_at_it(world: World, life: Life) -> None:
    await run_until(life, world.asks_for(2))
    assert world.reasons()["QuotaReserved"] == "False ExceedsMaxQuota"
    assert world.message("QuotaReserved").startswith(
        "asks for 4 nodes x 2 cpu = 8 cpu; ClusterQueue cq can give at most 6 (6 of its own): ask for fewer nodes"
    )
    assert warnings(life) == [world.message("QuotaReserved")]
    await life.stage(lambda: world.keep_waiting("ExceedsMaxQuota", "insufficient quota for cpu"))
    assert len(warnings(life)) == 1, "told once, whatever Kueue says of it later"


async def test_it_goes_on_when_the_quota_grows(world: World, life: Life) -> None:
    await run_until(life, world.asks_for(2), lambda: world.give_quota(cpu=7))
    assert "at most 7" in world.message("QuotaReserved")
    await life.stage(lambda: world.give_quota(cpu=8))
    assert world.reasons()["QuotaReserved"] == "False PendingEvaluation"
    await life.stage(world.admit)
    assert world.reasons()["Ready"] == "True BrokersUp"


async def test_what_holds_quota_may_keep_it_when_the_queue_has_less(world: World, life: Life) -> None:
    await run_until(life, world.asks_for(1), world.admit, lambda: world.give_quota(cpu=2))
    assert world.reasons()["QuotaReserved"] == "True QuotaReserved"
    for stage in (world.evict, world.suspend, world.release):
        await life.stage(stage)
    assert world.reasons()["QuotaReserved"] == "False ExceedsMaxQuota"


async def test_what_may_fit_waits_as_ever(world: World, life: Life) -> None:
    await run_until(life, world.asks_for(1), world.keep_waiting)
    assert world.message("QuotaReserved") == "2 more cpu needed"
    assert warnings(life) == []


@pytest.mark.parametrize(
    "mc", [minicluster().queue("other").size(4), minicluster().size(4)], ids=["no such queue", "no queue"]
)
async def test_without_a_queue_that_is_known_nothing_is_said(world: World, life: Life, mc: MiniClusterBuilder) -> None:
    await run_until(life, world.asks_for(2), mc=mc)
    assert "ExceedsMaxQuota" not in world.reasons()["QuotaReserved"]


async def test_a_resource_without_quota_is_kueues_to_judge(world: World, life: Life) -> None:
    def make() -> None:
        world.asks_for(1)()
        containers = [{"name": "c", "resources": {"limits": {"cpu": 1, "nvidia.com/gpu": 1}}}]
        template = {"spec": {"containers": containers}}
        world.edit(WORKLOADS, lambda obj: obj["spec"]["podSets"][0].update(template=template), f"job-{NAME}")

    await run_until(life, make)
    assert world.reasons()["QuotaReserved"] == "False PendingEvaluation", "Kueue may be told to leave it out"
    await life.stage(
        lambda: world.keep_waiting("NoMatchingFlavor", "resource nvidia.com/gpu unavailable in ClusterQueue")
    )
    assert world.reasons()["QuotaReserved"] == "False ExceedsMaxQuota"
    assert world.message("QuotaReserved").startswith("asks for nvidia.com/gpu; ClusterQueue cq can give at most 0")


async def test_services_of_what_never_fits_take_no_quota(world: World, life: Life) -> None:
    both = (world.asks_for(2), world.asks_for(1, SERVICES_NAME))
    await run_until(life, *both, mc=queued().service())
    assert world.reasons()["QuotaReserved"] == "False ExceedsMaxQuota"
    assert GATED in world.get(JOBS, SERVICES_NAME)["metadata"]["annotations"]
    await life.stage(lambda: world.give_quota(cpu=8))
    assert GATED not in world.get(JOBS, SERVICES_NAME)["metadata"].get("annotations", {})


async def test_services_that_never_fit_are_told(world: World, life: Life) -> None:
    both = (world.asks_for(1), world.asks_for(8, SERVICES_NAME))
    await run_until(life, *both, mc=queued().service())
    assert world.reasons()["QuotaReserved"] == "False ExceedsMaxQuota"
    assert world.message("QuotaReserved").startswith(
        "its services come first, and never fit: it asks for 1 node x 8 cpu; ClusterQueue cq can give at most 6"
    )


# -- who is woken


def queue(kind: str, name: str, namespace: str = "", version: int = 1, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "resourceVersion": str(version), **({"namespace": namespace} if namespace else {})}
    return {"kind": kind, "metadata": meta, "spec": spec, "status": {"pendingWorkloads": version}}


def groups(cpu: int) -> list[dict[str, Any]]:
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    return [{"coveredResources": ["cpu"], "flavors": [flavor]}]


class Queues:
    """Two teams in one cohort and a third without, a MiniCluster in the queue of each."""

    def __init__(self) -> None:
        self.cluster_queues = Store(transform=keep_queue)
        self.local_queues = Store(quota.LOCAL_QUEUE_INDEXES, keep_queue)
        self.cohorts = Store(transform=keep_queue)
        self.jobs = Store({**JOB_INDEXES, **quota.JOB_INDEXES}, keep_job)
        self.woken: list[str] = []
        for name, cohort in (("a", "c"), ("b", "c"), ("z", "")):
            self.put(self.cluster_queues, queue("ClusterQueue", name, cohortName=cohort, resourceGroups=groups(4)))
            self.put(self.local_queues, queue("LocalQueue", "q", f"team-{name}", clusterQueue=name))
            job = builders.job(minicluster(f"mc-{name}", f"team-{name}").queue("q"))
            self.put(self.jobs, job.obj())
            self.put(self.jobs, job.meta(name=f"running-{name}").unsuspended().obj())
        found = Quota(self.cluster_queues, self.local_queues, self.cohorts)
        found.wakes(self.jobs, lambda job: self.woken.append(job["metadata"]["name"]))

    def put(self, store: Store, obj: dict[str, Any]) -> None:
        store.observe(obj)

    def woken_by(self, store: Store, obj: dict[str, Any]) -> list[str]:
        """Who is woken when an object is there anew or otherwise."""
        self.woken.clear()
        self.put(store, obj)
        return sorted(self.woken)


@pytest.fixture
def queues() -> Queues:
    return Queues()


def test_a_status_wakes_nobody(queues: Queues) -> None:
    same = queue("ClusterQueue", "a", version=2, cohortName="c", resourceGroups=groups(4))
    assert queues.woken_by(queues.cluster_queues, same) == []


def test_quota_wakes_who_waits_for_it_or_might_borrow_it(queues: Queues) -> None:
    more = queue("ClusterQueue", "a", version=2, cohortName="c", resourceGroups=groups(5))
    assert queues.woken_by(queues.cluster_queues, more) == ["mc-a", "mc-b"]
    alone = queue("ClusterQueue", "z", version=2, resourceGroups=groups(5))
    assert queues.woken_by(queues.cluster_queues, alone) == ["mc-z"]


def test_whoever_leaves_or_enters_a_cohort_concerns_both(queues: Queues) -> None:
    moved = queue("ClusterQueue", "z", version=2, cohortName="c", resourceGroups=groups(4))
    assert queues.woken_by(queues.cluster_queues, moved) == ["mc-a", "mc-b", "mc-z"]
    left = queue("ClusterQueue", "z", version=3, cohortName="", resourceGroups=groups(4))
    assert queues.woken_by(queues.cluster_queues, left) == ["mc-a", "mc-b", "mc-z"]


def test_a_cohort_wakes_its_tree(queues: Queues) -> None:
    assert queues.woken_by(queues.cohorts, queue("Cohort", "c", resourceGroups=groups(1))) == ["mc-a", "mc-b"]
    assert queues.woken_by(queues.cohorts, queue("Cohort", "else", resourceGroups=groups(1))) == []


def test_a_local_queue_wakes_its_own(queues: Queues) -> None:
    moved = queue("LocalQueue", "q", "team-z", version=2, clusterQueue="a")
    assert queues.woken_by(queues.local_queues, moved) == ["mc-z"]
    assert queues.woken_by(queues.local_queues, queue("LocalQueue", "q", "team-z", version=3, clusterQueue="a")) == []


def test_a_deleted_queue_wakes_who_waited_in_it(queues: Queues) -> None:
    queues.woken.clear()
    queues.cluster_queues.delete(queue("ClusterQueue", "b", version=9))
    assert sorted(queues.woken) == ["mc-a", "mc-b"]
