"""What the command prints, as pure functions from statuses to text: no cluster, no terminal, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from kueue_flux.cli.visible import visible
from kueue_flux.client.instance import Job, Resources
from kueue_flux.client.miniclusters import event_time
from kueue_flux.client.status import Stage, Status, conditions, parse_time
from kueue_flux.kueue.words import brief
from kueue_flux.kueue.workload import Signal

Paint = Callable[[str, str], str]

COLOURS = {
    Stage.CREATED: "dim",
    Stage.REFUSED: "red",
    Stage.QUEUED: "yellow",
    Stage.RESERVED: "yellow",
    Stage.STARTING: "cyan",
    Stage.RUNNING: "cyan",
    Stage.SUCCEEDED: "green",
    Stage.FAILED: "red",
}

COLUMNS = ("NAME", "QUEUE", "SIZE", "STATUS", "POSITION", "READY", "AGE", "RESULT")
WIDE_COLUMNS = (*COLUMNS, "WORKLOAD", "ADMISSIONS", "MESSAGE")

# How many events `status` shows.
EVENTS = 8


def plain(text: str, _colour: str) -> str:
    """Paint nothing."""
    return text


def duration(seconds: float) -> str:
    """A length of time as kubectl writes ages: 45s, 2m5s, 3h12m, 2d4h."""
    left = max(0, int(seconds))
    if left < 120:
        return f"{left}s"
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    first = next(i for i, (_, length) in enumerate(units) if left >= length)
    parts = []
    for unit, length in units[first : first + 2]:
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def age(since: datetime | None, now: datetime) -> str:
    """How long ago that was; empty for no time."""
    return duration((now - since).total_seconds()) if since else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]], paint: Paint = plain, colours: int = -1) -> str:
    """Align columns as kubectl does.

    Args:
        header: The columns' names.
        rows: Their values; an empty one shows as `-`.
        paint: Colours a text.
        colours: The column whose values are names of stages, to be coloured; -1 for none.
    """
    cells = [list(header), *([_cell(value) or "-" for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = []
    for number, row in enumerate(cells):
        padded = [value.ljust(width) for value, width in zip(row, widths, strict=True)]
        if number and colours >= 0:
            padded[colours] = paint(padded[colours], COLOURS.get(Stage(row[colours]), ""))
        lines.append("   ".join(padded).rstrip())
    return "\n".join(lines)


def row(status: Status, now: datetime, *, wide: bool = False) -> list[str]:
    """One MiniCluster's line in the list."""
    values = [
        status.name,
        status.queue,
        size(status),
        str(status.stage),
        _place(status),
        "" if status.is_finished else f"{status.brokers_ready}/{status.nodes}",
        age(status.created, now),
        result(status),
    ]
    if wide:
        values += [status.workload, str(status.admissions), " ".join(status.message.split())]
    return values


def _place(status: Status) -> str:
    if status.position is None:
        return ""
    return "never fits" if status.exceeds_quota else str(status.position)


def size(status: Status) -> str:
    """The nodes asked for, or `3 of 4` where fewer were admitted."""
    if status.admitted_size is not None and status.admitted_size != status.size:
        return f"{status.admitted_size} of {status.size}"
    return str(status.size)


def result(status: Status) -> str:
    """How it ended, in a word or two; empty before the end."""
    if not status.is_finished:
        return ""
    return status.reason if status.exit_code is None else f"exit {status.exit_code}"


def ahead(status: Status) -> str:
    """A place in the queue in words; empty where it is not known."""
    if status.position is None:
        return ""
    if status.exceeds_quota:
        return f"position {status.position}, but asks for more than the queue ever has"
    behind = f", behind {status.behind}" if status.behind else ""
    return (
        "position 0 (next)" if status.position == 0 else f"position {status.position} ({status.position} ahead{behind})"
    )


