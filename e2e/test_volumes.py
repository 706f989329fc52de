"""Volumes of each kind: ranks write to them and read from them, and what outlives a pod is there afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.kit import Cluster, Namespace, Ran, as_yaml, manifest

DIRECTORY = "/tmp/kueue-flux-e2e"  # on the nodes

pytestmark = pytest.mark.extended


def spec_of(namespace: Namespace, command: str, volumes: dict[str, Any], *, size: int = 1) -> dict[str, Any]:
    """A MiniCluster's specification, with Flux in its image."""
    container = {"image": namespace.cluster.flux.reference, "command": command, "volumes": volumes}
    return {
        "size": size,
        "tasks": size,
        "logging": {"quiet": True},
        "flux": {"container": {"disable": True}},
        "containers": [container],
    }


def run(namespace: Namespace, name: str, command: str, volumes: dict[str, Any], *, size: int = 1) -> Ran:
    """Submit a command with volumes, and wait until it has ended."""
    obj = manifest(name, spec_of(namespace, command, volumes, size=size))
    return namespace.kueue_flux("submit", "-", "--wait", stdin=as_yaml(obj))


def nodes(cluster: Cluster) -> list[str]:
    return [node["metadata"]["name"] for node in cluster.api.list("v1", "Node")]


@pytest.fixture
def directory(cluster: Cluster) -> Iterator[str]:
    """A directory that all nodes have."""
    for node in nodes(cluster):
        cluster.on_node(node, "mkdir", "-p", DIRECTORY)
    yield DIRECTORY
    for node in nodes(cluster):
        cluster.on_node(node, "rm", "-rf", DIRECTORY)


def test_what_ranks_write_to_a_directory_of_the_node_outlives_them(
    namespace: Namespace, cluster: Cluster, directory: str
):
    volumes = {"data": {"path": "/data", "hostPath": directory}}
    ran = run(namespace, "writer", "sh -c 'hostname > /data/$(hostname)'", volumes, size=2)
    assert ran.code == 0, ran.err
    namespace.delete("MiniCluster", "writer")
    namespace.wait_for("its pods to go", lambda: not namespace.of("writer", "Pod"))
    kept = [cluster.on_node(node, "sh", "-c", f"cat {directory}/* 2>/dev/null || true") for node in nodes(cluster)]
    assert sorted("".join(kept).split()) == ["writer-0", "writer-1"]


def test_what_ranks_write_to_a_claim_is_there_for_the_next_run(namespace: Namespace):
    namespace.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
        }
    )
    volumes = {"data": {"path": "/data", "claimName": "data"}}
    ran = run(namespace, "writer", "sh -c 'echo $FLUX_TASK_RANK > /data/$(hostname)'", volumes, size=2)
    assert ran.code == 0, ran.err
    assert namespace.kueue_flux("delete", "writer").code == 0
    ran = run(namespace, "reader", "sh -c 'cd /data; grep . *'", {"data": {**volumes["data"], "readOnly": True}})
    assert ran.code == 0, ran.err
    assert ran.lines == ["writer-0:0", "writer-1:1"]
    ran = run(namespace, "refused", "touch /data/x", {"data": {**volumes["data"], "readOnly": True}})
    assert ran.code == 1
    assert "Read-only file system" in ran.out + ran.err


def test_configuration_secrets_images_and_empty_directories(namespace: Namespace, image_without_flux: str):
    namespace.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"a": "A", "b": "B"}}
    )
    namespace.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"id": "S"}})
    volumes = {
        "conf": {"path": "/conf", "configMapName": "conf", "items": {"a": "sub/a.txt"}},
        "keys": {"path": "/keys", "secretName": "keys"},
        "image": {"path": "/image", "image": image_without_flux},
        "memory": {"emptyDir": True, "emptyDirMedium": "memory", "emptyDirSizeLimit": "16Mi"},
        "scratch": {"path": "/scratch"},
    }
    command = (
        "sh -c 'cat /conf/sub/a.txt; echo; ls /conf; cat /keys/id; echo; ls -d /image/etc; "
        "df -m --output=fstype,size /dev/shm | tail -1; echo x > /scratch/x && cat /scratch/x'"
    )
    ran = run(namespace, "reader", command, volumes)
    assert ran.code == 0, ran.err
    assert [" ".join(line.split()) for line in ran.lines] == ["A", "sub", "S", "/image/etc", "tmpfs 16", "x"]


@pytest.mark.parametrize(
    ("name", "source", "created"),
    [
        ("ConfigMap conf", {"configMapName": "conf"}, {"apiVersion": "v1", "kind": "ConfigMap"}),
        ("Secret keys", {"secretName": "keys"}, {"apiVersion": "v1", "kind": "Secret"}),
    ],
)
def test_what_is_missing_is_named_and_once_made_it_runs(
    namespace: Namespace, name: str, source: dict[str, str], created: dict[str, Any]
):
    spec = spec_of(namespace, "ls /data", {"data": {"path": "/data", **source}})
    assert namespace.kueue_flux("submit", "-", stdin=as_yaml(manifest("lacking", spec))).code == 0
    said = namespace.wait_condition("lacking", "Ready", "False", "VolumeMissing")
    assert said == f"{name} does not exist in namespace {namespace.name}: create it, and the pods start"
    namespace.wait_event("lacking", "VolumeMissing", said)
    assert said in namespace.kueue_flux("status", "lacking").out
    key = "stringData" if created["kind"] == "Secret" else "data"
    namespace.create({**created, "metadata": {"name": next(iter(source.values()))}, key: {"file": "x"}})
    namespace.wait_succeeded("lacking", timeout=180)
    assert namespace.kueue_flux("logs", "lacking").lines == ["file"]


def test_a_claim_that_does_not_exist_is_named(namespace: Namespace):
    spec = spec_of(namespace, "ls /data", {"data": {"path": "/data", "claimName": "nowhere"}})
    assert namespace.kueue_flux("submit", "-", stdin=as_yaml(manifest("lacking", spec))).code == 0
    said = namespace.wait_condition("lacking", "Ready", "False", "VolumeMissing")
    assert said.endswith("PersistentVolumeClaim nowhere does not exist: create it, and the pods start")


def test_a_claim_that_nothing_satisfies_is_named(namespace: Namespace):
    namespace.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "resources": {"requests": {"storage": "1Mi"}},
            },
        }
    )
    spec = spec_of(namespace, "ls /data", {"data": {"path": "/data", "claimName": "data"}})
    assert namespace.kueue_flux("submit", "-", stdin=as_yaml(manifest("unbound", spec))).code == 0
    said = namespace.wait_condition("unbound", "Ready", "False", "VolumePending")
    assert "(kubectl describe pvc data tells what is missing)" in said


def test_a_directory_that_the_node_does_not_have_is_named(namespace: Namespace):
    spec = spec_of(namespace, "ls /data", {"data": {"path": "/data", "hostPath": "/nowhere"}})
    assert namespace.kueue_flux("submit", "-", stdin=as_yaml(manifest("lacking", spec))).code == 0
    namespace.wait_for(
        "the directory to be named",
        lambda: "/nowhere must be a directory of the node (data)" in namespace.message("lacking", "Ready"),
    )
