"""Conditions: when their time changes, and their order."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from kueue_flux.api.conditions import (
    Condition,
    ConditionType,
    Reason,
    find_condition,
    set_condition,
    timestamp,
)

T0 = datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)
T1 = T0 + timedelta(minutes=1)
TEXT0, TEXT1 = "2026-01-02T03:04:05Z", "2026-01-02T03:05:05Z"


def ready(status: str = "False", time: str = TEXT0) -> dict[str, Any]:
    return {
        "type": "Ready",
        "status": status,
        "reason": "PodsPending",
        "message": "1 of 4 pods runs",
        "observedGeneration": 1,
        "lastTransitionTime": time,
    }


def test_a_new_condition_is_complete() -> None:
    conditions = set_condition([], ConditionType.READY, "False", Reason.PODS_PENDING, "1 of 4 pods runs", 1, T0)
    assert conditions == [ready()]
    assert Condition.model_validate(conditions[0]).last_transition_time == TEXT0


def test_plain_strings_are_stored() -> None:
    (condition,) = set_condition([], ConditionType.READY, "False", Reason.PODS_PENDING, "", 1, T0)
    assert type(condition["type"]) is str
    assert type(condition["reason"]) is str


@pytest.mark.parametrize(
    ("status", "reason", "message", "time"),
    [
        ("False", "PodsPending", "1 of 4 pods runs", TEXT0),
        ("False", "PodsPending", "3 of 4 pods run", TEXT0),
        ("False", "BrokersStarting", "all pods run", TEXT0),
        ("True", "BrokersUp", "4 brokers are up", TEXT1),
        ("Unknown", "PodsPending", "", TEXT1),
    ],
)
def test_the_time_is_that_of_the_last_change_of_status(status: Any, reason: str, message: str, time: str) -> None:
    (condition,) = set_condition([ready()], ConditionType.READY, status, reason, message, 2, T1)
    assert condition["lastTransitionTime"] == time
    assert (condition["status"], condition["reason"], condition["message"]) == (status, reason, message)
    assert condition["observedGeneration"] == 2


def test_the_given_conditions_stay_as_they_are() -> None:
    given = [ready()]
    before = copy.deepcopy(given)
    changed = set_condition(given, ConditionType.READY, "True", Reason.BROKERS_UP, "", 1, T1)
    changed[0]["message"] = "changed"
    assert given == before


def test_conditions_stand_in_order_of_life_and_others_last() -> None:
    conditions: list[dict[str, Any]] = [{"type": "Theirs", "status": "True"}]
    for type in reversed(ConditionType):
        conditions = set_condition(conditions, type, "Unknown", "Waiting", "", 1, T0)
    assert [condition["type"] for condition in conditions] == [*map(str, ConditionType), "Theirs"]
    assert [str(type) for type in ConditionType][0::5] == ["Accepted", "Finished"]


def test_setting_twice_changes_nothing() -> None:
    once = set_condition([], ConditionType.ACCEPTED, "True", Reason.ACCEPTED, "fine", 1, T0)
    assert set_condition(once, ConditionType.ACCEPTED, "True", Reason.ACCEPTED, "fine", 1, T1) == once


def test_kueues_reasons_pass_as_they_are() -> None:
    (condition,) = set_condition([], ConditionType.QUOTA_RESERVED, "False", "WaitingForQuota", "", 1, T0)
    assert condition["reason"] == "WaitingForQuota"


@pytest.mark.parametrize("reason", ["", "two words", "9Lives", "Ends-"])
def test_a_reason_is_one_word(reason: str) -> None:
    with pytest.raises(ValueError, match="CamelCase"):
        set_condition([], ConditionType.READY, "False", reason, "", 1, T0)


def test_a_time_without_zone_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="time zone"):
        set_condition([], ConditionType.READY, "False", Reason.PODS_PENDING, "", 1, datetime(2026, 1, 1))


def test_a_long_message_is_cut_where_the_api_server_would_refuse_it() -> None:
    (condition,) = set_condition([], ConditionType.READY, "False", Reason.PODS_PENDING, "x" * 40_000, 1, T0)
    assert len(condition["message"]) == 32768


def test_times_are_written_in_utc() -> None:
    assert timestamp(T0.astimezone(timezone(timedelta(hours=5)))) == TEXT0


def test_find() -> None:
    conditions = [ready("True")]
    assert find_condition(conditions, ConditionType.READY) == ready("True")
    assert find_condition(conditions, ConditionType.FINISHED) is None
