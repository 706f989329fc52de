"""The control loop in the situations of a MiniCluster's life, against a server in memory."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from kueue_flux.controller import steps
from kueue_flux.controller.resources import (
    CONFIG_MAPS,
    JOBS,
    MINICLUSTERS,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICES,
    WORKLOADS,
)
from kueue_flux.kueue.visibility import Place
from kueue_flux.runtime.controller import Result
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Object, Resource
from tests import builders
from tests.api import certificates
from tests.builders import NAME, NAMESPACE, QUEUE, MiniClusterBuilder, minicluster
from tests.controller.fake_api import Fault, copied, own_up
from tests.controller.world import Adapter, Life, World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def life(world: World) -> Life:
    return Life(world)


def queued() -> MiniClusterBuilder:
    return minicluster().queue("q").size(4)


async def submit(life: Life, mc: MiniClusterBuilder | None = None) -> None:
    await life.stage(lambda: life.world.submit(mc or queued()))


async def run_until(life: Life, *stages: Any, mc: MiniClusterBuilder | None = None) -> None:
    """Submit, and let things happen one after the other."""
    await submit(life, mc)
    for stage in stages:
        await life.stage(stage)


def done(life: Life) -> list[tuple[str, str]]:
    """What the adapter wrote, as verb and kind."""
    assert life.adapter
    return [(write.verb, write.resource.kind) for write in life.adapter.client.writes]


def told(life: Life) -> list[tuple[str, str]]:
    """What the user was told, as type and reason."""
    assert life.adapter
    return [(kind, reason) for kind, reason, _ in life.adapter.told]


# -- submit


async def test_submit_creates_the_job_last_and_suspended(world: World, life: Life) -> None:
    await submit(life)
    assert done(life)[:3] == [("create", "Service"), ("create", "NetworkPolicy"), ("create", "Job")]
    job = world.get(JOBS)
    assert job["spec"]["suspend"] is True
    assert job["metadata"]["labels"][QUEUE] == "q"
    assert world.reasons() == {
        "Accepted": "True Accepted",
        "QuotaReserved": "False WaitingForWorkload",
        "Admitted": "False Pending",
        "Injected": "False WaitingForAdmission",
        "Ready": "False WaitingForAdmission",
        "Finished": "False Waiting",
    }
    assert told(life) == [("Normal", "Created")]
    assert world.status["queue"] == "q"


async def test_objects_that_are_there_already_are_used(world: World, life: Life) -> None:
    """Another process made them, and their events are still on their way."""
    world.submit(queued())
    first, second = Adapter(world), Adapter(world)
    await first.turn()
    await second.turn()
    assert {write.verb for write in second.client.writes} == {"create", "apply"}
    assert len(world.api.all(JOBS)) == 1


async def test_a_headless_service_that_another_has_is_told_with_what_to_change(world: World, life: Life) -> None:
    world.api.create(SERVICES, {"metadata": {"name": "net", "namespace": NAMESPACE}})
    await submit(life, queued().network(headlessName="net"))
    assert world.reasons()["Accepted"] == "False NameTaken"
    assert "Service net is there and is not ours: choose another spec.network.headlessName" in world.message("Accepted")


async def test_a_sidecar_with_ports_gets_a_service(world: World, life: Life) -> None:
    await submit(life, queued().sidecar("web", ports=[80]))
    assert world.get(SERVICES, "web")["spec"]["ports"] == [{"name": "port-80", "port": 80, "protocol": "TCP"}]
    assert done(life)[3:4] == [("create", "Job")]


async def test_a_name_that_is_taken_does_not_keep_a_sidecar_from_running(world: World, life: Life) -> None:
    world.api.create(SERVICES, {"metadata": {"name": "web", "namespace": NAMESPACE}})
    await submit(life, queued().sidecar("web", ports=[80]))
    assert life.adapter
    assert life.adapter.told[0] == (
        "Warning",
        "NameTaken",
        "Service web is there and is not ours: reach it as hello-0.hello",
    )
    assert world.get(JOBS)["spec"]["suspend"] is True


# -- waiting


async def test_waiting_tells_kueues_reason_and_the_position(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.keep_waiting)
    assert world.reasons()["QuotaReserved"] == "False WaitingForQuota"
    assert world.status["workload"] == "job-hello"
    assert "queuePosition" not in world.status
    world.positions[NAMESPACE, "job-hello"] = Place(3, "first", 1)
    await life.settle()
    assert world.status["queuePosition"] == 3
    ahead = "position 3 in the queue (0 is next), behind first and 2 of other queues: "
    assert world.message("QuotaReserved") == ahead + "2 more cpu needed"
    world.positions[NAMESPACE, "job-hello"] = Place(30)
    await life.settle()
    assert world.message("QuotaReserved") == "position 30 in the queue (0 is next): 2 more cpu needed"


async def test_a_silent_kueue_is_named_and_looked_at_again_in_time(world: World, life: Life) -> None:
    await submit(life)
    assert life.adapter
    world.pass_time(4)
    result = await life.adapter.turn()
    assert result is not None
    assert result.requeue_after == pytest.approx(6)
    world.pass_time(6)
    result = await life.adapter.turn()
    assert result is not None
    assert result.requeue_after is None
    assert world.reasons()["QuotaReserved"] == "False KueueNotReady"
    assert told(life)[-1] == ("Warning", "KueueNotReady")
    await life.stage(world.make_workload)
    assert world.reasons()["QuotaReserved"] == "False PendingEvaluation"


AWAY = (
    'Internal error occurred: failed calling webhook "mjob.kb.io": failed to call webhook: Post '
    '"https://kueue-webhook-service.kueue-system.svc:443/mutate-batch-v1-job": connect: connection refused'
)
DENIED = 'admission webhook "vjob.kb.io" denied the request: metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value'


def refuse_jobs(status: int, reason: str, message: str) -> Any:
    def webhook(obj: Object) -> None:
        if obj["kind"] == "Job":
            raise ApiError(status, reason, message)

    return webhook


AWAY_BY_ADDRESS = AWAY.replace("kueue-webhook-service.kueue-system.svc:443", "127.0.0.1:29592")
ANOTHER_AWAY = 'Internal error occurred: failed calling webhook "check.policy.example": connect: connection refused'


@pytest.mark.parametrize("words", [AWAY, AWAY_BY_ADDRESS])
async def test_kueues_webhooks_away_are_waited_for(world: World, life: Life, words: str) -> None:
    world.api.webhooks.append(refuse_jobs(500, "InternalError", words))
    await submit(life)
    assert life.adapter
    assert world.reasons()["Accepted"] == "True Accepted"
    assert world.reasons()["QuotaReserved"] == "False KueueNotReady"
    assert words in world.message("QuotaReserved")
    result = await life.adapter.turn()
    assert result is not None
    assert result.requeue_after == 2
    world.api.webhooks.clear()
    await life.settle()
    assert world.get(JOBS)["spec"]["suspend"] is True


async def test_what_the_api_server_refuses_at_admission_is_told_in_its_words(world: World, life: Life) -> None:
    def webhook(obj: Object) -> None:
        if obj["kind"] == "Secret":
            raise ApiError(403, "Forbidden", "forbidden: exceeded quota: secrets")

    world.api.webhooks.append(webhook)
    await run_until(life, world.make_workload, world.admit)
    assert world.reasons()["Accepted"] == "False Refused"
    assert "exceeded quota: secrets" in world.message("Accepted")
    assert world.reasons()["Injected"] == "False WaitingForAdmission"
    world.api.webhooks.clear()
    await life.settle()
    assert world.reasons()["Accepted"] == "True Accepted"
    assert world.reasons()["Injected"] == "True FilesWritten"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, DENIED),
        (403, "forbidden: exceeded quota: pods"),
        (422, "Job is invalid: spec"),
        (400, "bad"),
        (500, ANOTHER_AWAY),
    ],
)
async def test_what_the_api_server_refuses_is_told_in_its_words(
    world: World, life: Life, status: int, message: str
) -> None:
    world.api.webhooks.append(refuse_jobs(status, "Forbidden", message))
    await submit(life)
    assert life.adapter
    assert world.reasons()["Accepted"] == "False Refused"
    assert message in world.message("Accepted")
    result = await life.adapter.turn()
    assert result is not None
    assert result.requeue_after == 30
    world.api.webhooks.clear()
    await life.settle()
    assert world.reasons()["Accepted"] == "True Accepted"


async def test_an_error_of_the_api_server_is_the_work_queues_business(world: World) -> None:
    world.submit(queued())
    world.api.webhooks.append(refuse_jobs(500, "InternalError", "etcdserver: request timed out"))
    with pytest.raises(ApiError):
        await Adapter(world).turn()
    assert world.status == {}


# -- admission


async def test_admission_writes_the_files_and_says_so(world: World, life: Life) -> None:
    await run_until(life, world.make_workload)
    assert world.kinds().isdisjoint({"Secret", "ConfigMap"})
    await life.stage(world.admit)
    files = world.files()
    assert files is not None
    assert (files["size"], files["tasks"]) == ("4", "4")
    assert world.reasons() == {
        "Accepted": "True Accepted",
        "QuotaReserved": "True QuotaReserved",
        "Admitted": "True Admitted",
        "Injected": "True FilesWritten",
        "Ready": "True BrokersUp",
        "Finished": "False Running",
    }
    status = world.status
    assert (status["size"], status["admissions"], status["podsRunning"], status["brokersReady"]) == (4, 1, 4, 4)
    assert status["admission"]["size"] == 4
    assert status["startTime"] == world.stamp
    assert told(life)[-3:] == [("Normal", "Admitted"), ("Normal", "FilesWritten"), ("Normal", "BrokersUp")]


async def test_the_files_are_written_before_anything_is_said(world: World, life: Life) -> None:
    await run_until(life, world.make_workload)
    assert life.adapter
    before = life.adapter.writes
    world.admit()
    life.adapter.hear_all()
    await life.adapter.turn()
    assert done(life)[before:] == [("create", "ConfigMap"), ("create", "Secret"), ("apply", "MiniCluster")]


async def test_quota_without_admission_writes_no_files(world: World, life: Life) -> None:
    await run_until(life, world.make_workload)
    reserved = builders.workload(world.get(JOBS)).reserved().obj()["status"]
    checks = [{"name": "provision", "state": "Pending"}]
    await life.stage(
        lambda: world.edit(
            WORKLOADS, lambda obj: obj.update(status={**reserved, "admissionChecks": checks}), "job-hello"
        )
    )
    assert world.reasons()["QuotaReserved"] == "True QuotaReserved"
    assert world.reasons()["Admitted"] == "False AdmissionChecks"
    assert "provision" in world.message("Admitted")
    assert world.kinds().isdisjoint({"Secret", "ConfigMap"})


async def test_partial_admission(world: World, life: Life) -> None:
    mc = queued().size(4, tasks=8).spec(minSize=2)
    await run_until(life, world.make_workload, lambda: world.admit(3), mc=mc)
    files = world.files()
    assert files is not None
    assert (files["size"], files["tasks"]) == ("3", "6")
    assert json.loads(files["R.json"])["execution"]["nodelist"] == ["hello-[0-2]"]
    assert (world.status["size"], world.status["maximumSize"]) == (3, 4)
    assert world.message("Admitted") == "3 of 4 pods admitted by ClusterQueue cq"
    assert world.reasons()["Ready"] == "True BrokersUp"


async def test_no_secret_is_told_to_anyone(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    text = world.certificate()
    assert text is not None
    (key,) = [line.split('"')[1] for line in text.splitlines() if "secret-key" in line]
    assert life.adapter
    everything = [obj for obj in world.api.objects.values() if obj["kind"] != "Secret"]
    assert key not in json.dumps(everything) + repr(life.adapter.told)


async def test_a_certificate_in_the_specification_is_warned_of_once_and_goes_into_the_secret_only(
    world: World, life: Life
) -> None:
    await run_until(life, world.make_workload, world.admit, mc=queued().flux(curveCert=certificates.TEXT))
    assert f'"{certificates.SECRET}"' in (world.certificate() or "")
    assert life.adapter
    assert [reason for _, reason, _ in life.adapter.told].count("CertificateExposed") == 1
    others = [obj for obj in world.api.objects.values() if obj["kind"] not in ("Secret", "MiniCluster")]
    told = json.dumps(others) + repr(life.adapter.told) + json.dumps(world.status)
    assert certificates.SECRET not in told


async def test_a_secret_with_the_certificate_is_the_users_and_left_alone(world: World, life: Life) -> None:
    world.api.create(SECRETS, foreign(SECRETS, name="theirs"))
    await run_until(life, world.make_workload, world.admit, mc=queued().flux(curveCertSecret="theirs"))
    assert world.reasons()["Injected"] == "True FilesWritten"
    await life.stage(world.evict)
    assert world.reasons()["Injected"] == "False Withdrawn"
    assert [secret["metadata"]["name"] for secret in world.api.all(SECRETS)] == ["theirs"]


# -- eviction


async def test_eviction_deletes_the_files_and_readmission_has_another_certificate(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    first = world.certificate()
    await life.stage(world.evict)
    assert world.kinds().isdisjoint({"Secret", "ConfigMap"})
    assert world.reasons()["Admitted"] == "False Preempted"
    assert world.reasons()["Injected"] == "False Withdrawn"
    assert "admission" not in world.status
    assert world.status["size"] == 0
    assert told(life)[-1] == ("Normal", "Evicted")
    await life.stage(world.suspend)
    await life.stage(world.release)
    assert world.reasons()["Ready"] == "False WaitingForAdmission"
    assert "startTime" not in world.status
    await life.stage(world.admit)
    assert world.certificate() not in (None, first)
    assert world.status["admissions"] == 2
    assert world.reasons()["Ready"] == "True BrokersUp"


async def test_an_eviction_that_nobody_saw_starts_the_pods_anew(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    first = world.certificate()
    for happens in (world.evict, world.suspend, world.work, world.release, world.admit, world.work):
        world.pass_time()
        happens()
    assert {start.certificate for start in world.starts if start.period == 2} == {first}
    await life.settle()
    assert {start.certificate for start in world.starts if start.pod in world.running()} == {world.certificate()}
    assert world.certificate() not in (None, first)
    assert world.reasons()["Ready"] == "True BrokersUp"


async def test_an_eviction_that_was_heard_of_late_starts_the_pods_anew(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    first = world.certificate()
    assert life.adapter
    for happens in (world.evict, world.suspend, world.work, world.release, world.admit, world.work):
        world.pass_time()
        happens()
    while life.adapter.hear(WORKLOADS, 1):  # one after the other, and nothing of the pods
        await life.adapter.turn()
    await life.settle()
    assert {start.certificate for start in world.starts if start.pod in world.running()} == {world.certificate()}
    assert world.certificate() not in (None, first)
    assert world.reasons()["Ready"] == "True BrokersUp"


async def test_pods_that_are_still_ending_at_readmission_are_no_reason_to_start_others_anew(
    world: World, life: Life
) -> None:
    await run_until(life, world.make_workload, world.admit, world.evict)
    ending = builders.pod(world.get(JOBS), 0, "ending").running().meta(deletionTimestamp=world.stamp).obj()
    await life.stage(world.suspend)
    await life.stage(world.release)
    world.api.create(PODS, ending)
    world._set_pod(ending["metadata"]["name"], ending["status"])
    await life.stage(world.admit)
    assert ("deletecollection", "Pod") not in done(life)


async def test_a_workload_that_is_gone_takes_the_admission_with_it(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    await life.stage(lambda: world.api.delete(WORKLOADS, "job-hello", NAMESPACE))
    assert world.kinds().isdisjoint({"Secret", "ConfigMap"})
    assert life.adapter
    notes = [note for _, reason, note in life.adapter.told if reason == "Evicted"]
    assert notes == ["certificate and configuration deleted (the admission is gone)"]


async def test_a_worker_that_is_replaced_finds_the_same_certificate(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    lost = world.running()[2]
    ended = builders.pod(world.get(JOBS), 2).ended(137).obj()["status"]
    await life.stage(lambda: world._set_pod(lost, ended))
    assert len({start.certificate for start in world.starts}) == 1
    assert len(world.starts) == 5
    assert world.reasons()["Ready"] == "True BrokersUp"


# -- without a queue


async def test_without_a_queue_it_runs_at_once_after_its_files(world: World, life: Life) -> None:
    await submit(life, minicluster())
    kinds = [kind for _, kind in done(life)]
    assert kinds.index("Secret") < kinds.index("Job", 3)
    assert kinds.index("ConfigMap") < kinds.index("Job", 3)
    assert done(life)[5] == ("patch", "Job")
    assert world.get(JOBS)["spec"]["suspend"] is False
    assert world.reasons() == {
        "Accepted": "True Accepted",
        "QuotaReserved": "True NotQueued",
        "Admitted": "True NotQueued",
        "Injected": "True FilesWritten",
        "Ready": "True BrokersUp",
        "Finished": "False Running",
    }
    assert "queue" not in world.status


async def test_a_queue_that_kueues_webhook_chose_counts(world: World, life: Life) -> None:
    world.with_default_queue()
    await submit(life, minicluster())
    assert world.get(JOBS)["spec"]["suspend"] is True
    assert world.status["queue"] == "default"
    assert world.reasons()["Accepted"] == "True Accepted"
    assert world.kinds().isdisjoint({"Secret", "ConfigMap"})
    assert ("patch", "Job") not in done(life)
    await life.stage(world.make_workload)
    await life.stage(world.admit)
    assert world.reasons()["Ready"] == "True BrokersUp"
    assert ("patch", "Job") not in done(life)


# -- the end


@pytest.mark.parametrize(
    ("code", "log", "exit_code", "message"),
    [
        (0, "exit-code=0\nreason=CommandSucceeded\n", 0, "the command exited with code 0"),
        (3, "exit-code=3\nreason=CommandFailed\n", 3, "the command exited with code 3 (CommandFailed)"),
        (3, "", 3, "the command exited with code 3 (CommandFailed)"),
        (
            127,
            "exit-code=127\nreason=CommandNotFound\n",
            127,
            "the command was not found (CommandNotFound, exit code 127)",
        ),
        (
            1,
            "exit-code=137\nreason=CommandSignaled\n",
            137,
            "the command was ended by signal 9 (CommandSignaled, exit code 137)",
        ),
    ],
)
async def test_the_end(world: World, life: Life, code: int, log: str, exit_code: int, message: str) -> None:
    succeeded = code == 0
    await run_until(life, world.make_workload, world.admit, lambda: world.end_lead(code, log))
    assert world.reasons()["Finished"] == "False Running"  # the Job controller decides
    await life.stage(lambda: world.decide_job(succeeded))
    assert world.reasons()["Finished"] == ("True Succeeded" if succeeded else "True Failed")
    assert world.message("Finished") == message
    assert world.status["exitCode"] == exit_code
    assert world.status["completionTime"] == world.stamp
    assert told(life)[-1] == (("Normal", "Succeeded") if succeeded else ("Warning", "Failed"))
    assert {"Secret", "ConfigMap"} <= world.kinds(), "pods are still leaving"
    await life.stage(lambda: world.finish_job(succeeded))
    assert world.kinds().isdisjoint({"Secret", "ConfigMap"})
    assert world.reasons()["Injected"] == "False Withdrawn"
    before = copied(world.status)
    await life.stage(world.finish_workload)
    assert world.status == before


async def test_a_lead_that_is_gone_says_nothing_and_is_not_waited_for_long(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    assert life.adapter

    def lose() -> None:
        world.decide_job(succeeded=False, reason="DeadlineExceeded", message="active longer than the deadline")
        world.finish_job(succeeded=False, reason="DeadlineExceeded", message="active longer than the deadline")

    await life.stage(lose)
    assert world.reasons()["Finished"] == "False Running"
    result = await life.adapter.turn()
    assert result is not None
    assert result.requeue_after == 1
    world.pass_time(6)
    await life.settle()
    assert world.message("Finished") == "DeadlineExceeded: active longer than the deadline"
    assert "exitCode" not in world.status
    assert world.kinds().isdisjoint({"Secret", "ConfigMap"})


async def test_an_image_that_cannot_be_pulled_is_told(world: World, life: Life) -> None:
    world.unpullable = {1}
    await run_until(life, world.make_workload, world.admit)
    assert world.reasons()["Ready"] == "False ImagePullFailed"
    assert "ImagePullBackOff: container flux: no such tag" in world.message("Ready")
    assert (world.status["podsRunning"], world.status["brokersReady"]) == (3, 0)
    assert told(life)[-1] == ("Warning", "ImagePullFailed")
    world.unpullable.clear()
    await life.settle()
    assert world.reasons()["Ready"] == "True BrokersUp"


async def test_a_job_that_makes_no_pods_is_told(world: World, life: Life) -> None:
    world.refused = True
    await run_until(life, world.make_workload, world.admit)
    assert life.adapter
    result = await life.adapter.turn()
    assert (result and result.requeue_after, world.message("Ready")) == (10, "0 of 4 pods run")
    await life.stage(lambda: None)
    assert world.reasons()["Ready"] == "False PodsNotCreated"
    assert world.message("Ready").startswith("Job hello has made no pods in 10 s: kubectl describe job hello tells why")
    assert told(life)[-1] == ("Warning", "PodsNotCreated")
    world.refused = False
    await life.stage(lambda: None)
    assert world.reasons()["Ready"] == "True BrokersUp"


# -- volumes that cannot be mounted

VOLUMES = {
    "conf": {"path": "/conf", "configMapName": "conf", "items": {"a": "a.txt"}},
    "keys": {"path": "/keys", "secretName": "keys"},
    "data": {"path": "/data", "hostPath": "/srv/data"},
    "work": {"path": "/work", "claimName": "work"},
    "csi": {"path": "/csi", "csiDriver": "csi.example.com"},
    "scratch": {"path": "/scratch"},
}


async def unmounted(life: Life, *volumes: str) -> None:
    """Let all pods have nodes that cannot mount these volumes, and some time go by."""
    world = life.world
    world.unmountable = {0, 1, 2, 3}
    mc = queued().container(volumes={name: VOLUMES[name] for name in volumes})
    await run_until(life, world.make_workload, world.admit, lambda: None, mc=mc)


def make(world: World, resource: Resource, name: str) -> None:
    world.api.create(resource, {"metadata": {"name": name, "namespace": NAMESPACE}})


async def test_what_volumes_name_and_does_not_exist_is_told(world: World, life: Life) -> None:
    await unmounted(life, "conf", "keys")
    assert world.reasons()["Ready"] == "False VolumeMissing"
    assert world.message("Ready") == (
        "ConfigMap conf and Secret keys do not exist in namespace team: create them, and the pods start"
    )
    assert told(life)[-1] == ("Warning", "VolumeMissing")
    make(world, SECRETS, "keys")
    await life.stage(lambda: None)
    assert world.message("Ready") == ("ConfigMap conf does not exist in namespace team: create it, and the pods start")
    make(world, CONFIG_MAPS, "conf")
    world.unmountable = set()
    await life.stage(lambda: None)
    assert world.reasons()["Ready"] == "True BrokersUp"


async def test_it_is_looked_for_after_a_while_and_then_now_and_again(world: World, life: Life) -> None:
    world.unmountable = {0}
    await run_until(life, world.make_workload, world.admit, mc=queued().container(volumes={"c": VOLUMES["conf"]}))
    assert life.adapter
    result = await life.adapter.turn()
    assert (result and result.requeue_after, world.reasons()["Ready"]) == (5, "False PodsPending")
    world.pass_time(5)
    result = await life.adapter.turn()
    assert (result and result.requeue_after, world.reasons()["Ready"]) == (5, "False VolumeMissing")


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ("conf", "conf must have a (conf)"),
        ("data", "/srv/data must be a directory of the node (data)"),
        ("work", "the volume of claim work must be one that the node can mount (work)"),
        ("csi", "the node must have the CSI driver csi.example.com (csi)"),
    ],
)
async def test_where_all_exist_what_else_may_be_wrong_is_told(
    world: World, life: Life, volume: str, words: str
) -> None:
    make(world, CONFIG_MAPS, "conf")
    await unmounted(life, volume)
    assert world.reasons()["Ready"] == "False PodsPending"
    assert world.message("Ready") == f"volumes are not mounted yet: {words}; kubectl describe tells more"


@pytest.mark.parametrize("volumes", [(), ("keys",), ("scratch",)], ids=str)
async def test_volumes_of_which_nothing_is_known_are_not_spoken_of(
    world: World, life: Life, volumes: tuple[str, ...]
) -> None:
    make(world, SECRETS, "keys")
    await unmounted(life, *volumes)
    assert world.message("Ready") == "0 of 4 pods run"


async def test_where_nothing_may_be_created_there_is_no_telling(world: World, life: Life) -> None:
    def forbid(obj: Object) -> None:
        if obj["metadata"]["name"] == "keys":
            raise ApiError(403, "Forbidden", "exceeded quota")

    world.api.webhooks.append(forbid)
    await unmounted(life, "keys")
    assert world.message("Ready") == "0 of 4 pods run"


# -- time to live


async def finished(life: Life, mc: MiniClusterBuilder) -> None:
    world = life.world
    await run_until(life, world.make_workload, world.admit, world.end_lead, world.decide_job, world.finish_job, mc=mc)


async def test_cleanup_deletes_it_as_soon_as_it_has_finished(world: World, life: Life) -> None:
    await finished(life, queued().spec(cleanup=True))
    world.api.collect_garbage()
    assert world.api.objects == {}


async def test_a_time_to_live_goes_before_cleanup(world: World, life: Life) -> None:
    await finished(life, queued().spec(cleanup=True, ttlSecondsAfterFinished=60))
    assert world.status["exitCode"] == 0


async def test_a_finished_minicluster_is_deleted_when_its_time_is_over(world: World, life: Life) -> None:
    await finished(life, queued().spec(ttlSecondsAfterFinished=60))
    assert life.adapter
    result = await life.adapter.turn()
    assert result is not None
    assert result.requeue_after == 50  # the Job finished 10 s after its end was decided
    world.pass_time(50)
    assert await life.adapter.turn() is None
    world.api.collect_garbage()
    assert world.api.objects == {}
    await life.settle()
    assert done(life)[-1] == ("delete", "MiniCluster")


async def test_a_deletion_that_was_forestalled_is_no_error(world: World, life: Life) -> None:
    await finished(life, queued().spec(ttlSecondsAfterFinished=60))
    assert life.adapter
    world.pass_time(60)
    world.api.delete(MINICLUSTERS, NAME, NAMESPACE)
    assert await life.adapter.turn() is None
    world.submit(queued())  # another one of the name: not the one whose time is over
    assert await life.adapter.turn() is None
    assert world.get(MINICLUSTERS)["spec"] == queued().obj()["spec"]


async def test_a_deletion_that_is_refused_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(world)
    await finished(life, queued().spec(ttlSecondsAfterFinished=60))
    assert life.adapter
    world.pass_time(60)

    async def refuse(*_: Any, **__: Any) -> None:
        raise ApiError(403, "Forbidden", "not you")

    monkeypatch.setattr(life.adapter.client, "delete", refuse)
    with pytest.raises(ApiError, match="not you"):
        await life.adapter.turn()


async def test_no_time_to_live_is_for_ever_and_zero_is_at_once(world: World, life: Life) -> None:
    await finished(life, queued())
    world.pass_time(10**8)
    await life.settle()
    assert world.get(MINICLUSTERS)
    other = World()
    await run_until(
        again := Life(other),
        other.make_workload,
        other.admit,
        other.end_lead,
        other.decide_job,
        mc=queued().spec(ttlSecondsAfterFinished=0),
    )
    assert other.api.get(MINICLUSTERS, NAME, NAMESPACE) is None
    assert ("Normal", "Succeeded") in told(again)  # it was said before it went


# -- changes of the specification


async def test_a_changed_spec_is_told_until_the_change_is_undone(world: World, life: Life) -> None:
    await run_until(life, world.make_workload)
    await life.stage(lambda: world.edit(MINICLUSTERS, lambda obj: obj["spec"].update(tasks=7)))
    assert world.reasons()["Accepted"] == "False SpecChanged"
    assert told(life)[-1] == ("Warning", "SpecChanged")
    await life.stage(world.admit)  # it goes on as it began
    assert world.reasons()["Ready"] == "True BrokersUp"
    await life.stage(lambda: world.edit(MINICLUSTERS, lambda obj: obj["spec"].update(tasks=4)))
    assert world.reasons()["Accepted"] == "True Accepted"
    assert world.status["observedGeneration"] == 3


def invalid(obj: Object) -> None:
    obj["spec"]["containers"][0]["commands"] = {"pre": "echo", "surprise": True}
    obj["spec"]["size"] = 0


async def test_a_run_goes_on_as_it_began_although_its_spec_is_edited_into_one_that_cannot_be_run(
    world: World, life: Life
) -> None:
    await run_until(life, world.make_workload, world.admit)
    await life.stage(lambda: world.edit(MINICLUSTERS, invalid))
    assert world.reasons()["Accepted"] == "False SpecChanged"
    for stage in (world.end_lead, world.decide_job, world.finish_job):
        await life.stage(stage)
    assert world.reasons()["Finished"] == "True Succeeded"
    assert world.certificate() is None

    def expire() -> None:
        world.edit(MINICLUSTERS, lambda obj: obj["spec"].update(ttlSecondsAfterFinished=0))

    await life.stage(expire)
    assert world.api.get(MINICLUSTERS, NAME, NAMESPACE) is None


async def test_a_readmission_takes_the_sizes_of_the_spec_that_the_job_was_made_from(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    first = world.files()
    for stage in (world.evict, world.suspend, world.release):
        await life.stage(stage)
    await life.stage(lambda: world.edit(MINICLUSTERS, lambda obj: obj["spec"].update(size=8, tasks=2)))
    await life.stage(world.admit)
    assert world.files() == first


async def test_a_restarted_adapter_finds_the_spec_on_the_job(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    world.edit(MINICLUSTERS, invalid)
    anew = Life(world)
    await anew.settle()
    assert world.reasons()["Accepted"] == "False SpecChanged"
    await anew.stage(lambda: world.end_lead(3, "exit-code=3\nreason=CommandFailed\n"))
    await anew.stage(lambda: world.decide_job(succeeded=False))
    assert world.status["exitCode"] == 3


async def test_the_time_to_live_may_be_changed(world: World, life: Life) -> None:
    await run_until(life, world.make_workload)
    await life.stage(lambda: world.edit(MINICLUSTERS, lambda obj: obj["spec"].update(ttlSecondsAfterFinished=9)))
    assert world.reasons()["Accepted"] == "True Accepted"


async def test_new_defaults_of_a_newer_crd_are_no_change(world: World, life: Life) -> None:
    await run_until(life, world.make_workload)

    def default() -> None:  # the API server fills it in as it reads, which makes no new generation
        world.edit(MINICLUSTERS, lambda obj: obj["spec"].update(deadlineSeconds=31500000))
        world.edit(MINICLUSTERS, lambda obj: obj["metadata"].update(generation=1))

    await life.stage(default)
    assert world.reasons()["Accepted"] == "True Accepted"


async def test_a_changed_spec_of_a_finished_run_is_nobodys_business(world: World, life: Life) -> None:
    await finished(life, queued())
    await life.stage(lambda: world.edit(MINICLUSTERS, lambda obj: obj["spec"].update(tasks=7)))
    assert world.reasons()["Accepted"] == "True Accepted"
    assert world.reasons()["Finished"] == "True Succeeded"
    assert len(world.api.all(JOBS)) == 1


# -- names that are taken


def foreign(resource: Resource, **meta: Any) -> Object:
    return {"metadata": {"name": NAME, "namespace": NAMESPACE, **meta}, "spec": {"theirs": True}}


@pytest.mark.parametrize("resource", [SERVICES, NETWORK_POLICIES, JOBS], ids=str)
async def test_what_is_not_ours_is_not_touched(world: World, life: Life, resource: Resource) -> None:
    theirs = copied(world.api.create(resource, foreign(resource)))
    await submit(life)
    assert world.reasons()["Accepted"] == "False NameTaken"
    assert f"{resource.kind} hello is there and is not ours" in world.message("Accepted")
    assert told(life) == [("Warning", "NameTaken")]
    assert world.get(resource) == theirs
    assert life.adapter
    result = await life.adapter.turn()
    assert result is not None
    assert result.requeue_after == 30
    assert world.get(resource) == theirs

    world.api.delete(resource, NAME, NAMESPACE)
    await life.settle()
    assert world.reasons()["Accepted"] == "True Accepted"
    assert world.get(JOBS)["spec"]["suspend"] is True


@pytest.mark.parametrize(("resource", "name"), [(SECRETS, f"{NAME}-curve"), (CONFIG_MAPS, f"{NAME}-flux")])
async def test_a_file_that_is_not_ours_is_not_taken_for_one(
    world: World, life: Life, resource: Resource, name: str
) -> None:
    world.api.create(resource, {**foreign(resource, name=name), "data": {"theirs": ""}})
    await run_until(life, world.make_workload, world.admit)
    assert world.reasons()["Accepted"] == "False NameTaken"
    assert f"{resource.kind} {name} is there and is not ours" in world.message("Accepted")
    assert world.reasons()["Injected"] == "False WaitingForAdmission"

    world.api.delete(resource, name, NAMESPACE)
    await life.settle()
    assert world.reasons()["Accepted"] == "True Accepted"
    assert world.reasons()["Injected"] == "True FilesWritten"


@pytest.mark.parametrize("resource", [SERVICES, NETWORK_POLICIES, JOBS], ids=str)
async def test_what_a_deleted_minicluster_of_the_name_left_is_waited_for(
    world: World, life: Life, resource: Resource
) -> None:
    former = world.submit(queued())
    world.api.create(resource, foreign(resource, ownerReferences=[builders.owner(former)]))
    left = copied(world.get(resource))
    world.api.delete(MINICLUSTERS, NAME, NAMESPACE)
    await submit(life)
    assert world.reasons()["Accepted"] == "False NameTaken"
    assert "of a deleted MiniCluster is still there; it is being deleted" in world.message("Accepted")
    assert world.get(resource) == left
    assert life.adapter
    result = await life.adapter.turn()
    assert result is not None
    assert result.requeue_after == 1
    world.api.collect_garbage()
    await life.settle()
    assert world.reasons()["Accepted"] == "True Accepted"
    owner = world.get(JOBS)["metadata"]["ownerReferences"][0]["uid"]
    assert owner == world.get(MINICLUSTERS)["metadata"]["uid"]


async def test_deleted_and_submitted_again_while_everything_is_still_there(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    first = world.certificate()
    await life.stage(lambda: (world.api.delete(MINICLUSTERS, NAME, NAMESPACE), world.submit(queued())))
    assert world.certificate() == first, "the pods of the former one still run"
    world.api.collect_garbage()
    assert {obj["kind"] for obj in world.api.objects.values()} == {"MiniCluster"}
    await life.settle()
    await life.stage(world.make_workload)
    await life.stage(world.admit)
    assert world.reasons()["Ready"] == "True BrokersUp"
    assert world.certificate() not in (None, first)
    assert world.status["admissions"] == 1


async def test_files_that_a_deleted_minicluster_of_the_name_left_give_way(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    left = [copied(world.get(SECRETS, "hello-curve")), copied(world.get(CONFIG_MAPS, "hello-flux"))]
    world.api.delete(MINICLUSTERS, NAME, NAMESPACE)
    world.api.collect_garbage()
    for resource, obj in zip((SECRETS, CONFIG_MAPS), left, strict=True):
        world.api.create(resource, obj)
    await run_until(life, world.make_workload, world.admit)
    assert world.get(SECRETS, "hello-curve")["data"] != left[0]["data"]
    assert world.reasons()["Ready"] == "True BrokersUp"


# -- longer than Kueue allows


def time_out(world: World) -> None:
    """Kueue deactivates the Workload and suspends the Job, whose pods go."""
    world.evict("DeactivatedDueToMaximumExecutionTimeExceeded", "exceeding the maximum execution time")
    world.edit(WORKLOADS, lambda obj: obj["spec"].update(active=False), f"job-{NAME}")


def suspended(world: World) -> None:
    world.suspend()
    world._job_condition(builders.condition("Suspended", at=world.stamp))


async def test_a_run_that_takes_longer_than_kueue_allows_has_failed(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit, lambda: time_out(world))
    assert world.files() is None
    assert world.reasons()["Finished"] == "False Waiting"
    await life.stage(lambda: suspended(world))
    assert world.reasons()["Finished"] == "False Waiting", "it may have ended well in the last moment"
    await life.stage(lambda: None)
    assert world.reasons()["Finished"] == "True Failed"
    assert world.message("Finished") == (
        "MaximumExecutionTimeExceeded: it ran longer than kueue.x-k8s.io/max-exec-time-seconds allows"
    )
    assert "exitCode" not in world.status
    assert ("Warning", "Failed") in told(life)
    assert world.api.get(JOBS, NAME, NAMESPACE) is None, "nothing comes of it any more"
    world.api.collect_garbage()
    await life.settle()
    assert world.kinds() == {"MiniCluster", "Service", "NetworkPolicy"}


async def test_its_files_go_too_where_all_of_that_is_seen_at_once(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit, lambda: (time_out(world), suspended(world)))
    for _ in range(2):
        await life.stage(lambda: None)
    assert world.reasons()["Finished"] == "True Failed"
    assert world.files() is None
    assert world.certificate() is None
    assert world.reasons()["Injected"].startswith("False")


async def test_a_run_that_ended_well_as_its_time_was_over_has_succeeded(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit, world.end_lead)
    await life.stage(lambda: (time_out(world), suspended(world)))
    for stage in (world.decide_job, world.finish_job, lambda: None):
        await life.stage(stage)
    assert world.reasons()["Finished"] == "True Succeeded"
    assert world.get(JOBS)


async def test_any_other_deactivation_is_waited_out(world: World, life: Life) -> None:
    def deactivate() -> None:
        world.evict("DeactivatedDueToRequeuingLimitExceeded", "it was requeued too often")
        world.edit(WORKLOADS, lambda obj: obj["spec"].update(active=False), f"job-{NAME}")

    await run_until(life, world.make_workload, world.admit, deactivate, lambda: suspended(world), world.release)
    assert world.reasons()["Finished"] == "False Waiting"
    assert "(it was requeued too often): to queue it again" in world.message("QuotaReserved")


# -- what somebody deletes


def requests(life: Life, since: int) -> list[tuple[str, str]]:
    return [(verb, kind) for verb, kind in done(life)[since:] if kind != "MiniCluster"]


async def test_services_and_policies_of_a_running_one_are_made_again(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    assert life.adapter
    for resource in (SERVICES, NETWORK_POLICIES):
        (found,) = world.api.all(resource)
        world.api.delete(resource, found["metadata"]["name"], NAMESPACE)
    before = life.adapter.writes
    result = await life.adapter.turn()
    assert result is not None
    assert result.requeue_after is not None
    assert requests(life, before) == [], "not with every turn"
    world.pass_time(result.requeue_after)
    result = await life.adapter.turn()
    assert requests(life, before) == [("create", "Service"), ("create", "NetworkPolicy")]
    assert told(life).count(("Warning", "Restored")) == 2
    assert result == Result(600)
    before = life.adapter.writes
    await life.adapter.turn()
    assert requests(life, before) == []


def lose(world: World, resource: Resource, name: str) -> None:
    """A file is deleted, and then a worker is lost: the one in its place waits for the file."""
    world.api.delete(resource, name, NAMESPACE)
    world.api.delete(PODS, world.running()[1], NAMESPACE)


async def test_a_configuration_that_a_pod_waits_for_is_made_again(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    certificate = world.certificate()
    await life.stage(lambda: lose(world, CONFIG_MAPS, f"{NAME}-flux"))
    assert world.files() is None
    await life.stage(lambda: None)
    assert world.files()
    assert world.certificate() == certificate
    assert world.reasons()["Ready"] == "True BrokersUp"
    assert len(world.starts) == 5, "the others ran on"
    assert world.status["admissions"] == 1


@pytest.mark.parametrize("fault", [None, *range(1, 8)])
async def test_with_another_certificate_all_pods_start_anew(world: World, life: Life, fault: int | None) -> None:
    """Also where the process is killed in between."""
    await run_until(life, world.make_workload, world.admit)
    assert life.adapter
    first = world.certificate()
    if fault is not None:
        life.adapter.client._fault = Fault(life.adapter.writes + fault)
    await life.stage(lambda: lose(world, SECRETS, f"{NAME}-curve"))
    for _ in range(8):
        await life.stage(lambda: None)
    assert world.certificate() not in (None, first)
    assert world.reasons()["Ready"] == "True BrokersUp"
    assert len({start.certificate for start in world.starts if start.pod in world.running()}) == 1
    assert world.status["admissions"] == 1


async def test_the_users_own_certificate_is_the_same_again(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit, mc=queued().flux(curveCert=certificates.TEXT))
    certificate = world.certificate()
    await life.stage(lambda: lose(world, SECRETS, f"{NAME}-curve"))
    await life.stage(lambda: None)
    assert world.certificate() == certificate
    assert world.reasons()["Ready"] == "True BrokersUp"
    assert len(world.starts) == 5, "the others ran on"


async def test_what_may_not_be_made_again_is_told(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    assert life.adapter
    world.api.delete(NETWORK_POLICIES, NAME, NAMESPACE)

    def forbid(obj: Object) -> None:
        if obj["kind"] == "NetworkPolicy":
            raise ApiError(403, "Forbidden", "exceeded quota")

    world.api.webhooks.append(forbid)
    world.pass_time(600)
    await life.adapter.turn()
    assert ("Warning", "NotRestored") in told(life)
    assert world.reasons()["Ready"] == "True BrokersUp"


# -- Secrets that a MiniCluster names


@pytest.mark.parametrize("field", ["curveCertSecret", "mungeSecret"])
async def test_a_secret_that_is_named_and_missing_is_told(world: World, life: Life, field: str) -> None:
    world.unmountable = {0, 1, 2, 3}
    mc = queued().flux(**{field: "nowhere"})
    if field == "curveCertSecret":
        world.certificate = lambda: "theirs"  # type: ignore[method-assign]
    await run_until(life, world.make_workload, world.admit, lambda: None, mc=mc)
    assert world.reasons()["Ready"] == "False VolumeMissing"
    assert "Secret nowhere does not exist in namespace team" in world.message("Ready")
    make(world, SECRETS, "nowhere")
    await life.stage(lambda: None)
    assert world.reasons()["Ready"] == "False PodsPending"


async def test_a_pull_secret_that_is_missing_is_told(world: World, life: Life) -> None:
    world.unpullable = {0}
    await run_until(life, world.make_workload, world.admit, mc=queued().container(imagePullSecret="nowhere"))
    assert world.reasons()["Ready"] == "False ImagePullFailed"
    assert "imagePullSecret: Secret nowhere not found" in world.message("Ready")
    make(world, SECRETS, "nowhere")
    await life.stage(lambda: None)
    assert "nowhere" not in world.message("Ready")


# -- what we did not think of


@pytest.mark.parametrize("builder", ["before_admission", "after_admission"])
async def test_a_fault_of_ours_is_told_and_tried_again(
    world: World, life: Life, monkeypatch: pytest.MonkeyPatch, builder: str
) -> None:
    """At submission, and when the files are written."""

    def fail(*args: Any, **options: Any) -> list[Object]:
        raise KeyError("a secret")

    if builder == "after_admission":
        await run_until(life, world.make_workload)
        world.admit()
    else:
        world.submit(queued())
    assert life.adapter
    with monkeypatch.context() as patch:
        patch.setattr(steps, builder, fail)
        for _ in range(3):
            life.adapter.hear_all()
            with pytest.raises(KeyError):
                await life.adapter.turn()
    assert world.reasons()["Accepted"] == "False InternalError"
    assert "KeyError in" in world.message("Accepted")
    assert "a secret" not in world.message("Accepted")
    assert told(life).count(("Warning", "InternalError")) == 1
    await life.settle()
    assert world.reasons()["Accepted"] == "True Accepted"


async def test_a_pod_with_an_index_that_is_no_number_is_passed_over(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    odd = builders.pod(world.get(JOBS), suffix="odd").label(builders.INDEX, "x").obj()
    assert life.adapter
    life.adapter.stores[PODS].observe({**odd, "metadata": {**odd["metadata"], "resourceVersion": "9999"}})
    with capture_logs() as logs:
        await life.adapter.turn()
        await life.adapter.turn()
    assert world.reasons()["Ready"] == "True BrokersUp"
    assert len([line for line in logs if "passed over" in line["event"]]) == 1


# -- another operator


async def test_another_operators_job_is_not_touched(world: World, life: Life) -> None:
    mc = world.submit(queued())
    world.api.create(JOBS, foreign(JOBS, ownerReferences=[builders.owner(mc)]))
    theirs = copied(world.get(JOBS))
    await life.stage(lambda: None)
    assert world.reasons()["Accepted"] == "False ConflictingController"
    assert world.get(JOBS) == theirs
    assert life.adapter
    assert life.adapter.reconciler.conflicts


def scribble(world: World, **fields: Any) -> None:
    """Another operator writes the status."""

    def change(obj: Object) -> None:
        obj["status"] |= fields
        own_up(obj, "flux-operator", fields)

    world.edit(MINICLUSTERS, change)


async def test_another_writer_of_the_status_is_answered_once_a_minute(world: World, life: Life) -> None:
    await run_until(life, world.make_workload)
    assert life.adapter
    scribble(world, jobid="theirs")
    await life.settle()
    assert world.reasons()["Accepted"] == "False ConflictingController"
    assert "flux-operator writes its status" in world.message("Accepted")
    assert life.adapter.reconciler.conflicts
    before = life.adapter.writes
    for number in range(5):
        world.pass_time(5)
        scribble(world, jobid=f"theirs {number}")
        await life.settle()
    assert life.adapter.writes == before
    # While somebody else is at work nothing is done, and a minute after the last sign of it everything is.
    world.admit()
    await life.settle()
    assert world.certificate() is None
    result = await life.adapter.turn()
    assert result is not None
    assert result.requeue_after == 60


async def test_the_trace_that_an_operator_has_left_does_not_count_for_ever(world: World, life: Life) -> None:
    """A field that we never write stays the other's."""
    await run_until(life, world.make_workload)
    assert life.adapter

    def change(obj: Object) -> None:
        owned = {"manager": "flux-operator", "subresource": "status", "time": world.stamp}
        obj["metadata"]["managedFields"] = [{**owned, "fieldsV1": {"f:status": {"f:theirs": {}}}}]

    world.edit(MINICLUSTERS, change)
    await life.settle()
    assert world.reasons()["Accepted"] == "False ConflictingController"
    world.admit()
    world.pass_time(61)
    await life.settle()
    assert "flux-operator" in {entry["manager"] for entry in world.get(MINICLUSTERS)["metadata"]["managedFields"]}
    assert not life.adapter.reconciler.conflicts
    assert world.reasons()["Accepted"] == "True Accepted"
    assert world.reasons()["Ready"] == "True BrokersUp"


