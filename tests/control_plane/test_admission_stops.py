"""What keeps an admission back or ends it: stopped queues, admission checks, another queue, a node that is lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from kueue_flux.devcluster import kwok
from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.kubernetes_api import Manifest
from tests.control_plane import clusters, kit
from tests.control_plane.kit import KUEUE, QUEUE, QUEUE_LABEL, Namespace, condition
from tests.control_plane.miniclusters import (
    PATIENCE,
    PRIORITY_LABEL,
    events,
    expect,
    get,
    minicluster,
    running,
    secret,
    secret_key,
    status,
    succeed,
    withdrawn,
)
from tests.control_plane.queues import check, set_queue

pytestmark = pytest.mark.usefixtures("adapter")


def stop_local_queue(namespace: Namespace, policy: str) -> None:
    namespace.api.patch(namespace.get("LocalQueue", QUEUE), {"spec": {"stopPolicy": policy}})


def test_a_held_local_queue_admits_nothing_and_lets_go_on_what_runs(namespace: Namespace):
    namespace.create(minicluster("before"))
    running(namespace, "before")
    stop_local_queue(namespace, "Hold")
    namespace.create(minicluster("after"))
    expect(namespace, "QuotaReserved=False", "after", says=f"LocalQueue {QUEUE} is inactive")
    assert status(namespace, "before")["brokersReady"] == 2
    assert secret(namespace, "after") is None
    stop_local_queue(namespace, "None")
    running(namespace, "after")
    succeed(namespace, "before")


def test_a_drained_local_queue_takes_the_files_back_and_a_resumed_one_gives_new_ones(namespace: Namespace):
    namespace.create(minicluster())
    running(namespace)
    key = secret_key(namespace)
    stop_local_queue(namespace, "HoldAndDrain")
    withdrawn(namespace)
    expect(namespace, "Admitted=False/LocalQueueStopped")
    expect(namespace, "QuotaReserved=False", says=f"LocalQueue {QUEUE} is inactive")
    assert any("Evicted" in line and "LocalQueueStopped" in line for line in events(namespace))
    stop_local_queue(namespace, "None")
    running(namespace)
    assert secret_key(namespace) != key
    succeed(namespace)


# -- admission checks, whose controller is the test


@pytest.fixture
def checked(cluster: Cluster, namespace: Namespace, make: Callable[[Manifest], str]) -> str:
    """The name of an AdmissionCheck that the namespace's queue asks for."""
    name = make(check())
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": now()}
    cluster.api.patch(
        cluster.api.get(KUEUE, "AdmissionCheck", name), {"status": {"conditions": [active]}}, subresource="status"
    )
    set_queue(namespace, 4, admissionChecksStrategy={"admissionChecks": [{"name": name}]})
    namespace.wait_for(
        "the queue to be active",
        lambda: kit.is_true(cluster.api.get(KUEUE, "ClusterQueue", namespace.name), "Active"),
        timeout=PATIENCE,
    )
    return name


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def answer(namespace: Namespace, name: str, state: str, message: str) -> None:
    """Say of the check what its controller would, once Kueue asks."""

    def asked() -> Manifest | None:
        workload = namespace.workload("mc")
        states = ((workload or {}).get("status") or {}).get("admissionChecks") or []
        pending = any(item["name"] == name and item["state"] == "Pending" for item in states)
        return workload if pending and kit.is_true(workload, "QuotaReserved") else None

    workload = namespace.wait_for("Kueue to ask", asked, timeout=PATIENCE)
    said = {"name": name, "state": state, "message": message, "lastTransitionTime": now()}
    namespace.api.patch(workload, {"status": {"admissionChecks": [said]}}, subresource="status")


def test_a_pending_check_keeps_the_files_back_and_is_told_with_what_it_says(namespace: Namespace, checked: str):
    namespace.create(minicluster())
    expect(namespace, "QuotaReserved=True/QuotaReserved")
    expect(namespace, "Admitted=False/AdmissionChecks", says=f"waiting for admission checks: {checked}")
    assert (secret(namespace), namespace.pods("mc")) == (None, [])
    answer(namespace, checked, "Pending", "two machines are being bought")
    expect(namespace, "Admitted=False/AdmissionChecks", says=f"{checked} (two machines are being bought)")
    answer(namespace, checked, "Ready", "bought")
    running(namespace)
    succeed(namespace)


def test_a_check_that_is_tried_again_gives_the_quota_back_and_asks_anew(namespace: Namespace, checked: str):
    namespace.create(minicluster())
    answer(namespace, checked, "Retry", "none to be had just now")
    namespace.wait_for(
        "Kueue to say so",
        lambda: (
            any("none to be had just now" in c["message"] for c in get(namespace)["status"]["conditions"])
            or condition(namespace.workload("mc"), "Evicted").get("reason") == "AdmissionCheck"
        ),
        timeout=PATIENCE,
    )
    answer(namespace, checked, "Ready", "now there are")
    running(namespace)
    assert status(namespace)["admissions"] == 1
    succeed(namespace)


def test_a_check_that_fails_after_admission_takes_the_files_back(namespace: Namespace, checked: str):
    namespace.create(minicluster())
    answer(namespace, checked, "Ready", "bought")
    running(namespace)
    key = secret_key(namespace)
    failed = {"name": checked, "state": "Retry", "message": "the machines are gone", "lastTransitionTime": now()}
    namespace.api.patch(namespace.workload("mc"), {"status": {"admissionChecks": [failed]}}, subresource="status")
    namespace.wait_for(
        "the eviction to be told",
        lambda: any("Evicted" in line and "AdmissionCheck" in line for line in events(namespace)),
        timeout=PATIENCE,
    )
    answer(namespace, checked, "Ready", "bought again")
    running(namespace)
    assert secret_key(namespace) != key
    assert status(namespace)["admissions"] == 2
    succeed(namespace)


