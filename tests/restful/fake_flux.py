"""Flux as the server sees it, from memory: what a Cluster answers, without bindings and without brokers."""

import queue
import threading
from collections.abc import Iterator
from typing import Any

from kueue_flux.restful.answers import failed
from kueue_flux.restful.output import Event
from kueue_flux.restful.submission import Submission

ENDED = {"state": 64, "result": 1, "waitstatus": 0, "t_run": 10.0, "t_cleanup": 12.5}
RUNS = {"state": 16, "t_run": 10.0}
WAITS = {"state": 8}


def data(text: str, **more: Any) -> Event:
    return {"name": "data", "context": {"stream": "stdout", "rank": "0", "data": text, **more}}


class FakeFlux:
    """An instance; calling it opens a connection.

    Its jobs are what the test puts into `known`; `events` of a job are its output, and a job that is followed gives
    what comes into its queue, until None.
    """

    def __init__(self) -> None:
        self.known: dict[int, dict[str, Any]] = {}
        self.events: dict[int, list[Event]] = {}
        self.coming: dict[int, queue.Queue[Event | None]] = {}
        self.submitted: list[Submission] = []
        self.cancelled: list[int] = []
        self.fails: Exception | None = None
        self.meets: threading.Barrier | None = None
        self.closed = threading.Event()

    def __call__(self) -> "FakeFlux":
        return self

    def add(self, jobid: int, name: str = "app", **state: Any) -> None:
        self.known[jobid] = {"id": jobid, "name": name, "userid": 0, **(state or ENDED)}

    def job_id(self, text: str) -> int:
        if not text.isdigit():
            raise failed(400, f"{text!r} is no job id")
        return int(text)

    def submit(self, job: Submission) -> int:
        if self.fails:
            raise self.fails
        self.submitted.append(job)
        return 100 + len(self.submitted)

    def jobs(self, limit: int | None = None, details: bool = True) -> list[dict[str, Any]]:
        if self.fails:
            raise self.fails
        if self.meets:
            self.meets.wait(60)
        return list(self.known.values())[:limit]

    def job(self, jobid: int) -> dict[str, Any]:
        if jobid not in self.known:
            raise failed(404, f"There is no job {jobid}.")
        return self.known[jobid]

    def cancel(self, jobid: int) -> None:
        if self.job(jobid)["state"] == 64:
            raise failed(400, "Job cannot be cancelled: job is inactive.")
        self.cancelled.append(jobid)

    def output_now(self, jobid: int) -> list[Event]:
        return self.events.get(jobid, [])

    def follow(self, jobid: int) -> Iterator[Event | None]:
        yield from self.events.get(jobid, [])
        try:
            while jobid in self.coming:
                try:
                    event = self.coming[jobid].get(timeout=0.02)
                except queue.Empty:
                    yield None
                    continue
                if event is None:
                    return
                yield event
        finally:
            self.closed.set()

    def nodes(self) -> list[str]:
        return ["flux-sample-0", "flux-sample-1"]

    def resources(self) -> dict[str, Any]:
        return {"all": {"nnodes": 2, "ncores": 4, "ngpus": 0, "nodelist": self.nodes()}}
