"""Faults that must end well: pods, the API server, Kueue lost for a while; another operator at work.

These tests disturb the cluster as a whole, one after the other, and put it back as it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

import pytest

from e2e.kit import CONTROLLER, UNTIL_TOLD, Cluster, Namespace, eventually
from kueue_flux.devcluster.kubernetes_api import MERGE, ApiError
from tests.control_plane.kit import index_of

AWAY_SECONDS = 30
FORGOTTEN_SECONDS = 60  # after so long without a write of the other operator, it is taken for gone


@pytest.fixture(scope="module")
def contested(make_namespace: Callable[..., Namespace]) -> Namespace:
    """A MiniCluster whose status another operator writes, once."""
    namespace = make_namespace()
    namespace.start("contested", *UNTIL_TOLD)
    namespace.wait_running("contested")
    path = namespace.api.path_of(namespace.minicluster("contested"), "status")
    # a field that kueue-flux writes and one that it does not: the latter keeps the other's name on it
    theirs = {"status": {"maximumSize": 7, "startTime": "2030-01-31T12:00:00Z"}}
    namespace.api.request("PATCH", path, theirs, params={"fieldManager": "manager"}, content_type=MERGE)
    return namespace


def test_another_operator_at_work_is_told(contested: Namespace):
    said = contested.wait_condition("contested", "Accepted", "False", "ConflictingController")
    assert "another operator is at work on MiniClusters in this cluster" in said
    assert "manager writes its status" in said
    assert ("ConflictingController", said) in contested.events("contested")


def test_beside_another_operator_the_controller_is_not_ready(contested: Namespace):
    contested.wait_for("readiness to fail", lambda: "run only one operator" in not_ready(contested.cluster))
    assert f"{contested.name}/contested" in not_ready(contested.cluster)


def not_ready(cluster: Cluster) -> str:
    """What the controller answers on /readyz; empty when it is ready."""
    (pod,) = cluster.controllers()
    try:
        cluster.api.text("GET", f"/api/v1/namespaces/{CONTROLLER[0]}/pods/{pod['metadata']['name']}:8080/proxy/readyz")
    except ApiError as error:
        return error.body
    return ""


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


def test_another_operator_that_has_gone_is_forgotten(contested: Namespace):
    """After the tests above, since it takes a minute."""
    contested.wait_condition("contested", "Accepted", "True", "Accepted", timeout=FORGOTTEN_SECONDS + 20)
    contested.wait_for("readiness to come back", lambda: not_ready(contested.cluster) == "")
    contested.release("contested")
    contested.wait_succeeded("contested")


def uids(namespace: Namespace, name: str) -> set[str]:
    """The uids of a MiniCluster's pods."""
    return {pod["metadata"]["uid"] for pod in namespace.pods(name)}


def test_kueue_is_away(namespace: Namespace):
    with namespace.cluster.scaled_to_zero("kueue-system", "kueue-controller-manager"):
        namespace.start("early", "hostname")
        assert "Kueue" in namespace.wait_condition("early", "QuotaReserved", "False", "KueueNotReady")
        assert "KueueNotReady" in namespace.kueue_flux("status", "early").out
    namespace.wait_succeeded("early", timeout=180)


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
    node, rule = (
        f"{cluster.name}-control-plane",
        ["-p", "tcp", "--dport", "6443", "-j", "REJECT", "--reject-with", "tcp-reset"],
    )
    cluster.on_node(node, "iptables", "-w", "-I", "INPUT", *rule)
    try:
        yield
    finally:
        cluster.on_node(node, "iptables", "-w", "-D", "INPUT", *rule)


@pytest.mark.parametrize("away", [frozen_api_server, unreachable_api_server])
@pytest.mark.quota(pods=2)
def test_the_api_server_is_away_for_half_a_minute(
    namespace: Namespace, away: Callable[[Cluster], AbstractContextManager[None]]
):
    """One run ends meanwhile, another waits for its quota, and a user waits for both."""
    cluster = namespace.cluster
    namespace.start("running", "sh", "-c", f"echo begun; sleep {AWAY_SECONDS // 2}; echo told", size=2)
    namespace.start("waiting", "hostname", size=2)
    namespace.wait_output("running", "begun\nbegun\n")
    with ThreadPoolExecutor() as pool:
        waits = [pool.submit(namespace.kueue_flux, "wait", name, timeout=300) for name in ("running", "waiting")]
        time.sleep(1)  # until they watch
        with away(cluster):
            time.sleep(AWAY_SECONDS)
        assert eventually(lambda: cluster.api.text("GET", "/readyz"), timeout=120), "the API server does not come back"
        ended = [wait.result() for wait in waits]
    assert [ran.code for ran in ended] == [0, 0], ended
    for name, output in (("running", ["begun", "begun", "told", "told"]), ("waiting", ["waiting-0", "waiting-1"])):
        assert namespace.wait_succeeded(name)["status"]["admissions"] == 1
        assert sorted(namespace.kueue_flux("logs", name).lines) == output
        assert len(namespace.pods(name)) == 2, "no pod was started twice"
