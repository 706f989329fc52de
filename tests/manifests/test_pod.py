"""The pod template: the whole of it once, then each field that a MiniCluster may change."""

from typing import Any

import pytest

from kueue_flux.flux.script import scripts
from kueue_flux.manifests.job import job
from kueue_flux.manifests.pod import flux_container_name, literal, pod_template
from tests.builders import MiniClusterBuilder, minicluster

POD_LABELS = {
    "app.kubernetes.io/managed-by": "kueue-flux",
    "flux-framework.org/minicluster": "hello",
    "flux-framework.org/minicluster-uid": "uid-hello",
}


def template(mc: MiniClusterBuilder) -> dict[str, Any]:
    return pod_template(mc.build())


def spec(mc: MiniClusterBuilder) -> dict[str, Any]:
    return template(mc)["spec"]


def container(mc: MiniClusterBuilder) -> dict[str, Any]:
    (only,) = spec(mc)["containers"]
    return only


def near(topology: str) -> dict[str, Any]:
    """The affinity term for pods of the same MiniCluster."""
    term = {
        "labelSelector": {"matchLabels": {"flux-framework.org/minicluster-uid": "uid-hello"}},
        "topologyKey": topology,
    }
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}


ZONE, NODE = near("topology.kubernetes.io/zone"), near("kubernetes.io/hostname")


def test_the_whole_template() -> None:
    assert template(minicluster().command("sleep 1")) == {
        "metadata": {"labels": POD_LABELS},
        "spec": {
            "subdomain": "hello",
            "restartPolicy": "Never",
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": "flux",
                    "image": "app:1",
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["/bin/sh", "/etc/flux/config/start.sh"],
                    "args": ["flux", "run", "--", "sleep", "1"],
                    "env": [
                        {"name": "KUEUE_FLUX_COUNTS_AT", "value": "2"},
                        {"name": "KUEUE_FLUX_LOG_LEVEL", "value": "6"},
                        {"name": "KUEUE_FLUX_MODE", "value": "run"},
                        {"name": "KUEUE_FLUX_MOUNT", "value": "/mnt/flux"},
                    ],
                    "volumeMounts": [
                        {"name": "flux-config", "mountPath": "/etc/flux/config", "readOnly": True},
                        {"name": "flux-curve", "mountPath": "/etc/flux/curve", "readOnly": True},
                        {"name": "flux-run", "mountPath": "/run/flux"},
                    ],
                    "startupProbe": {
                        "exec": {"command": ["test", "-e", "/run/flux/ready"]},
                        "periodSeconds": 1,
                        "failureThreshold": 2147483647,
                    },
                }
            ],
            "volumes": [
                {
                    "name": "flux-config",
                    "configMap": {
                        "name": "hello-flux",
                        "items": [
                            {"key": file, "path": file}
                            for file in ("broker.toml", "R.json", "size", "tasks", *scripts())
                        ],
                    },
                },
                {
                    "name": "flux-curve",
                    "secret": {
                        "secretName": "hello-curve",
                        "items": [{"key": "curve.cert", "path": "curve.cert"}],
                        "defaultMode": 0o444,
                    },
                },
                {"name": "flux-run", "emptyDir": {"medium": "Memory"}},
            ],
            "affinity": {"podAffinity": ZONE, "podAntiAffinity": NODE},
        },
    }


