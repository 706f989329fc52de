"""Queues for those who wait in them and those who set them: order, quota, use, and why something waits.

What the caller may not read is left out, and named in `unknown`: a ClusterQueue is often not for users to see, and
Kueue's visibility API, which alone knows the order, may be off.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar

from kueue_flux.client.connection import Connection, can_be_name
from kueue_flux.client.errors import Forbidden, NotFound, NotInstalled, Unavailable, Unreachable
from kueue_flux.client.status import Stage, Status
from kueue_flux.client.watch import OnOutage
from kueue_flux.kueue import entries as kueue_entries
from kueue_flux.kueue.cohorts import borrowable
from kueue_flux.kueue.entries import Entry, Standing
from kueue_flux.kueue.queues import (
    Cell,
    ClusterQueueView,
    LocalQueueView,
    Usage,
    read_cluster_queue,
    read_local_queue,
)
from kueue_flux.kueue.visibility import PAGE, Pending, pending, pending_workloads_path

KUEUE_API = "/apis/kueue.x-k8s.io/v1beta2"
# How often a queue is looked at while someone watches it, seconds.
WATCH_SECONDS = 2.0

Object = dict[str, Any]
T = TypeVar("T")


class State(StrEnum):
    """Whether a queue admits."""

    ACTIVE = "active"
    HELD = "held"  # admits nothing; what runs goes on
    DRAINED = "drained"  # admits nothing, and what ran was evicted
    INACTIVE = "inactive"  # admits nothing for another reason


@dataclass(frozen=True)
class Share:
    """One resource in one flavor. Amounts are in the resource's own unit: cores, bytes, pieces.

    Attributes:
        flavor: The flavor.
        resource: The resource.
        used: What the LocalQueue's Workloads use.
        total: What all Workloads of the ClusterQueue use; this and what follows None where it may not be read.
        quota: The ClusterQueue's own quota.
        borrowed: What of `total` is above that.
        borrowable: How much more it could borrow now; None without a cohort, too, or where that is not known.
    """

    flavor: str
    resource: str
    used: Decimal
    total: Decimal | None = None
    quota: Decimal | None = None
    borrowed: Decimal | None = None
    borrowable: Decimal | None = None


@dataclass(frozen=True)
class Queue:
    """A LocalQueue at one moment.

    Attributes:
        name: Its name.
        namespace: Its namespace.
        cluster_queue: The ClusterQueue whose quota it hands out.
        cohort: The cohort of that; empty for none, None where it may not be read.
        strategy: In which order the ClusterQueue admits: `StrictFIFO` or `BestEffortFIFO`; None as above.
        state: Whether it admits.
        why: Why it does not, in words; empty where it does.
        pending: Workloads that wait in it.
        admitted: Workloads that are admitted from it.
        shares: Use and quota by flavor and resource, in the ClusterQueue's order.
        unknown: What is left out, and why: one phrase each.
    """

    name: str
    namespace: str
    cluster_queue: str
    cohort: str | None
    strategy: str | None
    state: State
    why: str
    pending: int
    admitted: int
    shares: tuple[Share, ...]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contents:
    """A LocalQueue and what is in it.

    Attributes:
        queue: The queue.
        admitted: What has quota, the longest-running first.
        waiting: What waits, in order.
        unknown: What is left out, and why: one phrase each.
    """

    queue: Queue
    admitted: tuple[Entry, ...]
    waiting: tuple[Entry, ...]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Overview:
    """The queues of a namespace, or of all, and what is in them.

    Attributes:
        queues: The LocalQueues.
        running: MiniClusters that are admitted, oldest first, each with its Workload where it has one to be read.
        waiting: What waits, queue by queue, in order.
        unknown: What is left out, and why: one phrase each.
    """

    queues: tuple[Queue, ...]
    running: tuple[tuple[Status, Entry | None], ...]
    waiting: tuple[Entry, ...]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grant:
    """Where the quota of an admitted Workload comes from.

    Attributes:
        cluster_queue: The ClusterQueue.
        flavors: The flavors, sorted.
        cohort: The ClusterQueue's cohort; empty for none, and where it may not be read.
        borrowed: What the ClusterQueue borrows of its cohort at present, by resource; not for this Workload alone.
    """

    cluster_queue: str
    flavors: tuple[str, ...]
    cohort: str
    borrowed: Mapping[str, Decimal]


class Queues:
    """Calls on queues. All of them raise:

    NotFound: There is no such LocalQueue, or no Kueue.
    Forbidden: The caller may not read LocalQueues.
    ClientError: The cluster cannot be asked.
    """

    _connection: Connection

    @abstractmethod
    async def namespace(self) -> str:
        """The namespace in use."""

    @abstractmethod
    async def list(self, *, all_namespaces: bool = False) -> Sequence[Object]:
        """Return the MiniClusters as the API server has them."""

    async def list_queues(self, *, all_namespaces: bool = False) -> tuple[Queue, ...]:
        """Return the LocalQueues, by name.

        Args:
            all_namespaces: Of all namespaces instead of this client's.

        Examples:
            >>> [(queue.name, queue.pending) for queue in miniclusters.list_queues()]
            [('team-a', 3)]
        """
        where = None if all_namespaces else await self.namespace()
        found = await _collect(self._connection, "localqueues", where)
        return await self._with_quota([read_local_queue(obj) for obj in found])

    async def queue(self, name: str) -> Contents:
        """Return a LocalQueue with what is admitted from it and what waits in it, in order.

        Args:
            name: Its name.

        Examples:
            >>> [entry.owner.name for entry in miniclusters.queue("team-a").waiting]
            ['next', 'after-that']
        """
        (queue,) = await self._with_quota([await self._local_queue(name)])
        found, unknown = await self._entries([queue], await self.namespace())
        return Contents(queue, _admitted(found), _waiting(found), (*queue.unknown, *unknown))

    async def overview(self, *, all_namespaces: bool = False) -> Overview:
        """Return the queues, the MiniClusters that run, and what waits.

        Args:
            all_namespaces: Of all namespaces instead of this client's.
        """
        queues = await self.list_queues(all_namespaces=all_namespaces)
        found, unknown = await self._entries(queues, None if all_namespaces else await self.namespace())
        try:
            statuses = [Status.from_object(obj) for obj in await self.list(all_namespaces=all_namespaces)]
        except (Forbidden, NotInstalled) as error:
            statuses, unknown = [], (*unknown, f"MiniClusters: {error.message}")
        by_workload = {(entry.namespace, entry.workload): entry for entry in found}
        running = [
            (status, by_workload.get((status.namespace, status.workload)))
            for status in statuses
            if status.stage in (Stage.STARTING, Stage.RUNNING)
        ]
        said = dict.fromkeys(sentence for queue in queues for sentence in queue.unknown)
        return Overview(queues, tuple(running), _waiting(found), (*said, *unknown))

    async def grant(self, workload: str) -> Grant | None:
        """Say where the quota of an admitted Workload comes from.

        Args:
            workload: Its name, as the status of its MiniCluster has it.

        Returns:
            What is known; None where it has no quota (any more), or may not be read.
        """
        try:
            path = f"{_path('workloads', await self.namespace())}/{workload}"
            entry = kueue_entries.read(await self._connection.request("GET", path)) if workload else None
        except (NotFound, Forbidden, Unavailable):
            return None
        if entry is None or not entry.cluster_queue:
            return None
        found = await _one(self._connection, "clusterqueues", entry.cluster_queue)
        view = read_cluster_queue(found) if found else None
        borrowed: dict[str, Decimal] = {}
        for (_, resource), usage in view.reserved.items() if view else ():
            borrowed[resource] = borrowed.get(resource, Decimal(0)) + usage.borrowed
        lent = {resource: amount for resource, amount in borrowed.items() if amount}
        return Grant(entry.cluster_queue, entry.flavors, view.cohort if view else "", lent)

    async def watch_queue(self, name: str, *, on_outage: OnOutage | None = None) -> AsyncGenerator[Contents, None]:
        """Yield a LocalQueue as it is, and again after each change, over lost connections.

        Args:
            name: Its name.
            on_outage: Called with the error each time that the cluster cannot be asked.
        """
        async for contents in _changes(lambda: self.queue(name), on_outage):
            yield contents

    async def watch_overview(
        self, *, all_namespaces: bool = False, on_outage: OnOutage | None = None
    ) -> AsyncGenerator[Overview, None]:
        """Yield the overview as it is, and again after each change, over lost connections.

        Args:
            all_namespaces: Of all namespaces instead of this client's.
            on_outage: Called with the error each time that the cluster cannot be asked.
        """
        async for overview in _changes(lambda: self.overview(all_namespaces=all_namespaces), on_outage):
            yield overview

    async def _local_queue(self, name: str) -> LocalQueueView:
        namespace = await self.namespace()
        if can_be_name(name):
            with suppress(NotFound):
                path = f"{_path('localqueues', namespace)}/{name}"
                return read_local_queue(await self._connection.request("GET", path))
        there = [obj["metadata"]["name"] for obj in await _collect(self._connection, "localqueues", namespace)]
        raise NotFound(
            f"there is no LocalQueue {name or repr(name)} in namespace {namespace}",
            f"there are: {', '.join(sorted(there))}" if there else "there are none: ask your cluster's admin for one",
        )

    async def _with_quota(self, views: Sequence[LocalQueueView]) -> tuple[Queue, ...]:
        quota = await _Quota.read(self._connection, {view.cluster_queue for view in views if view.cluster_queue})
        return tuple(_queue(view, quota) for view in sorted(views, key=lambda view: (view.namespace, view.name)))

    async def _entries(self, queues: Sequence[Queue], where: str | None) -> tuple[Sequence[Entry], tuple[str, ...]]:
        """What is in these queues, with positions where they are known; and what could not be read."""
        unknown: list[str] = []
        names = {(queue.namespace, queue.name) for queue in queues}
        try:
            objects = await _collect(self._connection, "workloads", where)
            found = [entry for obj in objects if (entry := kueue_entries.read(obj)) is not None]
        except Forbidden as error:
            found = []
            unknown.append(f"what is admitted, and what each asks for: {error.message}")
        readable = not unknown
        places: dict[tuple[str, str], Pending] = {}
        waits = {(entry.namespace, entry.queue) for entry in found if entry.standing is Standing.WAITING}
        for queue in queues:
            if not queue.pending and (queue.namespace, queue.name) not in waits:
                continue
            try:
                items = await self._pending(queue.namespace, queue.name)
            except (NotFound, Forbidden, Unavailable) as error:
                unknown.append(f"positions in queue {queue.name}: {error.message}")
                continue
            places |= {(queue.namespace, item.workload): item for item in items}
        if not readable:
            return [kueue_entries.of_pending(item) for item in places.values()], tuple(unknown)
        return [_placed(entry, places) for entry in found if (entry.namespace, entry.queue) in names], tuple(unknown)

    async def _pending(self, namespace: str, name: str) -> Sequence[Pending]:
        items: tuple[Pending, ...] = ()
        while True:
            page = {"limit": str(PAGE), "offset": str(len(items))}
            path = pending_workloads_path(namespace, name)
            found = pending(await self._connection.request("GET", path, params=page))
            items += found
            if len(found) < PAGE:
                return items


class _Quota:
    """ClusterQueues as far as they may be read, and what they could borrow.

    Args:
        views: ClusterQueues by name.
        cohorts: Cohorts by name: the object, empty where there is none, None where it may not be read.
        complete: Whether all ClusterQueues are there.
    """

    def __init__(
        self, views: Mapping[str, ClusterQueueView], cohorts: Mapping[str, Object | None], *, complete: bool
    ) -> None:
        self.views = views
        self._cohorts = cohorts
        self._complete = complete

    @classmethod
    async def read(cls, connection: Connection, names: set[str]) -> _Quota:
        """Read those that LocalQueues name; all of them where that is permitted, for what their cohorts could lend."""
        if not names:
            return cls({}, {}, complete=True)
        try:
            found = [read_cluster_queue(obj) for obj in await _collect(connection, "clusterqueues", None)]
        except Forbidden:
            each = await asyncio.gather(*(_one(connection, "clusterqueues", name) for name in sorted(names)))
            views = [read_cluster_queue(obj) for obj in each if obj]
            return cls({view.name: view for view in views}, {}, complete=False)
        wanted = sorted({view.cohort for view in found if view.name in names and view.cohort})
        cohorts = await asyncio.gather(*(_one(connection, "cohorts", name) for name in wanted))
        return cls({view.name: view for view in found}, dict(zip(wanted, cohorts, strict=True)), complete=True)

    def borrowable(self, view: ClusterQueueView) -> tuple[Mapping[Cell, Decimal], str]:
        """How much more it could borrow, and where that is not known, why."""
        if not view.cohort:
            return {}, ""
        cohort = self._cohorts.get(view.cohort)
        if not self._complete or cohort is None:
            return {}, f"what cohort {view.cohort} could lend: it may not be read, or not all of its ClusterQueues"
        more = borrowable(view, self.views.values(), cohort)
        return (more, "") if more is not None else ({}, f"what cohort {view.cohort} could lend: it is part of another")

    def lacks(self, name: str) -> str:
        """Why there is nothing to say of a ClusterQueue."""
        why = "there is none of that name" if self._complete else "it may not be read"
        return f"quota of ClusterQueue {name}: {why}"


def _queue(view: LocalQueueView, quota: _Quota) -> Queue:
    cluster = quota.views.get(view.cluster_queue)
    more, unknown = quota.borrowable(cluster) if cluster else ({}, quota.lacks(view.cluster_queue))
    state, why = _state(view, cluster)
    return Queue(
        name=view.name,
        namespace=view.namespace,
        cluster_queue=view.cluster_queue,
        cohort=cluster.cohort if cluster else None,
        strategy=cluster.strategy if cluster else None,
        state=state,
        why=why,
        pending=view.pending,
        admitted=view.admitted,
        shares=tuple(_shares(view, cluster, more)),
        unknown=(unknown,) if unknown else (),
    )


def _state(view: LocalQueueView, cluster: ClusterQueueView | None) -> tuple[State, str]:
    stops = {"Hold": State.HELD, "HoldAndDrain": State.DRAINED}
    if view.stop_policy in stops:
        return stops[view.stop_policy], f"its stopPolicy is {view.stop_policy}"
    if cluster and cluster.stop_policy in stops:
        return stops[cluster.stop_policy], f"the stopPolicy of ClusterQueue {cluster.name} is {cluster.stop_policy}"
    inactive = (cluster and cluster.inactive) or view.inactive
    if inactive is None:
        return State.ACTIVE, ""
    return State.INACTIVE, inactive.message or inactive.reason


def _shares(view: LocalQueueView, cluster: ClusterQueueView | None, more: Mapping[Cell, Decimal]) -> Iterable[Share]:
    nothing = Usage(Decimal(0))
    if cluster is None:
        for (flavor, resource), usage in view.reserved.items():
            yield Share(flavor, resource, usage.total)
        return
    for cell, quota in cluster.quotas.items():
        used, total = view.reserved.get(cell, nothing), cluster.reserved.get(cell, nothing)
        yield Share(*cell, used.total, total.total, quota.nominal, total.borrowed, more.get(cell))


def _placed(entry: Entry, places: Mapping[tuple[str, str], Pending]) -> Entry:
    place = places.get((entry.namespace, entry.workload))
    if place is None or entry.standing is not Standing.WAITING:
        return entry
    return replace(entry, position=place.position)


def _admitted(found: Iterable[Entry]) -> tuple[Entry, ...]:
    holding = (entry for entry in found if entry.standing is not Standing.WAITING)
    return tuple(sorted(holding, key=lambda entry: (entry.since.timestamp() if entry.since else 0.0, entry.workload)))


def _waiting(found: Iterable[Entry]) -> tuple[Entry, ...]:
    queues: dict[tuple[str, str], list[Entry]] = {}
    for entry in found:
        if entry.standing is Standing.WAITING:
            queues.setdefault((entry.namespace, entry.queue), []).append(entry)
    return tuple(entry for name in sorted(queues) for entry in kueue_entries.in_order(queues[name]))


def _path(plural: str, namespace: str | None) -> str:
    return f"{KUEUE_API}/namespaces/{namespace}/{plural}" if namespace else f"{KUEUE_API}/{plural}"


async def _collect(connection: Connection, plural: str, namespace: str | None) -> list[Object]:
    try:
        items, _ = await connection.collect(_path(plural, namespace))
    except NotFound as error:
        raise NotFound("this cluster has no queues: Kueue is not installed, or older than 0.19", "") from error
    return items


async def _one(connection: Connection, plural: str, name: str) -> Object | None:
    """A cluster-scoped object; empty where there is none of that name, None where it may not be read."""
    try:
        return await connection.request("GET", f"{KUEUE_API}/{plural}/{name}")
    except NotFound:
        return {}
    except Forbidden:
        return None


async def _changes(read: Callable[[], Awaitable[T]], on_outage: OnOutage | None) -> AsyncGenerator[T, None]:
    """Yield what is read, at once and then whenever it is something else."""
    last: T | None = None
    while True:
        try:
            found = await read()
        except (Unreachable, Unavailable) as error:
            if last is None:
                raise
            if on_outage is not None:
                on_outage(error)
        else:
            if found != last:
                last = found
                yield found
        await asyncio.sleep(WATCH_SECONDS)
