"""Workers that bring keys from a queue to a reconcile function, and decide what happens after it.

A reconcile function looks at the stores and makes the world so; it may fail at any point. Here every failure
becomes a later try of the same key, and nothing that one key does stops another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from structlog.contextvars import bound_contextvars

from kueue_flux.runtime import metrics
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.queue import QueueShutDownError, WorkQueue
from kueue_flux.runtime.resource import Key, text_of

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Result:
    """What a reconcile wants next.

    Args:
        requeue_after: seconds until the key comes again by itself; None for never. Events bring it sooner.
    """

    requeue_after: float | None = None


Reconcile = Callable[[Key], Awaitable[Result | None]]
"""Makes the world so for one (namespace, name); raises to be tried again after a back-off."""


class Controller:
    """A reconcile function with its queue and its workers.

    Args:
        name: the objects' kind in small letters, such as "minicluster": label of its metrics, and in logs the field
            that holds the key of the object at hand (`minicluster="namespace/name"`).
        reconcile: the function; no two calls for the same key overlap.
        workers: keys worked on at once.
        timeout: seconds after which a reconcile is cancelled and counts as failed.
        queue: its queue; None makes one.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        workers: int = 8,
        timeout: float = 300.0,
        queue: WorkQueue[Key] | None = None,
    ) -> None:
        self.name = name
        self.queue: WorkQueue[Key] = WorkQueue(name) if queue is None else queue
        self._reconcile = reconcile
        self._workers = workers
        self._timeout = timeout
        self._log = log.bind(controller=name)
        self._time = metrics.reconcile_time.labels(name)
        self._errors = metrics.reconcile_errors.labels(name)
        self._active = metrics.active_workers.labels(name)
        self._results = {
            result: metrics.reconciles.labels(name, result) for result in ("success", "requeue_after", "error")
        }
        metrics.max_workers.labels(name).set(workers)

    def enqueue(self, namespace: str, name: str) -> None:
        """The object may need work."""
        self.queue.add((namespace, name))

    async def run(self) -> None:
        """Work until the queue is shut down and every worker has ended its work. Cancelling stops at once."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self.name}-{number}")

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueShutDownError:
                return
            self._active.inc()
            try:
                with bound_contextvars(**{self.name: text_of(key)}):
                    await self._process(key)
            finally:
                self._active.dec()
                self.queue.done(key)
            # a reconcile with nothing to do never waits; without this, ten thousand of them would hold up the loop
            await asyncio.sleep(0)

    async def _process(self, key: Key) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(self._timeout):
                result = await self._reconcile(key)
        except Exception as error:  # whatever a reconcile raises is this key's failure, and no other's
            self._failed(key, error)
            return
        finally:
            self._time.observe(loop.time() - started)
        self.queue.forget(key)
        if result is not None and result.requeue_after is not None:
            self._results["requeue_after"].inc()
            self.queue.add_after(key, result.requeue_after)
        else:
            self._results["success"].inc()

    def _failed(self, key: Key, error: Exception) -> None:
        self._results["error"].inc()
        self._errors.inc()
        expected = isinstance(error, ApiError | TimeoutError)
        at_least = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
        delay = self.queue.add_rate_limited(key, at_least)
        self._log.warning(
            "reconcile failed",
            error=str(error) or type(error).__name__,
            failures=self.queue.failures(key),
            retry_seconds=round(delay, 3),
            exc_info=None if expected else error,  # a refused request needs no traceback, a bug does
        )
