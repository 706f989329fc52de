"""What Kueue decides: who waits and why, how much is admitted, who is evicted and comes back."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kueue_flux.devcluster.kubernetes_api import Manifest
from tests.control_plane import kit
from tests.control_plane.kit import Namespace, condition
from tests.control_plane.miniclusters import (
    PATIENCE,
    config_map,
    events,
    expect,
    hosts,
    minicluster,
    running,
    secret,
    secret_key,
    status,
    succeed,
    withdrawn,
)

pytestmark = pytest.mark.usefixtures("adapter")


def sized(namespace: Namespace, size: int, name: str = "mc") -> None:
    """Check that everything about a running MiniCluster says that it has `size` brokers."""
    spec = namespace.get("Job", name)["spec"]
    assert (spec["parallelism"], spec["completions"]) == (size, size)
    assert hosts(namespace, name) == [f"{name}-{index}" for index in range(size)]
    files = config_map(namespace, name)["data"]
    assert files["size"] == str(size)
    assert json.loads(files["R.json"])["execution"]["R_lite"][0]["rank"] == f"0-{size - 1}"
    found = status(namespace, name)
    assert (found["size"], found["admission"]["size"], found["brokersReady"]) == (size, size, size)


def reason(obj: Manifest | None) -> str:
    """Why quota is not reserved: of a MiniCluster, or in Kueue's own word of its Workload."""
    found: str = condition(obj, "QuotaReserved")["reason"]
    return found


def test_partial_admission_sizes_everything(make_namespace: Callable[..., Namespace]):
    namespace = make_namespace(cpu=3)
    namespace.create(minicluster(size=4, minSize=2, tasks=8))
    running(namespace, size=3)
    expect(namespace, "Admitted=True/Admitted", says="3 of 4 pods")
    sized(namespace, 3)
    assert config_map(namespace)["data"]["tasks"] == "6", "two for each node, as was asked for"
    expect(namespace, "Accepted=True/Accepted")
    succeed(namespace)


def test_who_waits_is_told_its_position_and_why_and_runs_when_the_first_ends(
    make_namespace: Callable[..., Namespace],
):
    namespace = make_namespace(cpu=2)
    namespace.create(minicluster("first"))
    running(namespace, "first")
    namespace.create(minicluster("second"))
    expect(namespace, "QuotaReserved=False", "second", says="position 0 in the queue")
    namespace.create(minicluster("third"))
    waiting = expect(
        namespace, "QuotaReserved=False", "third", says="position 1 in the queue (0 is next), behind second:"
    )
    assert waiting["status"]["queuePosition"] == 1
    second = expect(namespace, "QuotaReserved=False", "second", says="insufficient unused quota for cpu")
    assert (reason(second), second["status"]["queuePosition"]) == (reason(namespace.workload("second")), 0)

    succeed(namespace, "first")
    running(namespace, "second")
    assert "queuePosition" not in status(namespace, "second")
    expect(namespace, "QuotaReserved=False", "third", says="position 0 in the queue")
    succeed(namespace, "second")
    running(namespace, "third")


def test_the_preempted_runs_again_with_another_certificate(make_namespace: Callable[..., Namespace]):
    namespace = make_namespace(cpu=2, preemption=True)
    namespace.create(minicluster("low"))
    running(namespace, "low")
    key, admission = secret_key(namespace, "low"), status(namespace, "low")["admission"]
    namespace.create(minicluster("high", priority=namespace.priority_class(1000)))

    withdrawn(namespace, "low")
    expect(namespace, "Injected=False/Withdrawn", "low")
    expect(namespace, "Admitted=False/Preempted", "low")
    expect(namespace, "Ready=False/WaitingForAdmission", "low")
    expect(namespace, "Finished=False/Waiting", "low")
    assert status(namespace, "low")["admissions"] == 1
    assert any("Evicted" in line and "Preempted" in line for line in events(namespace, "low"))
    running(namespace, "high")
    expect(namespace, "QuotaReserved=False", "low", says="position 0")
    assert secret(namespace, "low") is None, "no files before the next admission"
    succeed(namespace, "high")

    running(namespace, "low")
    assert secret_key(namespace, "low") != key
    again = status(namespace, "low")
    assert (again["admissions"], again["admission"]["id"] != admission["id"]) == (2, True)
    succeed(namespace, "low")


