"""Fields that are not acted on are refused when set, and every field is one or the other."""

from __future__ import annotations

from typing import Any

import pytest

from kueue_flux.api.docs import fields, refusal_of
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.problems import InvalidMiniCluster
from kueue_flux.api.schema import structural
from kueue_flux.api.unsupported import NO_EFFECT, REFUSALS
from tests.api.bad_inputs import (
    PREFERRED,
    RACK,
    REQUIRED,
    SLICE_REQUIRED,
    SLICE_SIZE,
    UNCONSTRAINED,
    Object,
    annotated,
    minicluster,
    with_container,
    with_containers,
    with_service,
)

KUEUE_LABEL = {"kueue.x-k8s.io/queue-name": "a"}


def flux(**settings: Any) -> Object:
    return minicluster({"flux": settings})


REFUSED: dict[str, tuple[Object, str]] = {
    # row of the table: (a MiniCluster that sets it, the field as its problem names it)
    "spec.containers[].noWrapEntrypoint": (
        with_container(noWrapEntrypoint=True),
        "spec.containers[0].noWrapEntrypoint",
    ),
    "spec.containers[].commands.servicePre": (
        with_container(commands={"servicePre": "a"}),
        "spec.containers[0].commands.servicePre",
    ),
    "spec.maxSize": (minicluster({"maxSize": 8}), "spec.maxSize"),
    "spec.flux.bursting": (flux(bursting={"leadBroker": {"address": "a"}}), "spec.flux.bursting"),
    "spec.flux.container.pythonPath": (
        flux(container={"pythonPath": "/a", "disable": True}),
        "spec.flux.container.pythonPath",
    ),
}

ACTED_ON = {
    "spec": (
        "size minSize tasks deadlineSeconds backoffLimit ttlSecondsAfterFinished cleanup jobLabels "
        "shareProcessNamespace interactive services"
    ),
    "spec.containers[]": (
        "image name command runFlux workingDir environment secrets launcher resources securityContext imagePullSecret "
        "pullAlways imagePullPolicy volumes ports batch batchRaw logs"
    ),
    "spec.containers[].volumes{}": (
        "path hostPath configMapName items claimName secretName image readOnly emptyDir emptyDirMedium "
        "emptyDirSizeLimit csiDriver csiDriverAttributes"
    ),
    "spec.containers[].commands": "prefix script init pre post workerPre brokerPre",
    "spec.containers[].secrets{}": "name key",
    "spec.containers[].lifeCycle": "postStartExec preStopExec",
    "spec.flux": (
        "optionFlags connectTimeout logLevel environment topology submitCommand wrap "
        "curveCert curveCertSecret brokerConfig minimalService noWaitSocket "
        "completeWorkers mungeSecret rejoin"
    ),
    "spec.flux.container": (
        "disable image imageVolume name mountPath pullAlways imagePullSecret resources securityContext workingDir"
    ),
    "spec.flux.scheduler": "simple queuePolicy",
    "spec.archive": "path",
    "spec.logging": "quiet debug strict zeromq timed",
    "spec.network": "headlessName disableAffinity setHostnameAsFQDN hostNetwork",
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


def assert_refused_with_the_words_of(row: str, obj: Object, field: str) -> None:
    (refusal,) = [refusal for refusal in REFUSALS if refusal.field == row]
    with pytest.raises(InvalidMiniCluster) as raised:
        MiniCluster.from_object(obj)
    assert str(raised.value) == f"{field}: {refusal.message}; {refusal.remedy}"


@pytest.mark.parametrize("row", REFUSED)
def test_the_user_gets_the_message_of_the_table(row: str) -> None:
    assert_refused_with_the_words_of(row, *REFUSED[row])


BURSTING: list[Object] = [
    {"leadBroker": {"address": "a"}},
    {"leadBroker": {"name": "a"}},
    {"leadBroker": {"size": 1}},
    {"leadBroker": {"port": 9000}},
    {"hostlist": "a-[0-3]"},
    {"clusters": [{}]},
    {"clusters": [{"name": "a"}]},
    {"clusters": [{"size": 1}]},
]


@pytest.mark.parametrize("bursting", BURSTING, ids=str)
def test_nothing_of_bursting_is_ignored(bursting: Object) -> None:
    assert_refused_with_the_words_of("spec.flux.bursting", flux(bursting=bursting), "spec.flux.bursting")


def test_every_field_is_either_acted_on_or_refused() -> None:
    acted_on = {
        row.path for row in fields(structural(MiniCluster)["properties"]["spec"], "spec") if not refusal_of(row.path)
    } - set(NO_EFFECT)
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
        flux(arch="arm64", disableSocket=True),
        flux(container={"pythonPath": "/a", "workingDir": "/b"}),
        minicluster({"interactive": False, "cleanup": False, "services": []}),
        with_container(runFlux=False),
        with_container(commands={"pre": ""}, volumes={}, ports=[]),
    ],
    ids=str,
)
def test_what_changes_nothing_is_accepted(obj: Object) -> None:
    assert problems(obj) == {}


