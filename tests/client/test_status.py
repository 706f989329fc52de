from datetime import UTC, datetime

import pytest

from kueue_flux.client.status import Result, Stage, Status
from tests.client import objects
from tests.client.objects import ACCEPTED, ADMITTED, RESERVED, STARTING, WAITING, minicluster


@pytest.mark.parametrize(
    ("conditions", "stage", "reason"),
    [
        ((), Stage.CREATED, ""),
        ((ACCEPTED,), Stage.CREATED, "Accepted"),
        ((("Accepted", "False", "InvalidSpec", "size is 0"),), Stage.REFUSED, "InvalidSpec"),
        (objects.QUEUED, Stage.QUEUED, "WaitingForQuota"),
        ((ACCEPTED, RESERVED), Stage.RESERVED, "QuotaReserved"),
        ((ACCEPTED, RESERVED, ("Admitted", "False", "Pending", "checks")), Stage.RESERVED, "Pending"),
        ((ACCEPTED, RESERVED, ADMITTED), Stage.STARTING, "Admitted"),
        (objects.STARTED, Stage.STARTING, "BrokersStarting"),
        (objects.RUNNING, Stage.RUNNING, "BrokersUp"),
        ((*objects.ENDED, objects.SUCCEEDED), Stage.SUCCEEDED, "Succeeded"),
        ((*objects.ENDED, objects.FAILED), Stage.FAILED, "Failed"),
        # A spec that was changed after creation does not end what runs.
        ((("Accepted", "False", "SpecChanged", "x"), RESERVED, ADMITTED, STARTING), Stage.STARTING, "BrokersStarting"),
        ((ACCEPTED, WAITING, ("Finished", "False", "Waiting", "")), Stage.QUEUED, "WaitingForQuota"),
    ],
)
def test_the_conditions_become_one_stage(conditions, stage, reason):
    status = Status.from_object(minicluster("hello", *conditions))
    assert (status.stage, status.reason) == (stage, reason)


def test_a_new_object_is_created():
    new = minicluster("hello")
    del new["status"]
    status = Status.from_object(new)
    assert status.stage is Stage.CREATED
    assert (status.size, status.min_size, status.nodes, status.queue) == (4, 4, 4, "team-a")
    assert status.created == datetime(2030, 1, 31, 12, tzinfo=UTC)
    assert status.result is None


def test_the_queue_may_stand_in_job_labels_as_with_the_operator():
    mc = minicluster("hello")
    del mc["metadata"]["labels"]
    mc["spec"]["jobLabels"] = {"kueue.x-k8s.io/queue-name": "team-b"}
    assert Status.from_object(mc).queue == "team-b"


def test_partial_admission_shows_in_the_nodes():
    status = Status.from_object(minicluster("hello", *objects.RUNNING, admission={"id": "a", "size": 3}))
    assert (status.size, status.admitted_size, status.nodes) == (4, 3, 3)


def test_an_eviction_is_remembered_while_waiting_only():
    evicted = (ACCEPTED, WAITING, ("Admitted", "False", "Preempted", "by a higher priority"))
    waiting = Status.from_object(minicluster("hello", *evicted, admissions=1, admission={"id": "a", "size": 4}))
    assert (waiting.stage, waiting.evicted, waiting.admitted_size) == (Stage.QUEUED, "Preempted", None)
    assert Status.from_object(objects.queued(admissions=0)).evicted == ""
    assert Status.from_object(objects.running()).evicted == ""


def never(flavor):
    return (
        f"insufficient quota for cpu in flavor {flavor}, previously considered podsets requests (0) + current podset "
        "request (40) > maximum capacity (9)"
    )


def not_yet(flavor, resource="cpu"):
    return f"insufficient unused quota for {resource} in flavor {flavor}, 3 more needed"


@pytest.mark.parametrize(
    ("reason", "message", "exceeds"),
    [
        ("ExceedsMaxQuota", "couldn't assign flavors", True),
        ("Pending", f"couldn't assign flavors to pod set main: {never('small')}", True),
        ("Pending", f"couldn't assign flavors to pod set main: {never('small')}, {never('large')}", True),
        ("Pending", f"couldn't assign flavors to pod set main: {never('small')}, {not_yet('large')}", False),
        ("Pending", f"couldn't assign flavors to pod set main: {not_yet('small', 'memory')}, {never('small')}", True),
        ("Pending", f"couldn't assign flavors to pod set main: {not_yet('small')}", False),
        ("WaitingForQuota", "", False),
    ],
)
def test_whether_it_asks_for_more_than_the_queue_ever_has(reason, message, exceeds):
    waiting = minicluster("hello", ACCEPTED, ("QuotaReserved", "False", reason, message))
    assert Status.from_object(waiting).exceeds_quota is exceeds
    waiting["spec"]["minSize"] = 2
    assert not Status.from_object(waiting).exceeds_quota, "fewer nodes may fit"
    assert not Status.from_object(objects.running()).exceeds_quota


def test_our_own_words_for_it_are_about_the_fewest_nodes():
    message = (
        "asks for at least 2 nodes x 8 cpu = 16 cpu; ClusterQueue q can give at most 8 (8 of its own): ask for less"
    )
    waiting = minicluster("hello", ACCEPTED, ("QuotaReserved", "False", "ExceedsMaxQuota", message))
    waiting["spec"]["minSize"] = 2
    assert Status.from_object(waiting).exceeds_quota


@pytest.mark.parametrize("behind", ["", ", behind hello", ", behind hello, 2 more of this queue and 3 of other queues"])
def test_the_position_is_no_part_of_the_message(behind):
    message = f"position 3 in the queue (0 is next){behind}: 2 more cpu needed"
    waiting = minicluster("hello", ACCEPTED, ("QuotaReserved", "False", "WaitingForQuota", message))
    assert Status.from_object(waiting).message == "2 more cpu needed"


def test_the_result():
    assert Status.from_object(objects.failed()).result == Result(
        False, 3, "Failed", "the command exited with code 3 (CommandFailed)"
    )


def test_the_position_is_told_only_while_waiting():
    assert Status.from_object(objects.queued(queuePosition=2)).position == 2
    assert Status.from_object(minicluster("hello", *objects.RUNNING, queuePosition=2)).position is None
