"""The adapter killed at any moment, and away while the world goes on: nothing is lost and nothing is done twice."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

from kueue_flux.devcluster import kwok
from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.kubernetes_api import Manifest
from tests.control_plane.adapter import Adapter
from tests.control_plane.kit import Namespace, indexed_job, is_true, recorded_requests
from tests.control_plane.miniclusters import (
    PATIENCE,
    certificate,
    expect,
    get,
    hosts,
    minicluster,
    running,
    secret,
    secret_key,
    status,
    succeed,
    withdrawn,
)

SEED = 20260131
KILLS = 30
# These pods have no kubelet that waits for the files: they must not end before an adapter lived long enough to write
LONG = "15s"
MINICLUSTERS = 10


def test_killed_at_random_moments_each_runs_once(
    cluster: Cluster, make_namespace: Callable[..., Namespace], stopped_adapter: Adapter
):
    chance = random.Random(SEED)
    namespace = make_namespace(cpu=6)
    names = [f"mc-{index}" for index in range(MINICLUSTERS)]
    seen: dict[str, set[str]] = {name: set() for name in names}
    with recorded_requests(cluster) as requests:
        for kill in range(KILLS):
            stopped_adapter.start()
            if kill % 3 == 0:
                namespace.create(minicluster(names[kill // 3], annotations={kwok.COMPLETE_AFTER: LONG}))
            time.sleep(chance.uniform(0, 0.5))
            stopped_adapter.kill()
            for item in namespace.all("Secret"):
                seen[item["metadata"]["name"].removesuffix("-curve")].add(item["metadata"]["uid"])
        stopped_adapter.start()
        for name in names:
            expect(namespace, "Finished=True/Succeeded", name)

    asked = Counter(
        (request.verb, request.resource, request.name)
        for request in requests
        if request.namespace == namespace.name and request.status in (200, 201)
    )
    for name in names:
        assert status(namespace, name)["admissions"] == 1
        assert asked["create", "jobs", name] == 1
        assert asked["create", "secrets", f"{name}-curve"] == 1, "no second certificate within an admission"
        assert len(seen[name]) <= 1
    assert not [key for key in asked if key[:2] == ("delete", "pods")]
    assert len({job["metadata"]["uid"] for job in namespace.all("Job")}) == MINICLUSTERS


def test_away_during_an_eviction_and_the_readmission_the_files_and_pods_are_replaced(
    make_namespace: Callable[..., Namespace], stopped_adapter: Adapter
):
    namespace = make_namespace(cpu=3, preemption=True)
    stopped_adapter.start()
    namespace.create(minicluster("low", size=3, minSize=1))
    running(namespace, "low", 3)
    key = secret_key(namespace, "low")

    stopped_adapter.kill()
    namespace.create(queued_job(namespace, 2))
    namespace.running_pods("high", 2, timeout=PATIENCE)
    stale = namespace.running_pods("low", 1, timeout=PATIENCE)
    assert secret_key(namespace, "low") == key, "the pod of the second admission found the files of the first"

    stopped_adapter.start()
    namespace.wait_for("the second admission", lambda: status(namespace, "low")["admissions"] == 2, timeout=PATIENCE)
    assert secret_key(namespace, "low") != key
    assert hosts(namespace, "low") == ["low-0"]
    replaced(namespace, "low", stale)
    succeed(namespace, "low")


def queued_job(namespace: Namespace, size: int) -> Manifest:
    """A Job that preempts."""
    job = indexed_job("high", size)
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = namespace.priority_class(1000)
    return job


def replaced(namespace: Namespace, name: str, stale: list[Manifest]) -> None:
    """Wait until as many other pods run instead of these."""
    uids = {pod["metadata"]["uid"] for pod in stale}

    def look() -> bool:
        pods = namespace.running_pods(name, len(stale), timeout=PATIENCE)
        return not uids & {pod["metadata"]["uid"] for pod in pods}

    namespace.wait_for("other pods", look, timeout=PATIENCE)
    expect(namespace, "Ready=True/BrokersUp", name)


def test_killed_after_the_files_and_away_for_the_readmission_the_files_and_pods_are_replaced(
    namespace: Namespace, stopped_adapter: Adapter
):
    stopped_adapter.start()
    namespace.create(minicluster(size=1))
    running(namespace, size=1)
    key = secret_key(namespace)
    stopped_adapter.kill()
    # as if it had been killed after it wrote the files and before it wrote the status
    forget_admission(namespace)

    namespace.stop_queue("HoldAndDrain")
    namespace.wait_for("the pods to go", lambda: not namespace.pods("mc"), timeout=PATIENCE)
    namespace.stop_queue(None)
    stale = namespace.running_pods("mc", 1, timeout=PATIENCE)
    assert secret_key(namespace) == key

    stopped_adapter.start()
    namespace.wait_for("another certificate", lambda: secret_key(namespace) != key, timeout=PATIENCE)
    replaced(namespace, "mc", stale)
    succeed(namespace)


def forget_admission(namespace: Namespace, name: str = "mc") -> None:
    """Take the admission out of a MiniCluster's status, as the adapter would write it."""
    mc = get(namespace, name)
    meta = {"name": name, "namespace": namespace.name}
    kept = {key: value for key, value in mc["status"].items() if key not in ("admission", "admissions")}
    mine = {"apiVersion": mc["apiVersion"], "kind": mc["kind"], "metadata": meta, "status": kept}
    namespace.api.apply(mine, manager="kueue-flux", subresource="status")
    assert "admission" not in status(namespace, name)