def test_readmitted_with_fewer_pods_flux_has_fewer(make_namespace: Callable[..., Namespace]):
    namespace = make_namespace(cpu=4, preemption=True)
    namespace.create(minicluster("low", size=4, minSize=2))
    running(namespace, "low", 4)
    sized(namespace, 4, "low")
    namespace.create(minicluster("high", size=1, priority=namespace.priority_class(1000)))
    running(namespace, "high", 1)
    namespace.wait_for("the second admission", lambda: status(namespace, "low")["admissions"] == 2, timeout=PATIENCE)
    running(namespace, "low", 3)
    sized(namespace, 3, "low")
    succeed(namespace, "high")
    succeed(namespace, "low")


def test_a_drained_queue_takes_the_files_back_and_a_resumed_one_gives_new_ones(namespace: Namespace):
    namespace.create(minicluster())
    running(namespace)
    key = secret_key(namespace)
    namespace.stop_queue("HoldAndDrain")
    withdrawn(namespace)
    expect(namespace, "Admitted=False/ClusterQueueStopped")
    waiting = expect(namespace, "QuotaReserved=False")
    assert condition(waiting, "QuotaReserved")["message"]
    namespace.stop_queue(None)
    running(namespace)
    assert secret_key(namespace) != key
    assert status(namespace)["admissions"] == 2
    succeed(namespace)


def test_a_held_queue_admits_nothing_and_lets_go_on_what_runs(namespace: Namespace):
    namespace.create(minicluster("before"))
    running(namespace, "before")
    namespace.stop_queue("Hold")
    namespace.create(minicluster("after"))
    expect(namespace, "QuotaReserved=False", "after", says="inactive")
    succeed(namespace, "before")
    assert secret(namespace, "after") is None
    namespace.stop_queue(None)
    running(namespace, "after")


def test_a_deactivated_workload_waits_until_it_is_activated(namespace: Namespace):
    namespace.create(minicluster())
    running(namespace)
    key = secret_key(namespace)
    namespace.api.patch(namespace.workload("mc"), {"spec": {"active": False}})
    withdrawn(namespace)
    expect(namespace, "QuotaReserved=False/Deactivated", says="spec.active")
    expect(namespace, "Admitted=False/Deactivated")
    namespace.api.patch(namespace.workload("mc"), {"spec": {"active": True}})
    running(namespace)
    assert secret_key(namespace) != key
    succeed(namespace)


def test_a_queue_that_is_not_there_is_named_and_waited_for(namespace: Namespace):
    namespace.create(minicluster(queue="later"))
    waiting = expect(namespace, "QuotaReserved=False", says="LocalQueue later doesn't exist")
    assert reason(waiting) == reason(namespace.workload("mc"))
    assert waiting["status"]["queue"] == "later"
    queue = {"apiVersion": kit.KUEUE, "kind": "LocalQueue", "metadata": {"name": "later"}}
    namespace.create({**queue, "spec": {"clusterQueue": namespace.name}})
    running(namespace)
    succeed(namespace)


def test_a_run_that_takes_longer_than_it_may_is_ended_by_kueue(namespace: Namespace):
    limited = minicluster()
    limited["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "2"
    namespace.create(limited)
    expect(namespace, "QuotaReserved=False/Deactivated")
    expect(namespace, "Admitted=False/DeactivatedDueToMaximumExecutionTimeExceeded")
    expect(namespace, "Finished=True/Failed", says="MaximumExecutionTimeExceeded")
    assert status(namespace)["admissions"] == 1
    withdrawn(namespace)
    namespace.wait_for("its Job to be deleted", lambda: namespace.get("Job", "mc") is None)


def test_a_deadline_fails_it(namespace: Namespace):
    namespace.create(minicluster(deadlineSeconds=2))
    running(namespace)
    expect(namespace, "Finished=True/Failed", says="DeadlineExceeded")
    withdrawn(namespace)
