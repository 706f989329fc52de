"""Keeps a store equal to what the API server holds: list once, then watch, for ever, whatever breaks.

The rules it lives by: a list is paged and happens only at the start and when the server no longer knows our
resourceVersion; everything else continues a watch where it stopped. Every way a watch can end badly (cut,
hung, garbled, refused) is one more turn of the same loop, and no two turns follow each other without a pause
unless the first one lasted. What is wrong is kept in `problem` for readiness to show.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from typing import NoReturn

import orjson
import structlog

from kueue_flux.runtime import metrics
from kueue_flux.runtime.backoff import Backoff
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Key, Object, Resource, version_of
from kueue_flux.runtime.store import Store

log = structlog.get_logger(__name__)

PAGE_SIZE = 100
"""Objects per page of a list. Measured on 10,000 Jobs: pages of 500 cost twice the memory for good (what is kept lies
scattered between what was parsed and dropped), take longer in all, and stop everything else for 50 ms each."""
WATCH_SECONDS = (300, 600)
"""How long the server is asked to keep a watch; drawn anew each time so that clients do not reconnect together."""
INACTIVITY_SECONDS = 150.0
"""Bookmarks come about every minute: two and a half minutes without a byte is a dead connection."""
STEADY_SECONDS = 5.0
"""A watch that lasted this long was a success: whatever ended it, the next one starts at once."""
BACKOFF_CAP_SECONDS = 10.0
"""Four requests every ten to twenty seconds harm no API server, and whoever waits for this controller waits that
much longer when the server is back (client-go's 30 mean up to a minute; and a server that has just started refuses
the first request with a 403, so up to two)."""
ODD_FAILURES = 3
"""So many failures in a row that a list might cure (server errors, garbled events), and a list is tried."""
ABSENT_SECONDS = 10.0
"""How often a resource type that the cluster lacks is looked for."""
BATCH = 64
"""Events handled before other tasks get their turn."""


class Reflector:
    """Mirrors the objects of one resource type into a store.

    Args:
        client: the API client.
        resource: what to mirror.
        store: where to.
        namespace: None mirrors all namespaces.
        label_selector: mirror only these.
        field_selector: mirror only these.
        optional: the resource type may be missing in the cluster (a CRD that is not installed); then the
            store is empty and in sync, `absent` is true, and the type is looked for again every few seconds.
        inactivity_seconds: a watch without a byte for this long is opened anew.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        store: Store,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        optional: bool = False,
        inactivity_seconds: float = INACTIVITY_SECONDS,
    ) -> None:
        self.resource = resource
        self.store = store
        self.absent = False
        self.problem: str | None = "not listed yet"
        self._client = client
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._optional = optional
        self._inactivity_seconds = inactivity_seconds
        self._synced = asyncio.Event()
        self._must_list = True
        self._in_doubt = False  # the server may be another one than it was
        self._listed_at = float("-inf")  # loop time
        self._opened: float | None = None  # when the present turn's watch was accepted (loop time)
        self._backoff = Backoff(cap=BACKOFF_CAP_SECONDS)
        self._name = str(resource)
        self._log = log.bind(resource=self._name)
        metrics.cached.labels(self._name).set_function(lambda: len(self.store))

    @property
    def synced(self) -> bool:
        """The store has once been complete. It stays usable, if old, when the server goes away later."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait for the first complete list."""
        await self._synced.wait()

    async def run(self) -> NoReturn:
        """Mirror until cancelled."""
        while True:
            pause = await self._turn()
            await asyncio.sleep(pause)

    async def _turn(self) -> float:
        """A list, if one is needed, and one watch. Returns the seconds to wait before the next turn."""
        self._opened = None
        failure: ApiError | None = None
        try:
            if self._in_doubt:
                await self._compare()
            if self._must_list:
                await self._list()
            await self._watch()
        except ApiError as error:
            failure = error
        except (ValueError, KeyError, TypeError) as error:  # an answer that is not what the protocol says
            failure = ApiError(0, "BadResponse", f"{type(error).__name__}: {error}")
        now = asyncio.get_running_loop().time()
        steady = self._opened is not None and now - self._opened >= STEADY_SECONDS
        if steady:
            self._backoff.reset()
        if failure is None:
            return 0.0 if steady else self._backoff.next()
        if failure.expired and now - self._listed_at >= STEADY_SECONDS:
            self._log.info("the server has forgotten our version", error=str(failure))
            self._must_list = True
            return 0.0
        return self._failed(failure)

    def _failed(self, failure: ApiError) -> float:
        if self.absent and failure.not_found:  # as it was the last time: nothing fails
            return ABSENT_SECONDS * random.uniform(1.0, 1.5)  # noqa: S311
        pause = max(self._backoff.next(), failure.retry_after or 0.0)
        odd = failure.status in (500, 504) or failure.reason == "BadResponse"
        if failure.expired or failure.not_found or (odd and self._backoff.failures >= ODD_FAILURES):
            self._must_list = True
        self._in_doubt = failure.unreachable and not self._must_list
        metrics.failures.labels(self._name, failure.reason).inc()
        self.problem = str(failure)
        self._log.warning("cannot follow the API server", error=str(failure), retry_seconds=round(pause, 1))
        return pause

    async def _compare(self) -> None:
        """Is the server that we lost still where it was? One restored from a backup answers a watch by silence."""
        page = await self._client.list_page(self.resource, self._namespace, limit=1)
        self._in_doubt = False
        if version_of(page) < self.store.position:
            self._log.warning("the server went back in time", version=version_of(page), ours=self.store.position)
            self._must_list = True

    async def _list(self) -> None:
        keys: set[Key] = set()
        limit, token = PAGE_SIZE, ""
        while True:
            try:
                page = await self._client.list_page(
                    self.resource,
                    self._namespace,
                    limit=limit,
                    continue_token=token,
                    label_selector=self._label_selector,
                    field_selector=self._field_selector,
                )
            except ApiError as error:
                if error.expired and token:  # our place in the list is lost: again, in one piece so that none can be
                    keys, limit, token = set(), 0, ""
                    continue
                if error.not_found and self._optional:
                    self._vanished()
                raise
            version = version_of(page)
            items = page.get("items") or []
            for item in items:  # items of built-in types come without these two
                item.setdefault("apiVersion", self.resource.api_version)
                item.setdefault("kind", self.resource.kind)
            keys.update(self.store.page(items, version))
            token = page["metadata"].get("continue", "")
            if not token:
                break
        self.store.complete(keys, version)
        metrics.lists.labels(self._name).inc()
        self._log.info("listed", objects=len(keys), version=version)
        self.absent = False
        self._must_list = False
        self._listed_at = asyncio.get_running_loop().time()
        self._synced.set()

    def _vanished(self) -> None:
        if not self.absent:
            self._log.info("the cluster does not have this resource type; looking for it from time to time")
        self.absent = True
        self.problem = None
        self.store.clear()
        self._synced.set()

    async def _watch(self) -> None:
        lines = self._client.watch(
            self.resource,
            self._namespace,
            resource_version=str(self.store.position),
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            timeout_seconds=random.randint(*WATCH_SECONDS),  # noqa: S311
            inactivity_seconds=self._inactivity_seconds,
            on_open=self._accepted,
        )
        handled = 0
        async with aclosing(lines):
            async for line in lines:
                self._handle(orjson.loads(line))
                handled += 1
                if handled % BATCH == 0:
                    await asyncio.sleep(0)

    def _accepted(self) -> None:
        metrics.watches.labels(self._name).inc()
        self._opened = asyncio.get_running_loop().time()
        self.problem = None

    def _handle(self, event: Object) -> None:
        kind, obj = event["type"], event["object"]
        metrics.watch_events.labels(self._name, kind).inc()
        if kind in ("ADDED", "MODIFIED"):
            self.store.observe(obj)
        elif kind == "DELETED":
            self.store.delete(obj)
        elif kind == "BOOKMARK":
            self.store.advance(version_of(obj))
        elif kind == "ERROR":
            raise ApiError.from_status(obj, request=f"WATCH {self._name}")
        else:
            raise ValueError(f"unknown watch event {kind!r}")
