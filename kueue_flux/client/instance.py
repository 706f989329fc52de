"""The Flux instance of a MiniCluster that runs: programs beside its lead's broker, and Flux's own commands by them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kueue_flux.client import logs
from kueue_flux.client.connection import Connection
from kueue_flux.client.errors import (
    ClientError,
    Forbidden,
    JobRejected,
    NotFound,
    NotRunning,
    Rejected,
    Unavailable,
    Unreachable,
)
from kueue_flux.client.exec import Streams, execute
from kueue_flux.client.status import Stage, Status
from kueue_flux.flux import layout

# Tells the lead's command, or what stands in for one, to end, and that this is what somebody wants.
STOP = ': >"$1" && kill -TERM "$(cat "$2")"'

# For taking back a job that nobody waits for any more, seconds.
CANCEL_SECONDS = 10.0

# Fields of `flux resource list`, one line for each state and kind of node.
RESOURCES = "{state}\t{nnodes}\t{ncores}\t{ngpus}\t{nodelist}"


@dataclass(frozen=True)
class Completed:
    """A program that has ended.

    Attributes:
        exit_code: Its exit code; 128 + N where signal N ended it.
        stdout: What it printed.
        stderr: What it printed on standard error.
    """

    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Job:
    """A job of the Flux instance, as `flux jobs` shows it.

    Attributes:
        id: Its id, such as `fAbc12`.
        name: The name of its command, or as given by --job-name.
        state: DEPEND, PRIORITY, SCHED, RUN, CLEANUP or INACTIVE.
        result: COMPLETED, FAILED, CANCELED or TIMEOUT once it has ended; else empty.
        exit_code: Its exit code; None before its end, or where it had none.
        nodes: How many nodes it has; 0 before it has any.
        tasks: How many tasks.
        hosts: Its nodes as a Flux hostlist; empty before it has any.
        seconds: How long it has run, or ran.
    """

    id: str
    name: str
    state: str
    result: str
    exit_code: int | None
    nodes: int
    tasks: int
    hosts: str
    seconds: float

    @property
    def is_finished(self) -> bool:
        """Whether it has ended."""
        return self.state == "INACTIVE"


@dataclass(frozen=True)
class Resources:
    """Nodes of one state.

    Attributes:
        state: `free`, `allocated` or `down`.
        nodes: How many.
        cores: Their cores.
        gpus: Their GPUs.
        hosts: Their names as a Flux hostlist.
    """

    state: str
    nodes: int
    cores: int
    gpus: int
    hosts: str


@dataclass(frozen=True)
class Lead:
    """Where the lead's broker runs.

    Attributes:
        minicluster: The MiniCluster's name.
        path: The API path of its pod.
        container: The container that runs Flux.
    """

    minicluster: str
    path: str
    container: str


async def run(connection: Connection, lead: Lead, words: Sequence[str], streams: Streams) -> int:
    """Run a program in the lead's container, connected to the instance.

    Args:
        connection: The cluster.
        lead: Where.
        words: The program and its arguments; none for a shell.
        streams: Its input and output.

    Returns:
        Its exit code.

    Raises:
        Forbidden: The caller may not run programs in pods.
        NotRunning: The container is gone.
        ClientError: The cluster cannot be asked, or the connection was lost.
    """
    return await _execute(connection, lead, ["/bin/sh", layout.ENTER_SCRIPT, *words], streams)


async def submit(connection: Connection, lead: Lead, words: Sequence[str]) -> str:
    """Submit a job.

    Args:
        connection: The cluster.
        lead: Where.
        words: What follows `flux submit`: options, and the command.

    Returns:
        Its id.

    Raises:
        JobRejected: Flux does not take it.
        ClientError: As for `run`.
    """
    done = await completed(lambda streams: run(connection, lead, ["flux", "submit", *words], streams))
    if done.exit_code:
        raise JobRejected(
            f"Flux does not take the job: {_last_line(done.stderr)}",
            f"its options are those of flux submit: kueue-flux shell {lead.minicluster} -- flux submit --help",
        )
    return plain_id(done.stdout)


async def run_job(connection: Connection, lead: Lead, words: Sequence[str], streams: Streams) -> int:
    """Run a job to its end. Where that is not waited for, it is cancelled.

    Args:
        connection: The cluster.
        lead: Where.
        words: What follows `flux run`: options, and the command.
        streams: Its input and output.

    Returns:
        Its exit code.

    Raises:
        JobRejected: Flux does not take it.
        Unreachable: The connection was lost; the job goes on.
        ClientError: As for `run`.
    """
    submitting = asyncio.create_task(submit(connection, lead, words))
    try:
        job = await asyncio.shield(submitting)  # so that its id is known, whatever happens
        return await run(connection, lead, ["flux", "job", "attach", job], streams)
    except asyncio.CancelledError:
        await _cancel(connection, lead, submitting)
        raise
    except Unreachable as error:
        raise Unreachable(error.message, f"the job may go on: kueue-flux jobs {lead.minicluster}") from error


async def _cancel(connection: Connection, lead: Lead, submitting: asyncio.Task[str]) -> None:
    with suppress(ClientError, TimeoutError):  # whoever gives up waiting is not kept
        async with asyncio.timeout(CANCEL_SECONDS):
            job = await submitting
            await completed(lambda streams: run(connection, lead, ["flux", "cancel", job], streams))


async def stop(connection: Connection, lead: Lead) -> None:
    """Tell the instance to end; returns at once.

    Raises:
        ClientError: As for `run`.
    """
    words = ["/bin/sh", "-c", STOP, "stop", layout.STOPPED, layout.COMMAND_PID]
    done = await completed(lambda streams: _execute(connection, lead, words, streams))
    if done.exit_code:
        raise ClientError(
            f"it cannot be stopped: {_last_line(done.stderr)}",
            f"see where it stands: kueue-flux status {lead.minicluster}",
        )


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it does not say why"])[-1]


async def completed(execution: Callable[[Streams], Awaitable[int]], stdin: bytes | None = None) -> Completed:
    """Collect what a program prints.

    Args:
        execution: Called with the streams; runs the program and returns its exit code.
        stdin: What the program reads; None for nothing.
    """
    out, err = bytearray(), bytearray()
    streams = Streams(out.extend, err.extend, None if stdin is None else _once(stdin))
    code = await execution(streams)
    return Completed(code, out.decode(errors="replace"), err.decode(errors="replace"))


async def _once(data: bytes) -> AsyncGenerator[bytes, None]:
    yield data


async def _execute(connection: Connection, lead: Lead, words: Sequence[str], streams: Streams) -> int:
    name = lead.path.rpartition("/")[2]
    try:
        return await execute(connection, lead.path, lead.container, words, streams)
    except Forbidden as error:
        raise Forbidden(
            f"you may not run programs in pod {name}: {error.message}",
            "ask for permission to create pods/exec; the ClusterRoles edit and admin have it",
        ) from error
    except (NotFound, Rejected, Unavailable) as error:
        raise NotRunning(
            f"the container of the lead, {name}, is gone or does not answer: {error.message}",
            f"see where its MiniCluster stands: kueue-flux status {lead.minicluster}",
        ) from error


async def find_lead(connection: Connection, obj: Mapping[str, Any], namespace: str) -> Lead:
    """Find the lead of a MiniCluster that runs.

    Args:
        connection: The cluster.
        obj: The MiniCluster.
        namespace: Its namespace.

    Raises:
        NotRunning: It has no lead that runs.
        ClientError: The cluster cannot be asked.
    """
    name = obj["metadata"]["name"]
    found = await logs.current_lead(connection, namespace, obj["metadata"]["uid"])
    if found is None or not found.running:
        raise NotRunning(
            f"the lead of MiniCluster {name} is gone, and another has not begun",
            f"wait until it runs again: kueue-flux wait {name} --for ready",
        )
    return Lead(name, f"{logs.pods_path(namespace)}/{found.pod}", found.container)


def check_running(status: Status) -> None:
    """Check that a MiniCluster's brokers are up.

    Args:
        status: Where it stands, with its exact position.

    Raises:
        NotRunning: They are not, or not any more.
    """
    name = status.name
    if status.stage is Stage.RUNNING and not status.deleting:
        return
    if status.deleting:
        raise NotRunning(f"MiniCluster {name} is being deleted")
    if status.is_finished:
        raise NotRunning(
            f"MiniCluster {name} has finished: {status.message}",
            f"see what it printed: kueue-flux logs {name}; to use it again, delete it and submit it again",
        )
    if status.stage is Stage.REFUSED:
        raise NotRunning(f"MiniCluster {name} is refused: {status.message}", "delete it, and submit one that is not")
    raise NotRunning(
        f"MiniCluster {name} does not run yet: {_where(status)}",
        f"wait for it: kueue-flux wait {name} --for ready",
    )


def _where(status: Status) -> str:
    if status.stage is Stage.QUEUED:
        place = "" if status.position is None else f" at position {status.position}"
        return f"it waits in queue {status.queue}{place}, {status.message}"
    return f"it is {status.stage.lower()}, {status.message or 'no reason given'}"


def parse_jobs(text: str) -> tuple[Job, ...]:
    """Read what `flux jobs --json` prints."""
    return tuple(_job(entry) for entry in json.loads(text)["jobs"])


def _job(entry: Mapping[str, Any]) -> Job:
    code = entry.get("returncode")
    return Job(
        id=plain_id(str(entry["jobid"])),
        name=str(entry.get("name", "")),
        state=str(entry.get("state", "")),
        result=str(entry.get("result") or ""),
        exit_code=code if isinstance(code, int) and code >= 0 else None,
        nodes=int(entry.get("nnodes") or 0),
        tasks=int(entry.get("ntasks") or 0),
        hosts=str(entry.get("nodelist") or ""),
        seconds=float(entry.get("runtime") or 0),
    )


def plain_id(text: str) -> str:
    """A job's id (RFC 19, F58) as it can be typed everywhere: with `f`, where Flux may write `ƒ`."""
    return text.strip().replace("ƒ", "f")


def parse_resources(text: str) -> tuple[Resources, ...]:
    """Read what `flux resource list` prints in the form RESOURCES."""
    rows = (line.split("\t") for line in text.splitlines())
    return tuple(Resources(state, int(n), int(cores), int(gpus), hosts) for state, n, cores, gpus, hosts in rows)
