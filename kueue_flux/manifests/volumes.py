"""The user's volumes: where they come from, and where each container sees them."""

from collections.abc import Iterable
from typing import Any

from kueue_flux.api.container import ContainerVolume, MiniClusterContainer


def volumes(containers: Iterable[MiniClusterContainer]) -> list[dict[str, Any]]:
    """The volumes of a pod with these containers, each once; a name in two of them is one volume."""
    named = {name: volume for container in containers for name, volume in container.volumes.items()}
    return [{"name": name, **_source(volume)} for name, volume in sorted(named.items())]


def mounts(container: MiniClusterContainer) -> list[dict[str, Any]]:
    """Where a container sees its volumes."""
    return [
        {"name": name, "mountPath": volume.mount_path, **({"readOnly": True} if volume.read_only else {})}
        for name, volume in sorted(container.volumes.items())
    ]


def _source(volume: ContainerVolume) -> dict[str, Any]:
    if volume.claim_name:
        return {"persistentVolumeClaim": {"claimName": volume.claim_name}}
    if volume.host_path:
        # A directory that a kubelet made would belong to root, and would hide that the wrong one was named.
        return {"hostPath": {"path": volume.host_path, "type": "Directory"}}
    if volume.config_map_name:
        return {"configMap": {"name": volume.config_map_name, **_items(volume)}}
    if volume.secret_name:
        return {"secret": {"secretName": volume.secret_name, **_items(volume)}}
    if volume.image:
        return {"image": {"reference": volume.image, "pullPolicy": "IfNotPresent"}}
    if volume.csi_driver:
        attributes = {"volumeAttributes": volume.csi_driver_attributes} if volume.csi_driver_attributes else {}
        return {"csi": {"driver": volume.csi_driver, **attributes}}
    # Also where no source is named.
    medium = {"medium": "Memory"} if volume.empty_dir_medium else {}
    limit = {"sizeLimit": volume.empty_dir_size_limit} if volume.empty_dir_size_limit != "" else {}
    return {"emptyDir": {**medium, **limit}}


def _items(volume: ContainerVolume) -> dict[str, Any]:
    return {"items": [{"key": key, "path": path} for key, path in sorted(volume.items.items())]} if volume.items else {}
