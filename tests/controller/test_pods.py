"""What a pod's status says of its broker."""

import pytest

from kueue_flux.controller.pods import INDEX, is_numbered, lead, read
from kueue_flux.controller.resources import keep_pod
from kueue_flux.flux.termination import Reason, Termination
from kueue_flux.kueue.workload import Signal
from tests.builders import PodBuilder, job, minicluster, pod

JOB = job(minicluster()).obj()


@pytest.mark.parametrize(
    ("built", "running", "ready"),
    [
        (pod(JOB), False, False),
        (pod(JOB).running(), True, False),
        (pod(JOB).ready(), True, True),
        (pod(JOB).ended(0), False, True),  # its broker was up, and has ended well
        (pod(JOB).ended(1), False, False),
        (pod(JOB).ended(0).phase("Running"), True, True),  # as a kubelet reports it first
        (pod(JOB).ended(1).phase("Running"), True, False),
    ],
)
def test_running_and_ready(built: PodBuilder, running: bool, ready: bool) -> None:
    view = read(built.obj(), "flux")
    assert (view.running, view.ready) == (running, ready)


@pytest.mark.parametrize(
    ("built", "words"),
    [
        (pod(JOB).ready(), None),
        (pod(JOB).ready().with_failing_sidecar(0), None),
        (pod(JOB).ready().with_failing_sidecar(1, 3), "container log ended with exit code 3, restarted once"),
        (pod(JOB).ready().with_failing_sidecar(4, 0), "container log ended with exit code 0, restarted 4 times"),
        (
            pod(JOB).ready().with_failing_sidecar(2, 137, "OOMKilled"),
            "container log ended with exit code 137 (OOMKilled), restarted 2 times",
        ),
    ],
)
def test_a_sidecar_that_fails_does_not_take_its_broker_down(built: PodBuilder, words: str | None) -> None:
    view = read(built.obj(), "flux")
    assert (view.ready, view.failing) == (True, words)


@pytest.mark.parametrize(
    ("built", "since"),
    [
        (pod(JOB), None),
        (pod(JOB).unmounted("2030-01-31T12:00:05Z"), "2030-01-31T12:00:05Z"),
        (pod(JOB).unmounted().condition("PodReadyToStartContainers"), None),
        (pod(JOB).unmounted().unscheduled(), None),
        (pod(JOB).running(), None),
        (pod(JOB).unmounted().phase("Failed"), None),
    ],
)
def test_since_when_volumes_are_not_mounted(built: PodBuilder, since: str | None) -> None:
    assert read(keep_pod(built.obj()), "flux").unmounted_since == since


def test_a_pod_without_status_has_just_been_created() -> None:
    new = pod(JOB, 2).obj()
    del new["status"]
    view = read(new, "flux")
    assert (view.name, view.index, view.running, view.stuck) == ("hello-2-xxxxx", 2, False, None)


@pytest.mark.parametrize(
    ("built", "stuck"),
    [
        (pod(JOB), None),
        (pod(JOB).waiting_for("ContainerCreating"), None),
        (pod(JOB).waiting_for("PodInitializing"), None),
        (
            pod(JOB).waiting_for("ImagePullBackOff", "no such tag"),
            Signal("ImagePullBackOff", "container flux: no such tag"),
        ),
        (pod(JOB).waiting_for("ErrImagePull"), Signal("ErrImagePull", "container flux: no")),
        (pod(JOB).waiting_for("ErrImageNeverPull"), Signal("ErrImageNeverPull", "container flux: no")),
        (pod(JOB).waiting_for("InvalidImageName"), Signal("InvalidImageName", "container flux: no")),
        (
            pod(JOB).waiting_for("CreateContainerConfigError", "secret not found"),
            Signal("CreateContainerConfigError", "container flux: secret not found"),
        ),
        (
            pod(JOB).waiting_for("ErrImagePull", container="initContainerStatuses"),
            Signal("ErrImagePull", "container flux: no"),
        ),
        (pod(JOB).unscheduled("0/3 nodes"), Signal("Unschedulable", "0/3 nodes")),
        (pod(JOB).unscheduled("gate", "SchedulingGated"), Signal("SchedulingGated", "gate")),
        (pod(JOB).running(), None),
        (pod(JOB).ended(1), None),
    ],
)
def test_a_pod_that_will_not_start_by_itself_says_why(built: PodBuilder, stuck: Signal | None) -> None:
    assert read(built.obj(), "flux").stuck == stuck


