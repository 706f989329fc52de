"""Bytes to and from the API server: `kubernetes.aio`'s configuration, credentials and session behind two
calls.

The Client above it knows verbs and retries, this knows connections; tests put an in-memory server in its
place.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

import aiohttp
from aiohttp import AddrInfoType
from kubernetes.aio import config as kube_config
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config.incluster_config import SERVICE_HOST_ENV_NAME
from yaml import YAMLError

from kueue_flux.runtime.errors import ApiError

CONNECT_SECONDS = 10.0
REFRESH_SECONDS = 10.0
"""At most one reload of credentials in this time: a server that only answers 401 must not make us spin."""
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)  # the Client bounds the rest
# TypeError is what kubernetes.aio makes of an empty file
_CONFIGURATION_ERRORS = (kube_config.ConfigException, YAMLError, OSError, ValueError, TypeError)


class Response(Protocol):
    """One HTTP response, its body not yet read."""

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """The whole body."""
        ...

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives."""
        ...

    def close(self) -> None:
        """Drop the connection unless the body has been read to its end; safe to call twice."""
        ...


class Transport(Protocol):
    """What the Client needs of a connection."""

    async def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any
    ) -> Response:
        """Send a request; return once the response's headers are there.

        Args:
            method: HTTP verb.
            path: URL path, already quoted.
            query: query parameters, not yet quoted.
            headers: extra headers.
            body: JSON-serialisable value, None for no body.

        Raises:
            ApiError: status 0, when no response came.
        """
        ...

    async def refresh(self) -> bool:
        """Load credentials again after a 401. Returns whether a retry makes sense."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class KubeTransport:
    """HTTP to a real API server, TLS verified as the kubeconfig or the pod's service account says.

    Credentials are loaded again on 401 (rotated service account tokens, exec plugins, token files), and an
    in-cluster token is read again every minute by kubernetes.aio itself.

    Args:
        configuration: a loaded `kubernetes.aio` configuration.
        reload: loads the credentials into that configuration again.
    """

    def __init__(self, configuration: Configuration, reload: Callable[[], Awaitable[None]] | None = None) -> None:
        self._configuration = configuration
        self._reload = reload
        self._refreshed = float("-inf")
        self._rest = _Rest(configuration)

    @classmethod
    async def load(cls, kubeconfig: str | None = None, context: str | None = None) -> KubeTransport:
        """Connect as the environment says.

        Args:
            kubeconfig: path of a kubeconfig file (or several, joined with ":"); None takes $KUBECONFIG, else
                the pod's service account, else ~/.kube/config.
            context: context of the kubeconfig; None takes its current one.

        Raises:
            ApiError: reason "Credentials", when there is no usable configuration.
        """
        configuration = Configuration()
        named = kubeconfig or os.environ.get("KUBECONFIG")
        in_cluster = not named and SERVICE_HOST_ENV_NAME in os.environ
        files = named or str(Path.home() / ".kube" / "config")

        async def reload() -> None:
            if in_cluster:
                kube_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
                return
            await kube_config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=files, context=context, client_configuration=configuration, persist_config=False
            )

        if not in_cluster and not _any_file(files):
            raise ApiError(0, "Credentials", f"no kubeconfig at {files}: name one with KUBECONFIG")
        try:
            await reload()
            return cls(configuration, reload)
        except _CONFIGURATION_ERRORS as error:
            raise ApiError(0, "Credentials", f"no usable Kubernetes configuration: {error}") from error

    @property
    def host(self) -> str:
        """The server's URL."""
        return str(self._configuration.host)

    async def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any
    ) -> Response:
        """See `Transport.request`."""
        url = self.host + path + ("?" + urlencode(query) if query else "")
        sent = dict(headers)
        try:
            token = await self._configuration.get_api_key_with_prefix("BearerToken")
            if token:
                sent["Authorization"] = token
            reply = await self._rest.request(  # type: ignore[no-untyped-call]
                method, url, headers=sent, body=body, _request_timeout=_TIMEOUT
            )
        except kube_config.ConfigException as error:  # the token file is there, but empty
            raise ApiError(0, "Credentials", str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(error) from error
        return _RestResponse(reply.response)

    async def refresh(self) -> bool:
        """See `Transport.refresh`."""
        now = time.monotonic()
        if self._reload is None or now - self._refreshed < REFRESH_SECONDS:
            return False
        self._refreshed = now
        try:
            await self._reload()
        except _CONFIGURATION_ERRORS as error:
            raise ApiError(0, "Credentials", f"cannot load credentials again: {error}") from error
        return True

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._rest.close()


class _Rest(RESTClientObject):
    """kubernetes.aio's session, with TCP keepalive: a peer that vanished is noticed in 45 s, not in hours."""

    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(limit=self.maxsize, ssl=self.ssl_context, socket_factory=_keepalive_socket)


def _keepalive_socket(address: AddrInfoType) -> socket.socket:
    sock = socket.socket(address[0], address[1], address[2])
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):  # elsewhere the reflector's inactivity timeout must do
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock


class _RestResponse:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        try:
            return await self._response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(error) from error

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(error) from error

    def close(self) -> None:
        self._response.close()


def _any_file(paths: str) -> bool:
    return any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path)


def _unreachable(error: Exception) -> ApiError:
    return ApiError(0, "Unreachable", f"{type(error).__name__}: {error}")
