"""Faults that must end well: pods, the API server, Kueue lost for a while; another operator at work.

These tests disturb the cluster as a whole, one after the other, and put it back as it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

import pytest

from e2e.conftest import remove
from e2e.kit import CONTROLLER, UNTIL_TOLD, Cluster, Namespace, container_id
from kueue_flux.devcluster.kubernetes_api import MERGE, KubernetesApi, Manifest
from tests.control_plane.kit import index_of, wait_for

KUEUE = ("kueue-system", "kueue-controller-manager")
AWAY_SECONDS = 30
FORGOTTEN_SECONDS = 60  # after so long without a write of the other operator, it is taken for gone
RESTART_SECONDS = 330  # a kubelet waits up to five minutes before it starts again what has ended several times


@pytest.fixture(scope="module")
def contested(make_namespace: Callable[..., Namespace]) -> Iterator[Namespace]:
    """A MiniCluster whose status another operator writes, once."""
    namespace = make_namespace()
    namespace.start("contested", *UNTIL_TOLD)
    namespace.wait_running("contested")
    path = namespace.api.path_of(namespace.minicluster("contested"), "status")
    # a field that kueue-flux writes, and one that it leaves alone now, on which the other's name stays
    theirs = {"status": {"maximumSize": 7, "queuePosition": 7}}
    namespace.api.request("PATCH", path, theirs, params={"fieldManager": "manager"}, content_type=MERGE)
    yield namespace
    remove(namespace)


def test_another_operator_at_work_is_told(contested: Namespace):
    said = contested.wait_condition("contested", "Accepted", "False", "ConflictingController")
    assert "another operator is at work on MiniClusters in this cluster" in said
    assert "manager writes its status" in said
    contested.wait_event("contested", "ConflictingController", said)


def test_beside_another_operator_the_controller_serves_everybody_else(contested: Namespace):
    """Whoever may edit one MiniCluster can leave such traces: they are counted, and readiness is not theirs."""
    contested.wait_for("it to be counted", lambda: CONTESTED in asked(contested.cluster, "metrics").splitlines())
    assert asked(contested.cluster, "readyz") == "ok\n"


CONTESTED = "kueue_flux_contested 1.0"


def asked(cluster: Cluster, path: str) -> str:
    """What the controller answers.

    Raises:
        ApiError: it answers with an error, as on /readyz when it is not ready.
    """
    name = cluster.leader()["metadata"]["name"]
    return str(cluster.api.text("GET", f"/api/v1/namespaces/{CONTROLLER[0]}/pods/{name}:8080/proxy/{path}"))


class TestPodLost:
    """The instance is lost with any of its pods: the Job starts all of them anew."""

    HOW = ("worker-killed", "worker-deleted", "lead-killed")

    @pytest.fixture(scope="class")
    @classmethod
    def lost(cls, make_namespace: Callable[..., Namespace]) -> Namespace:
        """One MiniCluster for each way to lose a pod, side by side, each told to end when it runs again."""
        namespace = make_namespace()
        for name in cls.HOW:
            namespace.start(name, *UNTIL_TOLD, size=2)
        for name in cls.HOW:
            namespace.wait_output(name, "begun\nbegun\n", timeout=120)
        first = {name: uids(namespace, name) for name in cls.HOW}
        for name in cls.HOW:
            victim = next(pod for pod in namespace.pods(name) if index_of(pod) == name.startswith("worker"))
            if name.endswith("killed"):
                namespace.cluster.kill(victim)
            else:
                namespace.kubectl("delete", "pod", victim["metadata"]["name"], "--wait=false")

        def again(name: str) -> bool:
            running = [pod for pod in namespace.pods(name) if pod["status"]["phase"] == "Running"]
            assert len({pod["metadata"]["uid"] for pod in running} - first[name]) == 2, "two new pods run"
            lead = next(pod for pod in running if index_of(pod) == 0)
            return namespace.kubectl("logs", lead["metadata"]["name"]) == "begun\nbegun\n"

        for name in cls.HOW:
            namespace.wait_for(f"{name} to begin again", lambda n=name: again(n), timeout=150)
            namespace.release(name)
        return namespace

    @pytest.mark.parametrize("name", HOW)
    def test_it_runs_again_and_ends_well(self, lost: Namespace, name: str):
        assert lost.wait_succeeded(name)["status"]["exitCode"] == 0
        assert lost.kueue_flux("logs", name).lines == ["begun", "begun", "told", "told"]

    @pytest.mark.parametrize("name", HOW)
    def test_it_keeps_its_admission(self, lost: Namespace, name: str):
        assert lost.minicluster(name)["status"]["admissions"] == 1


def uids(namespace: Namespace, name: str) -> set[str]:
    """The uids of a MiniCluster's pods."""
    return {pod["metadata"]["uid"] for pod in namespace.pods(name)}


