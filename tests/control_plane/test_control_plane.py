"""The control plane itself: what the other tests take for granted about Kueue, kwok and their own helpers."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kueue_flux.devcluster import control_plane, kwok, paths
from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.kubernetes_api import ApiError, KubernetesApi
from kueue_flux.devcluster.progress import Progress
from tests.control_plane.adapter import Adapter
from tests.control_plane.clusters import NODES
from tests.control_plane.kit import Namespace, condition, indexed_job, is_true, recorded_requests, wait_for

VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"


def test_a_queued_job_gets_a_workload_is_admitted_and_its_pods_complete(namespace: Namespace):
    namespace.create(indexed_job("job", 4, annotations={kwok.COMPLETE_AFTER: "500ms"}))
    workload = namespace.wait_for("a Workload", lambda: namespace.workload("job"))
    assert workload["metadata"]["ownerReferences"][0]["kind"] == "Job"
    namespace.wait_for("admission", lambda: is_true(namespace.workload("job"), "Admitted"))
    namespace.wait_for("the Job to complete", lambda: is_true(namespace.get("Job", "job"), "Complete"))
    assert namespace.get("Job", "job")["status"]["succeeded"] == 4
    namespace.wait_for("the Workload to finish", lambda: is_true(namespace.workload("job"), "Finished"))


def test_a_job_without_quota_waits_with_a_reason_and_a_position(namespace: Namespace):
    namespace.create(indexed_job("first", 4))
    namespace.running_pods("first", 4)
    namespace.create(indexed_job("second", 1))
    namespace.wait_for(
        "the second to wait", lambda: condition(namespace.workload("second"), "QuotaReserved").get("status") == "False"
    )
    path = f"{VISIBILITY}/namespaces/{namespace.name}/localqueues/queue/pendingworkloads"
    pending = namespace.wait_for("a position", lambda: namespace.api.request("GET", path)["items"])
    name = namespace.workload("second")["metadata"]["name"]
    assert [(item["metadata"]["name"], item["positionInLocalQueue"]) for item in pending] == [(name, 0)]
    assert namespace.pods("second") == []

    for index in range(4):
        namespace.finish("first", index=index)
    namespace.running_pods("second", 1)


def test_a_higher_priority_preempts(make_namespace: Callable[..., Namespace]):
    namespace = make_namespace(cpu=2, preemption=True)
    namespace.create(indexed_job("low", 2))
    namespace.running_pods("low", 2)
    high = indexed_job("high", 2)
    high["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = namespace.priority_class(1000)
    namespace.create(high)
    namespace.running_pods("high", 2)
    assert condition(namespace.workload("low"), "Evicted")["reason"] == "Preempted"
    namespace.wait_for("the pods of low to go", lambda: not namespace.pods("low"))


def test_a_pod_ends_as_the_test_says(namespace: Namespace):
    namespace.create(indexed_job("job", 2))
    namespace.running_pods("job", 2)
    namespace.finish("job", 3, index=1, message="exit-code=3")
    namespace.wait_for("the Job to fail", lambda: is_true(namespace.get("Job", "job"), "Failed"))
    ended = next(pod for pod in namespace.all("Pod") if pod["status"]["phase"] == "Failed")
    state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["message"]) == (3, "exit-code=3")


def test_a_pod_can_take_its_time_to_become_ready(namespace: Namespace):
    namespace.create(indexed_job("job", 1, annotations={kwok.READY_AFTER: "1h"}))
    pod = namespace.wait_for("a pod on a node", lambda: [p for p in namespace.pods("job") if "nodeName" in p["spec"]])[
        0
    ]
    assert pod["status"]["phase"] == "Pending"


def test_the_queue_can_be_drained_and_started_again(namespace: Namespace):
    namespace.create(indexed_job("job", 1))
    namespace.running_pods("job", 1)
    namespace.stop_queue("HoldAndDrain")
    namespace.wait_for("the pod to go", lambda: not namespace.pods("job"))
    assert condition(namespace.workload("job"), "Evicted")["reason"] == "ClusterQueueStopped"
    namespace.stop_queue(None)
    namespace.running_pods("job", 1)


def test_kueue_serves_both_versions_of_its_kinds(namespace: Namespace):
    old = namespace.api.get("kueue.x-k8s.io/v1beta1", "LocalQueue", "queue", namespace.name)
    assert old["spec"]["clusterQueue"] == namespace.name


def test_a_user_may_do_only_what_rbac_grants(cluster: Cluster, namespace: Namespace, tmp_path: Path):
    path = cluster.write_kubeconfig(tmp_path / "somebody", "somebody", ["some-group"])
    api = KubernetesApi(path)
    with pytest.raises(ApiError, match='User "somebody" cannot list resource "pods"') as refusal:
        api.list("v1", "Pod", namespace.name)
    assert (refusal.value.status, refusal.value.reason) == (403, "Forbidden")


MINICLUSTER = """
apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata: {name: hello, labels: {kueue.x-k8s.io/queue-name: queue}}
spec:
  size: 2
  containers:
    - {image: fake, command: hostname, resources: {requests: {cpu: "1"}}}
