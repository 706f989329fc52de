"""What a MiniCluster says, read through the models."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import yaml

from kueue_flux.api.container import MiniClusterContainer
from kueue_flux.api.minicluster import MiniCluster, MiniClusterSpec
from kueue_flux.api.problems import InvalidMiniCluster
from tests.api.bad_inputs import MAX_EXEC, QUEUE, minicluster, with_container, with_containers
from tests.api.examples import EXAMPLES, Example

PRIORITY = "kueue.x-k8s.io/priority-class"


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_every_subject_of_the_operator_parses(example: Example) -> None:
    obj = yaml.safe_load(example.yaml)
    try:
        mc = MiniCluster.from_object(obj)
        refused: list[tuple[str, str]] = []
    except InvalidMiniCluster as error:
        mc = MiniCluster.model_validate(obj)
        refused = [(problem.field, problem.reason) for problem in error.problems]
    assert refused == [(field, "UnsupportedField") for field in example.refused]
    if example.command:
        assert tuple(mc.command) == example.command


def test_defaults_are_the_operators() -> None:
    mc = MiniCluster.from_object({"metadata": {"name": "a"}, "spec": {"containers": [{"command": "date"}]}})
    spec = mc.spec
    assert (spec.size, spec.tasks, spec.deadline_seconds) == (1, 1, 31500000)
    assert (spec.min_size, spec.max_size, spec.backoff_limit) == (None, None, None)
    assert spec.containers[0].image == "ghcr.io/rse-ops/accounting:app-latest"
    assert (spec.flux.connect_timeout, spec.flux.log_level, spec.flux.option_flags) == ("5s", 6, "")
    container = spec.flux.container
    assert container.image == "ghcr.io/converged-computing/flux-view-ubuntu:tag-noble"
    assert (container.name, container.mount_path, container.disable) == ("flux-view", "/mnt/flux", False)
    assert spec.flux.bursting.lead_broker.port == 8050
    assert not spec.pod.automount_service_account_token
    assert mc.status is None


def test_what_a_go_client_sends_for_unset_fields_is_unset() -> None:
    zero_container: dict[str, Any] = {
        "image": "a",
        "command": "date",
        "imagePullSecret": "",
        "workingDir": "",
        "name": "",
        "ports": None,
        "environment": None,
        "secrets": None,
        "launcher": False,
        "volumes": None,
        "lifeCycle": {"postStartExec": "", "preStopExec": ""},
        "resources": {},
        "commands": {"prefix": "", "script": "", "init": "", "pre": "", "post": ""},
        "securityContext": {},
    }
    zero: dict[str, Any] = {
        "containers": [zero_container],
        "services": None,
        "jobLabels": None,
        "network": {},
        "maxSize": 0,
        "minSize": 0,
        "archive": {},
        "pod": {"annotations": None, "labels": None, "resources": None, "securityContext": {}},
        "flux": {
            "optionFlags": "",
            "topology": "",
            "scheduler": {"simple": False, "queuePolicy": ""},
            "bursting": {"leadBroker": {"address": "", "name": "", "size": 0}, "hostlist": "", "clusters": None},
            "environment": None,
        },
    }
    mc = MiniCluster.from_object(minicluster(zero))
    assert mc.spec == MiniClusterSpec.model_validate({"size": 4, "containers": [{"image": "a", "command": "date"}]})


def test_the_api_servers_metadata_is_read_and_the_rest_of_it_left_alone() -> None:
    metadata = {"namespace": "team", "uid": "1-2", "generation": 3, "managedFields": [{}], "resourceVersion": "7"}
    mc = MiniCluster.from_object(minicluster(metadata=metadata))
    assert (mc.name, mc.namespace, mc.uid, mc.generation) == ("flux-sample", "team", "1-2", 3)


def test_a_name_may_be_generated_by_the_api_server() -> None:
    obj = minicluster(name="", metadata={"generateName": "flux-"})
    assert MiniCluster.from_object(obj).to_object()["metadata"]["generateName"] == "flux-"


def test_another_versions_status_does_not_make_it_unreadable() -> None:
    status = {"size": 2, "selector": "a=b", "jobid": "1", "maximumSize": 4, "phase": "Running", "exitCode": None}
    mc = MiniCluster.from_object({**minicluster(), "status": status})
    assert mc.status is not None
    assert (mc.status.size, mc.status.maximum_size, mc.status.exit_code) == (2, 4, None)


def test_status_is_read() -> None:
    admission = {"id": "a", "size": 3, "injectedAt": "2026-01-01T00:00:00Z"}
    mc = MiniCluster.from_object({**minicluster(), "status": {"admission": admission, "queuePosition": 0}})
    assert mc.status is not None
    assert mc.status.admission is not None
    assert (mc.status.admission.size, mc.status.queue_position) == (3, 0)


@pytest.mark.parametrize(
    ("labels", "job_labels", "queue", "priority", "seconds"),
    [
        ({}, {}, None, None, None),
        ({QUEUE: "team", PRIORITY: "high", MAX_EXEC: "60"}, {}, "team", "high", 60),
        ({}, {QUEUE: "team", PRIORITY: "high", MAX_EXEC: "60"}, "team", "high", 60),
        ({QUEUE: "team"}, {QUEUE: "team", PRIORITY: "low"}, "team", "low", None),
        ({QUEUE: ""}, {}, None, None, None),
    ],
)
def test_kueues_labels(
    labels: dict[str, str], job_labels: dict[str, str], queue: str | None, priority: str | None, seconds: int | None
) -> None:
    mc = MiniCluster.from_object(minicluster({"jobLabels": job_labels}, metadata={"labels": labels}))
    assert (mc.queue, mc.priority_class, mc.max_exec_time_seconds) == (queue, priority, seconds)


def test_the_flux_container_is_the_one_that_says_so() -> None:
    obj = with_containers({"name": "a"}, {"name": "b", "runFlux": True})
    assert MiniCluster.model_validate(obj).flux_container.name == "b"


def test_a_container_that_is_alone_runs_flux() -> None:
    assert MiniCluster.from_object(minicluster()).flux_container.image == "ubuntu:noble"


def test_names() -> None:
    assert MiniCluster.from_object(minicluster()).headless_name == "flux-sample"
    assert MiniCluster.from_object(minicluster({"network": {"headlessName": "svc"}})).headless_name == "svc"


def test_option_flags_are_words() -> None:
    mc = MiniCluster.from_object(minicluster({"flux": {"optionFlags": "-ompi=openmpi@5 --env='A=b c'"}}))
    assert mc.option_flags == ["-ompi=openmpi@5", "--env=A=b c"]


@pytest.mark.parametrize(
    ("resources", "tasks", "size", "cores"),
    [
        ({}, 1, 4, 1),
        ({}, 4, 4, 1),
        ({}, 10, 4, 3),
        ({"limits": {"cpu": 8}}, 4, 4, 8),
        ({"limits": {"cpu": "3500m"}}, 4, 4, 3),
        ({"limits": {"cpu": "500m"}}, 4, 4, 1),
        ({"requests": {"cpu": "2"}}, 4, 4, 2),
        ({"requests": {"cpu": 2}, "limits": {"cpu": 4}}, 4, 4, 4),
        ({"limits": {"memory": "1Gi"}}, 4, 4, 1),
        ({"limits": {"cpu": 2}}, 16, 4, 4),
        ({"limits": {"cpu": 0}}, 1, 4, 1),
    ],
)
def test_cores(resources: dict[str, Any], tasks: int, size: int, cores: int) -> None:
    obj = with_container(resources=resources)
    obj["spec"] |= {"tasks": tasks, "size": size}
    assert MiniCluster.from_object(obj).cores_per_rank == cores


@pytest.mark.parametrize(
    ("limits", "gpus"),
    [
        ({}, 0),
        ({"nvidia.com/gpu": 2, "cpu": 8}, 2),
        ({"amd.com/gpu": "4"}, 4),
        ({"gpu.intel.com/i915": 1}, 1),
        ({"gpu.intel.com/xe": 3, "gpu.intel.com/memory.max": "8Gi"}, 3),
        ({"nvidia.com/mig-1g.5gb": 7}, 0),
    ],
)
def test_gpus_are_the_whole_ones_of_the_container_that_runs_flux(limits: dict[str, Any], gpus: int) -> None:
    runs_flux = {"name": "app", "runFlux": True, "resources": {"limits": limits}}
    sidecar = {"name": "log", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    assert MiniCluster.from_object(with_containers(sidecar, runs_flux)).gpus_per_rank == gpus


def test_what_was_set_and_nothing_else_is_sent() -> None:
    obj = minicluster({"flux": {"logLevel": 6}})
    assert MiniCluster.from_object(obj).to_object() == obj


def test_attributes_may_be_given_by_their_names_in_python() -> None:
    spec = MiniClusterSpec(containers=[MiniClusterContainer(command="a")], min_size=2)
    assert spec.min_size == 2
    assert MiniCluster(spec=spec).to_object()["spec"]["minSize"] == 2


def test_a_minicluster_cannot_be_changed_by_accident() -> None:
    mc = MiniCluster.from_object(minicluster())
    with pytest.raises(ValueError, match="frozen"):
        mc.spec.size = 5  # type: ignore[misc]


def test_importing_the_models_loads_neither_yaml_nor_a_kubernetes_client() -> None:
    code = "import sys, kueue_flux.api.minicluster; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "pydantic" in modules
    assert not {"yaml", "kubernetes", "kr8s", "rich"} & set(modules)


@pytest.mark.parametrize(
    ("path", "file"),
    [
        ("", ""),
        ("/state/archive.tar.gz", "/state/archive.tar.gz"),
        ("/state/a.b.tgz", "/state/a.b.tgz"),
        ("/state", "/state/archive.tar.gz"),
        ("/state/", "/state/archive.tar.gz"),
        ("/v1.2/state", "/v1.2/state/archive.tar.gz"),
    ],
)
def test_the_archive_s_file(path: str, file: str) -> None:
    mc = MiniCluster.from_object(minicluster({"archive": {"path": path}}))
    assert mc.spec.archive.file == file


def test_the_hosts_of_the_pods() -> None:
    mc = MiniCluster.from_object(minicluster())
    assert mc.hosts([0, 2]) == ["flux-sample-0", "flux-sample-2"]
    full = MiniCluster.from_object(minicluster({"network": {"setHostnameAsFQDN": True, "headlessName": "net"}}))
    assert full.hosts([1]) == ["flux-sample-1.net.default.svc.cluster.local"]
    assert full.hosts([1], "example.org") == ["flux-sample-1.net.default.svc.example.org"]
