"""Who may see what: the certificate's secret key is in its Secret alone, and the controller may do what it must."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.kit import CONTROLLER, UNTIL_TOLD, Cluster, Namespace, as_yaml, manifest
from kueue_flux.devcluster.kubernetes_api import ApiError
from tests.control_plane.kit import wait_for

DEPLOYMENT = "kueue-flux-controller"
ACCOUNT = "system:serviceaccount:kueue-flux-system:kueue-flux-controller"


@contextmanager
def talkative(cluster: Cluster) -> Iterator[None]:
    """The controller at its most verbose."""
    deployment = cluster.api.get("apps/v1", "Deployment", DEPLOYMENT, CONTROLLER[0])
    args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]

    def set_args(words: list[str]) -> None:
        patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": words}]
        where = ("-n", CONTROLLER[0])
        cluster.kubectl(*where, "patch", f"deployment/{DEPLOYMENT}", "--type=json", f"--patch={json.dumps(patch)}")
        cluster.kubectl(*where, "rollout", "status", f"deployment/{DEPLOYMENT}", "--timeout=90s", timeout=100)
        wait_for("one controller", lambda: len(cluster.controllers()) == 1, timeout=40)

    try:
        set_args([*args, "--log-level=debug"])
        yield
    finally:
        set_args(args)


def test_the_secret_key_is_nowhere_but_in_its_secret(namespace: Namespace):
    container = {"image": namespace.cluster.flux.reference, "command": UNTIL_TOLD[0] + f" -c '{UNTIL_TOLD[2]}'"}
    spec = {
        "size": 2,
        "tasks": 2,
        "containers": [container],
        "flux": {"container": {"disable": True}, "logLevel": 7},
        "logging": {"debug": True},
    }
    with talkative(namespace.cluster):
        ran = namespace.kueue_flux("submit", "-", stdin=as_yaml(manifest("sealed", spec)))
        assert ran.code == 0, ran.err
        namespace.wait_running("sealed")
        namespace.wait_output("sealed", "begun")
        stored = namespace.get("Secret", "sealed-curve")["data"]["curve.cert"]
        text = base64.b64decode(stored).decode()
        key = next(line.split('"')[1] for line in text.splitlines() if line.strip().startswith("secret-key"))
        assert len(key) == 40, "a key in Z85 has 40 characters"
        for pod in namespace.running_pods("sealed", 2):
            where = "/run/flux/curve.cert"
            held = namespace.kubectl(
                "exec", pod["metadata"]["name"], "--", "sh", "-c", f"stat -c %a {where}; cat {where}"
            )
            assert held.startswith("400\n")
            assert key in held
        configuration = namespace.kubectl("get", "configmaps", "-o", "yaml")
        assert "broker.toml" in configuration
        namespace.release("sealed")
        namespace.wait_succeeded("sealed")
        logs = {
            pod["metadata"]["name"]: namespace.kubectl("logs", pod["metadata"]["name"])
            for pod in namespace.pods("sealed")
        }
        logs["controller"] = namespace.cluster.controller_log("--tail=-1")

    assert len(logs) == 3
    assert "<7>" in logs[namespace.lead("sealed")["metadata"]["name"]], "Flux is at its most verbose"
    assert "leading" in logs["controller"]
    places = {
        "configuration": configuration,
        **{f"log of {name}": log for name, log in logs.items()},
        "status": namespace.kubectl("get", "miniclusters,jobs,pods,workloads", "-o", "yaml"),
        "events": namespace.kubectl("get", "events", "-o", "yaml"),
    }
    forms = (key, stored, base64.b64encode(key.encode()).decode().rstrip("="))
    found = [place for place, content in places.items() if any(form in content for form in forms)]
    assert found == []


ALLOWED = {
    ("flux-framework.org", "miniclusters"): {"list", "watch", "delete"},
    ("flux-framework.org", "miniclusters/status"): {"patch"},
    ("flux-framework.org", "miniclusters/finalizers"): {"update"},
    ("batch", "jobs"): {"create", "get", "list", "watch", "patch", "delete"},
    ("", "services"): {"create", "get"},
    ("networking.k8s.io", "networkpolicies"): {"create", "get"},
    ("", "secrets"): {"create", "deletecollection"},
    ("", "configmaps"): {"create", "deletecollection"},
    ("", "pods"): {"list", "watch", "deletecollection"},
    ("kueue.x-k8s.io", "workloads"): {"list", "watch"},
    ("kueue.x-k8s.io", "clusterqueues"): {"list", "watch", "create", "patch"},
    ("kueue.x-k8s.io", "localqueues"): {"list", "watch", "create", "patch", "delete"},
    ("kueue.x-k8s.io", "cohorts"): {"list", "watch"},
    # for FluxSetups (config/rbac/setup.yaml)
    ("flux-framework.org", "fluxsetups"): {"list", "watch"},
    ("flux-framework.org", "fluxsetups/status"): {"patch"},
    ("", "nodes"): {"list", "watch"},
    ("", "namespaces"): {"list", "watch"},
    ("kueue.x-k8s.io", "resourceflavors"): {"create", "list", "watch", "patch", "delete"},
    ("kueue.x-k8s.io", "workloadpriorityclasses"): {"create", "list", "watch", "patch", "delete"},
    ("visibility.kueue.x-k8s.io", "localqueues/pendingworkloads"): {"get"},
    ("events.k8s.io", "events"): {"create", "patch"},
}
"""In a namespace of users; a resource that is not here is not allowed at all."""
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
OTHERS = (
    ("", "pods/exec"),
    ("", "pods/attach"),
    ("", "pods/log"),
    ("", "pods/portforward"),
    ("", "pods/ephemeralcontainers"),
    ("", "serviceaccounts"),
    ("", "serviceaccounts/token"),
    ("", "persistentvolumeclaims"),
    ("", "events"),
    ("apps", "deployments"),
    ("batch", "jobs/status"),
    ("batch", "cronjobs"),
    ("coordination.k8s.io", "leases"),
    ("kueue.x-k8s.io", "clusterqueues/status"),
    ("kueue.x-k8s.io", "admissionchecks"),
    ("kueue.x-k8s.io", "workloads/status"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
)


def may(cluster: Cluster, group: str, resource: str, verb: str, namespace: str = "default", name: str = "") -> bool:
    """Whether the controller's account may do that, as `kubectl auth can-i --as` asks."""
    kind, _, subresource = resource.partition("/")
    asked = {"group": group, "resource": kind, "subresource": subresource, "verb": verb, "namespace": namespace}
    groups = ["system:serviceaccounts", "system:serviceaccounts:kueue-flux-system", "system:authenticated"]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": ACCOUNT, "groups": groups, "resourceAttributes": {**asked, "name": name}},
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(cluster.api.request("POST", path, review)["status"]["allowed"])


