"""Where pending MiniClusters stand in their queues, asked of Kueue's visibility API while any of them waits.

One request for each LocalQueue in which something waits; none when nothing does. A position deep in the
queue is reported coarsely: when the head is admitted everyone moves up, and a thousand waiting MiniClusters
must not mean a thousand status writes.
"""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from kueue_flux.kueue import visibility
from kueue_flux.kueue.visibility import NEAR, Place
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Key

log = structlog.get_logger(__name__)

INTERVAL_SECONDS = 2.0
# The API is off, or Kueue is away: ask again, but not all the time.
RETRY_SECONDS = 30.0

Waiting = tuple[str, str, str, Key]
"""(namespace, LocalQueue, Workload, key of the MiniCluster)."""


class Positions(dict[Key, Place]):
    """(namespace, Workload name) -> place, kept up to date by :meth:`run`.

    Args:
        client: The API client.
        waiting: Returns the MiniClusters that wait for quota.
    """

    def __init__(self, client: Client, waiting: Callable[[], Iterable[Waiting]]) -> None:
        super().__init__()
        self._client = client
        self._waiting = waiting
        self._subscribers: list[Callable[[str, str], None]] = []

    def subscribe(self, subscriber: Callable[[str, str], None]) -> None:
        """Call `subscriber(namespace, name)` for each MiniCluster whose reported position changed."""
        self._subscribers.append(subscriber)

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            try:
                await self.poll()
                delay = INTERVAL_SECONDS
            except ApiError as error:
                log.info("queue positions unknown", error=str(error))
                delay = RETRY_SECONDS
            await asyncio.sleep(delay)

    async def poll(self) -> None:
        """Ask once for each LocalQueue in which something waits.

        Raises:
            ApiError: The visibility API did not answer.
        """
        queues: dict[tuple[str, str], dict[str, Key]] = {}
        for namespace, queue, workload, key in self._waiting():
            queues.setdefault((namespace, queue), {})[workload] = key
        known: set[Key] = set()
        for (namespace, queue), workloads in queues.items():
            try:
                path = visibility.pending_workloads_path(namespace, queue)
                found = visibility.places(await self._client.request("GET", path))
            except ApiError as error:
                if error.not_found:  # the queue does not exist, which its MiniClusters' conditions already say
                    continue
                raise
            for workload, key in workloads.items():
                if workload in found:
                    known.add((namespace, workload))
                    self._note((namespace, workload), found[workload], key)
        for gone in self.keys() - known:
            del self[gone]

    def _note(self, workload: Key, place: Place, key: Key) -> None:
        shown = self.get(workload)
        near = place.position < NEAR
        far = shown is None or abs(shown.position - place.position) * 10 >= place.position
        if shown is None or (shown.position != place.position and (near or far)):
            self[workload] = place
            for subscriber in self._subscribers:
                subscriber(*key)
        elif near:
            self[workload] = place  # who is ahead may be another; that is told with what is told next
