"""Where a MiniCluster stands, read from its object into one plain value.

Conditions are for programs that look at one aspect each. A person asks one question, so here the six become
one stage. Pure: works on any object that the API server returned, also on one that this version finds invalid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from kueue_flux.api.conditions import ConditionType, Reason
from kueue_flux.client.errors import Refused
from kueue_flux.kueue.capacity import AT_MOST, EXCEEDS
from kueue_flux.kueue.labels import QUEUE_NAME

# Reasons of Accepted=False after which nothing more happens until the object is made anew. SpecChanged is none
# of them (what was submitted goes on), nor is NameTaken (it ends when the other object goes).
FINAL_REFUSALS = frozenset({Reason.INVALID_SPEC, Reason.UNSUPPORTED_FIELD, Reason.CONFLICTING_CONTROLLER})

# How Kueue says that a request is above the maximum: by a reason, or in words, flavor by flavor, under a more
# general one. Source: Kueue 0.19, ``pkg/scheduler/flavorassigner``.
_NEVER = re.compile(r"insufficient quota for \S+ in flavor ([^,]+),[^>]*> maximum capacity")
_NOT_YET = re.compile(r"insufficient unused quota.*? in flavor ([^,]+),")

_POSITION = re.compile(r"^position \d+ in the queue \(0 is next\)(, behind [^:]*)?: ")


class Stage(StrEnum):
    """The stages of a MiniCluster. An eviction leads back to QUEUED."""

    CREATED = "Created"  # no controller has looked at it yet
    REFUSED = "Refused"
    QUEUED = "Queued"  # waits for quota
    RESERVED = "Reserved"  # has quota, waits for admission checks
    STARTING = "Starting"  # admitted; pods and brokers come up
    RUNNING = "Running"  # all brokers are up
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True)
class Result:
    """How a MiniCluster ended, or that it reached what was waited for.

    Attributes:
        succeeded: True or False once it has finished, None before.
        exit_code: The command's exit code; None before the end, or where no command ran.
        reason: The reason of the Finished condition, or of the condition waited for.
        message: The same in words.
    """

    succeeded: bool | None
    exit_code: int | None
    reason: str
    message: str


@dataclass(frozen=True)
class Status:
    """One MiniCluster at one moment.

    Attributes:
        name: Its name.
        namespace: Its namespace.
        stage: Where it stands.
        message: Why it stands there, in words; empty where there is nothing to say.
        reason: The same in one word.
        size: Nodes asked for, one pod and one Flux broker each.
        min_size: The fewest nodes that it would start with.
        admitted_size: Nodes admitted; None while it is not admitted.
        evicted: Why it lost its last admission, while it waits for the next; else empty.
        queue: Its LocalQueue; empty without one.
        position: Workloads ahead of it in the queue (0 is next); None where it is not known or not waiting.
        pods_running: Pods whose containers run.
        brokers_ready: Flux brokers that are up.
        admissions: How often it was admitted; more than one after an eviction.
        workload: The name of Kueue's Workload; empty without one.
        exit_code: The command's exit code, once there is one.
        created: When it was created.
        finished: When it finished; None before.
        deleting: Whether it is being deleted.
        behind: Who stands directly ahead of it in its LocalQueue; empty where that is not known, or nobody.
    """

    name: str
    namespace: str
    stage: Stage
    message: str
    reason: str
    evicted: str
    size: int
    min_size: int
    admitted_size: int | None
    queue: str
    position: int | None
    pods_running: int
    brokers_ready: int
    admissions: int
    workload: str
    exit_code: int | None
    created: datetime | None
    finished: datetime | None
    deleting: bool
    behind: str = ""

    @classmethod
    def from_object(cls, obj: Mapping[str, Any]) -> Status:
        """Read a MiniCluster as the API server returns it.

        Args:
            obj: A `flux-framework.org/v1alpha2` MiniCluster.
        """
        meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
        stage, condition = _stage(status)
        size = int(spec.get("size") or 1)
        admission = status.get("admission") or {}
        # The status keeps the last admission of a finished MiniCluster, and may lag behind an eviction.
        waiting = stage in (Stage.CREATED, Stage.REFUSED, Stage.QUEUED, Stage.RESERVED)
        return cls(
            name=meta["name"],
            namespace=meta.get("namespace", "default"),
            stage=stage,
            # The position has a field of its own, which may be newer than the message.
            message=_POSITION.sub("", str(condition.get("message", ""))),
            reason=str(condition.get("reason", "")),
            evicted=_eviction(status) if waiting else "",
            size=size,
            min_size=int(spec.get("minSize") or size),
            admitted_size=None if waiting else admission.get("size"),
            queue=str(status.get("queue") or _queue_label(obj)),
            position=status.get("queuePosition") if stage is Stage.QUEUED else None,
            pods_running=int(status.get("podsRunning") or 0),
            brokers_ready=int(status.get("brokersReady") or 0),
            admissions=int(status.get("admissions") or 0),
            workload=str(status.get("workload") or ""),
            exit_code=status.get("exitCode"),
            created=parse_time(meta.get("creationTimestamp")),
            finished=parse_time(status.get("completionTime")),
            deleting="deletionTimestamp" in meta,
        )

    @property
    def nodes(self) -> int:
        """The nodes that it runs on, or asks for."""
        return self.admitted_size or self.size

    @property
    def exceeds_quota(self) -> bool:
        """Whether it asks for more than its queue ever has: then no end of waiting helps."""
        if self.stage is not Stage.QUEUED:
            return False
        if self.reason == EXCEEDS and AT_MOST in self.message:
            return True
        if self.min_size < self.size:
            return False  # Kueue's words are about the full size
        never, not_yet = (set(pattern.findall(self.message)) for pattern in (_NEVER, _NOT_YET))
        return self.reason == EXCEEDS or bool(never and not_yet <= never)

    @property
    def is_finished(self) -> bool:
        """Whether the command has ended, well or not."""
        return self.stage in (Stage.SUCCEEDED, Stage.FAILED)

    @property
    def result(self) -> Result | None:
        """How it ended; None before the end."""
        if not self.is_finished:
            return None
        return Result(self.stage is Stage.SUCCEEDED, self.exit_code, self.reason, self.message)


def refusal(status: Status) -> Refused | None:
    """The error that says that a MiniCluster will never run; None where it may."""
    if status.stage is not Stage.REFUSED or status.reason not in FINAL_REFUSALS:
        return None
    if status.reason == Reason.CONFLICTING_CONTROLLER and status.admissions:
        return None  # it runs, and the conflict is forgotten once the other operator is silent
    return Refused(
        f"MiniCluster {status.name} is refused: {status.message} ({status.reason})",
        "delete it and submit one without these faults",
    )


def conditions(obj: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The conditions of an object, by type."""
    return {c["type"]: c for c in (obj.get("status") or {}).get("conditions") or []}


