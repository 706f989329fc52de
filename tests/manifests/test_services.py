"""The Job of the service containers: what it is, what it asks of Kueue, and how its pod is reached."""

from copy import deepcopy
from typing import Any

import pytest

from kueue_flux.manifests.common import pod_labels
from kueue_flux.manifests.job import job
from kueue_flux.manifests.pod import pod_template
from kueue_flux.manifests.service import service
from kueue_flux.manifests.services import services_job
from tests.builders import MiniClusterBuilder, minicluster

GATED = "kueue.x-k8s.io/admission-gated-by"
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
MAX_EXEC = "kueue.x-k8s.io/max-exec-time-seconds"
OURS = {
    "app.kubernetes.io/managed-by": "kueue-flux",
    "flux-framework.org/minicluster": "hello",
    "flux-framework.org/role": "services",
}


def build(mc: MiniClusterBuilder) -> dict[str, Any]:
    return services_job(mc.build())


def pod(mc: MiniClusterBuilder) -> dict[str, Any]:
    return build(mc)["spec"]["template"]["spec"]


def test_the_whole_job() -> None:
    assert build(minicluster().queue("q").service("web", ports=[80])) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "hello-services",
            "namespace": "team",
            "labels": {QUEUE: "q", **OURS},
            "annotations": {GATED: "flux-framework.org/turn"},
            "ownerReferences": job(minicluster().build())["metadata"]["ownerReferences"],
        },
        "spec": {
            "suspend": True,
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 2**31 - 1,
            "podReplacementPolicy": "Failed",
            "template": {
                "metadata": {"labels": {**OURS, "flux-framework.org/minicluster-uid": "uid-hello"}},
                "spec": {
                    "hostname": "hello-services",
                    "subdomain": "hello",
                    "restartPolicy": "OnFailure",
                    "enableServiceLinks": False,
                    "automountServiceAccountToken": False,
                    "containers": [
                        {
                            "name": "web",
                            "image": "web:1",
                            "imagePullPolicy": "IfNotPresent",
                            "ports": [{"containerPort": 80}],
                            "startupProbe": {
                                "tcpSocket": {"port": 80},
                                "periodSeconds": 1,
                                "failureThreshold": 2**31 - 1,
                            },
                        }
                    ],
                },
            },
        },
    }


def test_the_miniclusters_own_job_waits_for_it() -> None:
    assert job(minicluster().service().build())["metadata"]["annotations"] == {GATED: "flux-framework.org/services"}
    partial = job(minicluster().queue("q").size(4).spec(minSize=2).service().build())["metadata"]["annotations"]
    assert partial.keys() > {GATED}
    assert "annotations" not in job(minicluster().build())["metadata"]


@pytest.mark.parametrize(
    ("mc", "labels"),
    [
        (minicluster(), {}),
        (minicluster().spec(jobLabels={QUEUE: "q", "team": "hpc"}), {QUEUE: "q", "team": "hpc"}),
        (minicluster().queue("q").label(PRIORITY, "high"), {QUEUE: "q", PRIORITY: "high"}),
        # the time counts from the MiniCluster's admission, and the services are there before
        (minicluster().queue("q").label(MAX_EXEC, "60"), {QUEUE: "q"}),
        (minicluster().spec(jobLabels={QUEUE: "q", MAX_EXEC: "60"}), {QUEUE: "q"}),
    ],
)
def test_it_stands_in_the_same_queue(mc: MiniClusterBuilder, labels: dict[str, str]) -> None:
    assert build(deepcopy(mc).service())["metadata"]["labels"] == {**OURS, **labels}


def test_the_headless_service_gives_its_pod_a_name() -> None:
    mc = minicluster().network(headlessName="net").service()
    template = build(mc)["spec"]["template"]
    assert (template["spec"]["hostname"], template["spec"]["subdomain"]) == ("hello-services", "net")
    assert service(mc.build())["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert pod_labels(mc.build()).items() <= template["metadata"]["labels"].items()


@pytest.mark.parametrize(("policy", "expected"), [("", "OnFailure"), ("OnFailure", "OnFailure"), ("Never", "Never")])
def test_whether_services_are_started_again(policy: str, expected: str) -> None:
    built = build(minicluster().pod(restartPolicy=policy).service())
    assert built["spec"]["template"]["spec"]["restartPolicy"] == expected
    assert built["spec"]["backoffLimit"] == (0 if expected == "Never" else 2**31 - 1)


def test_its_command_is_one_argument() -> None:
    (container,) = pod(minicluster().service(command="echo $(id) | tee $HOME/x"))["containers"]
    assert container["command"] == ["/bin/sh", "-c"]
    assert container["args"] == ["echo $$(id) | tee $$HOME/x"]
    assert "startupProbe" not in container


def test_its_pod_is_placed_like_the_others() -> None:
    settings = {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "serviceAccountName": "robot",
        "automountServiceAccountToken": True,
        "schedulerName": "other",
        "runtimeClassName": "kata",
        "dnsPolicy": "Default",
        "securityContext": {"runAsUser": 7},
    }
    mc = minicluster().pod(**settings).service(imagePullSecret="s").service("db", volumes={"d": {"path": "/d"}})
    built = pod(mc)
    assert {key: built[key] for key in settings} == settings
    assert {key: pod_template(mc.build())["spec"][key] for key in settings} == settings
    assert built["imagePullSecrets"] == [{"name": "s"}]
    assert built["volumes"] == [{"name": "d", "emptyDir": {}}]
    assert [container["name"] for container in built["containers"]] == ["web", "db"]


def test_labels_and_annotations_of_its_pod() -> None:
    annotations = {"note": "x", "kueue.x-k8s.io/podset-required-topology": "rack"}
    metadata = build(minicluster().pod(labels={"team": "hpc"}, annotations=annotations).service())["spec"]["template"][
        "metadata"
    ]
    assert metadata["labels"]["team"] == "hpc"
    assert metadata["annotations"] == {"note": "x"}
