"""Following a command's output over the whole life of its MiniCluster, from one lead pod to the next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from kueue_flux.client import logs
from kueue_flux.client.connection import Connection
from kueue_flux.client.errors import ClientError, Deleted
from kueue_flux.client.logs import no_output
from kueue_flux.client.status import Status, refusal
from kueue_flux.client.watch import Objects, states


async def follow(
    connection: Connection, namespace: str, uid: str, miniclusters: str, selector: dict[str, str]
) -> AsyncGenerator[bytes, None]:
    """Yield the lines of the lead's log as they come, until the MiniCluster has finished, is refused or is gone.

    Waits for a pod that does not exist yet or whose container is being created, and goes on with the pod that
    replaces an evicted one.

    Args:
        connection: Where to ask.
        namespace: The MiniCluster's namespace.
        uid: Its uid. Another of the same name is not followed.
        miniclusters: API path of the namespace's MiniClusters.
        selector: Query parameters that select it by name.

    Raises:
        NotStarted: It has ended, and there was no output.
        Refused: It is never run.
        Deleted: It was deleted before it had any output.
        ClientError: It cannot be followed.
    """
    read: set[str] = set()
    async with _Current(connection, namespace, uid, miniclusters, selector) as current:
        while True:
            lead = logs.lead_of(current.pods)
            over = current.over
            if over:
                # The two watches are not in step: the lead of a short command may not have been seen yet.
                lead = await logs.current_lead(connection, namespace, uid)
            if lead is not None and lead.run and lead.run not in read:
                read.add(lead.run)
                async with aclosing(logs.read(connection, namespace, lead, follow=True)) as lines:
                    async for line in lines:
                        yield line
            elif over:
                if not read:
                    raise current.no_output()
                return
            else:
                await current.change()


class _Current:
    """The lead's pods and the MiniCluster as they are now, kept so by two watches."""

    def __init__(
        self, connection: Connection, namespace: str, uid: str, miniclusters: str, selector: dict[str, str]
    ) -> None:
        self._uid = uid
        self.pods: Objects = []
        self.miniclusters: Objects | None = None
        self._changed = asyncio.Event()
        self._watches = (
            (self._take_pods, logs.pods_path(namespace), logs.lead_selector(uid)),
            (self._take_miniclusters, miniclusters, selector),
        )
        self._connection = connection
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> _Current:
        self._tasks = [asyncio.create_task(self._watch(*watch)) for watch in self._watches]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def over(self) -> bool:
        """Whether there is no more output to come."""
        if self.miniclusters is None:
            return False
        status = self._status
        return status is None or status.is_finished or refusal(status) is not None

    def no_output(self) -> ClientError:
        """Why there is no output: the error, not raised."""
        status = self._status
        return Deleted("the MiniCluster was deleted before it had any output") if status is None else no_output(status)

    @property
    def _status(self) -> Status | None:
        """Where it stands; None where it is not there."""
        found = (mc for mc in self.miniclusters or () if mc["metadata"]["uid"] == self._uid)
        return next(map(Status.from_object, found), None)

    async def change(self) -> None:
        """Wait for the next change.

        Raises:
            ClientError: One of the watches cannot go on.
        """
        waiter = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait([waiter, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiter.cancel()
        for task in self._tasks:
            if task.done():
                task.result()
        self._changed.clear()

    async def _watch(self, take: Any, path: str, params: dict[str, str]) -> None:
        async with aclosing(states(self._connection, path, params)) as stream:
            async for objects in stream:
                take(objects)
                self._changed.set()

    def _take_pods(self, objects: Objects) -> None:
        self.pods = objects

    def _take_miniclusters(self, objects: Objects) -> None:
        self.miniclusters = objects