"""


def test_the_adapter_can_be_started_killed_and_stopped_and_what_it_asks_is_known(
    cluster: Cluster, namespace: Namespace, stopped_adapter: Adapter
):
    namespace.create(MINICLUSTER)
    with recorded_requests(cluster) as requests:
        stopped_adapter.start()
        namespace.running_pods("hello", 2)
    asked = {(request.verb, request.resource) for request in requests if request.namespace == namespace.name}
    assert {("create", "jobs"), ("create", "secrets"), ("patch", "miniclusters/status")} <= asked
    assert not [request for request in requests if request.status in (401, 403)]

    first = stopped_adapter.pid
    stopped_adapter.restart()
    assert stopped_adapter.pid != first
    assert "workqueue" in stopped_adapter.metrics()
    assert 10 < stopped_adapter.resident_mib() < 200
    assert stopped_adapter.stop() == 0


@pytest.fixture
def another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The name of a second control plane, with its state elsewhere."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return "another"


def test_a_second_one_runs_beside_and_leaves_nothing(cluster: Cluster, another: str):
    progress = Progress()
    try:
        second = control_plane.up(another, progress, nodes=2, pod_seconds=0)
        status = control_plane.status(another)
        assert status.running
        assert not set(second.ports.values()) & set(cluster.ports.values())
        assert (kwok.ready_nodes(second.api), kwok.ready_nodes(cluster.api)) == (2, NODES)

        again = control_plane.up(another, progress, nodes=3, node_cpu=4, pod_seconds=0)
        assert control_plane.status(another) == status, "nothing but the nodes differs, so nothing was restarted"
        nodes = again.api.list("v1", "Node")
        assert [node["status"]["allocatable"]["cpu"] for node in nodes] == ["4"] * 3

        second.processes.stop("kueue", "kube-apiserver", grace=0)
        assert not control_plane.status(another).running
        second.restart("kube-apiserver")
        assert kwok.ready_nodes(second.api) == 3
        control_plane.up(another, progress, nodes=3, node_cpu=4, pod_seconds=0.5)
        assert control_plane.status(another).running
        job = {**indexed_job("job", 2, queue=None), "metadata": {"name": "job", "namespace": "default"}}
        job["spec"]["suspend"] = False
        second.api.create(job)
        wait_for("pods to complete", lambda: is_true(second.api.get("batch/v1", "Job", "job", "default"), "Complete"))
    finally:
        control_plane.down(another, progress)
    assert not (paths.state_root() / another).exists()
    assert not any(Path(f"/proc/{pid}").exists() for pid in status.processes.values())
    for port in second.ports.values():
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
    assert control_plane.status(another).exists is False
    control_plane.down(another, progress)  # what is not there is no error


def test_down_can_leave_the_logs(another: str):
    directory = paths.state_dir(another)
    (directory / control_plane.PORTS_FILE).write_text(json.dumps({}))
    (directory / "logs").mkdir()
    (directory / "logs" / "etcd.log").write_text("line")
    (directory / "etcd").mkdir()
    control_plane.down(another, Progress(), keep_logs=True)
    assert [path.name for path in directory.iterdir()] == ["logs"]
    assert (directory / "logs" / "etcd.log").read_text() == "line"


def test_status_in_words(another: str):
    assert str(control_plane.status(another)) == "cluster  another is not up"
    (paths.state_dir(another) / control_plane.PORTS_FILE).write_text(json.dumps({}))
    lines = str(control_plane.status(another)).splitlines()
    assert lines[0].split(maxsplit=1) == ["cluster", "another (profile control-plane)"]
    assert lines[1].split(maxsplit=1) == ["etcd", "not running"]


def test_a_kind_clusters_name_is_refused(another: str):
    (paths.state_dir(another) / "cluster.json").write_text("{}")
    with pytest.raises(DevClusterError, match="profile kind"):
        control_plane.up(another, Progress())


@pytest.mark.parametrize("name", ["", "..", "a/b", "-a", "A"])
def test_a_name_must_be_fit_for_a_folder(name: str):
    with pytest.raises(DevClusterError, match="no name for a cluster"):
        control_plane.up(name, Progress())