def line(status: Status) -> str:
    """Where a MiniCluster stands, in one line."""
    message = " ".join(status.message.split())
    if status.stage in (Stage.QUEUED, Stage.RESERVED):
        message = brief(Signal("", message), partial=status.min_size < status.size)
    why = f"{message} ({status.reason})" if message and status.reason else message or status.reason
    match status.stage:
        case Stage.CREATED:
            return "created, waiting for the kueue-flux controller"
        case Stage.REFUSED:
            return f"refused: {why}"
        case Stage.QUEUED:
            queue = f" in queue {status.queue}" if status.queue else ""
            lost = f"evicted ({status.evicted}), " if status.evicted else ""
            parts = [part for part in (ahead(status), why) if part]
            return f"{lost}waiting for quota{queue}" + (f": {', '.join(parts)}" if parts else "")
        case Stage.RESERVED:
            # An evicted one keeps its quota until its pods have stopped.
            return (
                f"evicted, its pods are stopping: {why}"
                if status.evicted
                else f"quota reserved, not admitted yet: {why}"
            )
        case Stage.STARTING:
            return f"{_admitted(status)}, {counts(status)}"
        case Stage.RUNNING:
            return f"running on {_nodes(status.nodes)}" + (f": {why}" if status.reason in BESIDE else "")
        case Stage.SUCCEEDED:
            return f"succeeded: {message}" if message else "succeeded"
        case Stage.FAILED:
            return f"failed: {message or status.reason}"


def counts(status: Status) -> str:
    """How far pods and brokers have come, and what holds them up."""
    up = f"pods {status.pods_running}/{status.nodes}, brokers {status.brokers_ready}/{status.nodes}"
    message = " ".join(status.message.split())
    stuck = status.reason in STUCK and not message.endswith("pods run")
    return f"{up}: {message} ({status.reason})" if stuck and message else f"{up}: {status.reason}" if stuck else up


# Reasons of Ready=False that tell of a pod that does not come up by itself.
STUCK = frozenset(
    {"ImagePullFailed", "PodsPending", "PodsNotCreated", "SidecarFailed", "VolumeMissing", "VolumePending"}
    | {"ServicesNotReady", "ServicesStarting"}
)
# Reasons of Ready=True that tell of what is wrong beside the brokers.
BESIDE = frozenset({"SidecarFailed", "ServicesNotReady", "ServicesStarting"})


def _admitted(status: Status) -> str:
    if not status.queue:
        return f"starting {_nodes(status.nodes)}"
    whole = status.nodes == status.size
    return f"admitted with {_nodes(status.nodes) if whole else f'{status.nodes} of {_nodes(status.size)}'}"


