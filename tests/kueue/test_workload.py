"""Workloads as Kueue 0.19 writes them, and what the control loop makes of them."""

from typing import Any

import pytest

from kueue_flux.kueue import visibility
from kueue_flux.kueue.workload import Signal, job_uid, read

RESERVED_AT = "2026-01-01T00:00:00Z"


def condition(kind: str, status: str = "True", reason: str = "", message: str = "", at: str = RESERVED_AT) -> dict:
    return {"type": kind, "status": status, "reason": reason or kind, "message": message, "lastTransitionTime": at}


def make(*conditions: dict, count: int | None = 4, active: bool = True, **status: Any) -> dict:
    if count is not None:
        assignment = {"name": "main", "count": count} if count >= 0 else {"name": "main"}
        status["admission"] = {"clusterQueue": "cq", "podSetAssignments": [assignment]}
    return {
        "metadata": {"name": "job-x-1", "namespace": "default", "uid": "u", "labels": {"kueue.x-k8s.io/job-uid": "j"}},
        "spec": {"podSets": [{"name": "main", "count": 4}], "priority": 7, "active": active},
        "status": {"conditions": list(conditions), **status},
    }


def test_a_new_workload_waits_to_be_looked_at() -> None:
    view = read(make(count=None))
    assert view.admission is None
    assert not view.quota_reserved
    assert view.waiting is not None
    assert view.waiting.reason == "PendingEvaluation"


@pytest.mark.parametrize(
    ("workload", "size"),
    [
        (make(condition("QuotaReserved"), condition("Admitted")), 4),
        (make(condition("QuotaReserved"), condition("Admitted"), count=3), 3),
        (make(condition("QuotaReserved"), condition("Admitted"), count=-1), 4),  # absent: the full size
    ],
)
def test_the_admitted_size(workload: dict, size: int) -> None:
    admission = read(workload).admission
    assert admission is not None
    assert (admission.size, admission.cluster_queue, admission.workload) == (size, "cq", "job-x-1")


@pytest.mark.parametrize(
    "workload",
    [
        make(condition("QuotaReserved"), condition("Admitted", "False", "UnsatisfiedAdmissionChecks")),
        make(condition("QuotaReserved"), condition("Admitted"), condition("Evicted", reason="Preempted")),
        make(condition("QuotaReserved", "False", "WaitingForQuota"), count=None),
    ],
    ids=["checks pending", "being evicted", "no quota"],
)
def test_no_admission_in_force(workload: dict) -> None:
    assert read(workload).admission is None


def test_readmission_has_another_id() -> None:
    first = read(make(condition("QuotaReserved"), condition("Admitted"))).admission
    again = read(make(condition("QuotaReserved", at="2026-01-01T00:05:00Z"), condition("Admitted"))).admission
    same = read(make(condition("QuotaReserved"), condition("Admitted"), condition("PodsReady"))).admission
    assert first
    assert again
    assert same
    assert first.id == same.id != again.id


def test_readmission_with_another_size_within_the_same_second_has_another_id() -> None:
    admitted = (condition("QuotaReserved"), condition("Admitted"))
    first, again = (read(make(*admitted, count=count)).admission for count in (4, 3))
    assert first
    assert again
    assert first.id != again.id


def test_why_it_waits_is_kueues_own_word() -> None:
    waiting = read(
        make(condition("QuotaReserved", "False", "WaitingForQuota", "2 more cpu needed"), count=None)
    ).waiting
    assert waiting == Signal("WaitingForQuota", "2 more cpu needed")


def test_pending_admission_checks_are_named() -> None:
    checks = [{"name": "a", "state": "Ready"}, {"name": "b", "state": "Pending"}]
    told = {"name": "c", "state": "Retry", "message": "no machines"}
    waiting = read(make(condition("QuotaReserved"), admissionChecks=[*checks, told])).waiting
    assert waiting is not None
    assert waiting.message.endswith(": b, c (no machines)")


@pytest.mark.parametrize(
    ("evicted", "says", "goes_on", "timed_out"),
    [
        ([], "is deactivated: it is queued again", True, False),
        (
            [condition("Evicted", reason="DeactivatedDueToRequeuingLimitExceeded", message="too often")],
            "is deactivated (too often): to queue it again, have Kueue make it anew: kubectl delete workload job-x-1",
            False,
            False,
        ),
        (
            [condition("Evicted", reason="Deactivated", message="The workload is deactivated")],
            "(The workload is deactivated): it is queued again once its spec.active is true",
            True,
            False,
        ),
        (
            [condition("Evicted", reason="DeactivatedDueToMaximumExecutionTimeExceeded", message="too long")],
            "is deactivated (too long)",
            False,
            True,
        ),
    ],
)
def test_a_deactivated_workload_says_why_and_how_to_go_on(
    evicted: list[dict[str, Any]], says: str, goes_on: bool, timed_out: bool
) -> None:
    view = read(make(*evicted, count=None, active=False))
    assert view.waiting is not None
    assert view.waiting.reason == "Deactivated"
    assert says in view.waiting.message
    assert ("kubectl patch workload" in view.waiting.message) is goes_on
    assert view.timed_out is timed_out
    assert not read(make(*evicted, count=None)).timed_out, "it was activated again"


def test_eviction_keeps_kueues_reason() -> None:
    view = read(
        make(condition("QuotaReserved"), condition("Evicted", reason="Preempted", message="by higher"), count=4)
    )
    assert view.evicted == Signal("Preempted", "by higher")


def test_the_job_it_stands_for() -> None:
    assert job_uid(make()) == "j"
    assert job_uid({"metadata": {"name": "w"}}) is None


def test_positions_are_those_in_the_cluster_queue() -> None:
    summary = {"items": [{"metadata": {"name": "w"}, "positionInClusterQueue": 2, "positionInLocalQueue": 0}]}
    assert {name: place.position for name, place in visibility.places(summary).items()} == {"w": 2}
    assert visibility.places({"items": None}) == {}


def pending(name: str, position: int, job: str = "") -> dict[str, Any]:
    owners = {"ownerReferences": [{"kind": "Job", "name": job}]} if job else {}
    return {"metadata": {"name": name, **owners}, "positionInClusterQueue": position}


@pytest.mark.parametrize(
    ("items", "behind"),
    [
        ([pending("w", 0)], ""),
        ([pending("w", 2)], "2 of other queues"),
        ([pending("a", 0, "hello"), pending("w", 1)], "hello"),
        ([pending("w", 3), pending("job-a", 0, "hello")], "hello and 2 of other queues"),
        ([pending("a", 0, "first"), pending("b", 1, "second"), pending("w", 2)], "second and 1 more of this queue"),
        (
            [pending("a", 0), pending("b", 2), pending("c", 3), pending("w", 5)],
            "c, 2 more of this queue and 2 of other queues",
        ),
        ([pending("w", 1), pending("z", 2, "later")], "1 of other queues"),
    ],
)
def test_who_is_ahead_is_named_in_the_same_queue_and_counted_in_others(items: list[Any], behind: str) -> None:
    assert visibility.places({"items": items})["w"].behind == behind
