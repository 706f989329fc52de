"""The API server's verbs as raw JSON: what every other part of the runtime, and every reconcile, talks
through.

Raw JSON because generated models cost more time and memory than all else on the hot path. Every call is
bounded in time; what the server asks to be repeated later (429, 503 with Retry-After) is repeated here a few
times; everything else is an ApiError for the caller to act on.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from kueue_flux.runtime import metrics
from kueue_flux.runtime.answers import error_from, lines_of, parse
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Object, Resource
from kueue_flux.runtime.transport import KubeTransport, Response, Transport

APPLY = "application/apply-patch+yaml"  # JSON is YAML
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
RETRY_CAP_SECONDS = 30.0
"""A Retry-After beyond this is the caller's business: a work queue waits better than a worker."""
# not compressed: beside the API server the network is cheap, and the processor time of both is not
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "kueue-flux"}


class Client:
    """Kubernetes API client for JSON objects.

    Args:
        transport: the connection; `Client.connect` makes a real one.
        field_manager: default manager of `apply`.
        timeout: seconds for one attempt of a request (not of a watch).
        max_in_flight: requests under way at once, watches not counted. Others wait their turn.
        max_retries: how often a request that the server throttled is repeated.
        before_write: called before every write that is sent, and may raise to forbid it (a lost leadership).
    """

    def __init__(
        self,
        transport: Transport,
        *,
        field_manager: str = "",
        timeout: float = 30.0,
        max_in_flight: int = 32,
        max_retries: int = 5,
        before_write: Callable[[], None] | None = None,
    ) -> None:
        self.transport = transport
        self.field_manager = field_manager
        self.timeout = timeout
        self.max_retries = max_retries
        self.before_write = before_write
        self._slots = asyncio.Semaphore(max_in_flight)

    @classmethod
    async def connect(cls, kubeconfig: str | None = None, context: str | None = None, **options: Any) -> Client:
        """A client for the cluster that the environment names (see `KubeTransport.load`).

        Args:
            kubeconfig: path, or None for in-cluster or kubectl's default.
            context: kubeconfig context, or None for the current one.
            **options: keyword arguments of `Client`.

        Raises:
            ApiError: reason "Credentials".
        """
        return cls(await KubeTransport.load(kubeconfig, context), **options)

    async def close(self) -> None:
        """Close all connections."""
        await self.transport.close()

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Object:
        """Read one object, or one of its subresources."""
        return await self.request("GET", resource.path(namespace, name, subresource), query=query)

    async def list_page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        limit: int = 500,
        continue_token: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> Object:
        """Read one page of a collection, as a consistent read (never from a stale cache).

        Args:
            resource: what to list.
            namespace: None lists all namespaces.
            limit: objects per page; 0 asks for everything at once.
            continue_token: `metadata.continue` of the page before.
            label_selector: such as "app=x".
            field_selector: such as "metadata.name=x".

        Returns:
            The List object: `items`, `metadata.resourceVersion`, `metadata.continue`.
        """
        query = _selectors(label_selector, field_selector)
        if limit:
            query["limit"] = str(limit)
        if continue_token:
            query["continue"] = continue_token
        return await self.request("GET", resource.path(namespace), query=query)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_seconds: int = 300,
        inactivity_seconds: float = 150.0,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Stream of watch events, each one line of JSON, not yet parsed; ends when the server closes it.

        Close it (`contextlib.aclosing`) to drop the connection.

        Args:
            resource: what to watch.
            namespace: None watches all namespaces.
            resource_version: where to start: changes after it are sent.
            label_selector: as for `list_page`.
            field_selector: as for `list_page`.
            timeout_seconds: after this time the server closes the stream.
            inactivity_seconds: without a byte for this long the connection counts as dead. Bookmarks arrive
                about every minute.
            on_open: called once the server has accepted the watch.

        Raises:
            ApiError: refused (410 when resource_version is too old), cut, or inactive (reason "Timeout").

        Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
        """
        query = _selectors(label_selector, field_selector) | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
        }
        path = resource.path(namespace)
        what = f"WATCH {path}"
        try:
            async with asyncio.timeout(self.timeout):
                response = await self._send("WATCH", path, query, HEADERS, None)
        except TimeoutError:
            raise ApiError(0, "Timeout", f"no answer in {self.timeout:g} s", request=what) from None
        try:
            if response.status == 401:
                await self.transport.refresh()  # for the caller's next try
            if response.status != 200:
                raise await error_from(response, what)
            if on_open:
                on_open()
            async for line in lines_of(response, inactivity_seconds, what):
                yield line
        finally:
            response.close()

    async def create(self, resource: Resource, obj: Object, *, subresource: str | None = None) -> Object:
        """Create an object.

        Args:
            resource: its type.
            obj: the manifest; `metadata.namespace` says where.
            subresource: such as "binding", on the object that `metadata.name` names.
        """
        metadata = obj["metadata"]
        path = resource.path(metadata.get("namespace"), metadata["name"] if subresource else None, subresource)
        return await self.request("POST", path, body=obj)

    async def exists(self, resource: Resource, name: str, namespace: str | None = None) -> bool:
        """Whether an object of this name exists: a look with no more than the right to create one.

        Args:
            resource: its type, of which an object needs no more than a name to be valid.
            name: its name.
            namespace: its namespace.

        Raises:
            ApiError: the server would not let it be created, so that there is no telling.

        Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
        """
        obj = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        }
        try:
            await self.request("POST", resource.path(namespace), query={"dryRun": "All"}, body=obj)
        except ApiError as error:
            if not error.already_exists:
                raise
            return True
        return False

    async def replace(self, resource: Resource, obj: Object, *, subresource: str | None = None) -> Object:
        """Replace an object; with `metadata.resourceVersion` only that version (else a conflict)."""
        metadata = obj["metadata"]
        path = resource.path(metadata.get("namespace"), metadata["name"], subresource)
        return await self.request("PUT", path, body=obj)

    async def apply(
        self,
        resource: Resource,
        obj: Object,
        *,
        force: bool = True,
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> Object:
        """Server-side apply: make our fields so, create the object where it is missing.

        Args:
            resource: its type; apiVersion and kind are filled in where the manifest has none.
            obj: the fields that this manager owns, with metadata.name (and namespace).
            force: take over fields that another manager owns; False makes that a conflict.
            subresource: such as "status".
            field_manager: None takes the client's.

        Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/
        """
        metadata = obj["metadata"]
        return await self.request(
            "PATCH",
            resource.path(metadata.get("namespace"), metadata["name"], subresource),
            query={
                "fieldManager": field_manager or self.field_manager,
                "force": "true" if force else "false",
            },
            body={"apiVersion": resource.api_version, "kind": resource.kind, **obj},
            content_type=APPLY,
        )

    async def merge_patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Object:
        """JSON merge patch (RFC 7386); a `metadata.resourceVersion` in it makes the write conditional."""
        path = resource.path(namespace, name, subresource)
        return await self.request("PATCH", path, query=self._manager(), body=dict(patch), content_type=MERGE)

    async def json_patch(
        self,
        resource: Resource,
        name: str,
        operations: list[dict[str, Any]],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Object:
        """JSON patch (RFC 6902); a failed "test" operation is a 422."""
        path = resource.path(namespace, name, subresource)
        return await self.request("PATCH", path, query=self._manager(), body=operations, content_type=JSON_PATCH)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        propagation: str = "Background",
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> Object:
        """Delete an object.

        Args:
            resource: its type.
            name: its name.
            namespace: its namespace.
            propagation: "Background", "Foreground" or "Orphan".
            uid: delete only this incarnation (else a conflict).
            resource_version: delete only this version (else a conflict).

        Returns:
            The object, when finalizers keep it for now, else a Status.

        Raises:
            ApiError: `not_found` when it is gone already; callers usually pass over that.
        """
        body: dict[str, Any] = {"propagationPolicy": propagation}
        wanted = {"uid": uid, "resourceVersion": resource_version}
        if preconditions := {name: value for name, value in wanted.items() if value}:
            body["preconditions"] = preconditions
        return await self.request("DELETE", resource.path(namespace, name), body=body)

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        propagation: str = "Background",
    ) -> Object:
        """Delete every object that the selectors match.

        Raises:
            ValueError: neither selector is given: deleting everything is never meant.
        """
        query = _selectors(label_selector, field_selector)
        if not query:
            raise ValueError(f"refusing to delete all {resource} without a selector")
        body = {"propagationPolicy": propagation}
        return await self.request("DELETE", resource.path(namespace), query=query, body=body)

    async def would_delete(
        self, resource: Resource, namespace: str | None = None, *, label_selector: str
    ) -> list[Object]:
        """What `delete_collection` would delete, of each object the metadata alone: a look without the right to read.

        Args:
            resource: its type.
            namespace: None looks in all namespaces.
            label_selector: such as "app=x".

        Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
        """
        query = _selectors(label_selector, None)
        body = {"dryRun": ["All"]}
        found = await self.request("DELETE", resource.path(namespace), query=query, body=body, accept=METADATA_ONLY)
        items: list[Object] = found.get("items") or []  # Go writes an empty list as null
        return items

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Object:
        """Send one request and read its JSON answer.

        Throttled requests are repeated after Retry-After at most `max_retries` times; after a 401 credentials
        are loaded again once.

        Raises:
            ApiError: what the server said, or status 0 when it said nothing.
        """
        what = f"{method} {path}"
        headers = {**HEADERS, "Content-Type": content_type, "Accept": accept}
        refreshed = False
        retries = 0
        while True:
            try:
                async with self._slots, asyncio.timeout(self.timeout):
                    if method != "GET" and self.before_write:
                        self.before_write()
                    return await self._attempt(method, path, query or {}, headers, body, what)
            except TimeoutError:
                raise ApiError(0, "Timeout", f"no answer in {self.timeout:g} s", request=what) from None
            except ApiError as error:
                if error.status == 401 and not refreshed and await self.transport.refresh():
                    refreshed = True
                    continue
                delay = error.retry_after
                throttled = error.status == 429 or error.status >= 500
                if not throttled or delay is None or delay > RETRY_CAP_SECONDS or retries >= self.max_retries:
                    raise
                retries += 1
            # a little more than asked, and not all callers at the same instant
            await asyncio.sleep(delay * random.uniform(1.0, 1.1))  # noqa: S311

    async def _attempt(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: Any,
        what: str,
    ) -> Object:
        response = await self._send(method, path, query, headers, body)
        try:
            if response.status >= 400:
                raise await error_from(response, what)
            raw = await response.read()
        except ApiError as error:  # cut off in the middle of the body
            error.request = what
            raise
        finally:
            response.close()
        return parse(raw, what)

    async def _send(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any
    ) -> Response:
        verb = "GET" if method == "WATCH" else method
        try:
            response = await self.transport.request(verb, path, query, headers, body)
        except ApiError as error:
            error.request = f"{method} {path}"
            metrics.requests.labels("<error>", method).inc()
            raise
        metrics.requests.labels(str(response.status), method).inc()
        return response

    def _manager(self) -> dict[str, str]:
        return {"fieldManager": self.field_manager} if self.field_manager else {}


def _selectors(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in selectors.items() if value}