def test_killed_after_the_files_of_this_admission_it_keeps_them(namespace: Namespace, stopped_adapter: Adapter):
    stopped_adapter.start()
    namespace.create(minicluster())
    running(namespace)
    before, pods = certificate(namespace), namespace.pods("mc")
    stopped_adapter.kill()
    forget_admission(namespace)
    stopped_adapter.start()
    namespace.wait_for("the admission to be noted", lambda: "admission" in status(namespace), timeout=PATIENCE)
    assert certificate(namespace) == before
    assert [pod["metadata"]["uid"] for pod in namespace.pods("mc")] == [pod["metadata"]["uid"] for pod in pods]
    assert status(namespace)["admissions"] == 1
    succeed(namespace)


def test_away_during_the_eviction_it_deletes_the_files_when_it_is_back(namespace: Namespace, stopped_adapter: Adapter):
    stopped_adapter.start()
    namespace.create(minicluster())
    running(namespace)
    stopped_adapter.kill()
    namespace.stop_queue("HoldAndDrain")
    namespace.wait_for("the pods to go", lambda: not namespace.pods("mc"), timeout=PATIENCE)
    assert secret(namespace) is not None
    stopped_adapter.start()
    withdrawn(namespace)
    expect(namespace, "Injected=False/Withdrawn")
    namespace.stop_queue(None)
    running(namespace)
    succeed(namespace)


def test_away_while_it_finishes_it_reports_the_end(namespace: Namespace, stopped_adapter: Adapter):
    stopped_adapter.start()
    namespace.create(minicluster())
    running(namespace)
    stopped_adapter.kill()
    namespace.finish("mc", 3, message="exit-code=3\nreason=CommandFailed\n")
    namespace.wait_for("the Job to fail", lambda: is_true(namespace.get("Job", "mc"), "Failed"), timeout=PATIENCE)
    stopped_adapter.start()
    assert expect(namespace, "Finished=True/Failed", says="code 3")["status"]["exitCode"] == 3
    withdrawn(namespace)


def test_submitted_and_deleted_while_it_is_away_is_no_matter(namespace: Namespace, stopped_adapter: Adapter):
    namespace.create(minicluster("early"))
    namespace.create(minicluster("never"))
    namespace.delete("MiniCluster", "never")
    stopped_adapter.start()
    running(namespace, "early")
    stopped_adapter.kill()
    namespace.delete("MiniCluster", "early")
    namespace.wait_for(
        "the garbage collector, who needs no adapter",
        lambda: not namespace.all("Job") and secret(namespace, "early") is None,
        timeout=PATIENCE,
    )