def parse_time(text: str | None) -> datetime | None:
    """Read a time as Kubernetes writes it (RFC 3339); None and empty text are no time."""
    return datetime.fromisoformat(text) if text else None


def _queue_label(obj: Mapping[str, Any]) -> str:
    own = obj["metadata"].get("labels") or {}
    job = (obj.get("spec") or {}).get("jobLabels") or {}
    return str(own.get(QUEUE_NAME) or job.get(QUEUE_NAME) or "")


def _stage(status: Mapping[str, Any]) -> tuple[Stage, Mapping[str, Any]]:
    """The stage, and the condition that says why: the first one on the way that does not hold yet."""
    known = conditions({"status": status})

    def says(kind: ConditionType, answer: str) -> bool:
        return known.get(kind, {}).get("status") == answer

    finished = known.get(ConditionType.FINISHED, {})
    if says(ConditionType.FINISHED, "True"):
        return (Stage.SUCCEEDED if finished.get("reason") == Reason.SUCCEEDED else Stage.FAILED), finished
    accepted = known.get(ConditionType.ACCEPTED, {})
    if says(ConditionType.ACCEPTED, "False") and accepted.get("reason") != Reason.SPEC_CHANGED:
        return Stage.REFUSED, accepted
    if says(ConditionType.READY, "True"):
        return Stage.RUNNING, known[ConditionType.READY]
    if says(ConditionType.ADMITTED, "True"):
        return Stage.STARTING, known.get(ConditionType.READY, known[ConditionType.ADMITTED])
    if says(ConditionType.QUOTA_RESERVED, "True"):
        return Stage.RESERVED, known.get(ConditionType.ADMITTED, known[ConditionType.QUOTA_RESERVED])
    if ConditionType.QUOTA_RESERVED in known:
        return Stage.QUEUED, known[ConditionType.QUOTA_RESERVED]
    return Stage.CREATED, accepted


def _eviction(status: Mapping[str, Any]) -> str:
    admitted = conditions({"status": status}).get(ConditionType.ADMITTED, {})
    if not status.get("admissions") or admitted.get("status") != "False":
        return ""
    reason = str(admitted.get("reason", ""))
    return "" if reason == Reason.PENDING else reason
