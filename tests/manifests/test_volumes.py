"""The user's volumes: one for each source, mounted where each container says."""

from typing import Any

import pytest

from kueue_flux.api.checks import TAKEN_PATHS
from kueue_flux.flux import layout
from kueue_flux.manifests.pod import pod_template
from tests.builders import MiniClusterBuilder, minicluster


def pod(mc: MiniClusterBuilder) -> dict[str, Any]:
    return pod_template(mc.build())["spec"]


def users(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that are not ours."""
    return [item for item in items if not item["name"].startswith("flux-")]


@pytest.mark.parametrize(
    ("given", "volume", "mount"),
    [
        (
            {"path": "/data", "claimName": "scratch"},
            {"persistentVolumeClaim": {"claimName": "scratch"}},
            {"mountPath": "/data"},
        ),
        (
            {"path": "/data", "hostPath": "/tmp/data"},
            {"hostPath": {"path": "/tmp/data", "type": "Directory"}},
            {"mountPath": "/data"},
        ),
        (
            {"path": "/data", "configMapName": "conf"},
            {"configMap": {"name": "conf"}},
            {"mountPath": "/data"},
        ),
        (
            {"path": "/data", "configMapName": "conf", "items": {"b": "sub/b.txt", "a": "a.txt"}},
            {
                "configMap": {
                    "name": "conf",
                    "items": [{"key": "a", "path": "a.txt"}, {"key": "b", "path": "sub/b.txt"}],
                }
            },
            {"mountPath": "/data"},
        ),
        (
            {"path": "/data", "secretName": "keys", "readOnly": True},
            {"secret": {"secretName": "keys"}},
            {"mountPath": "/data", "readOnly": True},
        ),
        (
            {"path": "/data", "secretName": "keys", "items": {"id": "id_rsa"}},
            {"secret": {"secretName": "keys", "items": [{"key": "id", "path": "id_rsa"}]}},
            {"mountPath": "/data"},
        ),
        (
            {"path": "/data", "image": "registry.example.com/data:1"},
            {"image": {"reference": "registry.example.com/data:1", "pullPolicy": "IfNotPresent"}},
            {"mountPath": "/data"},
        ),
        (
            {"path": "/data", "csiDriver": "csi.example.com"},
            {"csi": {"driver": "csi.example.com"}},
            {"mountPath": "/data"},
        ),
        (
            {"path": "/data", "csiDriver": "csi.example.com", "csiDriverAttributes": {"bucket": "b"}},
            {"csi": {"driver": "csi.example.com", "volumeAttributes": {"bucket": "b"}}},
            {"mountPath": "/data"},
        ),
        # shared memory, as the Flux Operator mounts it
        ({"emptyDir": True}, {"emptyDir": {}}, {"mountPath": "/dev/shm"}),
        (
            {"emptyDir": True, "emptyDirMedium": "memory", "emptyDirSizeLimit": "64Gi"},
            {"emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
            {"mountPath": "/dev/shm"},
        ),
        ({"emptyDir": True, "path": "/tmp/x"}, {"emptyDir": {}}, {"mountPath": "/tmp/x"}),
        # no word of where it comes from
        ({"path": "/tmp/fluxout"}, {"emptyDir": {}}, {"mountPath": "/tmp/fluxout"}),
    ],
    ids=str,
)
def test_each_source(given: dict[str, Any], volume: dict[str, Any], mount: dict[str, Any]) -> None:
    spec = pod(minicluster().container(volumes={"data": given}))
    assert users(spec["volumes"]) == [{"name": "data", **volume}]
    (container,) = spec["containers"]
    assert users(container["volumeMounts"]) == [{"name": "data", **mount}]


def test_ours_come_before_the_users() -> None:
    names = [volume["name"] for volume in pod(minicluster().container(volumes={"data": {"path": "/a"}}))["volumes"]]
    assert names == ["flux-config", "flux-curve", "flux-run", "data"]


def test_the_paths_that_are_taken_are_those_of_the_layout() -> None:
    assert TAKEN_PATHS == (layout.CONFIG_DIR, layout.CURVE_DIR, layout.RUN_DIR)
