"""Service containers: first the services, then the MiniCluster; one MiniCluster of a queue after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kueue_flux.controller import pods, status
from kueue_flux.controller.facts import Facts
from kueue_flux.controller.resources import CONFIG_MAPS, JOBS, PODS, SECRETS, keep_job, keep_minicluster, keep_workload
from kueue_flux.controller.services import JOB_INDEXES, Services, Turns
from kueue_flux.kueue import workload as kueue
from kueue_flux.kueue.workload import Signal
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.store import Store
from tests import builders
from tests.builders import GATED, NAMESPACE, MiniClusterBuilder, PodBuilder, WorkloadBuilder, minicluster
from tests.controller.fake_api import copied
from tests.controller.test_reconcile import done, run_until, told
from tests.controller.world import SERVICES_NAME, Life, World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def life(world: World) -> Life:
    return Life(world)


def served() -> MiniClusterBuilder:
    return minicluster().queue("q").size(4).service("web", ports=[80])


def gates(world: World) -> tuple[str | None, str | None]:
    """What keeps Kueue from admitting services and MiniCluster."""
    jobs = (world.get(JOBS, SERVICES_NAME), world.get(JOBS))
    services, own = (job["metadata"].get("annotations", {}).get(GATED) for job in jobs)
    return services, own


async def until_served(life: Life, *stages: Any) -> None:
    """Submit, let the services be admitted and let more happen."""
    world = life.world
    workloads = (world.make_workload, lambda: world.make_workload(SERVICES_NAME))
    await run_until(life, *workloads, world.admit_services, *stages, mc=served())


# -- the life of a MiniCluster with services


async def test_services_come_before_the_minicluster(world: World, life: Life) -> None:
    await run_until(life, mc=served())
    kinds = [("create", kind) for kind in ("Service", "NetworkPolicy", "Job", "Job")]
    assert done(life)[:4] == kinds
    assert gates(world) == ("flux-framework.org/turn", "flux-framework.org/services")
    await life.stage(world.make_workload)
    await life.stage(lambda: world.make_workload(SERVICES_NAME))
    assert gates(world) == (None, "flux-framework.org/services")
    assert world.reasons()["QuotaReserved"] == "False PendingEvaluation"
    assert world.message("QuotaReserved") == "its services come first: Kueue has not looked at it yet"
    await life.stage(world.admit_services)
    assert gates(world) == (None, None)
    await life.stage(world.admit)
    assert world.reasons()["Ready"] == "True BrokersUp"


async def test_the_files_are_written_when_the_services_are_up(world: World, life: Life) -> None:
    world.listening = False
    await until_served(life, world.admit)
    assert world.files() is None
    assert world.reasons()["Admitted"] == "True Admitted"
    assert world.reasons()["Injected"] == "False WaitingForServices"
    assert world.reasons()["Ready"] == "False ServicesStarting"
    assert world.message("Ready") == "its services are not ready: web does not take connections yet"
    world.listening = True
    await life.settle()
    assert world.reasons()["Ready"] == "True BrokersUp"
    assert len(world.starts) == 4


async def test_a_service_that_never_takes_connections_is_told(world: World, life: Life) -> None:
    world.listening = False
    await until_served(life, world.admit)
    assert ("Warning", "ServicesNotReady") not in told(life)
    world.pass_time(30)
    await life.settle()
    assert world.reasons()["Ready"] == "False ServicesNotReady"
    said = "container web has taken no connections on port 80 in 30 s"
    assert world.message("Ready") == f"its services are not ready: pod {SERVICES_NAME}-xxxxx: {said}"
    assert told(life)[-1] == ("Warning", "ServicesNotReady")


async def test_it_asks_for_a_turn_when_a_service_is_late(world: World, life: Life) -> None:
    world.listening = False
    await run_until(life, world.make_workload, lambda: world.make_workload(SERVICES_NAME), mc=served())
    world.admit_services()
    await life.settle()
    assert life.adapter
    result = await life.adapter.turn()
    assert result is not None
    assert result.requeue_after is not None
    assert 0 < result.requeue_after <= 30


async def test_services_end_with_the_run(world: World, life: Life) -> None:
    await until_served(life, world.admit, world.end_lead)
    assert world.api.get(JOBS, SERVICES_NAME, NAMESPACE)
    await life.stage(world.decide_job)
    assert world.api.get(JOBS, SERVICES_NAME, NAMESPACE) is None
    await life.stage(world.finish_job)
    assert world.reasons()["Finished"] == "True Succeeded"
    assert world.api.all(SECRETS) + world.api.all(CONFIG_MAPS) == []
    assert [pod for pod in world.api.all(PODS) if "services" in pod["metadata"]["name"]] == []


async def test_an_eviction_leaves_the_services_where_they_are(world: World, life: Life) -> None:
    await until_served(life, world.admit, world.evict, world.suspend, world.release)
    assert world.api.get(PODS, f"{SERVICES_NAME}-xxxxx", NAMESPACE)
    await life.stage(lambda: world.admit(3))
    assert world.reasons()["Ready"] == "True BrokersUp"
    assert world.message("Ready") == "all 3 brokers are up"


async def test_services_that_are_evicted_are_told_and_the_run_goes_on(world: World, life: Life) -> None:
    await until_served(life, world.admit, world.evict_services)
    assert world.reasons()["Ready"] == "True ServicesStarting"
    assert world.message("Ready") == "all 4 brokers are up, but its services come first: preempted"
    assert len(world.running()) == 4
    await life.stage(world.admit_services)
    assert world.reasons()["Ready"] == "True BrokersUp"


async def test_after_both_were_evicted_the_services_are_waited_for(world: World, life: Life) -> None:
    await until_served(life, world.admit, world.evict_services, world.evict, world.suspend, world.release, world.admit)
    assert world.files() is None
    assert world.reasons()["Ready"] == "False ServicesStarting"
    await life.stage(world.admit_services)
    assert world.reasons()["Ready"] == "True BrokersUp"


async def test_without_a_queue_both_run_at_once(world: World, life: Life) -> None:
    await run_until(life, mc=minicluster().service("web", ports=[80]))
    assert gates(world) == (None, None)
    assert world.get(JOBS, SERVICES_NAME)["spec"]["suspend"] is False
    assert world.reasons()["Ready"] == "True BrokersUp"


async def test_without_a_queue_the_services_are_waited_for_too(world: World, life: Life) -> None:
    world.listening = False
    await run_until(life, mc=minicluster().service("web", ports=[80]))
    assert world.get(JOBS)["spec"]["suspend"] is True
    assert world.reasons()["Ready"] == "False ServicesStarting"
    world.listening = True
    await life.settle()
    assert world.reasons()["Ready"] == "True BrokersUp"


async def test_a_default_queue_takes_both(world: World, life: Life) -> None:
    world.with_default_queue()
    workloads = (world.make_workload, lambda: world.make_workload(SERVICES_NAME))
    await run_until(life, *workloads, mc=minicluster().service("web"))
    assert gates(world) == (None, "flux-framework.org/services")
    assert {job["metadata"]["labels"][builders.QUEUE] for job in world.api.all(JOBS)} == {"default"}


async def test_a_job_of_services_that_was_deleted_is_made_again(world: World, life: Life) -> None:
    await until_served(life, world.admit)
    await life.stage(lambda: (world.api.delete(JOBS, SERVICES_NAME, NAMESPACE), world.api.collect_garbage()))
    await life.stage(lambda: world.make_workload(SERVICES_NAME))
    assert gates(world) == (None, None)
    assert world.reasons()["Ready"] == "True ServicesStarting"


async def test_a_job_in_its_place_that_is_not_ours_is_told(world: World, life: Life) -> None:
    def replace() -> None:
        world.api.delete(JOBS, SERVICES_NAME, NAMESPACE)
        world.api.collect_garbage()
        theirs = {"metadata": {"name": SERVICES_NAME, "namespace": NAMESPACE}, "spec": {"suspend": True}}
        world.api.create(JOBS, theirs)

    await until_served(life, world.admit)
    await life.stage(replace)
    assert world.reasons()["Accepted"] == "False NameTaken"


async def test_a_name_that_is_taken_is_told(world: World, life: Life) -> None:
    world.api.create(JOBS, {"metadata": {"name": SERVICES_NAME, "namespace": NAMESPACE}, "spec": {"suspend": True}})
    await run_until(life, mc=served())
    assert world.reasons()["Accepted"] == "False NameTaken"
    assert world.api.get(JOBS, "hello", NAMESPACE) is None


async def test_deleting_it_late_is_no_fault(world: World, life: Life) -> None:
    await until_served(life, world.admit, world.end_lead)
    assert life.adapter

    async def gone(*args: Any, **options: Any) -> None:
        raise ApiError(404, "NotFound", "gone")

    life.adapter.client.delete = gone  # type: ignore[method-assign]
    await life.stage(world.decide_job)
    assert world.reasons()["Finished"] == "True Succeeded"


# -- what is told of them


def facts(services: Services, *, record: bool = False) -> tuple[Facts, dict[str, Any] | None]:
    job = builders.job(served()).obj()
    found = Facts(mc=served().build(), job=job, workload=kueue.read(builders.workload(job).admitted().obj()))
    found.services = services
    if record:
        found.pods = [pods.read(builders.pod(job, index).ready().obj(), "flux") for index in range(4)]
    return found, {"id": "a", "size": 4, "injectedAt": builders.AT} if record else None


JOB = builders.services_job(served())
FREE = builders.services_job(served()).gated(None)


def view(of: WorkloadBuilder) -> kueue.WorkloadView:
    return kueue.read(of.obj())


def pod(built: PodBuilder) -> pods.PodView:
    return pods.read(built.obj(), None)


def its_pod() -> PodBuilder:
    return builders.pod(FREE).of_services()


ADMITTED = view(builders.workload(FREE).admitted())


@pytest.mark.parametrize(
    ("services", "reason", "message"),
    [
        (Services(), "ServicesStarting", "its services come first: Kueue has not looked at them yet"),
        (
            Services(JOB.obj()),
            "ServicesStarting",
            "another MiniCluster of queue q is getting its services first",
        ),
        (
            Services(FREE.obj(), view(builders.workload(FREE).waiting())),
            "ServicesStarting",
            "its services come first: 2 more cpu needed",
        ),
        (Services(FREE.obj(), ADMITTED), "ServicesStarting", "its services are not ready: their pod is starting"),
        (
            Services(FREE.obj(), ADMITTED, [pod(its_pod().waiting_for("ErrImagePull", "no such tag"))]),
            "ServicesNotReady",
            "its services are not ready: pod hello-services-0-xxxxx: ErrImagePull: container flux: no such tag",
        ),
        (
            Services(FREE.obj(), ADMITTED, [pod(its_pod().unscheduled())]),
            "ServicesNotReady",
            "its services are not ready: pod hello-services-0-xxxxx: Unschedulable: 0/3 nodes are available",
        ),
        (
            Services(FREE.obj(), ADMITTED, [pod(its_pod().with_failing_sidecar(2))]),
            "ServicesNotReady",
            "its services are not ready: pod hello-services-0-xxxxx: container log ended with exit code 1, "
            "restarted 2 times",
        ),
        (
            Services(FREE.obj(), ADMITTED, [pod(its_pod().unmounted())], Signal("VolumeMissing", "ConfigMap a ...")),
            "ServicesNotReady",
            "its services are not ready: ConfigMap a ...",
        ),
        (
            Services(builders.services_job(served()).failed("BackoffLimitExceeded", "too often").obj(), ADMITTED),
            "ServicesNotReady",
            "its services are not ready: BackoffLimitExceeded: too often",
        ),
    ],
)
def test_why_they_are_not_ready(services: Services, reason: str, message: str) -> None:
    assert services.trouble() == Signal(reason, message)
    assert status.ready(*facts(services), None) == (False, Signal(reason, message))
    ready, said = status.ready(*facts(services, record=True), None)
    assert (ready, said.reason, said.message) == (True, reason, f"all 4 brokers are up, but {message}")


@pytest.mark.parametrize("built", [its_pod().listening(), its_pod().ended(0)], ids=["listening", "done"])
def test_what_is_up_or_has_done_its_work_is_ready(built: PodBuilder) -> None:
    services = Services(FREE.obj(), ADMITTED, [pod(built)])
    assert services.ready
    assert status.ready(*facts(services, record=True), None) == (True, Signal("BrokersUp", "all 4 brokers are up"))


# -- whose turn it is


class Queue:
    """MiniClusters with services in one namespace."""

    def __init__(self) -> None:
        self.miniclusters = Store(transform=keep_minicluster)
        self.jobs = Store(JOB_INDEXES, keep_job)
        self.workloads = Store(transform=keep_workload)
        self.turns = Turns(self.miniclusters, self.jobs, self.workloads)
        self._version = 0

    def add(self, name: str, at: str, *, gated: bool = True, queue: str = "q", **status: Any) -> None:
        """Submit one, of which Kueue has seen both Jobs."""
        mc = minicluster(name).queue(queue).service().meta(uid=f"uid-{name}").status(**status)
        services = builders.services_job(mc).meta(creationTimestamp=at)
        self._put(self.miniclusters, mc.obj())
        for job in (builders.job(mc), services if gated else services.gated(None)):
            self._put(self.jobs, job.obj())
            self._put(self.workloads, builders.workload(job).obj())

    def kueue_says(self, name: str, change: Callable[[WorkloadBuilder], object]) -> None:
        """Let Kueue say something of a Job."""
        job = self.jobs.get(NAMESPACE, name)
        assert job is not None
        built = builders.workload({**job, "spec": {"parallelism": 1}, "apiVersion": "batch/v1", "kind": "Job"})
        change(built)
        self._put(self.workloads, built.obj())

    def edit(self, store: Store, name: str, change: Callable[[dict[str, Any]], object]) -> None:
        obj = copied(store.get(NAMESPACE, name))
        change(obj)
        self._put(store, obj)

    def delete(self, store: Store, name: str) -> None:
        self._version += 1
        found = store.get(NAMESPACE, name)
        assert found is not None
        store.delete({**found, "metadata": {**found["metadata"], "resourceVersion": str(self._version)}})

    def _put(self, store: Store, obj: dict[str, Any]) -> None:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        store.observe(obj)

    @property
    def next(self) -> str | None:
        key = self.turns.next(NAMESPACE, "q")
        return key[1] if key else None


T1, T2, T3 = (f"2030-01-31T12:00:0{n}Z" for n in (1, 2, 3))


def test_the_oldest_is_next() -> None:
    queue = Queue()
    assert queue.next is None
    queue.add("b", T2)
    queue.add("a", T3)
    queue.add("c", T1, queue="other")
    assert queue.next == "b"
    queue.add("d", T2)
    assert queue.next == "b"


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ({}, None),
        ({"admissions": 1}, "second"),
        ({"conditions": [builders.condition("Finished")]}, "second"),
        ({"conditions": [builders.condition("Finished", "False")]}, None),
    ],
)
def test_nobody_is_next_while_one_is_on_its_way(first: dict[str, Any], expected: str | None) -> None:
    queue = Queue()
    queue.add("first", T1, gated=False, **first)
    queue.add("second", T2)
    assert queue.next == expected


def test_the_turn_ends_with_the_admission() -> None:
    """And not with the files, which may never be written: a service that is never up keeps them back."""
    queue = Queue()
    queue.add("first", T1, gated=False)
    queue.add("second", T2)
    queue.kueue_says("first-services", lambda workload: workload.admitted())
    assert queue.next is None
    queue.kueue_says("first", lambda workload: workload.admitted())
    assert queue.next == "second"


@pytest.mark.parametrize("name", ["first", "first-services"])
@pytest.mark.parametrize(
    ("reason", "expected"), [("WaitingForQuota", None), ("ExceedsMaxQuota", "second"), ("Suspended", "second")]
)
def test_nobody_waits_for_what_never_comes(name: str, reason: str, expected: str | None) -> None:
    queue = Queue()
    queue.add("first", T1, gated=False)
    queue.add("second", T2)
    queue.kueue_says(name, lambda workload: workload.waiting(reason))
    assert queue.next == expected


def refused(mc: dict[str, Any], reason: str) -> None:
    mc["status"]["conditions"] = [builders.condition("Accepted", "False", reason)]


CANNOT_GO_ON: dict[str, Callable[[Queue], object]] = {
    "it was deleted": lambda queue: queue.delete(queue.miniclusters, "first"),
    "it is being deleted": lambda queue: queue.edit(
        queue.miniclusters, "first", lambda mc: mc["metadata"].update(deletionTimestamp=T3)
    ),
    "it has no Job": lambda queue: queue.delete(queue.jobs, "first"),
    "its Job is another's": lambda queue: queue.edit(
        queue.jobs, "first", lambda job: job["metadata"].pop("ownerReferences")
    ),
    "it is refused": lambda queue: queue.edit(queue.miniclusters, "first", lambda mc: refused(mc, "InvalidSpec")),
    "another operator is at work on it": lambda queue: queue.edit(
        queue.miniclusters, "first", lambda mc: refused(mc, "ConflictingController")
    ),
    "Kueue makes no Workload for its Job": lambda queue: queue.delete(queue.workloads, "job-first"),
    "Kueue makes no Workload for its services": lambda queue: queue.delete(queue.workloads, "job-first-services"),
    "it was deactivated": lambda queue: queue.kueue_says("first", lambda workload: workload.spec(active=False)),
    "its services bear no name": lambda queue: queue.edit(
        queue.jobs, "first-services", lambda job: job["metadata"]["labels"].pop("flux-framework.org/minicluster")
    ),
}


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("happens", CANNOT_GO_ON.values(), ids=CANNOT_GO_ON)
def test_nobody_waits_for_one_that_cannot_go_on(happens: Callable[[Queue], object], gated: bool) -> None:
    queue = Queue()
    queue.add("first", T1, gated=gated)
    queue.add("second", T2)
    assert queue.next == ("first" if gated else None)
    happens(queue)
    assert queue.next == "second"


def test_what_kueue_said_before_the_gate_does_not_count() -> None:
    queue = Queue()
    queue.add("first", T1)
    queue.kueue_says("first", lambda workload: workload.waiting("Inadmissible"))
    assert queue.next == "first"


def test_one_whose_specification_was_changed_goes_on() -> None:
    queue = Queue()
    queue.add("first", T1)
    queue.edit(queue.miniclusters, "first", lambda mc: refused(mc, "SpecChanged"))
    assert queue.next == "first"


def test_who_is_woken_by_what() -> None:
    queue = Queue()
    queue.add("first", T1, gated=False, admissions=1)
    queue.add("second", T2)
    queue.add("third", T3, queue="other")
    concerned = queue.turns.concerned
    second, third = (NAMESPACE, "second"), (NAMESPACE, "third")
    assert concerned(queue.miniclusters.get(NAMESPACE, "first"), None) == {second}
    for name in ("first-services", "first"):
        assert concerned(None, queue.jobs.get(NAMESPACE, name)) == {second}
        assert concerned(queue.workloads.get(NAMESPACE, f"job-{name}")) == {second}
    assert concerned(minicluster().obj(), builders.job(minicluster()).obj()) == set()
    assert concerned(builders.workload(builders.job(minicluster())).obj()) == set()
    services = queue.jobs.get(NAMESPACE, "first-services")
    assert services is not None
    labels = services["metadata"]["labels"]
    elsewhere = {**services, "metadata": {**services["metadata"], "labels": {**labels, builders.QUEUE: "other"}}}
    assert concerned(services, elsewhere) == {second, third}