def test_a_rejected_check_deactivates_it_and_says_what_to_do(namespace: Namespace, checked: str):
    namespace.create(minicluster())
    answer(namespace, checked, "Rejected", "over budget")
    rejected = expect(namespace, "QuotaReserved=False/Deactivated", says="kubectl delete workload job-mc-")
    assert checked in condition(rejected, "QuotaReserved")["message"]
    assert condition(rejected, "Admitted")["status"] == "False"
    assert secret(namespace) is None
    namespace.delete("Workload", namespace.workload("mc")["metadata"]["name"])
    answer(namespace, checked, "Ready", "the budget has grown")
    running(namespace)
    succeed(namespace)


# -- another queue, another priority


@pytest.fixture
def other_queue(make_namespace: Callable[..., Namespace], namespace: Namespace) -> str:
    """A second LocalQueue of the namespace, with quota of its own."""
    name = make_namespace(cpu=0).name
    set_queue(
        Namespace(name, namespace.api),
        4,
        namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": namespace.name}},
    )
    queue = {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": "other"}}
    namespace.create({**queue, "spec": {"clusterQueue": name}})
    return name


def relabel(namespace: Namespace, key: str, value: str, name: str = "mc") -> None:
    namespace.api.patch(get(namespace, name), {"metadata": {"labels": {key: value}}})


def test_what_waits_follows_into_another_queue_and_what_runs_does_not(namespace: Namespace, other_queue: str):
    set_queue(namespace, 0)
    namespace.create(minicluster())
    expect(namespace, "QuotaReserved=False/ExceedsMaxQuota")
    relabel(namespace, QUEUE_LABEL, "other")
    running(namespace)
    found = expect(namespace, "Admitted=True/Admitted", says=f"by ClusterQueue {other_queue}")
    assert found["status"]["queue"] == "other"
    assert condition(found, "Accepted")["status"] == "True"
    assert any(
        line.startswith(f"Normal QueueChanged: it waits in queue other now, and no longer in {QUEUE}")
        for line in events(namespace)
    )
    key = secret_key(namespace)

    relabel(namespace, QUEUE_LABEL, QUEUE)
    expect(namespace, "Accepted=False/SpecChanged", says="it holds quota of queue other: undo the change")
    assert namespace.get("Job", "mc")["metadata"]["labels"][QUEUE_LABEL] == "other"
    assert secret_key(namespace) == key
    relabel(namespace, QUEUE_LABEL, "other")
    expect(namespace, "Accepted=True/Accepted")
    succeed(namespace)


def test_a_higher_priority_moves_it_ahead_in_the_queue(namespace: Namespace):
    set_queue(namespace, 2)
    low, high = namespace.priority_class(10), namespace.priority_class(1000)
    namespace.create(minicluster("runs"))
    running(namespace, "runs")
    for name in ("first", "second"):
        namespace.create(minicluster(name, priority=low))
        expect(namespace, "QuotaReserved=False", name, says="position")
    expect(namespace, "QuotaReserved=False", "second", says="position 1 in the queue (0 is next), behind first:")
    relabel(namespace, PRIORITY_LABEL, high, "second")
    expect(namespace, "QuotaReserved=False", "second", says="position 0 in the queue (0 is next): ")
    expect(namespace, "QuotaReserved=False", "first", says="position 1 in the queue (0 is next), behind second:")
    assert f"Normal PriorityChanged: its priority class is {high} now, and no longer {low}" in events(
        namespace, "second"
    )


def test_of_another_namespaces_queue_nobody_is_named(make_namespace: Callable[..., Namespace], namespace: Namespace):
    theirs = make_namespace(cpu=0)
    names = {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [namespace.name, theirs.name]}
        ]
    }
    set_queue(namespace, 2, namespaceSelector=names)
    shared = {
        "apiVersion": KUEUE,
        "kind": "LocalQueue",
        "metadata": {"name": "shared"},
        "spec": {"clusterQueue": namespace.name},
    }
    theirs.create(shared)
    namespace.create(minicluster("runs"))
    running(namespace, "runs")
    theirs.create(minicluster("secret", queue="shared"))
    expect(theirs, "QuotaReserved=False", "secret", says="position 0")
    namespace.create(minicluster())
    waiting = expect(
        namespace, "QuotaReserved=False", says="position 1 in the queue (0 is next), behind 1 of other queues: "
    )
    assert "secret" not in str(waiting["status"])


# -- a node that is lost


def test_pods_of_a_node_that_is_lost_are_replaced_within_the_same_admission(cluster: Cluster, namespace: Namespace):
    namespace.create(minicluster())
    running(namespace)
    key = secret_key(namespace)
    lost = namespace.pods("mc")[1]
    cluster.api.delete(cluster.api.get("v1", "Node", lost["spec"]["nodeName"]))
    try:
        # the pod's collector looks every 20 s, and waits 40 s for the node to come back
        namespace.wait_for(
            "another pod",
            lambda: all(pod["metadata"]["uid"] != lost["metadata"]["uid"] for pod in namespace.running_pods("mc", 2)),
            timeout=180,
        )
    finally:
        kwok.set_nodes(cluster.api, clusters.NODES, cpu=clusters.NODE_CPU, memory_gib=64)
    expect(namespace, "Ready=True/BrokersUp")
    assert secret_key(namespace) == key, "no eviction, so no other certificate"
    assert status(namespace)["admissions"] == 1
    succeed(namespace)
