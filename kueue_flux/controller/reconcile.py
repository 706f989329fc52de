"""A turn of the control loop: gather the facts, run the steps, write the status once, then tell the user.

Everything is decided from the stores. What a turn writes it puts into the stores at once, so that the next
turn does not act on the past.
"""

import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import structlog

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.problems import InvalidMiniCluster
from kueue_flux.controller import metrics, pods, status, steps
from kueue_flux.controller.conflicts import HOLD, Conflicts
from kueue_flux.controller.facts import Facts
from kueue_flux.controller.parsed import Parsed
from kueue_flux.controller.pods import PodView
from kueue_flux.controller.resources import MINICLUSTERS
from kueue_flux.controller.services import Services, Turns, workload_of
from kueue_flux.kueue.workload import Signal
from kueue_flux.manifests.pod import flux_container_name
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.controller import Result
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Key, Object
from kueue_flux.runtime.store import Store

log = structlog.get_logger(__name__)


@lru_cache(maxsize=1024)  # each pod is spoken of once
def _pass_over(namespace: str, pod: str, uid: str) -> None:
    log.warning("a pod's completion index is no number: it is passed over", namespace=namespace, pod=pod, uid=uid)


FAILED = "InternalError"


def _failed(error: Exception) -> Signal:
    """Say where a turn failed by a fault of ours. Not the error's own words: there may be a secret in them."""
    frames = traceback.extract_tb(error.__traceback__)
    place = next((frame for frame in reversed(frames) if "kueue_flux" in frame.filename), frames[-1])
    where = f"{type(error).__name__} in {place.name}, {Path(place.filename).name} line {place.lineno}"
    return Signal(
        FAILED, f"kueue-flux failed on this MiniCluster ({where}), and tries again: its log tells more; report it"
    )


class Events(Protocol):
    """Where events for the user go (`runtime.events.Recorder`); never blocks."""

    def event(self, regarding: Object, kind: str, reason: str, note: str, *, action: str) -> None:
        """Tell of something that happened to an object."""
        ...


