"""The conditions of a MiniCluster: where it stands on its way from submission to result, in words.

Six conditions, in order of life; each has a reason for programs and a message for people. There is no phase:
a MiniCluster that is evicted goes back from Ready to waiting, and conditions say so without inventing states.
Convention: Kubernetes API conventions, "Typical status properties"; metav1.Condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from kueue_flux.api.base import ApiModel, Timestamp

ConditionStatus = Literal["True", "False", "Unknown"]

_REASON = r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_MESSAGE_LIMIT = 32768  # characters, metav1.Condition's own limit


class ConditionType(StrEnum):
    """The conditions, in order of life."""

    ACCEPTED = "Accepted"
    QUOTA_RESERVED = "QuotaReserved"
    ADMITTED = "Admitted"
    INJECTED = "Injected"
    READY = "Ready"
    FINISHED = "Finished"


class Reason(StrEnum):
    """The reasons that are ours. QuotaReserved and Admitted also carry Kueue's reasons as they are."""

    # Accepted
    ACCEPTED = "Accepted"
    INVALID_SPEC = "InvalidSpec"
    UNSUPPORTED_FIELD = "UnsupportedField"
    SPEC_CHANGED = "SpecChanged"
    NAME_TAKEN = "NameTaken"
    REFUSED = "Refused"
    CONFLICTING_CONTROLLER = "ConflictingController"
    # QuotaReserved
    QUOTA_RESERVED = "QuotaReserved"
    NOT_QUEUED = "NotQueued"
    WAITING_FOR_SETUP = "WaitingForSetup"
    WAITING_FOR_WORKLOAD = "WaitingForWorkload"
    SERVICES_PENDING = "ServicesPending"
    KUEUE_NOT_READY = "KueueNotReady"
    # Admitted (and NotQueued)
    ADMITTED = "Admitted"
    PENDING = "Pending"
    # Injected
    FILES_WRITTEN = "FilesWritten"
    WAITING_FOR_ADMISSION = "WaitingForAdmission"
    WAITING_FOR_SERVICES = "WaitingForServices"
    WITHDRAWN = "Withdrawn"
    # Ready (and WaitingForAdmission)
    BROKERS_UP = "BrokersUp"
    PODS_PENDING = "PodsPending"
    PODS_NOT_CREATED = "PodsNotCreated"
    VOLUME_MISSING = "VolumeMissing"
    VOLUME_PENDING = "VolumePending"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    SERVICES_STARTING = "ServicesStarting"
    SERVICES_NOT_READY = "ServicesNotReady"
    SIDECAR_FAILED = "SidecarFailed"
    BROKERS_STARTING = "BrokersStarting"
    FINISHED = "Finished"
    # Finished
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    WAITING = "Waiting"
    RUNNING = "Running"


class Condition(ApiModel):
    """One aspect of where a MiniCluster stands (metav1.Condition)."""

    type: Annotated[str, Field(min_length=1, max_length=316)] = Field(description="Which aspect.")
    status: ConditionStatus = Field(description="Whether it holds.")
    reason: Annotated[str, Field(min_length=1, max_length=1024)] = Field(description="Why, for programs.")
    message: Annotated[str, Field(max_length=_MESSAGE_LIMIT)] = Field(description="Why, for people.")
    last_transition_time: Timestamp = Field(description="When the status last changed (RFC 3339).")
    observed_generation: Annotated[int, Field(ge=0)] = Field(
        default=0, description="The metadata.generation that the condition speaks of."
    )


def find_condition(conditions: Iterable[Mapping[str, Any]], type: str) -> Mapping[str, Any] | None:
    """Return the condition of that type as it stands in an object's status, None if there is none."""
    return next((condition for condition in conditions if condition.get("type") == type), None)


def set_condition(
    conditions: Iterable[Mapping[str, Any]],
    type: str,
    status: ConditionStatus,
    reason: str,
    message: str,
    observed_generation: int,
    now: datetime,
) -> list[dict[str, Any]]:
    """Return the conditions with one of them set, in order of life; the given ones stay as they are.

    Args:
        conditions: as in an object's status.
        type: a ConditionType; others are allowed and come last.
        status: "True", "False" or "Unknown".
        reason: one CamelCase word.
        message: words for people; cut at 32768 characters.
        observed_generation: the metadata.generation that was looked at.
        now: with a time zone; becomes lastTransitionTime if the status is new.

    Raises:
        ValueError: the reason is no CamelCase word, or `now` has no time zone.
    """
    if not re.fullmatch(_REASON, reason):
        raise ValueError(f"a condition's reason must be one CamelCase word, not {reason!r}")
    if now.tzinfo is None:
        raise ValueError("a condition's time needs a time zone")
    old = find_condition(conditions := list(conditions), type)
    same = old is not None and old.get("status") == status
    new = {
        "type": str(type),
        "status": status,
        "reason": str(reason),
        "message": message[:_MESSAGE_LIMIT],
        "observedGeneration": observed_generation,
        "lastTransitionTime": old["lastTransitionTime"] if old is not None and same else timestamp(now),
    }
    others = [dict(condition) for condition in conditions if condition.get("type") != type]
    return sorted([*others, new], key=_order_of_life)


def timestamp(now: datetime) -> str:
    """Return a moment as Kubernetes writes it: RFC 3339 in UTC, whole seconds."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_ORDER = {str(type): position for position, type in enumerate(ConditionType)}


def _order_of_life(condition: Mapping[str, Any]) -> tuple[int, str]:
    type = str(condition.get("type", ""))
    return _ORDER.get(type, len(_ORDER)), type