@pytest.mark.parametrize(("ahead", "counts"), [(59, True), (61, False), (10**9, False)])
async def test_a_trace_from_the_future_is_nobodys(world: World, life: Life, ahead: int, counts: bool) -> None:
    """Users can write managedFields; clocks may differ by a minute."""
    await run_until(life, world.make_workload)
    time = (world.api.now + timedelta(seconds=ahead)).strftime("%Y-%m-%dT%H:%M:%SZ")
    forged = {"manager": "forged", "subresource": "status", "time": time, "fieldsV1": {"f:status": {"f:theirs": {}}}}
    world.edit(MINICLUSTERS, lambda obj: obj["metadata"].update(managedFields=[forged]))
    await life.settle()
    assert world.reasons()["Accepted"] == ("False ConflictingController" if counts else "True Accepted")
    assert life.adapter
    assert len(life.adapter.reconciler.conflicts) == counts


async def test_when_the_other_operator_is_gone_the_work_goes_on(world: World, life: Life) -> None:
    await run_until(life, world.make_workload)
    assert life.adapter
    scribble(world, jobid="theirs")
    await life.settle()
    world.admit()
    world.pass_time(61)
    await life.settle()
    assert not life.adapter.reconciler.conflicts
    assert world.reasons()["Accepted"] == "True Accepted"
    assert world.reasons()["Ready"] == "True BrokersUp"


