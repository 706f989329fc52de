"""The status that the facts add up to, one table for each condition."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from kueue_flux.controller import pods, status
from kueue_flux.controller.facts import Facts
from kueue_flux.flux.termination import Reason, Termination
from kueue_flux.kueue import workload as kueue
from kueue_flux.kueue.workload import Signal
from tests import builders
from tests.builders import AT, JobBuilder, MiniClusterBuilder, PodBuilder, WorkloadBuilder, minicluster

NOW = datetime.fromisoformat(AT) + timedelta(seconds=1)
RECORD = {"id": "a1", "size": 4, "injectedAt": AT}

QUEUED = minicluster().queue("q")
JOB = builders.job(QUEUED)
WITH_CLAIMS = (
    minicluster()
    .queue("q")
    .container(
        volumes={
            "a": {"path": "/a", "claimName": "scratch"},
            "b": {"path": "/b", "claimName": "data"},
            "c": {"path": "/c"},
        }
    )
)
LOOSE_JOB = builders.job(minicluster())


def workload() -> WorkloadBuilder:
    return builders.workload(JOB)


def job() -> JobBuilder:
    return builders.job(QUEUED)


def pod(index: int = 0) -> PodBuilder:
    return builders.pod(JOB, index)


def facts(
    *,
    mc: MiniClusterBuilder = QUEUED,
    job: JobBuilder | None = JOB,
    workload: WorkloadBuilder | None = None,
    pods_: tuple[PodBuilder, ...] = (),
    position: int | None = None,
    obstacle: Signal | None = None,
    old: dict[str, Any] | None = None,
) -> Facts:
    """Facts of a queued MiniCluster with a Job; `old` is the status as last written."""
    return Facts(
        mc=mc.build(),
        job=job.obj() if job else None,
        workload=kueue.read(workload.obj()) if workload else None,
        pods=[pods.read(p.obj(), "flux") for p in pods_],
        position=position,
        status=old or {},
        obstacle=obstacle,
    )


@pytest.mark.parametrize(
    ("text", "indexes"), [(None, [0, 1, 2, 3]), ("", [0, 1, 2, 3]), ("2", [0, 1, 3]), ("1-2", [0, 3]), ("0,2-3", [1])]
)
def test_completed_indexes_do_not_come_again(text: str | None, indexes: list[int]):
    done = job()
    done._status("completedIndexes", text)
    admission = facts(job=done, workload=workload().admitted()).admission
    assert admission
    assert admission.indexes == indexes


def loose(**more: Any) -> Facts:
    """Facts of a MiniCluster without a queue."""
    return facts(mc=minicluster(), job=LOOSE_JOB, **more)


def up(count: int) -> tuple[PodBuilder, ...]:
    return tuple(pod(index).ready() for index in range(count))


def brief(answer: tuple[bool, Signal]) -> tuple[bool, str, str]:
    return answer[0], answer[1].reason, answer[1].message


DEACTIVATED = (
    "Workload job-hello is deactivated: it is queued again once its spec.active is true: "
    """kubectl patch workload job-hello --type merge -p '{"spec":{"active":true}}'"""
)
KUEUE_NOT_READY = (
    "Kueue has made no Workload for this Job in 10 s: check that Kueue is installed and running, that its batch/job "
    "integration is on, that this namespace matches its managedJobsNamespaceSelector"
)


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (facts(job=None), (False, "WaitingForWorkload", "the Job is not created yet")),
        (facts(job=None, obstacle=Signal("KueueNotReady", "away")), (False, "KueueNotReady", "away")),
        (loose(), (True, "NotQueued", "no queue was named, so nothing is waited for")),
        (facts(), (False, "WaitingForWorkload", "Kueue has not made the Workload yet")),
        (facts(workload=workload()), (False, "PendingEvaluation", "Kueue has not looked at it yet")),
        (facts(workload=workload().waiting()), (False, "WaitingForQuota", "2 more cpu needed")),
        (
            facts(workload=workload().waiting(), position=0),
            (False, "WaitingForQuota", "position 0 in the queue (0 is next): 2 more cpu needed"),
        ),
        (
            facts(workload=workload().waiting("Inadmissible", "LocalQueue q doesn't exist")),
            (False, "Inadmissible", "LocalQueue q doesn't exist"),
        ),
        (
            facts(workload=workload().spec(active=False)),
            (False, "Deactivated", DEACTIVATED),
        ),
        (facts(workload=workload().reserved()), (True, "QuotaReserved", "quota is reserved for Workload job-hello")),
        (facts(workload=workload().admitted()), (True, "QuotaReserved", "quota is reserved for Workload job-hello")),
    ],
)
def test_quota(given: Facts, answer: tuple[bool, str, str]) -> None:
    assert brief(status.quota(given, NOW)) == answer


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [(0, "WaitingForWorkload"), (9.99, "WaitingForWorkload"), (10, "KueueNotReady"), (3600, "KueueNotReady")],
)
def test_a_kueue_that_stays_silent_is_named_after_ten_seconds(seconds: float, reason: str) -> None:
    holds, signal = status.quota(facts(), datetime.fromisoformat(AT) + timedelta(seconds=seconds))
    assert (holds, signal.reason) == (False, reason)
    if reason == "KueueNotReady":
        assert signal.message == KUEUE_NOT_READY


def test_a_waiting_condition_without_a_reason_still_has_one() -> None:
    given = facts(workload=workload().waiting())
    assert given.workload is not None
    given.workload = replace(given.workload, waiting=Signal("", "hm"))
    assert brief(status.quota(given, NOW)) == (False, "Pending", "hm")
    given.workload = replace(given.workload, waiting=None)
    assert brief(status.quota(given, NOW)) == (False, "Pending", "")


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (facts(job=None), (False, "Pending", "waiting for quota")),
        (facts(), (False, "Pending", "waiting for quota")),
        (loose(), (True, "NotQueued", "no queue was named, so the Job runs at once")),
        (facts(workload=workload().waiting()), (False, "Pending", "waiting for quota")),
        (
            facts(workload=workload().reserved().condition("Admitted", "False", "UnsatisfiedChecks", "not yet")),
            (False, "UnsatisfiedChecks", "not yet"),
        ),
        (facts(workload=workload().reserved()), (False, "Pending", "quota is reserved; admission follows")),
        (facts(workload=workload().admitted()), (True, "Admitted", "all 4 pods admitted by ClusterQueue cq")),
        (facts(workload=workload().admitted(4)), (True, "Admitted", "all 4 pods admitted by ClusterQueue cq")),
        (facts(workload=workload().admitted(3)), (True, "Admitted", "3 of 4 pods admitted by ClusterQueue cq")),
        (
            facts(workload=workload().admitted().evicted("Preempted", "by a higher one")),
            (False, "Preempted", "by a higher one"),
        ),
        (  # evicted, and quota already given back: what ended the admission is still the news
            facts(workload=workload().evicted("PodsReadyTimeout", "slow").waiting()),
            (False, "PodsReadyTimeout", "slow"),
        ),
    ],
)
def test_admitted(given: Facts, answer: tuple[bool, str, str]) -> None:
    assert brief(status.admitted(given)) == answer


@pytest.mark.parametrize(
    ("given", "record", "answer"),
    [
        (facts(), None, (False, "WaitingForAdmission", "certificate and configuration are written at admission")),
        (
            facts(old={"admissions": 1}),
            None,
            (False, "Withdrawn", "certificate and configuration of the last admission were deleted"),
        ),
        (
            facts(workload=workload().admitted(3)),
            {**RECORD, "size": 3},
            (True, "FilesWritten", "certificate and configuration for 3 brokers written"),
        ),
    ],
)
def test_injected(given: Facts, record: dict[str, Any] | None, answer: tuple[bool, str, str]) -> None:
    assert brief(status.injected(given, record)) == answer


@pytest.mark.parametrize(
    ("pods_", "answer"),
    [
        ((), (False, "PodsPending", "0 of 4 pods run")),
        ((pod(0).running(), pod(1).ready(), pod(2)), (False, "PodsPending", "2 of 4 pods run")),
        ((*up(3), pod(3).running()), (False, "BrokersStarting", "3 of 4 brokers are up")),
        (up(4), (True, "BrokersUp", "all 4 brokers are up")),
        ((pod(0).ready(), pod(1).ended(0), *up(4)[2:]), (True, "BrokersUp", "all 4 brokers are up")),
        (
            (*up(3), pod(3).waiting_for("ImagePullBackOff", "no such tag")),
            (
                False,
                "ImagePullFailed",
                f"pod hello-3-xxxxx: ImagePullBackOff: container flux: no such tag; {status.IMAGE_REMEDY}",
            ),
        ),
        (
            (pod(0).waiting_for("CreateContainerConfigError", "no secret s"),),
            (False, "PodsPending", "pod hello-0-xxxxx: CreateContainerConfigError: container flux: no secret s"),
        ),
        (
            (pod(0), pod(1).unscheduled("0/3 nodes are available")),
            (False, "PodsPending", "pod hello-1-xxxxx: Unschedulable: 0/3 nodes are available"),
        ),
        (
            (pod(0).unscheduled('0/3 nodes are available: persistentvolumeclaim "data" not found. not found'),),
            (
                False,
                "VolumeMissing",
                "pod hello-0-xxxxx: PersistentVolumeClaim data does not exist: create it, and the pods start",
            ),
        ),
        (
            (pod(0).unscheduled("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims"),),
            (
                False,
                "VolumePending",
                "pod hello-0-xxxxx: 0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims "
                "(kubectl describe pvc data scratch tells what is missing)",
            ),
        ),
        (
            (*up(3), pod(3).ready().with_failing_sidecar(2)),
            (
                True,
                "SidecarFailed",
                "all 4 brokers are up, but pod hello-3-xxxxx: container log ended with exit code 1, restarted 2 times",
            ),
        ),
        (
            (*up(3), pod(3).with_failing_sidecar(exit_code=127)),
            (False, "SidecarFailed", "pod hello-3-xxxxx: container log ended with exit code 127, restarted once"),
        ),
        ((*up(4), pod(4).waiting_for("ErrImagePull")), (True, "BrokersUp", "all 4 brokers are up")),
    ],
)
def test_ready(pods_: tuple[PodBuilder, ...], answer: tuple[bool, str, str]) -> None:
    given = facts(mc=WITH_CLAIMS, workload=workload().admitted(), pods_=pods_)
    assert brief(status.ready(given, RECORD, None)) == answer


@pytest.mark.parametrize(
    ("image", "remedy"), [("registry.example.com/view:1", status.VIEW_REMEDY), ("other", status.IMAGE_REMEDY)]
)
def test_the_image_that_brings_flux_has_a_remedy_of_its_own(image: str, remedy: str) -> None:
    mc = minicluster().queue("q").view(image="registry.example.com/view:1")
    waits = pod(0).waiting_for("ErrImagePull", f"no {image}")
    message = status.ready(facts(mc=mc, workload=workload().admitted(), pods_=(waits,)), RECORD, None)[1].message
    assert message == f"pod hello-0-xxxxx: ErrImagePull: container flux: no {image}; {remedy}"


def test_what_volumes_wait_for_comes_after_what_a_pod_itself_says() -> None:
    missing = Signal("VolumeMissing", "ConfigMap conf does not exist")
    given = facts(workload=workload().admitted(), pods_=(pod(0).unmounted(), pod(1)))
    given.holdup = missing
    assert status.ready(given, RECORD, None) == (False, missing)
    given.pods.append(pods.read(pod(2).waiting_for("ErrImagePull").obj(), "flux"))
    assert status.ready(given, RECORD, None)[1].reason == "ImagePullFailed"
    given.pods = [pods.read(p.obj(), "flux") for p in up(4)]
    assert status.ready(given, RECORD, None)[0]


def test_of_one_broker_is_spoken_as_of_one() -> None:
    """And not of "all 1 brokers"."""
    record = {**RECORD, "size": 1}

    def said(of: PodBuilder) -> str:
        return status.ready(facts(mc=alone, workload=workload().admitted(1), pods_=(of,)), record, None)[1].message

    alone = minicluster().queue("q").size(1)
    assert said(pod(0)) == "the pod does not run yet"
    assert said(pod(0).running()) == "the broker is not up yet"
    assert said(pod(0).ready()) == "the broker is up"
    given = facts(mc=alone, workload=workload().admitted(1))
    assert status.admitted(given)[1].message == "the pod is admitted by ClusterQueue cq"
    assert status.injected(given, record)[1].message == "certificate and configuration for 1 broker written"


def test_ready_before_admission_and_after_the_end() -> None:
    assert brief(status.ready(facts(), None, None)) == (False, "WaitingForAdmission", "no pods before admission")
    given = facts(workload=workload().admitted(), pods_=up(4))
    assert brief(status.ready(given, RECORD, Signal("Failed", ""))) == (False, "Finished", "the run has ended")


def test_brokers_are_counted_against_what_was_admitted() -> None:
    given = facts(workload=workload().admitted(3), pods_=up(3))
    assert brief(status.ready(given, {**RECORD, "size": 3}, None)) == (True, "BrokersUp", "all 3 brokers are up")


SOON, LATE = timedelta(seconds=5), timedelta(seconds=5, milliseconds=1)
"""After the Job's end: the last moment at which the lead's last words are waited for, and the first after it."""


@pytest.mark.parametrize(
    ("of", "lead", "after", "end"),
    [
        (job(), pod().ended(0), LATE, None),
        (job().condition("Suspended"), None, LATE, None),
        (job().condition("Complete", "False"), None, LATE, None),
        (job().succeeded(), pod().ended(0), SOON, Signal("Succeeded", "the command exited with code 0")),
        (job().complete(), pod().ended(0), SOON, Signal("Succeeded", "the command exited with code 0")),
        (job().succeeded(), pod().running(), SOON, None),
        (job().succeeded(), pod().running(), LATE, Signal("Succeeded", "the command exited with code 0")),
        (job().succeeded(), None, LATE, Signal("Succeeded", "the command exited with code 0")),
        (job().failing(), pod().ended(3), SOON, Signal("Failed", "the command exited with code 3 (CommandFailed)")),
        (job().failed(), pod().ended(3), SOON, Signal("Failed", "the command exited with code 3 (CommandFailed)")),
        (
            job().failing(),
            pod().ended(127, "exit-code=127\nreason=CommandNotFound\n"),
            SOON,
            Signal("Failed", "the command was not found (CommandNotFound, exit code 127)"),
        ),
        (job().failing("DeadlineExceeded", "too long"), None, SOON, None),
        (job().failing("DeadlineExceeded", "too long"), None, LATE, Signal("Failed", "DeadlineExceeded: too long")),
        (
            job().failing("DeadlineExceeded", "too long"),
            pod().ended(143, "exit-code=143\nreason=Terminated\n"),
            SOON,
            Signal("Failed", "DeadlineExceeded: too long"),
        ),
        (
            job().succeeded(),
            pod().ended(0, "exit-code=0\nreason=Stopped\n"),
            SOON,
            Signal("Succeeded", "it was stopped"),
        ),
    ],
)
def test_ending(of: JobBuilder, lead: PodBuilder | None, after: timedelta, end: Signal | None) -> None:
    given = facts(job=of, pods_=(lead,) if lead else ())
    assert status.ending(given, datetime.fromisoformat(AT) + after) == end


@pytest.mark.parametrize(
    ("reason", "code", "words"),
    [
        (None, 3, "the command exited with code 3 (CommandFailed)"),
        (Reason.COMMAND_FAILED, 3, "the command exited with code 3 (CommandFailed)"),
        (Reason.COMMAND_NOT_FOUND, 127, "the command was not found (CommandNotFound, exit code 127)"),
        (
            Reason.COMMAND_NOT_EXECUTABLE,
            126,
            "the command cannot be executed (CommandNotExecutable, exit code 126)",
        ),
        (Reason.COMMAND_SIGNALED, 139, "the command was ended by signal 11 (CommandSignaled, exit code 139)"),
        (
            Reason.TERMINATED,
            143,
            "the lead was asked to stop before the command ended (Terminated, exit code 143)",
        ),
        (
            Reason.JOB_REJECTED,
            1,
            "Flux rejected the job: it asks for more than the admitted pods have; see the log "
            "(JobRejected, exit code 1)",
        ),
        (
            Reason.FLUX_NOT_FOUND,
            127,
            "there is no flux in the container: use an image with Flux, or a view image (FluxNotFound, exit code 127)",
        ),
        (
            Reason.FLUX_FAILED,
            1,
            "Flux failed to start or to run the command; see the lead's log (FluxFailed, exit code 1)",
        ),
        (
            Reason.OUT_OF_MEMORY,
            137,
            "the lead needed more memory than spec.containers[].resources.limits allows: raise it "
            "(OutOfMemory, exit code 137)",
        ),
        (Reason.KILLED, 137, "the lead was killed from outside (Killed, exit code 137)"),
        (Reason.STOPPED, 143, "it was stopped before the command ended (Stopped, exit code 143)"),
        (Reason.WORKER_LOST, 143, "a broker on which the command ran was lost (WorkerLost, exit code 143)"),
    ],
)
def test_explain(reason: Reason | None, code: int, words: str) -> None:
    assert status.explain(Termination(code, reason)) == words


@pytest.mark.parametrize("reason", [Reason.BATCH_FAILED, Reason.PRE_FAILED, Reason.POST_FAILED])
def test_a_note_says_it_better(reason: Reason) -> None:
    note = "commands.pre failed with exit code 4"
    assert status.explain(Termination(4, reason, note)) == f"{note} ({reason}, exit code 4)"


@pytest.mark.parametrize(
    ("lead", "named"),
    [
        (None, "PreFailed"),
        (pod().running(), "PreFailed"),
        (pod().ended(143, "exit-code=143\nreason=Terminated\n"), "PreFailed"),
        (pod().ended(1, "exit-code=1\nreason=WorkerLost\n"), "PreFailed"),
        (pod().ended(3, "exit-code=3\nreason=CommandFailed\n"), "CommandFailed"),
    ],
)
def test_a_worker_that_failed_by_itself_is_the_reason(lead: PodBuilder | None, named: str) -> None:
    worker = pod(1).ended(4, "exit-code=4\nreason=PreFailed\nnote=commands.pre failed\n")
    given = facts(job=job().failing(), pods_=(*((lead,) if lead else ()), worker))
    end = status.ending(given, datetime.fromisoformat(AT) + SOON)
    assert end is not None
    assert named in end.message


def test_every_reason_has_words() -> None:
    for reason in Reason:
        assert str(reason) in status.explain(Termination(1, reason))


def derive(given: Facts, record: dict[str, Any] | None = None, trouble: Signal | None = None, **more: Any) -> Any:
    return status.derive(given, record, trouble, NOW, **more)


def reasons(new: dict[str, Any]) -> dict[str, str]:
    """Each condition as its status and reason, in one word each."""
    return {c["type"]: f"{c['status']} {c['reason']}" for c in new["conditions"]}


def test_the_whole_status_of_a_minicluster_that_runs() -> None:
    running = job().started()
    new = derive(
        facts(job=running, workload=workload().admitted(3), pods_=up(2), old={"admissions": 1}),
        {**RECORD, "size": 3},
        injections=1,
    )
    at = {"observedGeneration": 1, "lastTransitionTime": "2030-01-31T12:00:01Z"}
    assert new == {
        "observedGeneration": 1,
        "selector": "flux-framework.org/minicluster=hello",
        "jobid": "",
        "size": 3,
        "maximumSize": 4,
        "podsRunning": 2,
        "brokersReady": 2,
        "admissions": 2,
        "queue": "q",
        "workload": "job-hello",
        "admission": {"id": "a1", "size": 3, "injectedAt": AT},
        "startTime": AT,
        "conditions": [
            {"type": t, "status": s, "reason": r, "message": m, **at}
            for t, s, r, m in [
                ("Accepted", "True", "Accepted", "the specification is valid"),
                ("QuotaReserved", "True", "QuotaReserved", "quota is reserved for Workload job-hello"),
                ("Admitted", "True", "Admitted", "3 of 4 pods admitted by ClusterQueue cq"),
                ("Injected", "True", "FilesWritten", "certificate and configuration for 3 brokers written"),
                ("Ready", "False", "PodsPending", "2 of 3 pods run"),
                ("Finished", "False", "Running", "the run has begun: 2 of 3 pods run"),
            ]
        ],
    }


def test_the_whole_status_of_a_minicluster_that_waits() -> None:
    new = derive(facts(workload=workload().waiting(), position=0))
    del new["conditions"]
    assert new == {
        "observedGeneration": 1,
        "selector": "flux-framework.org/minicluster=hello",
        "jobid": "",
        "size": 0,
        "maximumSize": 4,
        "podsRunning": 0,
        "brokersReady": 0,
        "admissions": 0,
        "queue": "q",
        "workload": "job-hello",
        "queuePosition": 0,
    }


def test_the_position_ends_with_the_waiting() -> None:
    assert "queuePosition" not in derive(facts(workload=workload().admitted(), position=0), RECORD)


def test_what_the_webhook_chose_is_the_queue() -> None:
    given = facts(mc=minicluster(), job=builders.job(minicluster()).label(builders.QUEUE, "default"))
    assert derive(given)["queue"] == "default"
    assert derive(loose()).get("queue") is None


@pytest.mark.parametrize(
    ("given", "record", "expected"),
    [
        (
            facts(job=None),
            None,
            {
                "QuotaReserved": "False WaitingForWorkload",
                "Admitted": "False Pending",
                "Injected": "False WaitingForAdmission",
                "Ready": "False WaitingForAdmission",
                "Finished": "False Waiting",
            },
        ),
        (
            facts(job=job().started(), workload=workload().admitted(), pods_=up(4)),
            RECORD,
            {
                "QuotaReserved": "True QuotaReserved",
                "Admitted": "True Admitted",
                "Injected": "True FilesWritten",
                "Ready": "True BrokersUp",
                "Finished": "False Running",
            },
        ),
        (
            facts(workload=workload().admitted().evicted(), old={"admissions": 1}),
            None,
            {
                "QuotaReserved": "True QuotaReserved",
                "Admitted": "False Preempted",
                "Injected": "False Withdrawn",
                "Ready": "False WaitingForAdmission",
                "Finished": "False Waiting",
            },
        ),
        (
            facts(job=job().complete(), workload=workload().admitted().finished(), pods_=(pod().ended(0),)),
            RECORD,
            {
                "QuotaReserved": "True QuotaReserved",
                "Admitted": "True Admitted",
                "Injected": "True FilesWritten",
                "Ready": "False Finished",
                "Finished": "True Succeeded",
            },
        ),
    ],
)
def test_conditions_in_order_of_life(given: Facts, record: dict[str, Any] | None, expected: dict[str, str]) -> None:
    assert list(reasons(derive(given, record)).items()) == [("Accepted", "True Accepted"), *expected.items()]


def test_trouble_is_told_and_the_rest_goes_on() -> None:
    new = derive(facts(workload=workload().admitted()), RECORD, Signal("SpecChanged", "undo it"))
    assert new["conditions"][0]["message"] == "undo it"
    assert reasons(new) | {"Accepted": "False SpecChanged"} == reasons(new)
    assert reasons(new)["Injected"] == "True FilesWritten"


def ended(code: int, message: str = "") -> Facts:
    of = job().started()
    of = of.complete() if code == 0 else of.failed()
    return facts(job=of, workload=workload().admitted(), pods_=(pod().ended(code, message),))


@pytest.mark.parametrize(
    ("given", "reason", "code"),
    [
        (ended(0), "Succeeded", 0),
        (ended(3), "Failed", 3),
        (
            ended(1, "exit-code=143\nreason=CommandFailed\n"),
            "Failed",
            143,
        ),  # the termination log's, not the container's
        (ended(127, "exit-code=127\nreason=CommandNotFound\n"), "Failed", 127),
    ],
)
def test_the_end(given: Facts, reason: str, code: int) -> None:
    new = derive(given, RECORD)
    assert reasons(new)["Finished"] == f"True {reason}"
    assert (new["exitCode"], new["completionTime"]) == (code, "2030-01-31T12:00:01Z")


def test_the_end_of_a_lead_that_is_gone() -> None:
    late = NOW + timedelta(minutes=1)
    new = status.derive(facts(job=job().failed("BackoffLimitExceeded", "too often")), RECORD, None, late)
    assert "exitCode" not in new
    assert new["conditions"][-1]["message"] == "BackoffLimitExceeded: too often"
    # The Job succeeds by its lead's exit code 0 alone, so that much is known.
    assert status.derive(facts(job=job().complete()), RECORD, None, late)["exitCode"] == 0


def test_finished_stays_finished() -> None:
    first = derive(ended(3), RECORD)
    assert first["startTime"] == AT
    later = NOW + timedelta(hours=1)
    for gone in (
        facts(job=job().started().failed(), old=first),  # the pods
        facts(job=None, old=first),  # the Job
        facts(job=job().started().complete(), pods_=(pod().ended(0),), old=first),  # nothing ends twice
    ):
        new = status.derive(gone, RECORD, None, later)
        assert new["conditions"] == first["conditions"]
        assert (new["exitCode"], new["completionTime"]) == (3, first["completionTime"])
        assert new.get("startTime") == first["startTime"]


def test_pods_that_leave_after_the_end_are_still_counted() -> None:
    first = derive(ended(0), RECORD)
    assert derive(facts(pods_=(pod(1).ready(),), old=first), RECORD)["podsRunning"] == 1
    assert derive(facts(old=first), RECORD)["podsRunning"] == 0


def test_cleared_files() -> None:
    first = derive(ended(0), RECORD)
    new = derive(facts(old=first), RECORD, cleared=True)
    assert reasons(new) == {**reasons(first), "Injected": "False Withdrawn"}
    assert new["admission"] == RECORD  # what was admitted can still be read
    assert derive(facts(old=new), RECORD) == new


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    first = derive(facts(workload=workload().waiting()))
    later = NOW + timedelta(minutes=5)
    again = status.derive(facts(workload=workload().waiting("NoMatchingFlavor"), old=first), None, None, later)
    assert {c["lastTransitionTime"] for c in again["conditions"]} == {"2030-01-31T12:00:01Z"}
    turned = status.derive(facts(workload=workload().admitted(), old=again), RECORD, None, later)
    times = {c["type"]: c["lastTransitionTime"] for c in turned["conditions"]}
    assert times["Admitted"] == "2030-01-31T12:05:01Z"
    assert times["Accepted"] == "2030-01-31T12:00:01Z"


def test_nothing_new_is_the_same_status() -> None:
    given = facts(job=job().started(), workload=workload().admitted(), pods_=up(3))
    first = derive(given, RECORD)
    given.status = first
    assert status.derive(given, RECORD, None, NOW + timedelta(days=1)) == first


def test_refusal_keeps_the_former_status() -> None:
    obj = minicluster().meta(generation=7).status(admissions=1, conditions=[builders.condition("Ready")]).obj()
    new = status.refusal(obj, Signal("InvalidSpec", "spec.size: no"), NOW)
    assert (new["observedGeneration"], new["admissions"]) == (7, 1)
    assert reasons(new) == {"Accepted": "False InvalidSpec", "Ready": "True Ready"}
    assert status.refusal({**obj, "status": new}, Signal("InvalidSpec", "spec.size: no"), NOW) == new


def conditions(*of: tuple[str, str, str, str]) -> dict[str, Any]:
    return {"conditions": [builders.condition(*one) for one in of]}


@pytest.mark.parametrize(
    ("old", "new", "events"),
    [
        (None, ("Accepted", "True", "Accepted", "fine"), []),
        (None, ("Accepted", "False", "NameTaken", "m"), [("Warning", "NameTaken", "m")]),
        (None, ("Accepted", "False", "SpecChanged", "m"), [("Warning", "SpecChanged", "m")]),
        (None, ("Accepted", "False", "Refused", "m"), [("Warning", "Refused", "m")]),
        (None, ("Accepted", "False", "ConflictingController", "m"), [("Warning", "ConflictingController", "m")]),
        (None, ("QuotaReserved", "False", "WaitingForWorkload", "m"), []),
        (None, ("QuotaReserved", "False", "PendingEvaluation", "m"), []),
        (None, ("QuotaReserved", "False", "WaitingForQuota", "m"), [("Normal", "WaitingForQuota", "m")]),
        (None, ("QuotaReserved", "False", "NoMatchingFlavor", "m"), [("Normal", "NoMatchingFlavor", "m")]),
        (None, ("QuotaReserved", "False", "KueueNotReady", "m"), [("Warning", "KueueNotReady", "m")]),
        (None, ("QuotaReserved", "True", "QuotaReserved", "m"), []),
        (None, ("Ready", "False", "PodsPending", "m"), []),
        (None, ("Ready", "False", "ImagePullFailed", "m"), [("Warning", "ImagePullFailed", "m")]),
        (None, ("Ready", "True", "SidecarFailed", "m"), [("Warning", "SidecarFailed", "m")]),
        (
            ("Ready", "True", "BrokersUp", "m"),
            ("Ready", "True", "SidecarFailed", "m"),
            [("Warning", "SidecarFailed", "m")],
        ),
        (None, ("Ready", "True", "BrokersUp", "m"), [("Normal", "BrokersUp", "m")]),
        (None, ("Finished", "False", "Running", "m"), []),
        (None, ("Finished", "True", "Succeeded", "m"), [("Normal", "Succeeded", "m")]),
        (None, ("Finished", "True", "Failed", "m"), [("Warning", "Failed", "m")]),
        # the same again is no news, whatever its words
        (("Ready", "False", "ImagePullFailed", "old"), ("Ready", "False", "ImagePullFailed", "new"), []),
        (("Finished", "True", "Failed", "m"), ("Finished", "True", "Failed", "m"), []),
        (
            ("QuotaReserved", "False", "NoMatchingFlavor", "m"),
            ("QuotaReserved", "False", "Misconfigured", "m"),
            [("Normal", "Misconfigured", "m")],
        ),
    ],
)
def test_what_is_worth_an_event(
    old: tuple[str, str, str, str] | None, new: tuple[str, str, str, str], events: list[tuple[str, str, str]]
) -> None:
    assert status.tell(conditions(old) if old else {}, conditions(new)) == events
