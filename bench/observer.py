"""When each Job and MiniCluster of a namespace reached which point, seen by watching the namespace."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from typing import Any

import orjson

from bench.watching import changes, stored, version
from kueue_flux.controller.resources import CONFIG_MAPS, JOBS, MINICLUSTERS, SECRETS, WORKLOADS
from kueue_flux.manifests.common import MINICLUSTER
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.resource import Object, Resource

SUBMITTED = "submitted"
JOB_CREATED = "job created"
ADMITTED = "admitted"
UNSUSPENDED = "unsuspended"
CONFIG_MAP = "config map"
SECRET = "secret"
JOB_FINISHED = "job finished"
FINISHED = "minicluster finished"
TURN = "turn"
"""When the adapter began the turn in which it wrote the files, as it says itself."""
ETCD_ADMITTED = "admitted in etcd"
ETCD_FILES = ("config map in etcd", "secret in etcd")

OPENING_SECONDS = 0.5
"""For etcd's watches to begin, which unlike the API server's tell only of what comes after that."""


class Seen:
    """Points in time, in seconds since the epoch, by what was reached and by the name of the Job or MiniCluster."""

    def __init__(self) -> None:
        self.at: dict[str, dict[str, float]] = defaultdict(dict)
        self._news = asyncio.Event()

    def note(self, what: str, name: str, at: float) -> None:
        """Something was reached; only the first time counts."""
        self.at[what].setdefault(name, at)
        self._news.set()

    def between(self, first: str, *last: str) -> list[float]:
        """Seconds from one point to the last of others, for each name for which all of them are known."""
        names = set(self.at[first]).intersection(*(self.at[what] for what in last))
        return [max(self.at[what][name] for what in last) - self.at[first][name] for name in sorted(names)]

    def rate(self, what: str) -> float:
        """How many reached a point in a second, from the first submission until the last one was there."""
        return len(self.at[what]) / (max(self.at[what].values()) - min(self.at[SUBMITTED].values()))

    async def until(self, what: str, count: int, timeout: float) -> None:  # noqa: ASYNC109
        """Wait until so many have reached a point.

        Raises:
            TimeoutError: They did not within `timeout` seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                while len(self.at[what]) < count:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise TimeoutError(f"only {len(self.at[what])} of {count} {what} after {timeout:g} s") from None


@asynccontextmanager
async def observing(client: Client, namespace: str, etcd: str | None = None) -> AsyncIterator[Seen]:
    """Note what happens in a namespace during the `with` block.

    Args:
        client: An API client that may watch everything.
        namespace: The namespace, in which nothing is yet.
        etcd: URL of the cluster's etcd, to look there as well.
    """
    seen = Seen()
    watched: tuple[tuple[Resource, Callable[[Seen, float, Object], None], bool], ...] = (
        (WORKLOADS, _workload, False),
        (JOBS, _job, False),
        (MINICLUSTERS, _minicluster, False),
        (CONFIG_MAPS, _file(CONFIG_MAP), True),
        (SECRETS, _file(SECRET), True),
    )
    starts = {resource: await version(client, resource, namespace) for resource, _, _ in watched}
    async with asyncio.TaskGroup() as group:

        async def watch(resource: Resource, note: Callable[[Seen, float, Object], None], metadata_only: bool) -> None:
            found = changes(client, resource, namespace, starts[resource], metadata_only=metadata_only)
            async with aclosing(found):
                async for at, obj in found:
                    note(seen, at, obj)
            raise RuntimeError(f"the watch of {resource} ended")

        tasks = [group.create_task(watch(*each)) for each in watched]
        if etcd:
            tasks += [group.create_task(each) for each in _look_into(etcd, namespace, seen)]
            await asyncio.sleep(OPENING_SECONDS)
        yield seen
        for task in tasks:
            task.cancel()


def _workload(seen: Seen, at: float, obj: Object) -> None:
    if (job := _job_of(obj)) and _true(obj, "Admitted"):
        seen.note(ADMITTED, job, at)


def _job(seen: Seen, at: float, obj: Object) -> None:
    name = obj["metadata"]["name"]
    seen.note(JOB_CREATED, name, at)
    if not obj["spec"].get("suspend"):
        seen.note(UNSUSPENDED, name, at)
    if _true(obj, "Complete") or _true(obj, "Failed"):
        seen.note(JOB_FINISHED, name, at)


def _minicluster(seen: Seen, at: float, obj: Object) -> None:
    name = obj["metadata"]["name"]
    if injected_at := obj.get("status", {}).get("admission", {}).get("injectedAt"):
        seen.note(TURN, name, datetime.fromisoformat(injected_at).timestamp())
    if _true(obj, "Finished"):
        seen.note(FINISHED, name, at)


def _file(what: str) -> Callable[[Seen, float, Object], None]:
    def note(seen: Seen, at: float, obj: Object) -> None:
        if name := obj["metadata"].get("labels", {}).get(MINICLUSTER):
            seen.note(what, name, at)

    return note


def _look_into(etcd: str, namespace: str, seen: Seen) -> list[Coroutine[Any, Any, None]]:
    async def workloads() -> None:
        async with aclosing(stored(etcd, "kueue.x-k8s.io/workloads", namespace)) as found:
            async for at, _, value in found:
                obj = orjson.loads(value)  # custom resources are stored as JSON
                if (job := _job_of(obj)) and _true(obj, "Admitted"):
                    seen.note(ETCD_ADMITTED, job, at)

    async def files(kind: str, suffix: str, what: str) -> None:
        async with aclosing(stored(etcd, kind, namespace)) as found:
            async for at, name, _ in found:
                if name.endswith(suffix):
                    seen.note(what, name.removesuffix(suffix), at)

    return [
        workloads(),
        files("configmaps", "-flux", ETCD_FILES[0]),
        files("secrets", "-curve", ETCD_FILES[1]),
    ]


def _job_of(workload: Object) -> str | None:
    owners = workload["metadata"].get("ownerReferences", [])
    return next((owner["name"] for owner in owners if owner["kind"] == JOBS.kind), None)


def _true(obj: Object, kind: str) -> bool:
    conditions = obj.get("status", {}).get("conditions") or []
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)
