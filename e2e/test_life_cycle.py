"""What happens to a MiniCluster that is deleted, changed, or in the way of something else."""

from __future__ import annotations

import json
from datetime import datetime

from e2e.kit import UNTIL_TOLD, Namespace, manifest
from tests.control_plane.kit import condition

OWNED = ("Service", "NetworkPolicy", "Job", "Secret", "ConfigMap", "Pod")
GRACE_SECONDS = 30  # what Kubernetes gives a pod that is to end


def test_a_time_to_live_deletes_it_and_all_of_it(namespace: Namespace):
    namespace.start("brief", "hostname", flags=("--ttl", "3s"))
    ended = namespace.wait_succeeded("brief")
    namespace.wait_for("it to go", lambda: namespace.get("MiniCluster", "brief") is None, timeout=30)
    deleted = datetime.now().astimezone()
    assert (deleted - datetime.fromisoformat(ended["status"]["completionTime"])).total_seconds() >= 3
    namespace.wait_for("what it owned to go", lambda: not any(namespace.of("brief", kind) for kind in OWNED))


def test_deleted_while_it_runs_its_pods_end_in_their_grace_period(namespace: Namespace):
    namespace.start("endless", "sleep", "1000", size=2)
    namespace.wait_running("endless")
    deleted = namespace.kueue_flux("delete", "endless", timeout=GRACE_SECONDS + 20)
    assert (deleted.code, deleted.lines) == (0, ["endless deleted"])
    namespace.wait_for("its pods to go", lambda: not namespace.of("endless", "Pod"), timeout=GRACE_SECONDS + 10)
    namespace.wait_for("the rest to go", lambda: not any(namespace.of("endless", kind) for kind in OWNED))


def test_a_name_can_be_used_again_at_once(namespace: Namespace):
    namespace.start("again", *UNTIL_TOLD)
    namespace.wait_running("again")
    assert namespace.kueue_flux("delete", "--no-wait", "again").code == 0
    ran = namespace.submit("echo", "second", flags=("--name", "again", "--wait"))
    assert (ran.code, ran.lines) == (0, ["second"])


def test_a_changed_spec_is_reported_and_the_job_goes_on_as_it_was(namespace: Namespace):
    namespace.start("changed", *UNTIL_TOLD)
    namespace.wait_running("changed")
    change = [{"op": "replace", "path": "/spec/containers/0/command", "value": "echo something else"}]
    namespace.kubectl("patch", "minicluster", "changed", "--type=json", f"--patch={json.dumps(change)}")
    said = namespace.wait_condition("changed", "Accepted", "False", "SpecChanged")
    assert "undo the change, or delete this MiniCluster" in said
    namespace.release("changed")
    ended = namespace.wait_succeeded("changed")
    assert condition(ended, "Finished")["observedGeneration"] == ended["metadata"]["generation"] == 2
    assert namespace.kueue_flux("logs", "changed").lines == ["begun", "told"]


def test_a_change_that_is_undone_is_accepted_again(namespace: Namespace):
    namespace.start("wavering", *UNTIL_TOLD)
    namespace.wait_running("wavering")
    namespace.kubectl("patch", "minicluster", "wavering", "--type=merge", '--patch={"spec":{"tasks":2}}')
    namespace.wait_condition("wavering", "Accepted", "False", "SpecChanged")
    namespace.kubectl("patch", "minicluster", "wavering", "--type=merge", '--patch={"spec":{"tasks":1}}')
    namespace.wait_condition("wavering", "Accepted", "True", "Accepted")


THEIRS = {
    "Service": {"apiVersion": "v1", "spec": {"ports": [{"port": 80}], "selector": {"app": "shop"}}},
    "NetworkPolicy": {"apiVersion": "networking.k8s.io/v1", "spec": {"podSelector": {}}},
    "Job": {
        "apiVersion": "batch/v1",
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "localhost/a"}]}},
        },
    },
}


def test_somebody_elses_objects_of_its_name_are_left_alone(namespace: Namespace):
    names = {kind: f"shop-{kind.lower()}" for kind in THEIRS}
    before = {
        kind: namespace.create({**THEIRS[kind], "kind": kind, "metadata": {"name": names[kind]}}) for kind in THEIRS
    }
    for kind, name in names.items():
        namespace.start(name, "hostname")
        said = namespace.wait_condition(name, "Accepted", "False", "NameTaken")
        assert f"{kind} {name} is there and is not ours" in said
        namespace.wait_event(name, "NameTaken", said)
        assert not namespace.pods(name)
        after = namespace.get(kind, name)
        assert (after["metadata"]["uid"], after["spec"]) == (before[kind]["metadata"]["uid"], before[kind]["spec"])

    for kind, name in names.items():
        namespace.delete(kind, name)
    for name in names.values():  # looked for every half minute
        namespace.wait_succeeded(name, timeout=90)


def test_the_scale_subresource_tells_the_size(namespace: Namespace):
    namespace.start("scaled", "hostname", size=2)
    namespace.wait_succeeded("scaled")
    path = f"/apis/flux-framework.org/v1alpha2/namespaces/{namespace.name}/miniclusters/scaled/scale"
    scale = namespace.api.request("GET", path)
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (2, 2)
    pods = namespace.all("Pod", scale["status"]["selector"])
    assert len(pods) == 2


def test_what_the_api_server_refuses_for_it_is_told(namespace: Namespace):
    """A quota of objects, as admins set it: the Job cannot be created."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
    namespace.create({**quota, "spec": {"hard": {"count/jobs.batch": "0"}}})
    container = {"image": namespace.cluster.flux.reference, "command": "hostname"}
    spec = {"containers": [container], "flux": {"container": {"disable": True}}}

    there = ("v1", "ResourceQuota", "none", namespace.name)
    namespace.wait_for("the quota to hold", lambda: namespace.api.get(*there).get("status"))
    namespace.create(manifest("refused", spec))
    assert "exceeded quota" in namespace.wait_condition("refused", "Accepted", "False", "Refused")
