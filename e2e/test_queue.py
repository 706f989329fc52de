"""What Kueue decides is what happens: waiting with a reason, preemption with a new certificate, fewer nodes."""

from __future__ import annotations

import json
import time

import pytest

from e2e.conftest import local_queue
from e2e.kit import UNTIL_TOLD, Namespace, as_yaml, manifest
from tests.control_plane.kit import QUEUE_LABEL, condition, is_true


@pytest.mark.quota(pods=2)
def test_with_quota_for_one_the_others_wait_their_turn(namespace: Namespace):
    namespace.start("first", *UNTIL_TOLD, size=2)
    namespace.wait_running("first")
    namespace.start("second", "hostname", size=2)
    time.sleep(1.1)  # Kueue puts them in order by the second of their creation
    namespace.start("third", "hostname", size=2)
    for name, position in (("second", 0), ("third", 1)):
        namespace.wait_for(
            f"{name} to have position {position}",
            lambda n=name, at=position: namespace.minicluster(n)["status"].get("queuePosition") == at,
        )
    kueue = condition(namespace.workload("second"), "QuotaReserved")
    assert "insufficient unused quota for pods" in kueue["message"]
    ours = condition(namespace.minicluster("second"), "QuotaReserved")
    assert (ours["status"], ours["reason"]) == ("False", kueue["reason"])
    assert ours["message"] == f"position 0 in the queue (0 is next): {kueue['message']}"
    shown = namespace.kueue_flux("status", "second").out
    assert "position 0 (next)" in shown
    assert kueue["message"] in shown
    assert not namespace.pods("second")
    assert not namespace.files("second")

    namespace.release("first")
    namespace.wait_succeeded("first")
    namespace.wait_succeeded("second")
    namespace.wait_succeeded("third")
    assert sorted(namespace.kueue_flux("logs", "second").lines) == ["second-0", "second-1"]


@pytest.mark.quota(pods=2, preemption=True)
def test_whoever_is_preempted_runs_again_with_another_certificate(namespace: Namespace):
    namespace.start("low", *UNTIL_TOLD, size=2, flags=("--priority", "low"))
    namespace.wait_running("low")
    first = namespace.certificate("low")

    namespace.start("high", *UNTIL_TOLD, size=2, flags=("--priority", "high"))
    namespace.wait_running("high")
    assert namespace.condition("low", "Admitted") == ("False", "Preempted")
    assert namespace.condition("low", "Injected") == ("False", "Withdrawn")
    assert namespace.files("low") == []
    assert "evicted (Preempted)" in namespace.kueue_flux("status", "low").out

    namespace.release("high")
    namespace.wait_succeeded("high")
    namespace.wait_running("low")
    second = namespace.certificate("low")
    assert first["public"] != second["public"]
    assert first["secret"] != second["secret"]
    for pod in namespace.running_pods("low", 2):  # what the brokers read, not only what was written
        mounted = namespace.kubectl("exec", pod["metadata"]["name"], "--", "cat", "/run/flux/curve.cert")
        assert second["public"] in mounted

    namespace.release("low")
    ended = namespace.wait_succeeded("low")
    assert ended["status"]["admissions"] == 2
    assert namespace.kueue_flux("logs", "low").lines == ["begun", "begun", "told", "told"]


@pytest.mark.real_flux
@pytest.mark.quota(pods=3)
def test_with_quota_for_three_of_four_flux_has_three_nodes(namespace: Namespace):
    command = ("flux", "resource", "list", "-s", "all", "-no", "{nnodes} {nodelist}")
    ran = namespace.submit(*command, size=4, flags=("--name", "some", "--min-size", "2", "--tasks", "1", "--wait"))
    assert ran.code == 0, ran.err
    assert ran.lines == ["3 some-[0-2]"]
    assert "admitted with 3 of 4 nodes" in ran.err
    assert namespace.minicluster("some")["status"]["admission"]["size"] == 3
    assert "3 of 4 pods admitted" in namespace.message("some", "Admitted")


def test_a_queue_that_is_not_there(namespace: Namespace):
    ran = namespace.submit("hostname", queue="nowhere", flags=("--name", "lost"))
    assert ran.code == 2
    assert "has no LocalQueue nowhere" in ran.err
    assert "there are: queue" in ran.err
    assert namespace.get("MiniCluster", "lost") is None

    container = {"image": namespace.cluster.flux.reference, "command": "hostname"}
    spec = {"containers": [container], "flux": {"container": {"disable": True}}}
    namespace.kubectl("apply", "-f", "-", stdin=as_yaml(manifest("lost", spec, queue="nowhere")))
    namespace.wait_for("Kueue to say so", lambda: "nowhere" in namespace.message("lost", "QuotaReserved"))
    assert namespace.condition("lost", "QuotaReserved")[0] == "False"

    namespace.create(local_queue("nowhere", namespace.name))
    namespace.wait_succeeded("lost")


def test_without_a_queue_it_runs_at_once(namespace: Namespace):
    ran = namespace.submit("hostname", queue=None, flags=("--name", "free", "--wait"), size=2)
    assert ran.code == 0, ran.err
    assert sorted(ran.lines) == ["free-0", "free-1"]
    assert namespace.condition("free", "QuotaReserved") == ("True", "NotQueued")
    assert namespace.condition("free", "Admitted") == ("True", "NotQueued")
    assert not namespace.all("Workload")


def test_a_queue_that_is_drained_takes_its_runs_back_and_starts_them_again(namespace: Namespace):
    namespace.start("drained", *UNTIL_TOLD, size=2)
    namespace.wait_running("drained")
    namespace.stop_queue("HoldAndDrain")
    namespace.wait_condition("drained", "Admitted", "False", "ClusterQueueStopped")
    namespace.wait_for("its pods and files to go", lambda: not namespace.pods("drained") + namespace.files("drained"))
    namespace.wait_for("its quota to go", lambda: not is_true(namespace.minicluster("drained"), "QuotaReserved"))
    namespace.stop_queue(None)
    namespace.wait_running("drained")
    namespace.release("drained")
    assert namespace.wait_succeeded("drained")["status"]["admissions"] == 2


def test_the_queue_may_be_named_in_the_operators_way(namespace: Namespace):
    container = {"image": namespace.cluster.flux.reference, "command": "hostname"}
    spec = {
        "containers": [container],
        "flux": {"container": {"disable": True}},
        "jobLabels": {QUEUE_LABEL: "queue"},
        "logging": {"quiet": True},
    }
    ran = namespace.kueue_flux("submit", "-", "--wait", stdin=json.dumps(manifest("labelled", spec, queue=None)))
    assert (ran.code, ran.lines) == (0, ["labelled-0"])
    assert namespace.minicluster("labelled")["status"]["queue"] == "queue"
    assert namespace.workload("labelled")["spec"]["queueName"] == "queue"
