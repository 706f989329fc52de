"""The controller's process: whom each event concerns, who waits, and the whole of it against a server in memory."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

import pytest
from prometheus_client.samples import Sample

from kueue_flux.controller import main, metrics, resources
from kueue_flux.controller.resources import JOBS, MINICLUSTERS, SECRETS, SERVICES, WORKLOADS
from kueue_flux.controller.resources import NETWORK_POLICIES as POLICIES
from kueue_flux.controller.services import JOB_INDEXES
from kueue_flux.controller.setup import resources as setup
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.controller import Controller
from kueue_flux.runtime.store import Store
from tests import builders
from tests.builders import JobBuilder, WorkloadBuilder, minicluster
from tests.controller.setups import node, setup_object
from tests.runtime.fake_api import FakeApi
from tests.runtime.fake_server import client_of

HELLO = ("team", "hello")
MC = minicluster().queue("q")


class Stores:
    """The controller's four stores, and the keys that their events bring."""

    def __init__(self) -> None:
        self.miniclusters = Store(transform=resources.keep_minicluster)
        self.jobs = Store(JOB_INDEXES, resources.keep_job)
        self.pods = Store(transform=resources.keep_pod)
        self.workloads = Store(transform=resources.keep_workload)
        self.keys: list[tuple[str, str]] = []

    def route(self) -> None:
        async def reconcile(key: tuple[str, str]) -> None:
            raise AssertionError("nobody works here")

        controller = Controller("test", reconcile)
        controller.enqueue = lambda namespace, name: self.keys.append((namespace, name))  # type: ignore[method-assign]
        main._route(controller, self.miniclusters, self.jobs, self.pods, self.workloads)


@pytest.fixture
def stores() -> Stores:
    stores = Stores()
    stores.miniclusters.observe(MC.obj())
    stores.jobs.observe(builders.job(MC).obj())
    return stores


def test_events_of_the_minicluster_and_its_job_bring_its_key(stores: Stores) -> None:
    stores.route()
    stores.miniclusters.observe(MC.meta(resourceVersion="2").obj())
    MC.meta(resourceVersion="1")
    stores.jobs.observe(builders.job(MC).meta(resourceVersion="2").obj())
    assert stores.keys == [HELLO, HELLO]


def test_a_deletion_is_an_event_too(stores: Stores) -> None:
    stores.route()
    stores.miniclusters.delete(minicluster().meta(resourceVersion="3").obj())
    stores.jobs.delete(builders.job(MC).meta(resourceVersion="3").obj())
    assert stores.keys == [HELLO, HELLO]


def test_a_pod_brings_the_key_of_its_label(stores: Stores) -> None:
    stores.route()
    stores.pods.observe(builders.pod(builders.job(MC), 2).obj())
    stray = builders.pod(builders.job(MC), 3).obj()
    del stray["metadata"]["labels"]
    stores.pods.observe(stray)
    assert stores.keys == [HELLO]


def test_a_workload_brings_the_key_of_a_job_that_is_ours(stores: Stores) -> None:
    stores.route()
    stores.workloads.observe(builders.workload(builders.job(MC)).obj())
    assert stores.keys == [HELLO]
    stores.workloads.observe(builders.workload(builders.job(minicluster("theirs"))).obj())
    stray = builders.workload(builders.job(MC)).meta(name="stray", ownerReferences=[]).obj()
    stores.workloads.observe(stray)
    assert stores.keys == [HELLO]


def test_the_job_of_services_is_the_miniclusters(stores: Stores) -> None:
    stores.route()
    services = builders.services_job(MC)
    stores.jobs.observe(services.obj())
    stores.workloads.observe(builders.workload(services).obj())
    assert stores.keys == [HELLO, HELLO]


def waiting(stores: Stores, job: JobBuilder, workload: WorkloadBuilder) -> list[object]:
    stores.jobs.observe(job.meta(resourceVersion="2").obj())
    stores.workloads.observe(workload.obj())
    return list(main._waiting(stores.miniclusters, stores.jobs, stores.workloads))


def test_who_waits(stores: Stores) -> None:
    job = builders.job(MC)
    assert waiting(stores, job, builders.workload(job).waiting()) == [("team", "q", "job-hello", HELLO)]


