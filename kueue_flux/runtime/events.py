"""Events for people (`kubectl describe`, `kubectl events`), which must never slow down or fail a reconcile.

`Recorder.event` only remembers; one task sends. The same thing said again is counted in the first event's
series rather than sent as another object, a rate limit bounds what a storm can cost, and what is too much is
dropped and counted: an event is a courtesy, the conditions are the record.

Source: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

import structlog

from kueue_flux.runtime import clock, metrics
from kueue_flux.runtime.backoff import Backoff
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Object, Resource, text_of

EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
NOTE_BYTES = 1024
PENDING = 1000
"""Events that may wait to be sent; more are dropped."""
REMEMBERED = 4096
SERIES_SECONDS = 360.0
"""What is said again within this time counts in the same series (client-go's six minutes)."""
RATE, BURST = 20.0, 100.0
"""Writes per second in the long run, and at once."""
TRIES = 4

log = structlog.get_logger(__name__)
Key = tuple[str, ...]


@dataclass(slots=True)
class _Series:
    """One Event object: what was said, how often, and how much of that the server knows."""

    body: Object
    last: datetime
    last_at: float  # loop time
    count: int = 1
    sent: int = 0


class Recorder:
    """Writes events.k8s.io/v1 events.

    Args:
        client: the API client.
        controller: reportingController, such as "kueue-flux".
        instance: reportingInstance: this process.
        now: wall clock.
    """

    def __init__(self, client: Client, controller: str, instance: str, *, now: clock.Clock = clock.now) -> None:
        self._client = client
        self._controller = controller
        self._instance = instance[:128]
        self._now = now
        self._series: OrderedDict[Key, _Series] = OrderedDict()  # the longest silent first
        self._pending: OrderedDict[Key, _Series] = OrderedDict()
        self._wanted = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._next_turn = float("-inf")

    def event(self, regarding: Object, kind: str, reason: str, note: str, *, action: str) -> None:
        """Say something about an object; returns at once.

        Args:
            regarding: the object, with apiVersion, kind and metadata.
            kind: "Normal" or "Warning".
            reason: one CamelCase word that programs can match, such as "Admitted".
            note: the sentence for people; beyond 1 kB it is cut.
            action: what was done or tried, one CamelCase word, such as "Inject".
        """
        metadata = regarding["metadata"]
        note = _cut(note)
        key = (metadata.get("uid", ""), metadata.get("namespace", ""), metadata["name"], kind, reason, action, note)
        now, at = self._now(), asyncio.get_running_loop().time()
        series = self._series.get(key)
        if series is not None and at - series.last_at < SERIES_SECONDS:
            series.count += 1
            series.last, series.last_at = now, at
        else:
            series = _Series(self._body(regarding, kind, reason, note, action, now), now, at)
        self._series[key] = series
        self._series.move_to_end(key)
        if len(self._series) > REMEMBERED:
            self._series.popitem(last=False)
        self._enqueue(key, series)

    async def run(self) -> NoReturn:
        """Send until cancelled."""
        while True:
            await self._wanted.wait()
            self._idle.clear()
            while self._pending:
                await self._wait_turn()
                key, series = self._pending.popitem(last=False)
                await self._send(key, series)
            self._wanted.clear()
            self._idle.set()

    async def flush(self) -> None:
        """Wait until all that was said is sent (or given up)."""
        while self._pending or not self._idle.is_set():
            self._idle.clear()
            await self._idle.wait()

    def _enqueue(self, key: Key, series: _Series) -> None:
        if key not in self._pending and len(self._pending) >= PENDING:
            metrics.events_dropped.labels("flood").inc()
            return
        self._pending[key] = series
        self._wanted.set()

    async def _send(self, key: Key, series: _Series) -> None:
        backoff = Backoff(base=0.5, cap=5.0)
        while True:
            count = series.count
            try:
                await self._write(series)
            except ApiError as error:
                again = error.unreachable or error.status >= 500 or error.status == 429
                if again and backoff.failures < TRIES - 1:
                    await asyncio.sleep(max(backoff.next(), error.retry_after or 0.0))
                    continue
                metrics.events_dropped.labels(error.reason).inc()
                regarding = series.body["regarding"]
                about = {regarding["kind"].lower(): text_of((regarding.get("namespace", ""), regarding["name"]))}
                about["uid"] = regarding.get("uid", "")
                log.warning("event not written", reason=series.body["reason"], error=str(error), **about)
                return
            series.sent = count
            metrics.events_sent.inc()
            return

    async def _write(self, series: _Series) -> None:
        body = series.body
        if series.sent == 0:
            if series.count > 1:
                body = {**body, "series": _counted(series)}
            await self._client.create(EVENTS, body)
            return
        metadata = body["metadata"]
        patch = {"series": _counted(series)}
        try:
            await self._client.merge_patch(EVENTS, metadata["name"], patch, metadata["namespace"])
        except ApiError as error:
            if not error.not_found:  # events live an hour; then the series starts as a new one
                raise
            await self._client.create(EVENTS, {**body, "series": _counted(series)})

    async def _wait_turn(self) -> None:
        """Wait for our turn: after a silence BURST turns are due at once, then one every 1/RATE seconds."""
        now = asyncio.get_running_loop().time()
        turn = max(self._next_turn, now - (BURST - 1) / RATE)
        self._next_turn = turn + 1 / RATE
        if turn > now:
            await asyncio.sleep(turn - now)

    def _body(self, regarding: Object, kind: str, reason: str, note: str, action: str, now: datetime) -> Object:
        metadata = regarding["metadata"]
        reference = {
            "apiVersion": regarding["apiVersion"],
            "kind": regarding["kind"],
            "name": metadata["name"],
            "namespace": metadata.get("namespace"),
            "uid": metadata.get("uid"),
            "resourceVersion": metadata.get("resourceVersion"),
        }
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": f"{metadata['name'][:200]}.{secrets.token_hex(8)}",
                "namespace": metadata.get("namespace") or "default",
            },
            "eventTime": clock.micro_time(now),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "type": kind,
            "reason": reason[:128],
            "action": action[:128],
            "note": note,
            "regarding": {name: value for name, value in reference.items() if value},
        }


def _counted(series: _Series) -> dict[str, Any]:
    return {"count": series.count, "lastObservedTime": clock.micro_time(series.last)}


def _cut(note: str) -> str:
    raw = note.encode()
    if len(raw) <= NOTE_BYTES:
        return note
    return raw[: NOTE_BYTES - 3].decode(errors="ignore") + "…"
