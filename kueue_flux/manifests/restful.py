"""What a MiniCluster without a command gets for its RESTful API server: files, a token, and a name to reach it by."""

import secrets
from typing import Any

from kueue_flux import restful
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.mode import Mode
from kueue_flux.flux import layout
from kueue_flux.kueue.workload import Admission
from kueue_flux.manifests.common import ADMISSION, COMPLETION_INDEX, metadata, pod_labels
from kueue_flux.restful.settings import DEFAULT_PORT, ENV_LOG_LEVEL, ENV_TOKEN_FILE

# Keys of a ConfigMap have no directories; its volume puts the files into one.
_PREFIX = "restful-"
_TOKEN_BYTES = 32


def name(mc: MiniCluster) -> str:
    """The name of the Service that leads to the server, and of the Secret with its token."""
    return f"{mc.name}-restful"


def is_wanted(mc: MiniCluster) -> bool:
    """Whether this MiniCluster runs the server."""
    return mc.mode is Mode.RESTFUL


def server_files(mc: MiniCluster) -> dict[str, str]:
    """The server's files, by their key in the ConfigMap; none where there is no server."""
    return {f"{_PREFIX}{file}": text for file, text in restful.files().items()} if is_wanted(mc) else {}


def server_items(mc: MiniCluster) -> list[dict[str, str]]:
    """Where the ConfigMap's volume has these files, below `layout.CONFIG_DIR`."""
    return [{"key": key, "path": f"{layout.RESTFUL_DIRECTORY}/{key.removeprefix(_PREFIX)}"} for key in server_files(mc)]


def settings(mc: MiniCluster) -> dict[str, str]:
    """The environment variables by which the server learns how to go about it."""
    if not is_wanted(mc):
        return {}
    level = {ENV_LOG_LEVEL: "warning"} if mc.spec.logging.quiet else {}
    return {ENV_TOKEN_FILE: f"{layout.RESTFUL_AUTH_DIR}/{layout.RESTFUL_AUTH_FILE}", **level}


def token_volume(mc: MiniCluster) -> dict[str, Any]:
    """The volume with the token."""
    items = [{"key": layout.RESTFUL_AUTH_FILE, "path": layout.RESTFUL_AUTH_FILE}]
    return {"name": "flux-token", "secret": {"secretName": name(mc), "items": items, "defaultMode": 0o444}}


def token_secret(mc: MiniCluster, admission: Admission) -> dict[str, Any]:
    """Build the Secret with the token; a new one for each admission, as for the certificate."""
    meta = metadata(mc, name(mc))
    meta["labels"][ADMISSION] = admission.id
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "type": "Opaque",
        "stringData": {layout.RESTFUL_AUTH_FILE: secrets.token_urlsafe(_TOKEN_BYTES)},
    }


def server_service(mc: MiniCluster) -> list[dict[str, Any]]:
    """Build the Service that leads to the server, on the lead; none where there is no server."""
    if not is_wanted(mc):
        return []
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(mc, name(mc)),
            "spec": {
                "selector": {**pod_labels(mc), COMPLETION_INDEX: "0"},
                "ports": [{"name": "http", "port": DEFAULT_PORT, "protocol": "TCP"}],
            },
        }
    ]
