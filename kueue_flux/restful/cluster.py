"""The Flux instance, asked over its Python bindings: the one module that imports them.

A Cluster is one handle, for one request and one thread. Opening one takes 0.3 ms (a local socket), and the bindings'
futures do not keep the handle alive that they need: whoever opens a Cluster holds it until all that was asked of it
has been answered, and nothing here outlives the call or generator that made it.

What is used of the bindings has been there since Flux 0.40.
"""

from __future__ import annotations

import errno
import os
from typing import Any, Iterator

import flux
import flux.job
from flux.resource import SchedResourceList

from .answers import Problem, failed
from .output import Event, parse_events
from .submission import Submission, bad_submission

PATIENCE = 30.0
"""Seconds that Flux has for an answer."""
NOT_THE_JOB = (errno.ECONNRESET, errno.ECONNREFUSED, errno.ENOTCONN, errno.EPIPE, errno.ENOSYS)
"""Errors that say nothing about what was asked for."""
OUTPUT = "guest.output"
END: Event = {}


class Cluster:
    """A connection to the broker that FLUX_URI names.

    Raises:
        Problem: 503 where there is none.
    """

    def __init__(self) -> None:
        try:
            self._flux = flux.Flux()
        except OSError as error:
            raise failed(503, f"Flux does not answer: {error}") from None

    @property
    def size(self) -> int:
        """The number of brokers, which is that of the nodes."""
        return int(self._flux.attr_get("size"))

    # -- jobs

    @staticmethod
    def job_id(text: str) -> int:
        """Read a job's id, in any of Flux's ways to write it (RFC 19).

        Raises:
            Problem: 400 for what is none.
        """
        try:
            return int(flux.job.JobID(text))
        except (ValueError, OSError, OverflowError):
            raise failed(
                400, f"{text!r} is no job id: an id is a number, such as 1552869294080, or begins with f or ƒ"
            ) from None

    def submit(self, job: Submission) -> int:
        """Submit a job; returns its id.

        Raises:
            Problem: 400 if Flux refuses it.
        """
        if job.num_nodes is not None and job.num_nodes > self.size:
            raise bad_submission(f"num_nodes: The server only has {self.size} nodes, you requested {job.num_nodes}")
        if job.gpus_per_task is not None and not self.resources()["all"]["ngpus"]:
            raise bad_submission("gpus_per_task: This server does not support gpus: gpus_per_task cannot be set.")
        try:
            future = flux.job.submit_async(self._flux, _jobspec(job))
            self._wait(future)
            return int(future.get_id())
        except (ValueError, OSError) as error:
            if isinstance(error, OSError) and error.errno in NOT_THE_JOB:
                raise _problem(error) from None
            raise failed(400, "There was an issue submitting that job.", Error=str(error)) from None

    def jobs(self, limit: int | None = None, details: bool = True) -> list[dict[str, Any]]:
        """All jobs, active ones first, then the last to end first: one request, however many there are."""
        if limit == 0:
            return []  # to Flux 0 is no limit
        attrs = ["all"] if details else []
        try:
            future = flux.job.job_list(self._flux, max_entries=limit or 0, attrs=attrs)
            self._wait(future)
            return list(future.get_jobs())
        except OSError as error:
            raise _problem(error) from None

    def job(self, jobid: int) -> dict[str, Any]:
        """One job.

        Raises:
            Problem: 404 if there is none.
        """
        try:
            future = flux.job.job_list_id(self._flux, jobid, attrs=["all"])
            self._wait(future)
            return dict(future.get_job())
        except FileNotFoundError:
            raise failed(404, f"There is no job {jobid}.") from None
        except OSError as error:
            raise _problem(error) from None

    def cancel(self, jobid: int) -> None:
        """Cancel a job.

        Raises:
            Problem: 400 if it cannot be cancelled: there is none, or it has ended.
        """
        try:
            future = flux.job.cancel_async(self._flux, jobid)
            self._wait(future)
            future.get()
        except OSError as error:
            if error.errno in NOT_THE_JOB:
                raise _problem(error) from None
            raise failed(400, f"Job cannot be cancelled: {error.strerror or error}.") from None

    # -- output

    def output_now(self, jobid: int) -> list[Event]:
        """The events of the output as far as it has come."""
        try:
            request = {"id": jobid, "keys": [OUTPUT], "flags": 0}
            future = self._flux.rpc("job-info.lookup", request)
            self._wait(future)
            return list(parse_events(future.get()[OUTPUT]))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _problem(error) from None

    def follow(self, jobid: int, tick: float = 1.0) -> Iterator[Event | None]:
        """The events of the output as they come, until the job has written the last; of one that waits, from its start.

        Yields:
            An event; None after each tick (seconds) without one, for the caller to see whether anybody still wants it.
        """
        for event in self._events(jobid, "eventlog", tick):
            if event is not None and event["name"] == "start":
                break
            if event is None or event["name"] == "exception":
                yield event
        else:
            return  # it ended without having run
        for event in self._events(jobid, "guest.exec.eventlog", tick):
            if event is not None and event["name"] == "shell.init":
                break  # from now on there is an output
            if event is None:
                yield None
        yield from self._events(jobid, OUTPUT, tick)

    def _events(self, jobid: int, log: str, tick: float) -> Iterator[Event | None]:
        watch = flux.job.event_watch_async(self._flux, jobid, eventlog=log)
        try:
            while True:
                event = _next(watch, tick)
                if event is END:
                    return
                yield event
        finally:
            del watch  # which cancels it, and has to happen before the handle goes

    # -- resources

    def nodes(self) -> list[str]:
        """The host names of the nodes that are up, each once."""
        up = self._resource_sets().up.nodelist
        return list(dict.fromkeys(str(node) for node in up))

    def resources(self) -> dict[str, dict[str, Any]]:
        """Nodes, cores and GPUs by state: all, up, down, allocated, free."""
        sets = self._resource_sets()
        return {
            state: {
                "nnodes": each.nnodes,
                "ncores": each.ncores,
                "ngpus": each.ngpus,
                "nodelist": [str(node) for node in each.nodelist],
            }
            for state in ("all", "up", "down", "allocated", "free")
            for each in [getattr(sets, state)]
        }

    def _resource_sets(self) -> Any:
        for topic in ("resource.sched-status", "sched.resource-status"):  # the latter in Flux before 0.62
            try:
                future = self._flux.rpc(topic, nodeid=0)
                self._wait(future)
                return SchedResourceList(future.get())
            except OSError as error:
                if error.errno != errno.ENOSYS:
                    raise _problem(error) from None
        raise failed(503, "Flux has no scheduler that knows its resources.")

    @staticmethod
    def _wait(future: Any) -> None:
        """Wait for an answer, so that reading it does not block.

        Raises:
            Problem: 504 if there is none in time.
            OSError: Flux's own answer is an error.
        """
        try:
            future.wait_for(PATIENCE)
        except TimeoutError:
            raise failed(504, f"Flux did not answer within {PATIENCE:.0f} s.") from None


def _next(watch: Any, tick: float) -> Event | None:
    """The next event, None if there is none within a tick, END after the last."""
    try:
        watch.wait_for(tick)
        event = watch.get_event()
    except TimeoutError:
        return None
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOENT):  # the end; or the job ended before there was such a log
            return END
        raise _problem(error) from None
    return END if event is None else {"name": event.name, "context": event.context}


def _jobspec(job: Submission) -> Any:
    spec = flux.job.JobspecV1.from_command(
        job.command,
        num_tasks=job.num_tasks,
        cores_per_task=job.cores_per_task,
        gpus_per_task=job.gpus_per_task,
        num_nodes=job.num_nodes,
        exclusive=job.exclusive,
    )
    for name, value in job.options.items():
        spec.setattr_shell_option(name, value)
    spec.cwd = job.workdir
    spec.duration = job.runtime
    spec.environment = dict(job.env)
    return spec


def _problem(error: OSError) -> Problem:
    """What an error of Flux means to a client: nothing that it did wrong."""
    if error.errno == errno.ENOSYS:
        return failed(503, f"This Flux instance lacks a service: {error.strerror or os.strerror(errno.ENOSYS)}")
    return failed(503, f"Flux cannot answer: {error.strerror or error}")