TOLERATION = {"key": "gpu", "operator": "Equal", "value": "a100", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("mc", "field", "value"),
    [
        (minicluster().pod(nodeSelector={"arch": "arm"}), "nodeSelector", {"arch": "arm"}),
        (minicluster().pod(tolerations=[TOLERATION]), "tolerations", [TOLERATION]),
        # what was left out stays out: Kubernetes has defaults of its own
        (minicluster().pod(tolerations=[{"operator": "Exists"}]), "tolerations", [{"operator": "Exists"}]),
        (minicluster().pod(serviceAccountName="robot"), "serviceAccountName", "robot"),
        (minicluster().pod(automountServiceAccountToken=True), "automountServiceAccountToken", True),
        (minicluster().pod(schedulerName="other"), "schedulerName", "other"),
        (minicluster().pod(runtimeClassName="kata"), "runtimeClassName", "kata"),
        (minicluster().pod(dnsPolicy="Default"), "dnsPolicy", "Default"),
        (minicluster().pod(securityContext={"runAsUser": 7}), "securityContext", {"runAsUser": 7}),
        (minicluster().pod(hostIPC=True), "hostIPC", True),
        (minicluster().pod(hostPID=True), "hostPID", True),
        (minicluster(), "hostIPC", None),
        (minicluster(), "hostPID", None),
        (minicluster().pod(runtimeClassName="kata", resources={"cpu": "250m"}), "overhead", {"cpu": "250m"}),
        (minicluster().pod(restartPolicy="OnFailure"), "restartPolicy", "Never"),
        (minicluster().network(headlessName="net"), "subdomain", "net"),
        (minicluster().network(disableAffinity=True), "affinity", None),
        (minicluster().container(imagePullSecret="a"), "imagePullSecrets", [{"name": "a"}]),
        (
            minicluster().view(imagePullSecret="b").container(imagePullSecret="a"),
            "imagePullSecrets",
            [{"name": "a"}, {"name": "b"}],
        ),
        (
            minicluster().view(imagePullSecret="a").container(imagePullSecret="a"),
            "imagePullSecrets",
            [{"name": "a"}],
        ),
        (minicluster(), "imagePullSecrets", None),
        (minicluster(), "initContainers", None),
    ],
)
def test_pod_fields(mc: MiniClusterBuilder, field: str, value: object) -> None:
    assert spec(mc).get(field) == value


def test_node_affinity_stands_beside_what_keeps_the_pods_together() -> None:
    mc = minicluster().pod(nodeAffinity={"zone": ["a", "b"], "disk": ["ssd"]})
    required = {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "disk", "operator": "In", "values": ["ssd"]},
                    {"key": "zone", "operator": "In", "values": ["a", "b"]},
                ]
            }
        ]
    }
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    assert spec(mc)["affinity"] == {"podAffinity": ZONE, "podAntiAffinity": NODE, "nodeAffinity": node_affinity}
    assert spec(mc.network(disableAffinity=True))["affinity"] == {"nodeAffinity": node_affinity}


def test_where_the_pods_lie_is_said_in_the_annotations_of_the_pods_and_not_of_the_job() -> None:
    rack, note = {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}, {"example.com/note": "x"}
    mc = minicluster().meta(annotations={**rack, **note}).pod(annotations={"a": "b"})
    assert template(mc)["metadata"]["annotations"] == {"a": "b", **rack}
    assert "annotations" not in job(mc.build())["metadata"]


def test_pod_labels_and_annotations() -> None:
    metadata = template(minicluster().pod(labels={"team": "hpc"}, annotations={"note": "x y"}))["metadata"]
    assert metadata == {"labels": {"team": "hpc", **POD_LABELS}, "annotations": {"note": "x y"}}


@pytest.mark.parametrize(
    ("fields", "policy"),
    [
        ({}, "IfNotPresent"),
        ({"pullAlways": True}, "Always"),
        ({"imagePullPolicy": "Never"}, "Never"),
        ({"imagePullPolicy": "IfNotPresent"}, "IfNotPresent"),
        ({"imagePullPolicy": "Always", "pullAlways": True}, "Always"),
    ],
)
def test_image_pull_policy(fields: dict[str, Any], policy: str) -> None:
    assert container(minicluster().container(**fields))["imagePullPolicy"] == policy


LIMITS = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": 1}}


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"workingDir": "/data"}, "workingDir", "/data"),
        ({"resources": LIMITS}, "resources", LIMITS),
        ({"securityContext": {"runAsUser": 7}}, "securityContext", {"runAsUser": 7}),
        ({}, "workingDir", None),
        ({}, "resources", None),
        ({}, "securityContext", None),
    ],
)
def test_container_fields(given: dict[str, Any], field: str, value: object) -> None:
    assert container(minicluster().container(**given)).get(field) == value