# -- bad input


async def test_an_invalid_minicluster_is_told_all_that_is_wrong(world: World, life: Life) -> None:
    await submit(life, queued().spec(minSize=9, flux={"bursting": {"leadBroker": {"address": "a"}}}))
    assert world.reasons() == {"Accepted": "False InvalidSpec"}
    message = world.message("Accepted")
    assert "spec.minSize" in message
    assert "spec.flux.bursting" in message
    assert told(life) == [("Warning", "InvalidSpec")]
    assert world.kinds() == {"MiniCluster"}
    assert done(life) == [("apply", "MiniCluster")]
    await life.settle()
    assert done(life) == [("apply", "MiniCluster")]

    await life.stage(lambda: world.edit(MINICLUSTERS, lambda obj: obj.update(spec=queued().obj()["spec"])))
    assert world.reasons()["Accepted"] == "True Accepted"
    assert world.get(JOBS)


async def test_an_unsupported_field_is_named(world: World, life: Life) -> None:
    await submit(life, queued().spec(flux={"bursting": {"leadBroker": {"address": "a"}}}))
    assert world.reasons() == {"Accepted": "False UnsupportedField"}


# -- deletion


async def test_a_minicluster_that_is_gone_needs_nothing(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    assert life.adapter
    before = life.adapter.writes
    world.edit(MINICLUSTERS, lambda obj: obj["metadata"].update(deletionTimestamp=world.stamp))
    await life.settle()
    world.api.delete(MINICLUSTERS, NAME, NAMESPACE)
    await life.settle()
    assert life.adapter.writes == before
    world.api.collect_garbage()
    assert world.api.objects == {}


async def test_a_status_for_a_minicluster_that_was_just_deleted_is_dropped(world: World, life: Life) -> None:
    await run_until(life, world.make_workload)
    assert life.adapter
    world.keep_waiting()
    life.adapter.hear_all()
    world.api.delete(MINICLUSTERS, NAME, NAMESPACE)
    before = len(life.adapter.told)
    await life.adapter.turn()
    assert len(life.adapter.told) == before
    world.submit(queued())
    await life.adapter.turn()
    assert world.status == {}, "the new one has a life of its own"


async def test_a_job_that_somebody_deleted_is_made_again(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    first = world.certificate()

    def delete() -> None:
        world.api.delete(JOBS, NAME, NAMESPACE)
        world.api.collect_garbage()

    await life.stage(delete)
    assert world.get(JOBS)["spec"]["suspend"] is True
    assert world.certificate() is None
    await life.stage(world.make_workload)
    await life.stage(world.admit)
    assert world.certificate() not in (None, first)
    assert world.reasons()["Ready"] == "True BrokersUp"


async def test_a_job_that_was_deleted_after_the_end_is_not_made_again(world: World, life: Life) -> None:
    await finished(life, queued())

    def delete() -> None:
        world.api.delete(JOBS, NAME, NAMESPACE)
        world.api.collect_garbage()

    await life.stage(delete)
    assert world.kinds() == {"MiniCluster", "Service", "NetworkPolicy"}
    assert world.reasons()["Finished"] == "True Succeeded"
    assert world.status["exitCode"] == 0


async def test_pods_that_are_leaving_are_not_counted(world: World, life: Life) -> None:
    await run_until(life, world.make_workload, world.admit)
    leaving = world.running()[1]
    world.unpullable = {1}
    await life.stage(
        lambda: world.edit(PODS, lambda pod: pod["metadata"].update(deletionTimestamp=world.stamp), leaving)
    )
    assert (world.status["podsRunning"], world.status["brokersReady"]) == (3, 3)