def some(count: int, what: str) -> str:
    """So many of something: `1 node`, `2 nodes`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _nodes(count: int) -> str:
    return some(count, "node")


def report(
    obj: Mapping[str, Any], status: Status, events: Iterable[Mapping[str, Any]], now: datetime, paint: Paint = plain
) -> str:
    """A MiniCluster for a person: where it stands, its conditions in words, its last events.

    Args:
        obj: The MiniCluster.
        status: The same, read.
        events: Its events, oldest first (core/v1).
        now: The present time, with a time zone.
        paint: Colours a text.
    """
    facts = {
        "Status": "being deleted" if status.deleting else line(status),
        "Command": _command(obj),
        "Size": (_nodes(status.size) if size(status) == str(status.size) else f"{size(status)} nodes")
        + (f", at least {status.min_size}" if status.min_size < status.size else "")
        + (f", admitted {status.admissions} times" if status.admissions > 1 else ""),
        "Pods": "" if status.is_finished else _pods(status),
        "Queue": ", ".join(part for part in (status.queue, ahead(status)) if part) or "none",
        "Workload": status.workload,
        "Result": _result(status),
        "Age": _ages(status, now),
    }
    lines = [f"{paint(status.name, 'bold')} in namespace {status.namespace}"]
    colours = {"Status": COLOURS[status.stage]}
    lines += [f"  {name:<9} {paint(_cell(value), colours.get(name, ''))}" for name, value in facts.items() if value]
    found = [
        [f"  {c['type']}", _holds(c), age(parse_time(c.get("lastTransitionTime")), now), _why(c)]
        for c in conditions(obj).values()
    ]
    if found:
        lines += ["", paint("Conditions", "bold"), *_aligned(found)]
    tail = [
        [f"  {age(parse_time(event_time(e)), now)}", str(e.get("type", "")), str(e.get("reason", "")), _note(e)]
        for e in list(events)[-EVENTS:]
    ]
    if tail:
        lines += ["", paint("Events", "bold"), *_aligned(tail)]
    return "\n".join(lines)


def record(status: Status) -> dict[str, Any]:
    """One MiniCluster for programs: the keys stay, new ones may come."""
    return {
        "name": status.name,
        "namespace": status.namespace,
        "stage": str(status.stage),
        "reason": status.reason,
        "message": status.message,
        "evicted": status.evicted,
        "queue": status.queue,
        "position": status.position,
        "behind": status.behind,
        "workload": status.workload,
        "size": status.size,
        "minSize": status.min_size,
        "admittedSize": status.admitted_size,
        "podsRunning": status.pods_running,
        "brokersReady": status.brokers_ready,
        "admissions": status.admissions,
        "exitCode": status.exit_code,
        "created": status.created.isoformat() if status.created else None,
        "finished": status.finished.isoformat() if status.finished else None,
        "deleting": status.deleting,
    }


def job_record(job: Job) -> dict[str, Any]:
    """One job of a Flux instance for programs."""
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state,
        "result": job.result,
        "exitCode": job.exit_code,
        "nodes": job.nodes,
        "tasks": job.tasks,
        "hosts": job.hosts,
        "seconds": job.seconds,
    }


def resources_record(found: Resources) -> dict[str, Any]:
    """Nodes of one state of a Flux instance, for programs."""
    return {
        "state": found.state,
        "nodes": found.nodes,
        "cores": found.cores,
        "gpus": found.gpus,
        "hosts": found.hosts,
    }


def _pods(status: Status) -> str:
    return f"{status.pods_running}/{status.nodes} running, brokers {status.brokers_ready}/{status.nodes} up"


def _result(status: Status) -> str:
    if not status.is_finished:
        return ""
    code = "" if status.exit_code is None else f", exit code {status.exit_code}"
    return f"{status.reason}{code}"


def _ages(status: Status, now: datetime) -> str:
    ended = f", finished {age(status.finished, now)} ago" if status.finished else ""
    return f"{age(status.created, now)}{ended}"


def _command(obj: Mapping[str, Any]) -> str:
    spec = obj.get("spec") or {}
    containers = spec.get("containers") or [{}]
    container = next((c for c in containers if c.get("runFlux")), containers[0])
    if spec.get("interactive"):
        what = "none, it is interactive"
    elif words := container.get("command", "").split():
        what = " ".join(words)
    elif (container.get("commands") or {}).get("script"):
        what = "a script"
    else:
        what = "none, it serves a RESTful API"
    return f"{what}   (image {container.get('image', '')})"


def _holds(condition: Mapping[str, Any]) -> str:
    return {"True": "yes", "False": "no"}.get(str(condition.get("status")), "unknown")


def _why(condition: Mapping[str, Any]) -> str:
    reason, message = str(condition.get("reason", "")), " ".join(str(condition.get("message", "")).split())
    return f"{reason}: {message}" if message else reason


def _note(event: Mapping[str, Any]) -> str:
    count = event.get("count") or (event.get("series") or {}).get("count") or 1
    times = f" ({count} times)" if count > 1 else ""
    return " ".join(str(event.get("message", "")).split()) + times


def _cell(text: str) -> str:
    return visible(text.replace("\n", " "))


def _aligned(uneven: Sequence[Sequence[str]]) -> list[str]:
    rows = [[_cell(value) for value in row] for row in uneven]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in rows]
