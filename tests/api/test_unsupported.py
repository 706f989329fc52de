"""Fields that are not acted on are refused when set, and every field is one or the other."""

from __future__ import annotations

from typing import Any

import pytest

from kueue_flux.api.docs import fields, refusal_of
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.problems import InvalidMiniCluster
from kueue_flux.api.schema import structural
from kueue_flux.api.unsupported import REFUSALS
from tests.api.bad_inputs import Object, minicluster, with_container, with_containers, with_service

KUEUE_LABEL = {"kueue.x-k8s.io/queue-name": "a"}


def flux(**settings: Any) -> Object:
    return minicluster({"flux": settings})


REFUSED: dict[str, tuple[Object, str]] = {
    # row of the table: (a MiniCluster that sets it, the field as its problem names it)
    "spec.containers[].batch": (with_container(batch=True), "spec.containers[0].batch"),
    "spec.containers[].batchRaw": (with_container(batchRaw=True), "spec.containers[0].batchRaw"),
    "spec.containers[].logs": (with_container(logs="/a"), "spec.containers[0].logs"),
    "spec.containers[].noWrapEntrypoint": (
        with_container(noWrapEntrypoint=True),
        "spec.containers[0].noWrapEntrypoint",
    ),
    **{
        f"spec.containers[].commands.{name}": (
            with_container(**{"commands": {name: "a"}, **({"command": ""} if name == "script" else {})}),
            f"spec.containers[0].commands.{name}",
        )
        for name in ("prefix", "script", "init", "pre", "post", "workerPre", "brokerPre", "servicePre")
    },
    "spec.maxSize": (minicluster({"maxSize": 8}), "spec.maxSize"),
    "spec.interactive": (minicluster({"interactive": True}), "spec.interactive"),
    "spec.archive.path": (minicluster({"archive": {"path": "/a"}}), "spec.archive.path"),
    **{
        f"spec.logging.{name}": (minicluster({"logging": {name: True}}), f"spec.logging.{name}")
        for name in ("strict", "zeromq", "timed")
    },
    "spec.flux.submitCommand": (flux(submitCommand="a"), "spec.flux.submitCommand"),
    "spec.flux.wrap": (flux(wrap="strace"), "spec.flux.wrap"),
    "spec.flux.arch": (flux(arch="arm"), "spec.flux.arch"),
    "spec.flux.minimalService": (flux(minimalService=True), "spec.flux.minimalService"),
    "spec.flux.disableSocket": (flux(disableSocket=True), "spec.flux.disableSocket"),
    "spec.flux.completeWorkers": (flux(completeWorkers=True), "spec.flux.completeWorkers"),
    "spec.flux.curveCert": (flux(curveCert="a"), "spec.flux.curveCert"),
    "spec.flux.mungeSecret": (flux(mungeSecret="a"), "spec.flux.mungeSecret"),
    "spec.flux.bursting": (flux(bursting={"leadBroker": {"address": "a"}}), "spec.flux.bursting"),
    "spec.flux.brokerConfig": (flux(brokerConfig="a"), "spec.flux.brokerConfig"),
    "spec.flux.scheduler.simple": (flux(scheduler={"simple": True}), "spec.flux.scheduler.simple"),
    "spec.flux.scheduler.queuePolicy": (flux(scheduler={"queuePolicy": "easy"}), "spec.flux.scheduler.queuePolicy"),
    "spec.flux.container.workingDir": (flux(container={"workingDir": "/a"}), "spec.flux.container.workingDir"),
    "spec.flux.container.pythonPath": (flux(container={"pythonPath": "/a"}), "spec.flux.container.pythonPath"),
}

ACTED_ON = {
    "spec": (
        "size minSize tasks deadlineSeconds backoffLimit ttlSecondsAfterFinished cleanup jobLabels "
        "shareProcessNamespace services"
    ),
    "spec.containers[]": (
        "image name command runFlux workingDir environment secrets launcher resources securityContext imagePullSecret "
        "pullAlways imagePullPolicy volumes ports"
    ),
    "spec.containers[].volumes{}": (
        "path hostPath configMapName items claimName secretName image readOnly emptyDir emptyDirMedium "
        "emptyDirSizeLimit csiDriver csiDriverAttributes"
    ),
    "spec.containers[].secrets{}": "name key",
    "spec.containers[].lifeCycle": "postStartExec preStopExec",
    "spec.flux": "optionFlags connectTimeout logLevel environment topology noWaitSocket",
    "spec.flux.container": (
        "disable image imageVolume name mountPath pullAlways imagePullSecret resources securityContext"
    ),
    "spec.logging": "quiet debug",
    "spec.network": "headlessName disableAffinity",
    "spec.pod": (
        "annotations labels nodeSelector nodeAffinity tolerations serviceAccountName automountServiceAccountToken "
        "schedulerName runtimeClassName securityContext dnsPolicy restartPolicy hostIPC hostPID resources"
    ),
    "spec.pod.tolerations[]": "key operator value effect",
}


def problems(obj: Object) -> dict[str, str]:
    try:
        MiniCluster.from_object(obj)
    except InvalidMiniCluster as error:
        return {problem.field: problem.reason for problem in error.problems}
    return {}


