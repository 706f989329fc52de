"""The moments of a MiniCluster's life, which the log and the metrics both tell of.

A moment is a difference between a status and the one that was just written over it. What is written is the record, so
no moment is told twice, whichever process writes and however often it was restarted; one that dies between the write
and the telling leaves a moment untold.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kueue_flux.api.conditions import ConditionType, find_condition
from kueue_flux.controller.facts import TIMED_OUT, Facts
from kueue_flux.controller.status import WARNINGS
from kueue_flux.flux.termination import Reason
from kueue_flux.kueue import workload
from kueue_flux.kueue.workload import Admission
from kueue_flux.runtime.resource import Key, Object, key_of
from kueue_flux.runtime.store import Store

CREATED = "created"
ADMITTED = "admitted"
INJECTED = "injected"
UP = "brokers up"
DOWN = "brokers lost"
HELD_UP = "held up"
EVICTED = "evicted"
FINISHED = "finished"
NOT_ACCEPTED = "not accepted"
ACCEPTED = "accepted again"
DELETED = "deleted"

MOMENTS = (
    *(CREATED, ADMITTED, INJECTED, UP, DOWN, HELD_UP, EVICTED, FINISHED, DELETED),
    *(NOT_ACCEPTED, ACCEPTED),
)
"""All of them; docs/monitoring.md says what each has to say."""

TROUBLES = frozenset({DOWN, HELD_UP, NOT_ACCEPTED})
"""The moments at which somebody may have to do something."""

UNKNOWN = "Unknown"
OTHER = "Other"
DEADLINE = "DeadlineExceeded"
JOB_REASONS = frozenset({DEADLINE, "BackoffLimitExceeded", "PodFailurePolicy"})
"""Why a Job fails (batch/v1, the condition Failed), where nothing is known of its lead's end."""
FAILURES = frozenset({*map(str, Reason), TIMED_OUT, *JOB_REASONS, OTHER} - {str(Reason.COMMAND_SUCCEEDED)})
"""All that `failure` returns."""

Status = Mapping[str, Any]


@dataclass(frozen=True)
class Moment:
    """Something that happened to a MiniCluster. Nothing of it is the user's own text.

    Attributes:
        what: One of the names above.
        seconds: How long that took which ends with it; None where it is not known.
        details: What else there is to say, by name.
    """

    what: str
    seconds: float | None = None
    details: dict[str, str | int | bool] = field(default_factory=dict)


def moments(
    obj: Object,
    old: Status,
    new: Status,
    facts: Facts,
    now: datetime,
    *,
    created: bool = False,
    injection: float | None = None,
) -> Iterator[Moment]:
    """What a status that was just written means, in order.

    Args:
        obj: The MiniCluster.
        old: The status that was there.
        new: The status that was written.
        facts: What it was derived from.
        now: The time of the turn.
        created: The Job was created in this turn.
        injection: Seconds that the files of this turn took, where they were measured.
    """
    if created or (facts.job is not None and _condition(old, ConditionType.QUOTA_RESERVED) is None):
        yield Moment(CREATED, details={"size": facts.mc.spec.size, "queue": facts.queue or ""})
    yield from acceptance(old, new)
    ended = _holds(new, ConditionType.FINISHED)
    replaced = _id(old) is not None and _id(old) != _id(new)
    if not ended and (replaced or _turned(ConditionType.ADMITTED, new, old)):
        yield Moment(EVICTED, _since_files(old, now), {"reason": _eviction(facts)})
    if facts.queue is not None and facts.admission is not None and not ended:
        if _turned(ConditionType.ADMITTED, old, new):
            yield _admitted(facts, facts.admission, _wait(obj, old, now), again=bool(old.get("admissions")))
        elif replaced and _id(new) is not None:
            yield _admitted(facts, facts.admission, None, again=True)
    if new.get("admissions", 0) > old.get("admissions", 0):
        yield Moment(INJECTED, injection, {"brokers": new["admission"]["size"]})
    # Once the lead has ended its run has, though the Job does not say so yet.
    yield from _running(old, new, now, ends=ended or replaced or facts.termination is not None)
    if _turned(ConditionType.FINISHED, old, new):
        yield _finished(new, facts, now)


def acceptance(old: Status, new: Status) -> Iterator[Moment]:
    """Whether the MiniCluster, or its last change, has come to be accepted or not."""
    before, after = _condition(old, ConditionType.ACCEPTED), _condition(new, ConditionType.ACCEPTED)
    was = before["reason"] if before and before["status"] == "False" else None
    is_ = after["reason"] if after and after["status"] == "False" else None
    if is_ is not None and is_ != was:
        yield Moment(NOT_ACCEPTED, details={"reason": is_})
    if was is not None and is_ is None:
        yield Moment(ACCEPTED)


def failure(facts: Facts) -> str:
    """Why a run has failed, in one of the words of `FAILURES`."""
    if facts.timed_out:
        return TIMED_OUT
    end = facts.termination
    of_job = facts.decided.message.partition(":")[0] if facts.decided else ""
    if end is None or (of_job == DEADLINE and end.reason in (Reason.TERMINATED, Reason.KILLED)):
        return of_job if of_job in JOB_REASONS else OTHER
    return str(end.reason or Reason.COMMAND_FAILED)


