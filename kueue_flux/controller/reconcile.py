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
from structlog.contextvars import bound_contextvars

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.problems import InvalidMiniCluster
from kueue_flux.controller import accepted, life, metrics, pods, status, steps
from kueue_flux.controller.conflicts import HOLD, Conflicts
from kueue_flux.controller.facts import Facts
from kueue_flux.controller.parsed import Parsed
from kueue_flux.controller.pods import PodView
from kueue_flux.controller.quota import Quota
from kueue_flux.controller.resources import MINICLUSTERS
from kueue_flux.controller.services import SPEC_CHANGED, Services, Turns, workload_of
from kueue_flux.controller.turn import Turn
from kueue_flux.kueue.visibility import Place
from kueue_flux.kueue.workload import Signal
from kueue_flux.manifests.pod import flux_container_name
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.controller import Result
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Key, Object, text_of, uid_of
from kueue_flux.runtime.store import Store

log = structlog.get_logger(__name__)


@lru_cache(maxsize=1024)  # each pod is spoken of once
def _pass_over(namespace: str, pod: str, uid: str) -> None:
    log.warning("a pod's completion index is no number: it is passed over", pod=f"{namespace}/{pod}", pod_uid=uid)


FAILED = "InternalError"


def _failed(error: Exception) -> Signal:
    """Say where a turn failed by a fault of ours. Not the error's own words: there may be a secret in them."""
    frames = traceback.extract_tb(error.__traceback__)
    place = next((frame for frame in reversed(frames) if "kueue_flux" in frame.filename), frames[-1])
    where = f"{type(error).__name__} in {place.name}, {Path(place.filename).name} line {place.lineno}"
    return Signal(
        FAILED, f"kueue-flux failed on this MiniCluster ({where}), and tries again: its log tells more; report it"
    )


def _log(moment: life.Moment) -> None:
    say = log.warning if moment.what in life.TROUBLES else log.info
    took = {} if moment.seconds is None else {"seconds": round(moment.seconds, 3)}
    say(moment.what, **moment.details, **took)


