"""Workloads as they stand in a queue."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from kueue_flux.kueue import entries
from kueue_flux.kueue.entries import Standing
from kueue_flux.kueue.visibility import pending
from kueue_flux.kueue.workload import Owner, Signal

AT = "2030-01-31T12:00:05Z"
GIB = 2**30


def condition(kind, status="True", reason="Reason", message="in words"):
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": AT}


def workload(*conditions, pod_sets=None, labels=None, spec=None, **status):
    template = {
        "metadata": {"labels": labels or {}},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]},
    }
    return {
        "metadata": {
            "name": "job-x",
            "namespace": "team",
            "uid": "u",
            "creationTimestamp": "2030-01-31T12:00:00Z",
            "ownerReferences": [{"kind": "Job", "name": "x", "controller": True}],
        },
        "spec": {
            "queueName": "team-a",
            "priority": 7,
            "podSets": pod_sets or [{"name": "main", "count": 4, "minCount": 2, "template": template}],
            **(spec or {}),
        },
        "status": {"conditions": list(conditions), **status},
    }


def admission(count=2, **usage):
    assignment = {
        "name": "main",
        "count": count,
        "flavors": {"cpu": "small", "memory": "small"},
        "resourceUsage": usage,
    }
    return {"clusterQueue": "science", "podSetAssignments": [assignment]}


def test_what_waits():
    entry = entries.read(workload(condition("QuotaReserved", "False", "Pending", "no quota")))
    assert entry == entries.Entry(
        workload="job-x",
        namespace="team",
        queue="team-a",
        owner=Owner("Job", "x"),
        standing=Standing.WAITING,
        size=4,
        min_size=2,
        admitted_size=None,
        amounts={"cpu": Decimal(2), "memory": Decimal(4 * GIB)},
        flavors=(),
        priority=7,
        created=datetime(2030, 1, 31, 12, tzinfo=UTC),
        since=None,
        why=Signal("Pending", "no quota"),
    )
    assert entry.partial


def test_what_is_admitted():
    held = admission(cpu="1", memory="2Gi")
    entry = entries.read(workload(condition("QuotaReserved"), condition("Admitted"), admission=held))
    assert entry is not None
    assert (entry.standing, entry.size, entry.admitted_size) == (Standing.ADMITTED, 4, 2)
    assert (entry.amounts, entry.flavors) == ({"cpu": Decimal(1), "memory": Decimal(2 * GIB)}, ("small",))
    assert entry.since == datetime(2030, 1, 31, 12, 0, 5, tzinfo=UTC)
    assert (entry.why, entry.cluster_queue) == (None, "science")


@pytest.mark.parametrize(
    ("conditions", "checks", "standing", "why"),
    [
        ((condition("QuotaReserved"),), [{"name": "c", "state": "Pending"}], Standing.RESERVED, "AdmissionChecks"),
        (
            (condition("QuotaReserved"), condition("Admitted"), condition("Evicted", reason="Preempted")),
            [],
            Standing.STOPPING,
            "Preempted",
        ),
        ((condition("QuotaReserved", "False"), condition("Evicted")), [], Standing.WAITING, "Reason"),
        ((), [], Standing.WAITING, "PendingEvaluation"),
    ],
)
def test_where_it_stands(conditions, checks, standing, why):
    entry = entries.read(workload(*conditions, admission=admission(), admissionChecks=checks))
    assert entry is not None
    assert entry.why is not None
    assert (entry.standing, entry.why.reason) == (standing, why)
    # Quota that is no longer reserved is not counted, though the field may still be there.
    assert (entry.admitted_size is None) == (standing is Standing.WAITING)


def test_what_has_finished_is_in_no_queue():
    assert entries.read(workload(condition("QuotaReserved"), condition("Finished"))) is None


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        ({"flux-framework.org/minicluster": "sim"}, Owner("MiniCluster", "sim")),
        ({"flux-framework.org/minicluster": "sim", "flux-framework.org/role": "services"}, Owner("Job", "x")),
        ({}, Owner("Job", "x")),
    ],
)
def test_what_it_stands_for(labels, owner):
    entry = entries.read(workload(labels=labels))
    assert entry is not None
    assert entry.owner == owner


def test_one_without_owner_or_pods():
    bare = {"metadata": {"name": "bare", "uid": "u"}}
    entry = entries.read(bare)
    assert entry is not None
    assert (entry.owner, entry.size, entry.amounts, entry.created) == (Owner("", ""), 0, {}, None)


def test_pods_that_have_ended_use_nothing():
    held = admission(count=4, cpu="2")
    given_back = [{"name": "main", "count": 3}]
    entry = entries.read(
        workload(condition("QuotaReserved"), condition("Admitted"), admission=held, reclaimablePods=given_back)
    )
    assert entry is not None
    assert entry.amounts == {"cpu": Decimal("0.5")}


def test_what_kueue_has_counted_comes_before_what_is_specified():
    counted = [{"name": "main", "resources": {"cpu": "3"}}, {"name": "more", "resources": {"cpu": "1", "gpu": "2"}}]
    entry = entries.read(workload(resourceRequests=counted))
    assert entry is not None
    assert entry.amounts == {"cpu": Decimal(4), "gpu": Decimal(2)}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"limits": {"cpu": "2"}}}]}, 3),
        ({"containers": [{"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "9"}}}]}, 1),
        ({"containers": [{}], "initContainers": [{"resources": {"requests": {"cpu": "5"}}}]}, 5),
        (
            {
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
                "initContainers": [
                    {"restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}},
                    {"resources": {"requests": {"cpu": "2"}}},
                ],
                "overhead": {"cpu": "1"},
            },
            5,
        ),
    ],
)
def test_what_a_pod_asks_for(spec, cpu):
    entry = entries.read(workload(pod_sets=[{"name": "main", "count": 2, "template": {"spec": spec}}]))
    assert entry is not None
    assert entry.amounts == {"cpu": Decimal(2 * cpu)}


def test_the_order():
    items = [
        {"metadata": {"name": name, "creationTimestamp": f"2030-01-31T12:00:0{age}Z"}, "priority": priority}
        for name, priority, age in (("low", 0, 1), ("high", 5, 3), ("older", 0, 0))
    ]
    found = [entries.of_pending(item) for item in pending({"items": items})]
    unknown = [entries.read(workload()), *(entries.Entry(**{**vars(e), "position": None}) for e in found)]
    names = [entry.workload for entry in entries.in_order(entry for entry in unknown if entry is not None)]
    assert names == ["job-x", "high", "older", "low"]
    placed = [entries.Entry(**{**vars(e), "position": place}) for e, place in zip(found, (2, 3, 1), strict=True)]
    assert [entry.workload for entry in entries.in_order([*unknown[:1], *placed])] == ["older", "low", "high", "job-x"]