NASTY = """sh -c 'echo "$(id)" $HOME $$; rm -rf / > /dev/null' "it's" $"""


def test_the_command_is_arguments_and_never_shell_text() -> None:
    built = container(minicluster().command(NASTY))
    escaped = 'echo "$$(id)" $$HOME $$$$; rm -rf / > /dev/null'
    assert built["args"] == ["flux", "run", "--", "sh", "-c", escaped, "it's", "$$"]
    assert built["command"] == ["/bin/sh", "/etc/flux/config/start.sh"]  # nothing of the user's in here


def test_the_pod_waits_for_the_files_that_the_user_wrote() -> None:
    mc = minicluster().container(commands={"pre": "export A=1", "post": "  \n"}, batch=True, command="one\ntwo")
    (volume,) = [v for v in spec(mc)["volumes"] if v["name"] == "flux-config"]
    assert [item["key"] for item in volume["configMap"]["items"]][-2:] == ["pre", "batch-lines"]


def test_what_the_kubelet_expands_is_what_the_user_wrote() -> None:
    # Kubernetes, Container.args: $$ becomes $, and $(VAR) a variable's value.
    assert literal("a$(B)$$c$") == "a$$(B)$$$$c$$"
    assert literal("a$(B)$$c$").replace("$$", "$") == "a$(B)$$c$"


def env(mc: MiniClusterBuilder) -> list[Any]:
    return [item for item in container(mc)["env"] if not item["name"].startswith("KUEUE_FLUX_")]


def test_environment_is_sorted_and_literal() -> None:
    mc = minicluster().container(environment={"B": "$(A)", "A": "1", "C": "container"}).flux(environment={"C": "flux"})
    assert env(mc) == [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$$(A)"},
        {"name": "C", "value": "flux"},
    ]


def test_environment_from_secrets() -> None:
    mc = minicluster().container(secrets={"TOKEN": {"name": "s", "key": "k"}, "ID": {"name": "s", "key": "i"}})
    assert env(mc) == [
        {"name": "ID", "valueFrom": {"secretKeyRef": {"name": "s", "key": "i"}}},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]


def test_the_view_is_a_setting_of_the_start_script() -> None:
    settings = {item["name"]: item["value"] for item in container(minicluster().view(imageVolume=True))["env"]}
    assert settings["KUEUE_FLUX_VIEW"] == "/mnt/flux/opt/view"


def test_the_containers_name_is_the_users_where_there_is_one() -> None:
    assert flux_container_name(minicluster().build()) == "flux"
    assert flux_container_name(minicluster().container(name="app").build()) == "app"


@pytest.mark.parametrize("full", [True, False])
def test_host_names_are_full_where_that_is_asked_for(full: bool) -> None:
    assert spec(minicluster().network(setHostnameAsFQDN=full)).get("setHostnameAsFQDN", False) is full


def test_the_munge_key_is_mounted_where_there_is_one() -> None:
    mc = minicluster().flux(mungeSecret="theirs")
    secret = {"secretName": "theirs", "items": [{"key": "munge.key", "path": "munge.key"}], "defaultMode": 0o400}
    assert {"name": "flux-munge", "secret": secret} in spec(mc)["volumes"]
    assert {"name": "flux-munge", "mountPath": "/etc/flux/munge", "readOnly": True} in container(mc)["volumeMounts"]


def test_a_certificate_of_the_users_own_secret_is_mounted() -> None:
    (curve,) = [v for v in spec(minicluster().flux(curveCertSecret="theirs"))["volumes"] if v["name"] == "flux-curve"]
    items = [{"key": "curve.cert", "path": "curve.cert"}]
    assert curve["secret"] == {"secretName": "theirs", "items": items, "defaultMode": 0o444}