def test_kueue_is_away(namespace: Namespace):
    """A run under way ends meanwhile, and one that is submitted runs when Kueue is back."""
    namespace.start("under-way", *UNTIL_TOLD)
    namespace.wait_output("under-way", "begun")
    with namespace.cluster.scaled_to_zero(*KUEUE):
        namespace.start("early", "hostname")
        assert "Kueue" in namespace.wait_condition("early", "QuotaReserved", "False", "KueueNotReady")
        assert "KueueNotReady" in namespace.kueue_flux("status", "early").out
        namespace.release("under-way")
        namespace.wait_succeeded("under-way")
        assert not namespace.pods("early")
    namespace.wait_succeeded("early", timeout=180)


def test_another_operator_that_has_gone_is_forgotten(contested: Namespace):
    """After the tests above, since it takes a minute."""
    contested.wait_condition("contested", "Accepted", "True", "Accepted", timeout=FORGOTTEN_SECONDS + 20)
    writers = {entry["manager"] for entry in contested.minicluster("contested")["metadata"]["managedFields"]}
    assert "manager" in writers, "an old trace of it is no sign of work"
    contested.wait_for("it to be forgotten", lambda: CONTESTED not in asked(contested.cluster, "metrics").splitlines())
    contested.release("contested")
    contested.wait_succeeded("contested")


@contextmanager
def frozen_api_server(cluster: Cluster) -> Iterator[None]:
    """The API server takes connections and answers none."""
    node = f"{cluster.name}-control-plane"
    container = cluster.on_node(node, "crictl", "ps", "--quiet", "--name", "kube-apiserver").strip()
    pid = str(json.loads(cluster.on_node(node, "crictl", "inspect", container))["info"]["pid"])
    cluster.on_node(node, "kill", "-STOP", pid)
    try:
        yield
    finally:
        cluster.on_node(node, "kill", "-CONT", pid)


@contextmanager
def unreachable_api_server(cluster: Cluster) -> Iterator[None]:
    """All connections to the API server are cut, and new ones refused."""
    node = f"{cluster.name}-control-plane"
    rule = ("INPUT", "-p", "tcp", "--dport", "6443", "-j", "REJECT", "--reject-with", "tcp-reset")
    cluster.on_node(node, "iptables", "-w", "-I", *rule)
    try:
        # the rule is met only by who sends something, and a watch without news does not
        cluster.on_node(node, "ss", "--kill", "--tcp", "--numeric", "sport", "=", ":6443")
        yield
    finally:
        cluster.on_node(node, "iptables", "-w", "-D", *rule)


def container_ended(cluster: Cluster, pod: Manifest) -> bool:
    """Whether a pod's container has ended well, as its node knows it."""
    status = cluster.container(pod)["status"]
    assert (status["state"], status["exitCode"]) == ("CONTAINER_EXITED", 0)
    return True


def renew_kueue(cluster: Cluster) -> None:
    """Spare the test a minute and more, in which Kueue comes back by itself.

    It ends where it cannot renew its Lease. When it is started while the API server is away, it then waits for its
    certificate until its liveness probe ends it (0.19.2), and the kubelet lets each restart wait longer.
    """
    for pod in cluster.api.list("v1", "Pod", KUEUE[0]):
        cluster.remove(pod)


@pytest.mark.parametrize(("away", "told"), [(frozen_api_server, ""), (unreachable_api_server, "; trying again")])
@pytest.mark.quota(pods=2)
def test_the_api_server_is_away_for_half_a_minute(
    namespace: Namespace, away: Callable[[Cluster], AbstractContextManager[None]], told: str
):
    """One run ends meanwhile, another waits for its quota, and a user waits for both."""
    cluster = namespace.cluster
    namespace.start("running", *UNTIL_TOLD, size=2)
    namespace.wait_output("running", "begun\nbegun\n", timeout=120)
    namespace.start("waiting", "hostname", size=2)
    pods = namespace.running_pods("running", 2)
    with namespace.waiting("running") as first, namespace.waiting("waiting") as second:
        first.wait_says("running on 2 nodes")
        second.wait_says("waiting for quota in queue queue")
        with away(cluster), closing(KubernetesApi(cluster.kubeconfig, timeout=3)) as impatient:
            back = time.monotonic() + AWAY_SECONDS
            assert not impatient.answers("/readyz")
            for pod in pods:
                cluster.on_node(pod["spec"]["nodeName"], "crictl", "exec", container_id(pod), "touch", "/tmp/go")
            for pod in pods:
                wait_for("the run to end", lambda p=pod: container_ended(cluster, p))
            time.sleep(max(0.0, back - time.monotonic()))
            assert not impatient.answers("/readyz")
        wait_for("the API server to come back", lambda: cluster.api.answers("/readyz"), timeout=120)
        renew_kueue(cluster)
        ended = [wait.ended(timeout=RESTART_SECONDS) for wait in (first, second)]
    assert [ran.code for ran in ended] == [0, 0], ended
    assert all(told in ran.err for ran in ended), ended
    for name, output in (("running", ["begun", "begun", "told", "told"]), ("waiting", ["waiting-0", "waiting-1"])):
        assert namespace.wait_succeeded(name)["status"]["admissions"] == 1
        assert sorted(namespace.kueue_flux("logs", name).lines) == output
        assert len(namespace.pods_made(name)) == 2, "no pod was started twice"