class Sightings:
    """When each admission in force came into the store, as far as it was seen to come.

    Kueue stamps an admission in whole seconds and by its own clock; what an injection takes are milliseconds. An
    admission that is there when the process starts has waited for nobody knows how long, and has no entry.

    Args:
        workloads: Store of Workloads; those of others are passed over.
        jobs: Store of the Jobs that are ours.
        clock: The time of day.
    """

    def __init__(self, workloads: Store, jobs: Store, clock: Callable[[], datetime]) -> None:
        self._jobs = jobs
        self._clock = clock
        self._seen: dict[Key, tuple[str, datetime]] = {}
        workloads.subscribe(self._see)

    def __len__(self) -> int:
        return len(self._seen)

    def seconds(self, namespace: str, admission: Admission) -> float | None:
        """How long ago an admission came into the store; None where that was not seen."""
        id_, since = self._seen.get((namespace, admission.workload), ("", None))
        return (self._clock() - since).total_seconds() if since and id_ == admission.id else None

    def _see(self, old: Object | None, new: Object | None) -> None:
        obj = new or old or {}
        key = key_of(obj)
        admission = workload.read(obj).admission if new is not None and self._is_ours(obj) else None
        if admission is None:
            self._seen.pop(key, None)
        elif old is not None and self._seen.get(key, ("", None))[0] != admission.id and not _was_in(old, admission):
            self._seen[key] = (admission.id, self._clock())

    def _is_ours(self, obj: Object) -> bool:
        meta = obj["metadata"]
        owners = meta.get("ownerReferences", ())
        return any(o["kind"] == "Job" and (meta["namespace"], o["name"]) in self._jobs for o in owners)


def _was_in(old: Object, admission: Admission) -> bool:
    before = workload.read(old).admission
    return before is not None and before.id == admission.id


def _admitted(facts: Facts, admission: Admission, wait: float | None, *, again: bool) -> Moment:
    details: dict[str, str | int | bool] = {
        "size": admission.size,
        "asked": facts.mc.spec.size,
        "queue": facts.queue or "",
        "cluster_queue": admission.cluster_queue,
        "again": again,
    }
    return Moment(ADMITTED, wait, details)


def _wait(obj: Object, old: Status, now: datetime) -> float | None:
    """Seconds since the submission, or since the admission before this one ended."""
    since = obj["metadata"]["creationTimestamp"]
    if old.get("admissions"):
        before = _condition(old, ConditionType.ADMITTED)
        since = before["lastTransitionTime"] if before else None
    return _seconds(since, now)


def _running(old: Status, new: Status, now: datetime, *, ends: bool) -> Iterator[Moment]:
    if _turned(ConditionType.READY, old, new):
        before = _condition(old, ConditionType.READY)
        injected = (new.get("admission") or {}).get("injectedAt")
        # Brokers that come back were up before: it is since the files were written that they were not.
        back = before and injected and _moment(before["lastTransitionTime"]) > _moment(injected)
        yield Moment(UP, None if back else _seconds(injected, now), {"brokers": new["brokersReady"]})
    elif _turned(ConditionType.READY, new, old) and not ends:
        found = _condition(new, ConditionType.READY) or {}
        yield Moment(DOWN, details={"reason": found["reason"], "brokers": new["brokersReady"]})
    for kind in (ConditionType.QUOTA_RESERVED, ConditionType.READY):
        after = _condition(new, kind)
        if after and after["reason"] in WARNINGS and after["reason"] != (_condition(old, kind) or {}).get("reason"):
            yield Moment(HELD_UP, details={"reason": after["reason"]})


def _finished(new: Status, facts: Facts, now: datetime) -> Moment:
    result = str((_condition(new, ConditionType.FINISHED) or {})["reason"])
    details: dict[str, str | int | bool] = {"result": result}
    if result != "Succeeded":
        details["reason"] = failure(facts)
    if "exitCode" in new:
        details["exit_code"] = new["exitCode"]
    return Moment(FINISHED, _since_files(new, now), details)


def _eviction(facts: Facts) -> str:
    evicted = facts.workload.evicted if facts.workload else None
    return (evicted.reason if evicted else "") or UNKNOWN


def _since_files(status: Status, now: datetime) -> float | None:
    return _seconds((status.get("admission") or {}).get("injectedAt"), now)


def _id(status: Status) -> str | None:
    return (status.get("admission") or {}).get("id")


def _seconds(since: str | None, now: datetime) -> float | None:
    # the clocks of two machines may differ, and a time may not be negative
    return max(0.0, (now - _moment(since)).total_seconds()) if since else None


def _moment(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)


def _condition(status: Status, kind: str) -> Mapping[str, Any] | None:
    return find_condition(status.get("conditions", ()), kind)


def _holds(status: Status, kind: str) -> bool:
    found = _condition(status, kind)
    return found is not None and found["status"] == "True"


def _turned(kind: str, old: Status, new: Status) -> bool:
    """Whether a condition holds that did not."""
    return _holds(new, kind) and not _holds(old, kind)