@pytest.mark.parametrize(
    ("obj", "field", "way_out"),
    [
        (with_container(command="first\nsecond"), "spec.containers[0].command", "commands.script"),
        (with_container(commands={"prefix": "a | b"}), "spec.containers[0].commands.prefix", "sh -c '...'"),
        (flux(submitCommand="flux submit &&"), "spec.flux.submitCommand", "sh -c '...'"),
        (flux(optionFlags="--env=A=$B"), "spec.flux.optionFlags", "sh -c '...'"),
    ],
    ids=str,
)
def test_what_no_shell_reads_is_refused_with_the_way_out(obj: Object, field: str, way_out: str) -> None:
    with pytest.raises(InvalidMiniCluster) as raised:
        MiniCluster.from_object(obj)
    (problem,) = raised.value.problems
    assert (problem.field, problem.reason) == (field, "UnsupportedField")
    assert way_out in problem.remedy


def test_what_would_fool_kueue_is_refused() -> None:
    assert problems(minicluster({"pod": {"labels": KUEUE_LABEL}})) == {
        "spec.pod.labels.kueue.x-k8s.io/queue-name": "UnsupportedField"
    }
    assert problems(minicluster({"jobLabels": {"kueue.x-k8s.io/pod-group-name": "a"}})) == {
        "spec.jobLabels.kueue.x-k8s.io/pod-group-name": "UnsupportedField"
    }


TOPOLOGIES: list[Object] = [
    {REQUIRED: RACK},
    {PREFERRED: "kubernetes.io/hostname"},
    {UNCONSTRAINED: "true"},
    {SLICE_REQUIRED: RACK, SLICE_SIZE: "2"},
    {PREFERRED: "cloud.example.com/block", SLICE_REQUIRED: RACK, SLICE_SIZE: "4"},
]


@pytest.mark.parametrize("annotations", TOPOLOGIES, ids=str)
def test_topology_annotations_are_welcome(annotations: Object) -> None:
    for obj in (minicluster({"pod": {"annotations": annotations}}), annotated(**annotations)):
        assert problems(obj) == {}
        assert MiniCluster.from_object(obj).topology == annotations


TOO_EARLY: dict[str, str] = {
    "kueue.x-k8s.io/elastic-job": "growing and shrinking while it runs is not supported yet; set spec.size",
    "kueue.x-k8s.io/prebuilt-workload-name": "a Workload that is there before the Job is not supported; remove it",
    "kueue.x-k8s.io/job-min-parallelism": "partial admission is asked for by a field; set spec.minSize, and remove it",
    "kueue.x-k8s.io/multikueue-origin": "running on another cluster (MultiKueue) is not supported yet; remove it",
    "kueue.x-k8s.io/podset-group-name": "all pods of a MiniCluster are one group already; remove it",
    "kueue.x-k8s.io/podset-slice-required-topology-constraints": "only one size of slice is supported yet; set",
    "kueue.x-k8s.io/admission-gated-by": "would change what Kueue makes of the Job; remove it; the annotations that",
    "provreq.kueue.x-k8s.io/ValidUntilSeconds": "would change what Kueue makes of the Job; remove it; the annotations",
}


@pytest.mark.parametrize("key", TOO_EARLY)
def test_what_is_asked_of_kueue_too_early_is_refused_in_its_place(key: str) -> None:
    places = {
        f"metadata.annotations.{key}": annotated(**{key: "true"}),
        f"spec.pod.annotations.{key}": minicluster({"pod": {"annotations": {key: "true"}}}),
    }
    for field, obj in places.items():
        with pytest.raises(InvalidMiniCluster) as raised:
            MiniCluster.from_object(obj)
        (problem,) = raised.value.problems
        assert (problem.field, problem.reason) == (field, "UnsupportedField")
        assert str(problem).startswith(f"{field}: {TOO_EARLY[key]}")


def test_a_label_that_kueue_is_not_told_is_refused() -> None:
    labels = {**KUEUE_LABEL, "kueue.x-k8s.io/prebuilt-workload-name": "w", "team": "hpc"}
    field = "metadata.labels.kueue.x-k8s.io/prebuilt-workload-name"
    assert problems(minicluster(metadata={"labels": labels})) == {field: "UnsupportedField"}


def test_other_annotations_are_nobodys_business() -> None:
    assert (
        problems(annotated(**{"example.com/note": "x y", "kubectl.kubernetes.io/last-applied-configuration": "{}"}))
        == {}
    )