class Reconciler:
    """Brings one MiniCluster after another to where it should be.

    Args:
        client: The API client.
        miniclusters: Store of MiniClusters.
        jobs: Store of the Jobs that are ours, indexed by owner and by `services.JOB_INDEXES`.
        workloads: Store of Workloads, indexed by owner.
        pods: Store of the Jobs' pods, indexed by owner.
        positions: (namespace, Workload name) -> place in the queue, where known.
        events: Recorder of events.
        cluster_domain: The cluster's DNS domain.
        status_lag: How far a status may lag behind mere progress (pods that start, a place in the queue), so that one
            write tells of many steps. A write also keeps its MiniCluster from being worked on, and that may be the
            moment when it is admitted.
        clock: The time of day, with a time zone.
        awaited: Says which FluxSetup's queue must be there before anything starts in a namespace without a queue.
    """

    def __init__(
        self,
        client: Client,
        *,
        miniclusters: Store,
        jobs: Store,
        workloads: Store,
        pods: Store,
        positions: Mapping[Key, int],
        events: Events,
        cluster_domain: str = "cluster.local",
        status_lag: timedelta = timedelta(0),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        awaited: Callable[[str], Signal | None] = lambda _namespace: None,
    ) -> None:
        self._awaited = awaited
        self._client = client
        self._miniclusters = miniclusters
        self._jobs = jobs
        self._workloads = workloads
        self._pods = pods
        self._positions = positions
        self._events = events
        self._cluster_domain = cluster_domain
        self._clock = clock
        self._status_lag = status_lag
        self._lagging: dict[Key, datetime] = {}  # since when a MiniCluster's status is behind
        self._restored: dict[Key, datetime] = {}
        self._parsed = Parsed()
        self.conflicts = Conflicts()
        self.turns = Turns(miniclusters, jobs, workloads)

    async def reconcile(self, key: Key) -> Result | None:
        """Run one turn over the MiniCluster `key`.

        Returns:
            When to look again even if nothing changes; None for no need.

        Raises:
            ApiError: A write failed; the turn is to be repeated with back-off.
            Exception: A fault of ours, which the status tells too; the turn is to be repeated likewise.
        """
        obj = self._miniclusters.get(*key)
        if obj is None or "deletionTimestamp" in obj["metadata"]:
            self.conflicts.forget(key)
            self._lagging.pop(key, None)
            self._restored.pop(key, None)
            return None  # garbage collection follows the ownerReferences
        try:
            return await self._turn(key, obj)
        except ApiError:
            raise
        except Exception as error:
            failed = _failed(error)
            if await self._write(obj, status.refusal(obj, failed, self._clock())):
                self._events.event(obj, "Warning", failed.reason, failed.message, action="Reconcile")
            raise

    async def _turn(self, key: Key, obj: Object) -> Result | None:
        job = self._job_of(obj)
        try:
            mc = self._parsed.get(obj, job)
        except InvalidMiniCluster as error:
            await self._refuse(obj, error)
            return None

        facts = self._gather(mc, obj, job)
        turn = steps.Turn(
            client=self._client,
            jobs=self._jobs,
            facts=facts,
            obj=obj,
            now=self._clock(),
            cluster_domain=self._cluster_domain,
            conflicts=self.conflicts,
            restored=self._restored,
            record=obj["status"].get("admission"),
            has_turn=lambda: self._has_turn(key, facts),
            awaited=self._awaited,
        )
        for step in steps.STEPS:
            if not await step(turn):
                break
        if turn.gone:
            return None
        await self._report(turn)
        return Result(turn.again)

    def _job_of(self, obj: Object, name: str = "") -> Object | None:
        meta = obj["metadata"]
        job = self._jobs.get(meta["namespace"], name or meta["name"])
        # A Job of a deleted MiniCluster of the same name may still be waiting for garbage collection.
        is_its = job is not None and meta["uid"] in {o["uid"] for o in job["metadata"].get("ownerReferences", [])}
        return job if is_its else None

    def _gather(self, mc: MiniCluster, obj: Object, job: Object | None) -> Facts:
        facts = Facts(mc=mc, status=obj["status"], job=job)
        if mc.spec.services:
            facts.services = self._services(self._job_of(obj, mc.services_name))
        if job is None:
            return facts
        facts.workload = workload_of(self._workloads, job)
        if facts.workload:
            facts.position = self._positions.get((mc.namespace, facts.workload.name))
        facts.pods = self._pods_of(job, flux_container_name(mc))
        return facts

    def _has_turn(self, key: Key, facts: Facts) -> bool:
        return facts.services is not None and self.turns.next(key[0], facts.services.queue) == key

    def _services(self, job: Object | None) -> Services:
        if job is None:
            return Services()
        return Services(job, workload_of(self._workloads, job), self._pods_of(job, None))

    def _pods_of(self, job: Object, container: str | None) -> list[PodView]:
        found = self._pods.owned_by(job["metadata"]["uid"])
        views = []
        for pod in found:
            if not pods.is_numbered(pod):
                _pass_over(pod["metadata"]["namespace"], pod["metadata"]["name"], pod["metadata"]["uid"])
            elif "deletionTimestamp" not in pod["metadata"]:
                views.append(pods.read(pod, container))
        return views

    async def _refuse(self, obj: Object, error: InvalidMiniCluster) -> None:
        first = error.problems[0]
        message = "; ".join(f"{p.field}: {p.message} ({p.remedy})" for p in error.problems)
        refused = status.refusal(obj, Signal(first.reason, message), self._clock())
        if await self._write(obj, refused):
            self._events.event(obj, "Warning", first.reason, message, action="Accept")

    async def _report(self, turn: steps.Turn) -> None:
        new = status.derive(
            turn.facts, turn.record, turn.trouble, turn.now, injections=turn.injected, cleared=turn.cleared
        )
        old = turn.facts.status
        conflict = self.conflicts.current((turn.facts.mc.namespace, turn.facts.mc.name), turn.now)
        if conflict is not None:
            if conflict.told is not None and turn.now - conflict.told < HOLD:
                return
            conflict.told = turn.now
        lags = conflict is None and self._may_lag(turn, new)
        written = not lags and await self._write(turn.obj, new)
        # What the steps did has happened, whether or not the status could be written.
        for type_, reason, note in [*turn.events, *(status.tell(old, new) if written else ())]:
            self._events.event(turn.obj, type_, reason, note, action="Reconcile")
        if written:
            metrics.observe(turn.obj, old, new, turn.facts, turn.now)

    def _may_lag(self, turn: steps.Turn, new: dict[str, Any]) -> bool:
        """Whether a new status is better written a moment later, with what follows; asks for that turn if so."""
        key = (turn.facts.mc.namespace, turn.facts.mc.name)
        old = turn.facts.status
        since = self._lagging.setdefault(key, turn.now)
        due = since + self._status_lag
        if new != old and not status.turned(old, new) and since <= turn.now < due:
            turn.wake(due - turn.now)
            return True
        del self._lagging[key]
        return False

    async def _write(self, obj: Object, new: dict[str, Any]) -> bool:
        """Write the status if it differs from the one in the store. Returns whether it was written."""
        if new == obj["status"]:
            return False
        meta = obj["metadata"]
        # The version, not the uid, which the API server does not look at here: a MiniCluster that was deleted and made
        # anew under the same name must not get its predecessor's end.
        named = {key: meta[key] for key in ("name", "namespace", "resourceVersion")}
        body = {"metadata": named, "status": new}
        try:
            self._miniclusters.put(await self._client.apply(MINICLUSTERS, body, subresource="status"))
        except ApiError as error:
            if error.not_found or error.conflict:
                # Changed or deleted meanwhile: the event that says so is on its way, and brings another turn.
                log.info(
                    "status not written",
                    namespace=meta["namespace"],
                    minicluster=meta["name"],
                    error=str(error),
                )
                return False
            raise
        return True