@pytest.mark.parametrize("reason", ["runs", "no queue", "reserved", "finished", "no minicluster"])
def test_who_does_not_wait(stores: Stores, reason: str) -> None:
    job = builders.job(minicluster() if reason == "no queue" else MC)
    workload = builders.workload(job).waiting()
    if reason == "runs":
        job.unsuspended()
    if reason == "reserved":
        workload.reserved()
    if reason == "finished":
        workload.finished()
    if reason == "no minicluster":
        stores.miniclusters.delete(minicluster().meta(resourceVersion="9").obj())
    assert waiting(stores, job, workload) == []


async def test_the_whole_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """From an API server that has a MiniCluster to a Job that runs, and out again by SIGTERM."""
    api = FakeApi()
    api.missing.add(WORKLOADS.path()[1:])  # no Kueue: what needs no queue runs all the same
    api.put(MINICLUSTERS, minicluster().obj())

    async def connect(kubeconfig: str | None, *, field_manager: str) -> Client:
        assert (kubeconfig, field_manager) == ("somewhere", "kueue-flux")
        return client_of(api, field_manager=field_manager)

    monkeypatch.setattr(Client, "connect", connect)
    flags = ["--kubeconfig=somewhere", "--no-leader-election", "--metrics-address=127.0.0.1:0"]
    running = asyncio.create_task(main.run(main._arguments().parse_args(flags)))
    async with asyncio.timeout(20):
        while "status" not in api.collections[MINICLUSTERS.path()[1:]][HELLO]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert api.collections[JOBS.path()[1:]][HELLO]["spec"]["suspend"] is False
    assert api.collections[SECRETS.path()[1:]].keys() == {("team", "hello-curve")}
    assert [request.path for request in api.asked("POST")][:3] == [r.path("team") for r in (SERVICES, POLICIES, JOBS)]
    assert sum(found.value for found in _miniclusters()) == 1, "counted while this process leads"
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0
    assert _miniclusters() == []


def _miniclusters() -> list[Sample]:
    by_stage, _ = metrics.miniclusters.collect()
    return by_stage.samples


async def run_until(monkeypatch: pytest.MonkeyPatch, api: FakeApi, *more: str, until: Callable[[], object]) -> None:
    """Run the process on an API server until something has happened, and end it."""

    async def connect(kubeconfig: str | None, *, field_manager: str) -> Client:
        return client_of(api, field_manager=field_manager)

    monkeypatch.setattr(Client, "connect", connect)
    flags = ["--kubeconfig=somewhere", "--no-leader-election", "--metrics-address=127.0.0.1:0", *more]
    running = asyncio.create_task(main.run(main._arguments().parse_args(flags)))
    async with asyncio.timeout(20):
        while not until():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0


async def test_a_flux_setup_is_carried_out_and_a_minicluster_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi()
    api.put(setup.FLUX_SETUPS, setup_object("team", quota={"cpu": 1, "memory": 1}))
    api.put(setup.NODES, node("n1"))
    api.put(setup.NAMESPACES, {"metadata": {"name": "team", "uid": "n"}})
    api.put(MINICLUSTERS, minicluster().obj())
    statuses = api.collections[MINICLUSTERS.path()[1:]]
    queues = api.collections.setdefault(setup.LOCAL_QUEUES.path()[1:], {})
    await run_until(monkeypatch, api, until=lambda: "status" in statuses[HELLO] and queues)
    reasons = {each["type"]: each["reason"] for each in statuses[HELLO]["status"]["conditions"]}
    assert reasons["QuotaReserved"] == "WaitingForSetup", "the queue is there, and Kueue has not seen it"
    assert queues.keys() == {("team", "default")}
    assert not api.collections.get(JOBS.path()[1:])


async def test_flux_setups_can_be_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi()
    api.put(setup.FLUX_SETUPS, setup_object("team"))
    api.put(MINICLUSTERS, minicluster().obj())
    jobs = api.collections.setdefault(JOBS.path()[1:], {})
    await run_until(monkeypatch, api, "--no-flux-setup", until=lambda: HELLO in jobs)
    asked = {request.path for request in api.asked("GET")}
    for resource in (setup.FLUX_SETUPS, setup.NODES, setup.NAMESPACES, setup.CLUSTER_QUEUES, setup.LOCAL_QUEUES):
        assert resource.path() not in asked


def test_flags_have_defaults_fit_for_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "somewhere")
    args = main._arguments().parse_args([])
    assert (args.kubeconfig, args.metrics_address, args.no_leader_election) == (None, ":8080", False)
    assert (args.leader_election_namespace, args.cluster_domain, args.log_level) == (
        "somewhere",
        "cluster.local",
        "info",
    )
    assert args.workers > 0
