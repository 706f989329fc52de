"""What belongs to somebody else: another operator, names that are taken, and rules that forbid the Job."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.kubernetes_api import ApiError, Manifest
from tests.control_plane.adapter import Adapter
from tests.control_plane.kit import Namespace, indexed_job, recorded_requests, wait_for
from tests.control_plane.miniclusters import (
    PATIENCE,
    certificate,
    events,
    expect,
    get,
    minicluster,
    running,
    status,
    succeed,
)

FIGHT_SECONDS = 5.0
CONTESTED = "kueue_flux_contested "


def write_status(namespace: Namespace, jobid: str) -> None:
    """Write a MiniCluster's status as the Flux Operator does."""
    mc = get(namespace)
    path = namespace.api.path_of(mc, "status")
    params = {"fieldManager": "manager"}
    patch = {"status": {"jobid": jobid}}
    content_type = "application/merge-patch+json"
    namespace.api.request("PATCH", path, patch, params=params, content_type=content_type)


@pytest.fixture
def fresh_adapter(stopped_adapter: Adapter) -> Iterator[Adapter]:
    """An adapter that remembers nothing, and that no later test gets: it remembers another operator for a minute."""
    stopped_adapter.start()
    yield stopped_adapter
    stopped_adapter.close()


def test_another_operator_that_writes_the_status_is_told_and_not_fought(
    cluster: Cluster, namespace: Namespace, fresh_adapter: Adapter
):
    namespace.create(minicluster())
    running(namespace)
    before = certificate(namespace)
    write_status(namespace, "theirs-0")
    expect(namespace, "Accepted=False/ConflictingController", says="manager writes its status")
    assert fresh_adapter.metric(CONTESTED) == 1
    assert not fresh_adapter.not_ready(), "it serves everybody else"
    namespace.wait_for(
        "an event", lambda: any(line.startswith("Warning ConflictingController: ") for line in events(namespace))
    )

    with recorded_requests(cluster) as requests:
        theirs, end = 0, time.monotonic() + FIGHT_SECONDS
        while time.monotonic() < end:
            theirs += 1
            write_status(namespace, f"theirs-{theirs}")
            time.sleep(0.1)
    ours = [r for r in requests if r.namespace == namespace.name and r.verb != "get"]
    assert theirs > 10
    assert len(ours) <= 2, f"{len(ours)} writes against {theirs} of theirs: {ours}"
    assert status(namespace)["jobid"] == f"theirs-{theirs}"
    assert certificate(namespace) == before


def test_another_operators_job_is_told_and_left_alone(namespace: Namespace, fresh_adapter: Adapter):
    fresh_adapter.kill()
    mc = namespace.create(minicluster())
    theirs = namespace.create(owned(indexed_job("mc", 1, queue=None), mc))
    fresh_adapter.start()
    expect(namespace, "Accepted=False/ConflictingController", says="Job mc was made by another controller")
    assert fresh_adapter.metric(CONTESTED) == 1
    there = namespace.get("Job", "mc")
    assert (there["metadata"]["uid"], there["spec"]) == (theirs["metadata"]["uid"], theirs["spec"])
    assert namespace.get("Secret", "mc-curve") is None
    namespace.delete("MiniCluster", "mc")
    wait_for("it to be forgotten", lambda: fresh_adapter.metric(CONTESTED) == 0, timeout=PATIENCE)


def owned(manifest: Manifest, mc: Manifest) -> Manifest:
    """The manifest with a MiniCluster as its owner."""
    owner = {"apiVersion": mc["apiVersion"], "kind": mc["kind"], "name": "mc", "uid": mc["metadata"]["uid"]}
    references = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": references}}


def look_again(namespace: Namespace) -> None:
    """Have the adapter look at a MiniCluster now, which it would by itself within half a minute."""
    namespace.api.patch(get(namespace), {"metadata": {"annotations": {"look": "again"}}})


SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "mc", "labels": {"app": "theirs"}},
    "spec": {"clusterIP": "None", "selector": {"app": "theirs"}, "ports": [{"port": 80}]},
}
POLICY = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "mc"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
}


