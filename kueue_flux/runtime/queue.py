"""client-go's work queue: every key is worked on by one worker at a time, and no change is missed in between.

A key added while it waits is one key; a key added while it is worked on comes again afterwards. That is what
lets a reconcile assume that it is alone with its object, and what makes a thousand events on one object one
reconcile.

Source: https://pkg.go.dev/k8s.io/client-go/util/workqueue
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

from kueue_flux.runtime import metrics

K = TypeVar("K")


class QueueShutDownError(Exception):
    """The queue was shut down, and no key is left for this worker."""


class WorkQueue(Generic[K]):
    """Keys (hashable) that want work, deduplicated, with delays and per-key exponential back-off.

    Args:
        name: label of its metrics.
        base_delay: seconds of a key's first back-off; doubles with each failure.
        max_delay: most seconds of a back-off.
    """

    def __init__(self, name: str, *, base_delay: float = 0.005, max_delay: float = 60.0) -> None:
        self.name = name
        self._base_delay = base_delay
        self._max_delay = max_delay
        self._ready: deque[K] = deque()
        self._dirty: dict[K, float] = {}  # wants work; value: since when (loop time)
        self._processing: dict[K, float] = {}  # is worked on; value: since when
        self._waiting: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._shut_down = False
        self._discard = False
        self._adds = metrics.adds.labels(name)
        self._retries = metrics.retries.labels(name)
        self._queue_duration = metrics.queue_duration.labels(name)
        self._work_duration = metrics.work_duration.labels(name)
        metrics.depth.labels(name).set_function(lambda: len(self._ready))
        metrics.unfinished_work.labels(name).set_function(lambda: sum(self._ages()))
        metrics.longest_running.labels(name).set_function(lambda: max(self._ages(), default=0.0))

    def __len__(self) -> int:
        """Keys that wait for a worker (not those delayed)."""
        return len(self._ready)

    @property
    def shutting_down(self) -> bool:
        """No key is taken any more."""
        return self._shut_down

    def add(self, key: K) -> None:
        """The key wants work now; nothing happens when it already does."""
        if self._shut_down or key in self._dirty:
            return
        self._adds.inc()
        self._dirty[key] = self._now()
        if key not in self._processing:
            self._make_ready(key)

    def add_after(self, key: K, delay: float) -> None:
        """The key wants work in `delay` seconds; of several delays the earliest counts."""
        if self._shut_down:
            return
        if delay <= 0:
            self.add(key)
            return
        when = self._now() + delay
        if waiting := self._waiting.get(key):
            if waiting.when() <= when:
                return
            waiting.cancel()
        self._waiting[key] = asyncio.get_running_loop().call_at(when, self._delay_over, key)

    def add_rate_limited(self, key: K, at_least: float = 0.0) -> float:
        """The key failed: add it after its back-off, and double that for the next time.

        Args:
            key: the key.
            at_least: seconds that somebody (a Retry-After) asked to wait anyway.

        Returns:
            The delay in seconds.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # the exponent is bounded so that a key which fails for days does not overflow a float
        delay = max(min(self._base_delay * 2.0 ** min(failures, 60), self._max_delay), at_least)
        self._retries.inc()
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The key succeeded: its next back-off starts from the beginning."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often the key was added rate-limited since it was last forgotten."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Wait for a key and take it; `done` must follow.

        Raises:
            QueueShutDownError: the queue was shut down and is empty.
        """
        while not self._ready:
            if self._shut_down:
                raise QueueShutDownError(self.name)
            await self._wait_for_key()
        key = self._ready.popleft()
        now = self._now()
        self._queue_duration.observe(now - self._dirty.pop(key))
        self._processing[key] = now
        self._idle.clear()
        return key

    def done(self, key: K) -> None:
        """The work on a key has ended; if it was added meanwhile, it comes again."""
        self._work_duration.observe(self._now() - self._processing.pop(key))
        if key in self._dirty and not self._discard:
            self._make_ready(key)
        if not self._processing:
            self._idle.set()

    def shut_down(self, *, discard: bool = False) -> None:
        """Take no more keys and drop the delayed ones.

        Args:
            discard: also drop the keys that no worker has taken yet (the next process finds them again by
                listing); else they are still handed out, as client-go does.
        """
        self._shut_down = True
        self._discard = self._discard or discard
        if self._discard:
            self._ready.clear()
        for handle in self._waiting.values():
            handle.cancel()
        self._waiting.clear()
        while self._getters:
            self._wake_one()

    async def drained(self) -> None:
        """Wait until no key is being worked on (others may still wait)."""
        await self._idle.wait()

    def _make_ready(self, key: K) -> None:
        self._ready.append(key)
        self._wake_one()

    def _delay_over(self, key: K) -> None:
        del self._waiting[key]
        self.add(key)

    async def _wait_for_key(self) -> None:
        getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter.done() and not getter.cancelled() and self._ready:
                self._wake_one()  # we were woken for a key that we shall not take: pass it on
            elif getter in self._getters:
                self._getters.remove(getter)
            raise

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():  # a cancelled worker may still stand in the line
                getter.set_result(None)
                return

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _ages(self) -> list[float]:
        now = self._now()
        return [now - since for since in self._processing.values()]
