import asyncio
from typing import Any

import pytest

from bench import observer
from bench.observer import ADMITTED, CONFIG_MAP, FINISHED, JOB_FINISHED, SECRET, SUBMITTED, TURN, UNSUSPENDED, Seen


def workload(job: str, **conditions: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"job-{job}-x", "ownerReferences": [{"kind": "Job", "name": job}]},
        "status": {"conditions": [{"type": kind, "status": status} for kind, status in conditions.items()]},
    }


def test_only_the_first_time_counts():
    seen = Seen()
    observer._workload(seen, 1.0, workload("a", QuotaReserved="True"))
    observer._workload(seen, 2.0, workload("a", QuotaReserved="True", Admitted="True"))
    observer._workload(seen, 3.0, workload("a", QuotaReserved="True", Admitted="True"))
    assert seen.at[ADMITTED] == {"a": 2.0}


def test_a_workload_without_a_job_and_one_without_conditions_are_passed_over():
    seen = Seen()
    observer._workload(seen, 1.0, {"metadata": {"name": "w"}, "status": {"conditions": None}})
    observer._workload(seen, 1.0, workload("a"))
    assert not seen.at[ADMITTED]


def test_jobs_and_miniclusters_are_followed_to_their_end():
    seen = Seen()
    job: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {"suspend": True}, "status": {}}
    observer._job(seen, 1.0, job)
    observer._job(seen, 2.0, {**job, "spec": {"suspend": False}})
    ended = {"conditions": [{"type": "Failed", "status": "True"}]}
    observer._job(seen, 3.0, {**job, "spec": {}, "status": ended})
    mc = {"metadata": {"name": "a"}, "status": {"admission": {"injectedAt": "1970-01-01T00:00:02.500000Z"}}}
    observer._minicluster(seen, 2.6, mc)
    finished = {"conditions": [{"type": "Finished", "status": "True"}]}
    observer._minicluster(seen, 4.0, {**mc, "status": finished})
    assert seen.at == {
        observer.JOB_CREATED: {"a": 1.0},
        UNSUSPENDED: {"a": 2.0},
        JOB_FINISHED: {"a": 3.0},
        TURN: {"a": 2.5},
        FINISHED: {"a": 4.0},
    }


def test_times_run_to_the_last_of_several_points_where_all_are_known():
    seen = Seen()
    for what, name, at in (
        (ADMITTED, "a", 1.0),
        (ADMITTED, "b", 2.0),
        (CONFIG_MAP, "a", 1.25),
        (CONFIG_MAP, "b", 2.25),
        (SECRET, "a", 1.5),
    ):
        seen.note(what, name, at)
    assert seen.between(ADMITTED, CONFIG_MAP, SECRET) == [0.5]
    assert seen.between(ADMITTED, CONFIG_MAP) == [0.25, 0.25]


def test_a_rate_runs_from_the_first_submission_to_the_last_arrival():
    seen = Seen()
    for number in range(4):
        seen.note(SUBMITTED, str(number), number * 0.1)
        seen.note(ADMITTED, str(number), 1.0 + number / 3)
    assert seen.rate(ADMITTED) == pytest.approx(2.0)


async def test_waiting_ends_when_enough_were_seen_and_says_how_many_were_not():
    seen = Seen()
    waiting = asyncio.create_task(seen.until(ADMITTED, 2, timeout=5))
    for number in range(2):
        await asyncio.sleep(0)
        assert not waiting.done()
        seen.note(ADMITTED, str(number), 1.0)
    await waiting
    with pytest.raises(TimeoutError, match="only 2 of 3 admitted"):
        await seen.until(ADMITTED, 3, timeout=0.01)
