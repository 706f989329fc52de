"""Requests to the API server as raw JSON, over kr8s, with errors that name their remedy.

kr8s brings what a user's machine needs: kubeconfig files and contexts, client certificates, exec plugins,
service accounts. Its objects and watches are left aside: raw dictionaries suffice here, and its watch
ends silently on a clean close and re-uses an expired resourceVersion.
"""

import asyncio
import base64
import contextlib
import json
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import httpx
import httpx_ws
import kr8s.asyncio

from kueue_flux.api.base import SUBDOMAIN
from kueue_flux.client.errors import NoCluster, NotFound, Unauthorized, Unreachable, from_response

# Time for the answer to one request that is not a stream, seconds.
ANSWER_SECONDS = 30.0
CONNECT_SECONDS = 10.0
# A WebSocket on which nothing happens is asked for a sign of life; without one it counts as lost. Seconds.
PING_SECONDS = 20.0
PONG_SECONDS = 60.0

_IN_CLUSTER_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class Connection:
    """One API server, as one user. Opened by the first request; belongs to one event loop.

    Args:
        namespace: Default namespace; None takes the context's.
        kubeconfig: Path (several with colons between); None takes $KUBECONFIG, then ~/.kube/config, then
            the pod's service account.
        context: A kubeconfig context; None takes the current one.
    """

    def __init__(
        self, namespace: str | None = None, *, kubeconfig: str | None = None, context: str | None = None
    ) -> None:
        self._namespace = namespace
        self._kubeconfig = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
        self._context = context
        self._api: Any = None
        self._opening = asyncio.Lock()

    async def namespace(self) -> str:
        """The namespace that is meant when none is named.

        Raises:
            NotFound: It is no namespace's name.
        """
        if self._namespace is None:
            self._namespace = _default_namespace(await self._opened())
        return existing_namespace(self._namespace)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Send one request and read its JSON answer.

        Args:
            method: HTTP method.
            path: Absolute API path, such as `/apis/batch/v1/namespaces/default/jobs`.
            params: Query parameters.
            body: JSON body.

        Raises:
            ClientError: The subclass says why; see :mod:`kueue_flux.client.errors`.
        """
        content = json.dumps(body).encode() if body is not None else None
        timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        async with self._call(method, path, params, timeout, content=content) as response:
            answer: dict[str, Any] = json.loads(await response.aread())
            return answer

    async def collect(self, path: str, params: Mapping[str, str] | None = None) -> tuple[list[dict[str, Any]], str]:
        """List a collection, page by page.

        Returns:
            The objects, and the resourceVersion from which a watch goes on.
        """
        items: list[dict[str, Any]] = []
        query = {**(params or {}), "limit": "500"}
        while True:
            answer = await self.request("GET", path, params=query)
            items += answer.get("items") or []
            meta = answer.get("metadata") or {}
            if not meta.get("continue"):
                return items, str(meta.get("resourceVersion", ""))
            query["continue"] = meta["continue"]

    async def lines(
        self, path: str, params: Mapping[str, str], *, silence: float | None
    ) -> AsyncGenerator[bytes, None]:
        """Stream an answer line by line, without the line ends.

        Args:
            path: Absolute API path.
            params: Query parameters.
            silence: Seconds without a byte after which the connection counts as lost; None waits for ever.
        """
        timeout = httpx.Timeout(silence, connect=CONNECT_SECONDS)
        async with self._call("GET", path, params, timeout) as response:
            # Of the line that has not ended yet: joined once, for it may come in very many pieces.
            pieces: list[bytes] = []
            # Only \n ends a line here; httpx's own line iterator also splits at \r, \f, U+0085 and others.
            # A generator, though httpx declares less: closed here, it does not linger until the loop is gone.
            stream = cast(AsyncGenerator[bytes, None], response.aiter_bytes())
            async with contextlib.aclosing(stream) as chunks:
                async for chunk in chunks:
                    first, *others = chunk.split(b"\n")
                    pieces.append(first)
                    for begun in others:
                        yield b"".join(pieces)
                        pieces = [begun]
            if rest := b"".join(pieces):
                yield rest

    @contextlib.asynccontextmanager
    async def websocket(self, path: str, query: Sequence[tuple[str, str]], protocol: str) -> AsyncIterator[Any]:
        """Open a WebSocket, as exec and port-forward use it.

        Args:
            path: Absolute API path.
            query: Query parameters; a name may stand there several times.
            protocol: The subprotocol to speak.

        Yields:
            The `httpx_ws.AsyncWebSocketSession`.

        Raises:
            ClientError: The server does not open it; the subclass says why.
        """
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
            "Sec-WebSocket-Protocol": protocol,
        }
        limits = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        async with self._call("GET", path, httpx.QueryParams(tuple(query)), limits, headers=headers) as response:
            if response.status_code != httpx.codes.SWITCHING_PROTOCOLS:
                raise Unreachable(f"{path} answers {response.status_code} and opens no WebSocket")
            session = httpx_ws.AsyncWebSocketSession(
                response.extensions["network_stream"],
                keepalive_ping_interval_seconds=PING_SECONDS,
                keepalive_ping_timeout_seconds=PONG_SECONDS,
                response=response,
            )
            with _plain_errors():
                async with session:
                    yield session

    async def close(self) -> None:
        """Close the connections. The object is not used afterwards."""
        if self._api is not None and self._api._session is not None:
            await self._api._session.aclose()

    @contextlib.asynccontextmanager
    async def _call(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | httpx.QueryParams | None,
        limits: httpx.Timeout,
        **more: Any,
    ) -> AsyncIterator[httpx.Response]:
        api = await self._opened()
        base, _, url = path.rpartition("/")
        # kr8s answers 403 as it does 401, by closing the session that others are watching through; so it
        # is told to leave statuses to us.
        kwargs = {"params": params, "timeout": limits, "raise_for_status": False, **more}
        try:
            for attempt in (1, 2):
                async with api.call_api(method, version="", base=base, url=url, stream=True, **kwargs) as response:
                    if response.status_code == 401 and attempt == 1:
                        await self._renew(api)
                        continue
                    if response.is_error:
                        raise from_response(response.status_code, await response.aread(), path)
                    yield response
                    return
        except (httpx.TransportError, kr8s.APITimeoutError) as error:
            raise self._unreachable(error) from error

    async def _opened(self) -> Any:
        async with self._opening:
            if self._api is None:
                self._api = await self._open()
            return self._api

    async def _open(self) -> Any:
        # An instance of our own rather than kr8s.api()'s shared one: closing it must not close another's.
        api = kr8s.asyncio.Api(bypass_factory=True, kubeconfig=self._kubeconfig, context=self._context)
        for registry in kr8s.asyncio.Api._instances.values():
            for key in [key for key, value in registry.items() if value is api]:
                del registry[key]
        try:
            await api.auth
            await api._create_session()
        except Exception as error:  # kr8s has no error of its own for a kubeconfig that it cannot use
            raise self._no_cluster(error) from error
        _forget_key_files(api)
        return api

    async def _renew(self, api: Any) -> None:
        """Read the credentials again: a token's life is often shorter than a wait for quota."""
        try:
            await api.reauthenticate()
            await api._create_session()
        except Exception as error:  # an exec plugin fails in its own ways
            raise Unauthorized(f"the credentials cannot be renewed: {error}", "log in again") from error
        _forget_key_files(api)

    def _where(self) -> str:
        context = f"context {self._context} of " if self._context else ""
        return f"{context}{self._kubeconfig}"

    def _unreachable(self, error: Exception) -> Unreachable:
        server = self._api.auth.server if self._api is not None else "the cluster"
        why = str(error) or type(error).__name__
        return Unreachable(
            f"{server} ({self._where()}) does not answer: {why}",
            "is it running? choose another with --kubeconfig, --context or KUBECONFIG",
        )

    def _no_cluster(self, error: Exception) -> NoCluster:
        paths = [Path(p).expanduser() for p in self._kubeconfig.split(os.pathsep)]
        if not any(p.exists() for p in paths):
            return NoCluster(
                f"no cluster is configured: {self._kubeconfig} does not exist",
                "name a kubeconfig with --kubeconfig or KUBECONFIG, or start a cluster: kueue-flux dev up",
            )
        if not any(p.stat().st_size for p in paths if p.is_file()):
            return NoCluster(
                f"{self._where()} cannot be used: it is empty",
                "name another with --kubeconfig or KUBECONFIG, or start a cluster: kueue-flux dev up",
            )
        # What kr8s stumbles over in a file that lacks a part says nothing to the reader.
        lacks = isinstance(error, LookupError | TypeError | AttributeError)
        why = "it names no cluster, user and context that are to be used" if lacks else error or type(error).__name__
        return NoCluster(
            f"{self._where()} cannot be used: {why}",
            f"see what it holds: kubectl config get-contexts --kubeconfig {self._kubeconfig}",
        )


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    """Raise an error as it is where a task group has wrapped it."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from error.__cause__


def can_be_name(name: str) -> bool:
    """Whether an object can have this name.

    Names become parts of paths: one that is empty or holds `/` or `..` would lead to another request, at worst
    from the deletion of one object to that of a whole collection.
    """
    return re.fullmatch(SUBDOMAIN, name) is not None


def existing_namespace(name: str) -> str:
    """The namespace, if there can be one of this name.

    Raises:
        NotFound: There cannot.
    """
    if not can_be_name(name):
        raise NotFound(f"there is no namespace {name!r}", "see what there is: kubectl get namespaces")
    return name


def _default_namespace(api: Any) -> str:
    # kr8s gives the namespace of the kubeconfig's current context, whichever context is in use, and
    # does not read a pod's own.
    config = getattr(api.auth, "kubeconfig", None)
    if config is not None and api.auth.active_context:
        return str(config.get_context(api.auth.active_context).get("namespace") or "default")
    if _IN_CLUSTER_NAMESPACE.exists():
        return _IN_CLUSTER_NAMESPACE.read_text().strip()
    return "default"


def _forget_key_files(api: Any) -> None:
    """Delete the copies of inline keys and certificates that kr8s leaves in the temporary directory.

    They have been read into the session's TLS context; a new session reads the kubeconfig anew.
    """
    auth = api.auth
    copies = (
        (auth._user, "client-key-data", auth.client_key_file),
        (auth._user, "client-certificate-data", auth.client_cert_file),
        (auth._cluster, "certificate-authority-data", auth.server_ca_file),
    )
    for section, field, copy in copies:
        if field in section:
            Path(copy).unlink(missing_ok=True)
