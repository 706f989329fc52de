"""Sidecars: what Kubernetes runs beside Flux, and with what."""

from typing import Any

import pytest

from kueue_flux.manifests.pod import pod_template
from kueue_flux.manifests.view import view
from tests.builders import MiniClusterBuilder, minicluster

FLUX_RUN = {"name": "flux-run", "mountPath": "/run/flux", "readOnly": True}
SOCKET = "local:///run/flux/local"


def spec(mc: MiniClusterBuilder) -> dict[str, Any]:
    return pod_template(mc.build())["spec"]


def sidecar(mc: MiniClusterBuilder) -> dict[str, Any]:
    """The last of its init containers."""
    return spec(mc)["initContainers"][-1]


def env(built: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in built.get("env", [])}


def test_it_runs_what_its_image_runs_where_nothing_is_said() -> None:
    assert sidecar(minicluster().sidecar("nginx")) == {
        "name": "nginx",
        "image": "nginx:1",
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
    }
    assert sidecar(minicluster().sidecar("nginx", noWrapEntrypoint=True)) == sidecar(minicluster().sidecar("nginx"))


def test_only_the_container_that_runs_flux_keeps_the_pod_going() -> None:
    mc = minicluster().container(name="app").sidecar("a").sidecar("b")
    assert [container["name"] for container in spec(mc)["containers"]] == ["app"]
    assert [container["name"] for container in spec(mc)["initContainers"]] == ["a", "b"]


def test_flux_is_brought_along_before_sidecars_start() -> None:
    names = [container["name"] for container in spec(minicluster().view().sidecar("a"))["initContainers"]]
    assert names == ["flux-view", "a"]


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        ({"command": "sleep 10 && flux jobs -a"}, ["", "/run/flux/ready", "sleep 10 && flux jobs -a", ""]),
        ({"command": "echo $(id) $HOME $$"}, ["", "/run/flux/ready", "echo $(id) $HOME $$", ""]),
        ({"commands": {"script": "a\nb"}}, ["", "/run/flux/ready", "a\nb", ""]),
        ({"commands": {"post": "serve"}}, ["", "/run/flux/ready", "", "serve"]),
        (
            {"command": "d", "commands": {"init": "a", "pre": "b", "servicePre": "c", "post": "e"}},
            ["a", "/run/flux/ready", "b\nc\nd", "e"],
        ),
        ({"command": "serve", "noWrapEntrypoint": True}, ["", "", "serve", ""]),
    ],
    ids=str,
)
def test_what_the_user_wrote_is_arguments(fields: dict[str, Any], texts: list[str]) -> None:
    built = sidecar(minicluster().sidecar("a", **fields))
    assert [arg.replace("$$", "$") for arg in built["args"]] == texts
    assert built["command"] == sidecar(minicluster().sidecar("b", command="other"))["command"]
    assert built["restartPolicy"] == "Always"


def test_it_need_not_wait_for_flux() -> None:
    assert sidecar(minicluster().flux(noWaitSocket=True).sidecar("a", command="b"))["args"] == ["", "", "b", ""]


def test_it_finds_flux_and_its_broker() -> None:
    mc = minicluster().view().sidecar("a", command="b", volumes={"data": {"path": "/data"}})
    built = sidecar(mc)
    assert built["volumeMounts"] == [FLUX_RUN, *view(mc.build()).mounts, {"name": "data", "mountPath": "/data"}]
    assert env(built) == {"fluxsocket": SOCKET, "FLUX_URI": SOCKET, "KUEUE_FLUX_VIEW": "/mnt/flux/view"}


def test_without_a_view_it_has_what_its_image_has() -> None:
    built = sidecar(minicluster().logging(quiet=True).sidecar("a", command="b", environment={"FLUX_URI": "mine"}))
    assert built["volumeMounts"] == [FLUX_RUN]
    assert env(built) == {"fluxsocket": SOCKET, "FLUX_URI": "mine", "KUEUE_FLUX_QUIET": "1"}


def test_what_is_not_wrapped_has_nothing_of_flux() -> None:
    built = sidecar(minicluster().view().sidecar("a", command="b", noWrapEntrypoint=True, environment={"A": "1"}))
    assert "volumeMounts" not in built
    assert env(built) == {"A": "1"}


def test_each_field_of_a_container() -> None:
    fields = {
        "pullAlways": True,
        "ports": [80, 443],
        "workingDir": "/w",
        "environment": {"B": "$(A)"},
        "secrets": {"TOKEN": {"name": "s", "key": "k"}},
        "resources": {"limits": {"cpu": "1"}},
        "securityContext": {"runAsUser": 7},
        "volumes": {"data": {"path": "/data", "claimName": "c", "readOnly": True}},
        "lifeCycle": {"postStartExec": "/bin/warm-up", "preStopExec": "nginx -s quit && sleep 1"},
        "imagePullSecret": "registry",
    }
    mc = minicluster().sidecar("nginx", **fields)
    assert sidecar(mc) == {
        "name": "nginx",
        "image": "nginx:1",
        "imagePullPolicy": "Always",
        "restartPolicy": "Always",
        "ports": [{"containerPort": 80}, {"containerPort": 443}],
        "workingDir": "/w",
        "env": [
            {"name": "B", "value": "$$(A)"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ],
        "resources": {"limits": {"cpu": "1"}},
        "securityContext": {"runAsUser": 7},
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
        "lifecycle": {
            "postStart": {"exec": {"command": ["/bin/warm-up"]}},
            "preStop": {"exec": {"command": ["/bin/sh", "-c", "nginx -s quit && sleep 1"]}},
        },
    }
    assert spec(mc)["volumes"][-1] == {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
    assert spec(mc)["imagePullSecrets"] == [{"name": "registry"}]


def test_a_volume_of_two_containers_is_one() -> None:
    data = {"path": "/data", "hostPath": "/srv"}
    mc = minicluster().container(volumes={"data": data})
    mc.sidecar("a", volumes={"data": {**data, "path": "/elsewhere", "readOnly": True}})
    assert [volume["name"] for volume in spec(mc)["volumes"]].count("data") == 1
    assert sidecar(mc)["volumeMounts"] == [{"name": "data", "mountPath": "/elsewhere", "readOnly": True}]


def test_processes_are_shared_where_the_user_says_so() -> None:
    assert spec(minicluster().spec(shareProcessNamespace=True))["shareProcessNamespace"] is True
    assert "shareProcessNamespace" not in spec(minicluster())