@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize(
    "foreign", [SERVICE, POLICY, indexed_job("mc", 1, queue=None)], ids=["Service", "NetworkPolicy", "Job"]
)
def test_a_name_that_is_taken_is_told_and_what_has_it_is_left_alone(namespace: Namespace, foreign: Manifest):
    theirs = namespace.create(foreign)
    namespace.create(minicluster())
    expect(namespace, "Accepted=False/NameTaken", says=f"{foreign['kind']} mc is there and is not ours")
    there = namespace.get(foreign["kind"], "mc")
    assert (there["metadata"]["uid"], there["spec"]) == (theirs["metadata"]["uid"], theirs["spec"])
    assert namespace.get("Secret", "mc-curve") is None
    namespace.wait_for("an event", lambda: any(line.startswith("Warning NameTaken: ") for line in events(namespace)))
    namespace.delete(foreign["kind"], "mc")
    look_again(namespace)
    running(namespace)
    expect(namespace, "Accepted=True/Accepted")
    succeed(namespace)


@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize(("kind", "name"), [("Secret", "mc-curve"), ("ConfigMap", "mc-flux")])
def test_a_file_that_is_not_ours_is_not_taken_for_one(namespace: Namespace, kind: str, name: str):
    content = {"stringData": {"theirs": "word"}} if kind == "Secret" else {"data": {"theirs": "word"}}
    namespace.create({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **content})
    namespace.create(minicluster())
    expect(namespace, "Accepted=False/NameTaken", says=f"{kind} {name} is there and is not ours")
    expect(namespace, "Injected=False/WaitingForAdmission")
    assert set(namespace.get(kind, name)["data"]) == {"theirs"}
    namespace.delete(kind, name)
    look_again(namespace)
    running(namespace)
    succeed(namespace)


@pytest.fixture
def forbidding_policy(cluster: Cluster, namespace: Namespace) -> Iterator[None]:
    """A ValidatingAdmissionPolicy against Jobs of more than one pod in the namespace."""
    name = f"small-jobs-{namespace.name}"
    rules = [{"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}]
    validation = {"expression": "object.spec.parallelism < 2", "message": "jobs here have one pod"}
    api = "admissionregistration.k8s.io/v1"
    policy = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": rules}, "validations": [validation]},
    }
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name}}}
    binding = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": selector},
    }
    cluster.api.create(policy)
    cluster.api.create(binding)
    yield
    cluster.api.delete(binding)
    cluster.api.delete(policy)


@pytest.mark.usefixtures("adapter")
def test_a_policy_that_forbids_the_job_is_quoted(cluster: Cluster, namespace: Namespace, forbidding_policy: None):
    probe = indexed_job("probe", 2, queue=None)

    def enforced() -> bool:
        try:
            namespace.create({**probe, "metadata": {"generateName": "probe-"}})
        except ApiError as error:
            return "jobs here have one pod" in str(error)
        return False

    namespace.wait_for("the policy to be enforced", enforced, timeout=PATIENCE)
    namespace.create(minicluster())
    expect(namespace, "Accepted=False/Refused", says="jobs here have one pod")
    assert namespace.get("Job", "mc") is None


@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize("resource", ["count/jobs.batch", "count/secrets"])
def test_a_resource_quota_that_is_used_up_is_quoted_and_more_quota_lets_it_run(namespace: Namespace, resource: str):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {resource: "0"}},
    }
    namespace.create(quota)
    namespace.wait_for(
        "the quota to be counted",
        lambda: namespace.api.get("v1", "ResourceQuota", "none", namespace.name)["status"]["used"],
        timeout=PATIENCE,
    )
    namespace.create(minicluster())
    expect(namespace, "Accepted=False/Refused", says="exceeded quota: none")
    namespace.wait_for("an event", lambda: any(line.startswith("Warning Refused: ") for line in events(namespace)))
    namespace.api.delete({**quota, "metadata": {"name": "none", "namespace": namespace.name}})
    if resource == "count/secrets":
        look_again(namespace)
    running(namespace)  # else by itself, within half a minute
    expect(namespace, "Accepted=True/Accepted")
    succeed(namespace)