@pytest.mark.parametrize(("group", "resource"), [*ALLOWED, *OTHERS], ids=lambda word: word or "core")
def test_the_controller_may_do_what_it_does_and_nothing_else(cluster: Cluster, group: str, resource: str):
    allowed = {verb for verb in VERBS if may(cluster, group, resource, verb)}
    assert allowed == ALLOWED.get((group, resource), set())


def test_the_controllers_lease_is_the_only_one_that_it_may_touch(cluster: Cluster):
    def allowed(name: str, namespace: str) -> set[str]:
        return {verb for verb in VERBS if may(cluster, "coordination.k8s.io", "leases", verb, namespace, name)}

    assert allowed("kueue-flux", CONTROLLER[0]) == {"create", "get", "update"}
    assert allowed("another", CONTROLLER[0]) == {"create"}
    assert allowed("kueue-flux", "kube-system") == set()


def test_all_that_rbac_lists_is_in_this_test(cluster: Cluster):
    """Were a rule added, the tests above would not notice a resource that they do not know."""
    listed = cluster.kubectl("auth", "can-i", "--list", "--as", ACCOUNT, "--namespace", "default")
    resources = {line.split()[0] for line in listed.splitlines()[1:] if not line.startswith(" ")}
    everybodys = {name for name in resources if name.startswith("self")}
    dotted = {_dotted(group, kind) for group, kind in ALLOWED}
    assert resources - everybodys == dotted


def _dotted(group: str, resource: str) -> str:
    kind, slash, subresource = resource.partition("/")
    return f"{kind}.{group}".rstrip(".") + slash + subresource


def test_the_controller_runs_without_privileges(cluster: Cluster):
    pod = cluster.controllers()[0]
    node = pod["spec"]["nodeName"]
    lines = cluster.on_node(node, "cat", f"/proc/{cluster.pid(pod)}/status").splitlines()
    status = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
    assert "0" not in status["Uid"]
    assert {int(status[kind][0], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == ["1"]
    assert status["Seccomp"] == ["2"]
    assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


def test_its_namespace_takes_no_pod_with_privileges(cluster: Cluster):
    container = {"name": "a", "image": "localhost/a", "securityContext": {"privileged": True}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}
    path = f"/api/v1/namespaces/{CONTROLLER[0]}/pods"
    with pytest.raises(ApiError, match='violates PodSecurity "restricted'):
        cluster.api.request("POST", path, pod, params={"dryRun": "All"})


def test_a_users_pod_has_no_token_of_the_cluster(namespace: Namespace):
    ran = namespace.submit("sh", "-c", "ls /var/run/secrets/kubernetes.io 2>&1; env | grep -c _SERVICE_HOST")
    assert "No such file or directory" in ran.out
    assert ran.lines[-1] == "1", "of all Services, Kubernetes' own alone is in the environment"