def test_every_row_of_the_table_is_tried() -> None:
    assert set(REFUSED) == {refusal.field for refusal in REFUSALS}


@pytest.mark.parametrize("row", REFUSED)
def test_what_is_not_acted_on_is_refused(row: str) -> None:
    obj, field = REFUSED[row]
    assert problems(obj) == {field: "UnsupportedField"}


def test_every_field_is_either_acted_on_or_refused() -> None:
    acted_on = {
        row.path for row in fields(structural(MiniCluster)["properties"]["spec"], "spec") if not refusal_of(row.path)
    }
    expected = {f"{path}.{name}" for path, names in ACTED_ON.items() for name in names.split()}
    assert acted_on == expected | {"spec.containers"}


@pytest.mark.parametrize("field", ["launcher", "batch", "batchRaw"])
def test_what_means_nothing_in_a_service_is_refused_there(field: str) -> None:
    assert problems(with_service(**{field: True})) == {f"spec.services[0].{field}": "UnsupportedField"}


@pytest.mark.parametrize("name", ["init", "pre", "post", "script", "prefix", "servicePre", "brokerPre", "workerPre"])
def test_nothing_is_run_around_a_service(name: str) -> None:
    assert problems(with_service(commands={name: "a"})) == {f"spec.services[0].commands.{name}": "UnsupportedField"}


def test_a_service_may_have_shell_text() -> None:
    assert problems(with_service(command="a | b > c", noWrapEntrypoint=True)) == {}


IN_A_SIDECAR: dict[str, Object] = {
    "launcher": {"launcher": True},
    "batch": {"batch": True},
    "batchRaw": {"batchRaw": True},
    "logs": {"logs": "/a"},
    "commands.prefix": {"commands": {"prefix": "a"}},
    "commands.brokerPre": {"commands": {"brokerPre": "a"}},
    "commands.workerPre": {"commands": {"workerPre": "a"}},
    "commands.init": {"commands": {"init": "a"}, "noWrapEntrypoint": True},
}


@pytest.mark.parametrize("field", IN_A_SIDECAR)
def test_what_means_nothing_in_a_sidecar_is_refused_there(field: str) -> None:
    obj = with_containers({"runFlux": True}, {"name": "side", **IN_A_SIDECAR[field]})
    expected = "InvalidSpec" if field == "commands.init" else "UnsupportedField"
    assert problems(obj) == {f"spec.containers[1].{field}": expected}


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "sleep 10 && flux proxy ${fluxsocket} flux jobs -a"},
        {"command": "", "commands": {"init": "a", "pre": "b", "servicePre": "c", "script": "d", "post": "e"}},
        {"command": "", "noWrapEntrypoint": True, "ports": [80]},
    ],
    ids=str,
)
def test_a_sidecar_may_have_shell_text(fields: Object) -> None:
    assert problems(with_containers({"runFlux": True}, {"name": "side", **fields})) == {}
    # and the container that runs Flux is the one that says so, wherever it stands
    assert problems(with_containers({"name": "side", **fields}, {"runFlux": True})) == {}


@pytest.mark.parametrize(
    "obj",
    [
        minicluster({"maxSize": 4}),
        minicluster({"pod": {"restartPolicy": "Never"}}),
        minicluster({"pod": {"restartPolicy": "OnFailure"}}),
        flux(scheduler={"queuePolicy": "fcfs"}),
        minicluster({"interactive": False, "cleanup": False, "services": []}),
        with_container(runFlux=False),
        with_container(commands={"pre": ""}, volumes={}, ports=[]),
    ],
    ids=str,
)
def test_what_changes_nothing_is_accepted(obj: Object) -> None:
    assert problems(obj) == {}


@pytest.mark.parametrize("command", ["", "  \n"])
def test_a_minicluster_without_command_is_refused_for_now(command: str) -> None:
    assert problems(with_container(command=command)) == {"spec.containers[0].command": "UnsupportedField"}


@pytest.mark.parametrize(
    "command", ["echo a > file", "a | b", "a && b", "a; b", "echo $HOME", "echo `date`", "a &", "first\nsecond"]
)
def test_shell_syntax_is_refused_with_the_way_out(command: str) -> None:
    with pytest.raises(InvalidMiniCluster, match=r"sh -c '\.\.\.'") as raised:
        MiniCluster.from_object(with_container(command=command))
    assert [problem.field for problem in raised.value.problems] == ["spec.containers[0].command"]
    assert raised.value.reason == "UnsupportedField"


def test_what_would_fool_kueue_is_refused() -> None:
    assert problems(minicluster({"pod": {"labels": KUEUE_LABEL}})) == {
        "spec.pod.labels.kueue.x-k8s.io/queue-name": "UnsupportedField"
    }
    assert problems(minicluster({"jobLabels": {"kueue.x-k8s.io/pod-group-name": "a"}})) == {
        "spec.jobLabels.kueue.x-k8s.io/pod-group-name": "UnsupportedField"
    }


def test_topology_annotations_of_the_pods_are_welcome() -> None:
    annotation = {"kueue.x-k8s.io/podset-required-topology": "cloud.example.com/rack"}
    assert problems(minicluster({"pod": {"annotations": annotation}})) == {}
