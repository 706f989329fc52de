"""Jobs as flux-restful-api describes them: what the job-list module knows, with words in place of numbers.

Computed here rather than by `flux.job.JobInfo`, which takes ten times as long: a list may have 10,000 jobs. The
numbers are those of RFC 21 (states) and of libflux-core's job.h (results); they have been the same since Flux 0.20.
"""

from __future__ import annotations

import os
import time
from typing import Any, Mapping

STATES = {1: "NEW", 2: "DEPEND", 4: "PRIORITY", 8: "SCHED", 16: "RUN", 32: "CLEANUP", 64: "INACTIVE"}
RESULTS = {1: "COMPLETED", 2: "FAILED", 4: "CANCELED", 8: "TIMEOUT"}
FAILED, CANCELED = 2, 4
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
ABSENT = ("nnodes", "priority", "waitstatus", "nodelist", "ranks", "expiration", "duration")
"""What a job has only later, and flux-restful-api then answers as empty text."""


def describe(job: Mapping[str, Any], now: float | None = None) -> dict[str, Any]:
    """Describe a job.

    Args:
        job: As job-list gives it, with all attributes.
        now: Seconds since the epoch, the time being when None.
    """
    return {
        **dict.fromkeys(ABSENT, ""),
        **job,
        "f58": f58(job["id"]),
        "state": STATES.get(job["state"], str(job["state"])),
        "result": RESULTS.get(job.get("result", 0), ""),
        "returncode": returncode(job),
        "runtime": _runtime(job, time.time() if now is None else now),
        "exception": {
            "occurred": job.get("exception_occurred", ""),
            "severity": job.get("exception_severity", ""),
            "type": job.get("exception_type", ""),
            "note": job.get("exception_note", ""),
        },
    }


def f58(jobid: int) -> str:
    """A job's id as the `flux` command prints it (RFC 19, F58), with an ASCII prefix."""
    digits = ""
    while jobid or not digits:
        jobid, digit = divmod(jobid, 58)
        digits = BASE58[digit] + digits
    return "f" + digits


def returncode(job: Mapping[str, Any]) -> int | str:
    """The job's exit code; a signal's number below zero; empty text for a job that has not ended.

    A job that ended without having run has -128 if it was cancelled, otherwise 1, as in `flux.job.JobInfo`.
    """
    status = job.get("waitstatus")
    if isinstance(status, int):
        return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    codes: dict[Any, int] = {CANCELED: -128, FAILED: 1}
    return codes.get(job.get("result"), "")


def _runtime(job: Mapping[str, Any], now: float) -> float:
    began = job.get("t_run", 0.0)
    return float((job.get("t_cleanup") or now) - began) if began else 0.0


def matches(job: Mapping[str, Any], query: str) -> bool:
    """Whether what is searched for is in any of a described job's values, in whichever case."""
    return any(query.lower() in str(value).lower() for value in job.values())
