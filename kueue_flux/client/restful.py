"""The RESTful API of a MiniCluster that runs a server of it, on this machine: through a port-forward to its lead."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import httpx

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.mode import Mode
from kueue_flux.api.problems import InvalidMiniCluster
from kueue_flux.client.connection import Connection
from kueue_flux.client.errors import ClientError, Forbidden, NotFound
from kueue_flux.flux import layout

# Where the server listens in the lead's pod.
PORT = 5000
# For an answer, seconds; those that wait for a job to end are asked for with `timeout=None`.
ANSWER_SECONDS = 30.0

Session = TypeVar("Session", httpx.AsyncClient, httpx.Client)


@dataclass(frozen=True)
class Restful(Generic[Session]):
    """The RESTful API of one MiniCluster.

    Attributes:
        url: Where it is, such as `http://127.0.0.1:40123`.
        token: What lets one in. Whoever has it can run commands in the pods.
        session: Has both: `session.get("/v1/jobs")`.
    """

    url: str
    token: str = field(repr=False)
    session: Session


def secret(minicluster: str) -> str:
    """The name of the Secret with the token of a MiniCluster's server."""
    return f"{minicluster}-restful"


def check_served(obj: Mapping[str, Any]) -> None:
    """Check that a MiniCluster runs a server.

    Raises:
        ClientError: It does something else.
    """
    try:
        mode = MiniCluster.from_object(obj).mode
    except InvalidMiniCluster:
        return  # of another version: whether it does will be seen
    if mode is not Mode.RESTFUL:
        raise ClientError(
            f"MiniCluster {obj['metadata']['name']} has no RESTful API",
            "one that has is submitted from a file without a command: examples/restful/minicluster.yaml",
        )


async def read_token(connection: Connection, namespace: str, minicluster: str) -> str:
    """Read the token of a MiniCluster's server.

    Raises:
        Forbidden: The caller may not read the Secret.
        ClientError: There is none, or the cluster cannot be asked.
    """
    name = secret(minicluster)
    try:
        found = await connection.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
    except NotFound as error:
        raise ClientError(
            f"Secret {name} with the token is not there", f"see where it stands: kueue-flux status {minicluster}"
        ) from error
    except Forbidden as error:
        raise Forbidden(error.message, f"ask for permission to get secret {name}, or for the token") from error
    return base64.b64decode(found["data"][layout.RESTFUL_AUTH_FILE]).decode().strip()


def headers(token: str) -> dict[str, str]:
    """The headers of a request."""
    return {"Authorization": f"Bearer {token}"}
