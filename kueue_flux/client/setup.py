"""FluxSetups, for an admin's program: what nodes there are, and a FluxSetup for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from kueue_flux.api.setup import API_VERSION, PLURAL
from kueue_flux.client.connection import Connection
from kueue_flux.client.errors import Forbidden, NotFound
from kueue_flux.kueue.nodes import Node, read_node

Object = dict[str, Any]
PATH = f"/apis/{API_VERSION}/{PLURAL}"


class AsyncFluxSetups:
    """The FluxSetups of a cluster.

    Args:
        kubeconfig: Path of a kubeconfig; None takes $KUBECONFIG, ~/.kube/config or the pod's service account.
        context: A context of the kubeconfig; None takes the current one.
    """

    def __init__(self, *, kubeconfig: str | None = None, context: str | None = None) -> None:
        self._connection = Connection(None, kubeconfig=kubeconfig, context=context)

    async def __aenter__(self) -> AsyncFluxSetups:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._connection.close()

    async def nodes(self) -> list[Node]:
        """The cluster's nodes, by name.

        Raises:
            Forbidden: These credentials may not list them.
            ClientError: The cluster cannot be asked.
        """
        try:
            items, _ = await self._connection.collect("/api/v1/nodes")
        except Forbidden as error:
            raise Forbidden(
                f"what the nodes have cannot be seen: {error.message}",
                "ask for the permission to list nodes; or write a FluxSetup by hand, of which three lines do "
                "(docs/fluxsetup.md)",
            ) from error
        return sorted((read_node(item) for item in items), key=lambda node: node.name)

    async def find(self, name: str) -> Object | None:
        """A FluxSetup, None if there is none of that name.

        Raises:
            ClientError: The cluster cannot be asked.
        """
        try:
            return await self._connection.request("GET", f"{PATH}/{name}")
        except NotFound:
            return None

    async def create(self, obj: Mapping[str, Any]) -> Object:
        """Create a FluxSetup.

        Raises:
            ClientError: The API server refuses it, or cannot be asked.
        """
        return await self._connection.request("POST", PATH, body=obj)