SUCCEEDED = Termination(0, Reason.COMMAND_SUCCEEDED)


@pytest.mark.parametrize(
    ("built", "termination"),
    [
        (pod(JOB).running(), None),
        (pod(JOB).ended(0), Termination(0, None)),
        (pod(JOB).ended(3), Termination(3, None)),
        # The container's exit code gives way to the command's own, which start.sh wrote down.
        (pod(JOB).ended(1, "exit-code=137\nreason=CommandSignaled\n"), Termination(137, Reason.COMMAND_SIGNALED)),
        (pod(JOB).ended(127, "exit-code=127\nreason=CommandNotFound\n"), Termination(127, Reason.COMMAND_NOT_FOUND)),
        (pod(JOB).ended(2, "the last line of some log"), Termination(2, None)),
        (pod(JOB).ended(137), Termination(137, Reason.KILLED)),
        (pod(JOB).ended(137, reason="OOMKilled"), Termination(137, Reason.OUT_OF_MEMORY)),
        # There is no shell in the image, so that nothing could write there.
        (
            pod(JOB).ended(128, 'exec: "/bin/sh": no such file', reason="StartError"),
            Termination(128, Reason.FLUX_FAILED, 'container flux cannot start: exec: "/bin/sh": no such file'),
        ),
        # The kernel ended the command only, and start.sh saw it.
        (
            pod(JOB).ended(1, "exit-code=137\nreason=CommandSignaled\n", reason="OOMKilled"),
            Termination(137, Reason.OUT_OF_MEMORY),
        ),
        # It ended something else, which the command got over.
        (pod(JOB).ended(0, "exit-code=0\nreason=CommandSucceeded\n", reason="OOMKilled"), SUCCEEDED),
    ],
)
def test_how_the_container_that_runs_flux_ended(built: PodBuilder, termination: Termination | None) -> None:
    assert read(built.obj(), "flux").termination == termination
    assert read(built.obj(), "another").termination is None


@pytest.mark.parametrize(("phase", "known"), [("Failed", True), ("Pending", False)])
def test_a_container_that_cannot_be_started_before_flux_is_the_end_of_the_pod(phase: str, known: bool) -> None:
    """Not so a sidecar, which is started again."""
    ended = {"exitCode": 128, "reason": "StartError", "message": "exec: no such file"}
    built = pod(JOB).obj()
    built["status"] |= {"phase": phase, "initContainerStatuses": [{"name": "view", "state": {"terminated": ended}}]}
    end = Termination(128, Reason.FLUX_FAILED, "container view cannot start: exec: no such file")
    assert read(keep_pod(built), "flux").termination == (end if known else None)


def test_a_sidecar_that_cannot_be_started_says_why() -> None:
    built = pod(JOB).with_failing_sidecar(2, 128, "StartError").obj()
    built["status"]["initContainerStatuses"][0]["lastState"]["terminated"]["message"] = "exec: no such file"
    assert read(built, "flux").failing == (
        "container log ended with exit code 128 (StartError: exec: no such file), restarted 2 times"
    )


@pytest.mark.parametrize(
    ("label", "good"),
    [("0", True), ("31", True), ("", False), ("x", False), ("-2", False), ("1_0", False), ("٣", False)],
)
def test_an_index_is_a_number(label: str, good: bool) -> None:
    assert is_numbered(pod(JOB).label(INDEX, label).obj()) is good


def test_the_lead_has_index_0() -> None:
    pods = [read(pod(JOB, index).obj(), "flux") for index in (2, 0, 1)]
    assert lead(pods) == pods[1]
    assert lead(pods[:1]) is None


LATER = "2030-01-31T12:01:00Z"


@pytest.mark.parametrize(
    "first",
    [
        pod(JOB, suffix="zzzzz").ended(137),
        pod(JOB, suffix="aaaaa").ended(137),
        pod(JOB, suffix="zzzzz"),  # lost with its node before a container ran: it never says how it ended
    ],
)
@pytest.mark.parametrize("second", [pod(JOB).ready(), pod(JOB).ended(0)])
def test_of_several_leads_the_last_one_counts(first: PodBuilder, second: PodBuilder) -> None:
    views = [read(first.obj(), "flux"), read(second.meta(creationTimestamp=LATER).obj(), "flux")]
    assert lead(views) == lead(reversed(views)) == views[1]