def _said(error: InvalidMiniCluster) -> str:
    return "; ".join(f"{p.field}: {p.message} ({p.remedy})" for p in error.problems)


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
        quota: What the queues can ever give.
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
        positions: Mapping[Key, Place],
        quota: Quota,
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
        self._quota = quota
        self._events = events
        self._cluster_domain = cluster_domain
        self._clock = clock
        self._status_lag = status_lag
        self._lagging: dict[Key, datetime] = {}  # since when a MiniCluster's status is behind
        self._restored: dict[Key, datetime] = {}
        self._alive: dict[Key, str] = {}  # uids
        self._parsed = Parsed()
        self._sightings = life.Sightings(workloads, jobs, clock)
        self.conflicts = Conflicts()
        self.turns = Turns(miniclusters, jobs, workloads, lambda job: quota.never(job, workloads) is not None)

    async def reconcile(self, key: Key) -> Result | None:
        """Run one turn over the MiniCluster `key`.

        Returns:
            When to look again even if nothing changes; None for no need.

        Raises:
            ApiError: A write failed; the turn is to be repeated with back-off.
            Exception: A fault of ours, which the status tells too; the turn is to be repeated likewise.
        """
        obj = self._miniclusters.get(*key)
        with bound_contextvars(minicluster=text_of(key)):
            if obj is None or "deletionTimestamp" in obj["metadata"]:
                self._forget(key)
                return None  # garbage collection follows the ownerReferences
            with bound_contextvars(uid=uid_of(obj)):
                return await self._reconcile(key, obj)

    def _forget(self, key: Key) -> None:
        self.conflicts.forget(key)
        self._lagging.pop(key, None)
        self._restored.pop(key, None)
        if uid := self._alive.pop(key, None):
            log.info(life.DELETED, uid=uid)

    async def _reconcile(self, key: Key, obj: Object) -> Result | None:
        before = self._alive.get(key)
        if before is not None and before != uid_of(obj):
            self._forget(key)  # it was made anew before its predecessor's end was heard of
        self._alive[key] = uid_of(obj)
        try:
            return await self._turn(key, obj)
        except ApiError:
            raise
        except Exception as error:
            await self._tell_refusal(obj, _failed(error), action="Reconcile")
            raise

    async def _turn(self, key: Key, obj: Object) -> Result | None:
        job = self._job_of(obj)
        try:
            mc, trouble = self._parse(obj, job)
        except InvalidMiniCluster as error:
            await self._refuse(obj, error)
            return None

        facts = self._gather(mc, obj, job)
        turn = Turn(
            client=self._client,
            jobs=self._jobs,
            facts=facts,
            obj=obj,
            now=self._clock(),
            cluster_domain=self._cluster_domain,
            conflicts=self.conflicts,
            restored=self._restored,
            record=obj["status"].get("admission"),
            trouble=trouble,
            has_turn=lambda: self._has_turn(key, facts),
            awaited=self._awaited,
        )
        injection = None
        for step in steps.STEPS:
            goes_on = await step(turn)
            if step is steps.inject and turn.injected:
                injection = self._injection_seconds(facts)
            if not goes_on:
                break
        if turn.gone:
            return None
        await self._report(turn, injection)
        return Result(turn.again)

    def _injection_seconds(self, facts: Facts) -> float | None:
        """What an injection that was just done took; None where that was not seen, or was the services' time."""
        if facts.admission is None or facts.services is not None:
            return None
        return self._sightings.seconds(facts.mc.namespace, facts.admission)

    def _parse(self, obj: Object, job: Object | None) -> tuple[MiniCluster, Signal | None]:
        """Read a MiniCluster; one whose labels were edited into what cannot be run goes on with those of its Job.

        Raises:
            InvalidMiniCluster: It cannot be run.
        """
        try:
            return self._parsed.get(obj, job), None
        except InvalidMiniCluster as error:
            if job is None:
                raise
            mc = MiniCluster.from_object(accepted.as_made(obj, job))
            return mc, Signal(
                SPEC_CHANGED, f"changed after the Job was created, which keeps what it was: {_said(error)}"
            )

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
        facts.never = self._quota.never(job, self._workloads)
        if facts.workload and (place := self._positions.get((mc.namespace, facts.workload.name))):
            facts.position, facts.behind = place.position, place.behind
        facts.pods = self._pods_of(job, flux_container_name(mc))
        return facts

    def _has_turn(self, key: Key, facts: Facts) -> bool:
        return facts.services is not None and self.turns.next(key[0], facts.services.queue) == key

    def _services(self, job: Object | None) -> Services:
        if job is None:
            return Services()
        never = self._quota.never(job, self._workloads)
        return Services(job, workload_of(self._workloads, job), self._pods_of(job, None), never=never)

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
        await self._tell_refusal(obj, Signal(first.reason, _said(error)), action="Accept")

    async def _tell_refusal(self, obj: Object, why: Signal, *, action: str) -> None:
        refused = status.refusal(obj, why, self._clock())
        if await self._write(obj, refused):
            self._events.event(obj, "Warning", why.reason, why.message, action=action)
            for moment in life.acceptance(obj["status"], refused):
                _log(moment)

    async def _report(self, turn: Turn, injection: float | None) -> None:
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
            queue = (turn.facts.mc.namespace, turn.facts.queue or metrics.NO_QUEUE)
            created = any(reason == "Created" for _, reason, _ in turn.events)
            args = (turn.obj, old, new, turn.facts, turn.now)
            for moment in life.moments(*args, created=created, injection=injection):
                metrics.observe(moment, queue)
                _log(moment)

    def _may_lag(self, turn: Turn, new: dict[str, Any]) -> bool:
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
                log.info("status not written", error=str(error))
                return False
            raise
        return True
