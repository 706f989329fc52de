"""One MiniCluster's life, from submission to its end and beyond: what exists when, and what its status says."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from kueue_flux.devcluster import kwok
from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.kubernetes_api import ApiError, KubernetesApi, Manifest
from kueue_flux.flux import layout
from tests.control_plane import adapter as adapter_process
from tests.control_plane import kit
from tests.control_plane.adapter import Adapter
from tests.control_plane.kit import Namespace, condition, is_true
from tests.control_plane.miniclusters import (
    PATIENCE,
    broker,
    config_map,
    events,
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

OWNED = ("Job", "Service", "NetworkPolicy", "Secret", "ConfigMap", "Pod", "Workload")
pytestmark = pytest.mark.usefixtures("adapter")


@pytest.fixture
def full(make_namespace: Callable[..., Namespace]) -> Namespace:
    """A namespace without any quota."""
    return make_namespace(cpu=0)


def belongs_to(obj: Manifest | None, owner: Manifest) -> bool:
    references = (obj or {}).get("metadata", {}).get("ownerReferences", [])
    return [reference["uid"] for reference in references] == [owner["metadata"]["uid"]]


def test_what_is_submitted_waits_as_a_suspended_job_without_files(full: Namespace):
    mc = full.create(minicluster(size=4))
    expect(full, "QuotaReserved=False")
    job = full.wait_for("the Workload", lambda: full.workload("mc") and full.get("Job", "mc"))
    assert job["metadata"]["labels"][kit.QUEUE_LABEL] == "queue"
    assert job["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "kueue-flux"
    assert job["metadata"]["labels"]["flux-framework.org/minicluster"] == "mc"
    spec = job["spec"]
    assert (spec["suspend"], spec["completionMode"]) == (True, "Indexed")
    assert (spec["parallelism"], spec["completions"]) == (4, 4)
    assert spec["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
    assert spec["template"]["spec"]["subdomain"] == "mc"
    assert all(belongs_to(full.get(kind, "mc"), mc) for kind in ("Job", "Service", "NetworkPolicy"))
    assert full.get("Service", "mc")["spec"]["clusterIP"] == "None"
    expect(full, "Accepted=True/Accepted")
    expect(full, "Admitted=False/Pending")
    expect(full, "Injected=False/WaitingForAdmission")
    expect(full, "Ready=False/WaitingForAdmission")
    expect(full, "Finished=False/Waiting")
    assert (secret(full), config_map(full), full.pods("mc")) == (None, None, [])


def test_at_admission_the_files_for_all_its_brokers_are_written(namespace: Namespace, tmp_path: Path):
    mc = namespace.create(minicluster(size=4, cpu="1500m"))
    namespace.set_quota(cpu=6)
    expect(namespace, "Injected=True/FilesWritten", says="4 brokers")
    assert belongs_to(secret(namespace), mc)
    assert belongs_to(config_map(namespace), mc)
    assert hosts(namespace) == ["mc-0", "mc-1", "mc-2", "mc-3"]
    bootstrap = broker(namespace)["bootstrap"]
    assert bootstrap["default_connect"] == f"tcp://%h.mc.{namespace.name}.svc.cluster.local:%p"
    files = config_map(namespace)["data"]
    assert set(files) == set(layout.CONFIG_FILES)
    assert (files["size"], files["tasks"]) == ("4", "1")
    assert json.loads(files["R.json"])["execution"]["R_lite"] == [{"rank": "0-3", "children": {"core": "0"}}]
    assert set(secret(namespace)["data"]) == {"curve.cert"}
    assert len(secret_key(namespace)) == 40
    found = status(namespace)
    assert (found["admission"]["size"], found["admissions"], found["size"]) == (4, 1, 4)
    assert "queuePosition" not in found


def test_nobody_but_the_pods_gets_at_the_certificate(
    cluster: Cluster, adapter: Adapter, namespace: Namespace, tmp_path: Path
):
    namespace.create(minicluster())
    running(namespace)
    key = secret_key(namespace)
    api = KubernetesApi(cluster.write_kubeconfig(tmp_path / "as-adapter", adapter_process.USER, adapter_process.GROUPS))
    for look in (
        lambda: api.get("v1", "Secret", "mc-curve", namespace.name),
        lambda: api.list("v1", "Secret", namespace.name),
    ):
        with pytest.raises(ApiError) as refusal:
            look()
        assert refusal.value.status == 403
    succeed(namespace)
    others = [kind for kind in kit.API_VERSIONS if kind != "Secret"]
    seen = json.dumps([namespace.all(kind) for kind in others])
    assert certificate_words_in(seen) == certificate_words_in(adapter.log.read_text()) == []
    assert key not in seen
    assert key not in adapter.log.read_text()
    assert key not in adapter.metrics()


def certificate_words_in(text: str) -> list[str]:
    """What of a certificate stands in a text."""
    return [word for word in ("secret-key =", "DO NOT DISTRIBUTE", "CURVE **Secret**") if word in text]


def test_it_is_ready_when_all_brokers_are_up_and_succeeds_with_its_lead(namespace: Namespace):
    namespace.create(minicluster(size=4, annotations={kwok.READY_AFTER: "3s"}))
    waiting = expect(namespace, "Ready=False/PodsPending")
    assert waiting["status"]["brokersReady"] < 4
    ready = running(namespace, size=4)
    assert condition(ready, "Ready")["message"] == "all 4 brokers are up"
    assert (ready["status"]["podsRunning"], ready["status"]["brokersReady"]) == (4, 4)
    expect(namespace, "Finished=False/Running")

    succeed(namespace)
    expect(namespace, "Ready=False/Finished")
    expect(namespace, "Injected=False/Withdrawn")
    withdrawn(namespace)
    found = status(namespace)
    assert found["exitCode"] == 0
    assert datetime.fromisoformat(found["startTime"]) <= datetime.fromisoformat(found["completionTime"])
    told = [line.split(":")[0] for line in events(namespace)]
    in_order = ["Created", "Admitted", "FilesWritten", "BrokersUp", "Succeeded"]
    assert [line.removeprefix("Normal ") for line in told if line.removeprefix("Normal ") in in_order] == in_order


@pytest.mark.parametrize(
    ("exit_code", "message", "words"),
    [
        (3, "exit-code=3\nreason=CommandFailed\n", "the command exited with code 3 (CommandFailed)"),
        (127, "exit-code=127\nreason=CommandNotFound\n", "the command was not found (CommandNotFound, exit code 127)"),
        (1, "exit-code=137\nreason=CommandSignaled\n", "ended by signal 9 (CommandSignaled, exit code 137)"),
        (5, "", "the command exited with code 5 (CommandFailed)"),
    ],
)
def test_it_fails_with_what_its_lead_says(namespace: Namespace, exit_code: int, message: str, words: str):
    namespace.create(minicluster())
    running(namespace)
    namespace.finish("mc", exit_code, message=message)
    failed = expect(namespace, "Finished=True/Failed", says=words)
    true_code = int(message.split("=")[1].split("\n")[0]) if message else exit_code
    assert failed["status"]["exitCode"] == true_code
    withdrawn(namespace)
    assert any(line.startswith("Warning Failed: ") and words in line for line in events(namespace))


def test_a_worker_that_is_lost_is_replaced_and_the_job_goes_on(namespace: Namespace):
    namespace.create(minicluster())
    running(namespace)
    key, lost = secret_key(namespace), namespace.pods("mc")[1]
    namespace.finish("mc", 113, index=1, message="exit-code=113\nreason=WorkerLost\n")
    namespace.wait_for(
        "another worker", lambda: namespace.running_pods("mc", 2)[1]["metadata"]["uid"] != lost["metadata"]["uid"]
    )
    expect(namespace, "Ready=True/BrokersUp")
    assert secret_key(namespace) == key, "no eviction, so no other certificate"
    succeed(namespace)


def test_kueue_counts_the_pods_as_ready_when_the_brokers_are_up(namespace: Namespace):
    namespace.create(minicluster(annotations={kwok.READY_AFTER: "2s"}))
    expect(namespace, "Injected=True")
    namespace.wait_for(
        "PodsReady=False", lambda: condition(namespace.workload("mc"), "PodsReady").get("status") == "False"
    )
    running(namespace)
    namespace.wait_for("PodsReady", lambda: is_true(namespace.workload("mc"), "PodsReady"))


def test_without_a_queue_it_runs_at_once(full: Namespace):
    full.create(minicluster(queue=None))
    expect(full, "Admitted=True/NotQueued")
    found = running(full)
    assert condition(found, "QuotaReserved")["reason"] == "NotQueued"
    assert "queue" not in found["status"]
    assert full.workload("mc") is None
    assert hosts(full) == ["mc-0", "mc-1"]
    succeed(full)
    withdrawn(full)


def test_in_a_namespace_with_a_default_queue_it_is_kueues_to_unsuspend(full: Namespace):
    queue = {"apiVersion": kit.KUEUE, "kind": "LocalQueue", "metadata": {"name": "default"}}
    full.create({**queue, "spec": {"clusterQueue": full.name}})
    # Kueue's webhook knows of the queue as soon as its cache does
    full.wait_for(
        "the default queue to be active",
        lambda: is_true(full.get("LocalQueue", "default"), "Active"),
    )
    full.create(minicluster(queue=None))
    found = expect(full, "QuotaReserved=False", says="can give at most 0")
    assert found["status"]["queue"] == "default"
    assert full.get("Job", "mc")["spec"]["suspend"] is True
    assert full.pods("mc") == []
    full.set_quota(cpu=2)
    running(full)


def test_it_is_deleted_with_all_that_belongs_to_it_when_its_time_is_over(namespace: Namespace):
    mc = namespace.create(minicluster(ttlSecondsAfterFinished=2))
    running(namespace)
    succeed(namespace)
    assert get(namespace)["metadata"]["uid"] == mc["metadata"]["uid"], "it stays for two seconds"
    gone(namespace)


def gone(namespace: Namespace) -> None:
    """Wait until nothing is left of any MiniCluster."""
    namespace.wait_for("the MiniCluster to be gone", lambda: not namespace.all("MiniCluster"), timeout=PATIENCE)
    for kind in OWNED:
        namespace.wait_for(
            f"the {kind} to be gone",
            lambda kind=kind: (
                not [item for item in namespace.all(kind) if item["metadata"]["name"] != "kube-root-ca.crt"]
            ),
            timeout=PATIENCE,
        )


def test_deleted_while_it_waits_nothing_is_left(full: Namespace):
    full.create(minicluster())
    expect(full, "QuotaReserved=False")
    full.delete("MiniCluster", "mc")
    gone(full)


def test_deleted_while_it_runs_nothing_is_left_and_the_quota_is_free(make_namespace: Callable[..., Namespace]):
    namespace = make_namespace(cpu=2)
    namespace.create(minicluster("first"))
    running(namespace, "first")
    namespace.create(minicluster("second"))
    expect(namespace, "QuotaReserved=False", "second", says="position 0")
    namespace.delete("MiniCluster", "first")
    running(namespace, "second")
    namespace.delete("MiniCluster", "second")
    gone(namespace)


def test_the_same_name_can_be_used_again_at_once(namespace: Namespace):
    namespace.create(minicluster())
    running(namespace)
    before = secret_key(namespace)
    uids = {pod["metadata"]["uid"] for pod in namespace.pods("mc")}
    namespace.delete("MiniCluster", "mc")
    mc = namespace.create(minicluster(size=3))

    namespace.wait_for("its own Job", lambda: belongs_to(namespace.get("Job", "mc"), mc), timeout=PATIENCE)
    running(namespace, size=3)
    assert hosts(namespace) == ["mc-0", "mc-1", "mc-2"]
    assert secret_key(namespace) != before
    assert not uids & {pod["metadata"]["uid"] for pod in namespace.pods("mc")}
    assert all(belongs_to(namespace.get(kind, "mc"), mc) for kind in ("Service", "NetworkPolicy"))
    succeed(namespace)


def change(namespace: Namespace, spec: Manifest, name: str = "mc") -> None:
    namespace.api.patch(get(namespace, name), {"spec": spec})


def test_a_specification_that_is_changed_later_is_said_to_be_ignored(namespace: Namespace):
    namespace.create(minicluster())
    running(namespace)
    change(namespace, {"tasks": 7})
    changed = expect(namespace, "Accepted=False/SpecChanged", says="undo the change, or delete")
    assert stale(changed) == []
    assert namespace.get("Job", "mc")["spec"]["parallelism"] == 2
    assert any(line.startswith("Warning SpecChanged: ") for line in events(namespace))
    change(namespace, {"tasks": 1})
    expect(namespace, "Accepted=True/Accepted")
    change(namespace, {"ttlSecondsAfterFinished": 3600})
    namespace.wait_for("the change to be seen", lambda: status(namespace)["observedGeneration"] == 4, timeout=PATIENCE)
    expect(namespace, "Accepted=True/Accepted")
    succeed(namespace)


def stale(mc: Manifest) -> list[str]:
    """The conditions that do not speak of the present specification."""
    generation = mc["metadata"]["generation"]
    return [item["type"] for item in mc["status"]["conditions"] if item["observedGeneration"] != generation]


def test_scaling_is_a_change_of_the_specification(namespace: Namespace):
    namespace.create(minicluster())
    running(namespace)
    scale = namespace.api.request("GET", namespace.api.path_of(get(namespace), "scale"))
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (2, 2)
    pods = namespace.all("Pod", scale["status"]["selector"])
    assert len(pods) == 2
    namespace.api.patch(get(namespace), {"spec": {"replicas": 3}}, subresource="scale")
    expect(namespace, "Accepted=False/SpecChanged")
    assert len(namespace.pods("mc")) == 2
    succeed(namespace)


def test_an_image_that_cannot_be_pulled_is_named(namespace: Namespace):
    namespace.create(minicluster(annotations={kwok.READY_AFTER: "1h"}))
    pod = namespace.wait_for("a pod", lambda: [p for p in namespace.pods("mc") if "nodeName" in p["spec"]])[0]
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image fake"}
    container = {"name": "flux", "image": "fake", "imageID": "", "ready": False, "restartCount": 0}
    change = {"status": {"containerStatuses": [{**container, "state": {"waiting": waiting}}]}}
    namespace.api.patch(pod, change, subresource="status")
    expect(namespace, "Ready=False/ImagePullFailed", says="Back-off pulling image fake")
    namespace.wait_for("an event", lambda: any("Warning ImagePullFailed" in line for line in events(namespace)))
