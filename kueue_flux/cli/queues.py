"""Queues as text and as records, as pure functions: no cluster, no terminal, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from kueue_flux.cli.render import Paint, age, plain, size, table
from kueue_flux.cli.visible import visible
from kueue_flux.client.queues import Contents, Overview, Queue, Share, State
from kueue_flux.client.status import Status
from kueue_flux.kueue.entries import Entry, Standing
from kueue_flux.kueue.words import brief

COLUMNS = ("NAME", "CLUSTERQUEUE", "COHORT", "WAITING", "ADMITTED", "USED", "STATE")
# As many of them as are known: a plain user sees the first three, and there is no borrowing without a cohort.
QUOTA = ("FLAVOR", "RESOURCE", "HERE", "CLUSTERQUEUE", "QUOTA", "BORROWED", "COULD BORROW")
ADMITTED = ("NAME", "SIZE", "USES", "FLAVOR", "PRIORITY", "SINCE")
WAITING = ("POSITION", "NAME", "SIZE", "ASKS FOR", "PRIORITY", "AGE", "WHY")
RUNNING = ("NAME", "QUEUE", "NODES", "CPU", "BROKERS", "AGE")

STATES = {State.ACTIVE: "green", State.HELD: "yellow", State.DRAINED: "yellow", State.INACTIVE: "red"}
NOT_SHOWN = "not shown: "
BAR = 20  # characters

_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_UNITS = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def amount(resource: str, value: Decimal) -> str:
    """An amount as one would write it: 1.5 (cores), 8Gi, 250m."""
    if resource.startswith(_BYTES):
        for unit, factor in _UNITS:
            if value >= factor:
                return f"{_number(value / factor)}{unit}"
        return _number(value)
    if 0 < value < 1:
        return f"{_number(value * 1000)}m"
    return _number(value)


def _number(value: Decimal) -> str:
    rounded = round(value, 1) if value >= 10 else round(value, 2)
    return f"{rounded:f}".rstrip("0").rstrip(".") if "." in f"{rounded:f}" else f"{rounded:f}"


def amounts(values: Mapping[str, Decimal]) -> str:
    """Amounts of several resources: `cpu 4, memory 8Gi`."""
    return ", ".join(f"{name} {amount(name, value)}" for name, value in values.items() if value)


def used(queue: Queue) -> str:
    """What is used of the ClusterQueue's quota, all flavors together; what is used here, where that is not known."""
    parts = []
    for name in dict.fromkeys(share.resource for share in queue.shares):
        shares = [share for share in queue.shares if share.resource == name]
        here = sum((share.used for share in shares), Decimal(0))
        if all(share.quota is None for share in shares):
            parts.append(f"{name} {amount(name, here)}" if here else "")
            continue
        quota, total = (sum((value or Decimal(0) for value in values), Decimal(0)) for values in (
            [share.quota for share in shares],
            [share.total for share in shares],
        ))  # fmt: skip
        parts.append(f"{name} {amount(name, total)}/{amount(name, quota)}" if quota or total else "")
    return ", ".join(part for part in parts if part)


def state(queue: Queue) -> str:
    """Whether it admits, and if not, why."""
    return str(queue.state) + (f": {' '.join(queue.why.split())}" if queue.why else "")


def queue_list(queues: Sequence[Queue], *, all_namespaces: bool, paint: Paint = plain) -> str:
    """The table of queues.

    Args:
        queues: They.
        all_namespaces: Whether to say whose they are.
        paint: Colours a text.
    """
    header = list(COLUMNS)
    rows = [
        [q.name, q.cluster_queue, q.cohort or "", str(q.pending), str(q.admitted), used(q), state(q)] for q in queues
    ]
    if all_namespaces:
        header.insert(0, "NAMESPACE")
        rows = [[queue.namespace, *row] for queue, row in zip(queues, rows, strict=True)]
    return "\n".join(_painted(table(header, rows).splitlines(), queues, paint))


def _painted(lines: Sequence[str], queues: Sequence[Queue], paint: Paint) -> Iterator[str]:
    head, *rows = lines
    start = head.rindex("STATE")
    yield head
    for line, queue in zip(rows, queues, strict=True):
        yield line[:start] + paint(line[start:], STATES[queue.state])


def contents(found: Contents, now: datetime, paint: Paint = plain) -> str:
    """One queue for a person: whether it admits, its quota, what is admitted, what waits.

    Args:
        found: It.
        now: The present time, with a time zone.
        paint: Colours a text.
    """
    queue = found.queue
    lines = [f"{paint(visible(queue.name), 'bold')} in namespace {visible(queue.namespace)}"]
    facts = {
        "State": paint(visible(state(queue)), STATES[queue.state]),
        "ClusterQueue": visible(queue.cluster_queue),
        "Cohort": visible("none" if queue.cohort == "" else queue.cohort or ""),
        "Strategy": _strategy(queue.strategy),
    }
    lines += [f"  {name:<13} {value}" for name, value in facts.items() if value]
    known = 3 if queue.cohort is None else 5 if not queue.cohort else 7
    lines += _section("Quota", QUOTA[:known], [_share(share)[:known] for share in queue.shares], paint)
    rows = [_admitted(entry, now) for entry in found.admitted]
    lines += _section(f"Admitted: {len(found.admitted)}", ADMITTED, rows, paint)
    rows = list(waiting_rows(found.waiting, now))
    lines += _section(f"Waiting: {len(found.waiting)}", WAITING, rows, paint)
    return "\n".join([*lines, *_unknown(found.unknown, paint)])


def _strategy(strategy: str | None) -> str:
    if strategy is None:
        return ""
    passing = "nobody passes who is next" if strategy == "StrictFIFO" else "what fits may pass what does not"
    return f"{visible(strategy)}: {passing}"


def _section(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], paint: Paint) -> Iterator[str]:
    yield ""
    yield paint(title, "bold")
    if rows:
        yield from (f"  {line}" for line in table(header, rows).splitlines())


def _unknown(sentences: Iterable[str], paint: Paint) -> list[str]:
    found = list(dict.fromkeys(sentences))
    return (
        ["", *(paint(f"{NOT_SHOWN}{visible(' '.join(sentence.split()))}", "dim") for sentence in found)]
        if found
        else []
    )


def _share(share: Share) -> list[str]:
    values = (share.used, share.total, share.quota, share.borrowed, share.borrowable)
    return [share.flavor, share.resource, *("" if v is None else amount(share.resource, v) for v in values)]


def name(entry: Entry) -> str:
    """What a Workload stands for: a MiniCluster by its name, others with their kind before it."""
    owner = entry.owner
    if owner.kind == "MiniCluster":
        return owner.name
    return f"{owner.kind.lower()}/{owner.name}" if owner.name else f"workload/{entry.workload}"


def nodes(entry: Entry) -> str:
    """The nodes that it has or asks for: `4`, `2 of 4`, `2 to 4`."""
    if entry.size is None:
        return ""
    if entry.admitted_size is not None:
        return str(entry.size) if entry.admitted_size == entry.size else f"{entry.admitted_size} of {entry.size}"
    return f"{entry.min_size} to {entry.size}" if (entry.min_size or entry.size) < entry.size else str(entry.size)


def _admitted(entry: Entry, now: datetime) -> list[str]:
    since = age(entry.since, now)
    if entry.standing is Standing.STOPPING:
        since += " (evicted, its pods are stopping)"
    elif entry.standing is Standing.RESERVED:
        since += f" (not yet: {_why(entry)})" if entry.why else ""
    return [name(entry), nodes(entry), amounts(entry.amounts), ", ".join(entry.flavors), str(entry.priority), since]


def waiting_rows(entries: Iterable[Entry], now: datetime) -> Iterator[list[str]]:
    """The lines of those that wait, and between them how many of other queues are there.

    Args:
        entries: They, in order.
        now: The present time, with a time zone.
    """
    place = 0
    for entry in entries:
        if entry.position is not None and entry.position > place:
            others = entry.position - place
            yield [_range(place, entry.position - 1), f"({others} of other queues)", *" " * 5]
        place = place if entry.position is None else entry.position + 1
        why = _why(entry)
        position = "" if entry.position is None else str(entry.position)
        yield [
            position,
            name(entry),
            nodes(entry),
            amounts(entry.amounts),
            str(entry.priority),
            age(entry.created, now),
            why,
        ]


def _why(entry: Entry) -> str:
    return brief(entry.why, partial=entry.partial) if entry.why else ""


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def overview(found: Overview, now: datetime, *, all_namespaces: bool, paint: Paint = plain) -> str:
    """Queues as bars, what runs, what waits.

    Args:
        found: It.
        now: The present time, with a time zone.
        all_namespaces: Whether to say whose they are.
        paint: Colours a text.
    """
    lines = []
    for queue in found.queues:
        at = f" in {queue.namespace}" if all_namespaces else ""
        counts = f"{queue.admitted} admitted, {queue.pending} waiting"
        lines.append(
            f"{paint(visible(queue.name + at), 'bold')}  {paint(visible(state(queue)), STATES[queue.state])}, {counts}"
        )
        lines += bars(queue, paint)
    where = (lambda namespace, row: [namespace, *row]) if all_namespaces else (lambda _namespace, row: row)
    extra = ("NAMESPACE",) if all_namespaces else ()
    rows = [where(status.namespace, _running(status, entry, now)) for status, entry in found.running]
    lines += _section(f"Running: {len(rows)}", (*extra, *RUNNING), rows, paint)
    rows = [where(entry.namespace, row) for entry, row in _by_queue(found.waiting, now)]
    lines += _section(f"Waiting: {len(found.waiting)}", (*extra, "QUEUE", *WAITING), rows, paint)
    return "\n".join([*lines, *_unknown(found.unknown, paint)])


def _by_queue(entries: Sequence[Entry], now: datetime) -> Iterator[tuple[Entry, list[str]]]:
    for entry in entries:
        (*_, row) = waiting_rows([entry], now)
        yield entry, [entry.queue, *row]


def _running(status: Status, entry: Entry | None, now: datetime) -> list[str]:
    cpu = entry.amounts.get("cpu") if entry else None
    return [
        status.name,
        status.queue,
        size(status),
        "" if cpu is None else amount("cpu", cpu),
        f"{status.brokers_ready}/{status.nodes}",
        age(status.created, now),
    ]


def bars(queue: Queue, paint: Paint = plain) -> list[str]:
    """Use against quota, one line for each resource of each flavor; where the quota is not known, use alone."""
    shares = [share for share in queue.shares if share.quota or share.total or share.used]
    if not shares:
        return []
    flavor, resource = (max(len(visible(getattr(share, what))) for share in shares) for what in ("flavor", "resource"))
    return [
        f"  {visible(share.flavor):<{flavor}}  {visible(share.resource):<{resource}}  {_bar(share, paint)}"
        for share in shares
    ]


def _bar(share: Share, paint: Paint) -> str:
    if share.quota is None or share.total is None:
        return f"{amount(share.resource, share.used)} used here"
    part = share.total / share.quota if share.quota else Decimal(1)
    filled = min(BAR, int(part * BAR + Decimal("0.5")))
    colour = "green" if part < Decimal("0.75") else "yellow" if part <= 1 else "red"
    text = f"{amount(share.resource, share.total)}/{amount(share.resource, share.quota)}"
    text += f", {amount(share.resource, share.used)} of it here" if share.used != share.total else ""
    text += f", {amount(share.resource, share.borrowed)} borrowed" if share.borrowed else ""
    return f"[{paint('|' * filled, colour)}{' ' * (BAR - filled)}] {text}"


def standings(found: Contents) -> dict[str, str]:
    """What there is to tell of a queue line by line: by what is told of, where it stands, without ages."""
    queue = found.queue
    told = {"": f"{queue.name}: {state(queue)}" + (f", {use}" if (use := used(queue)) else "")}
    for entry in (*found.admitted, *found.waiting):
        told[entry.workload] = f"{name(entry)}: {_standing(entry)}"
    return told


def _standing(entry: Entry) -> str:
    if entry.standing is Standing.WAITING:
        place = "waiting" if entry.position is None else f"waiting at position {entry.position}"
        return place + (f": {_why(entry)}" if entry.why else "")
    if entry.standing is Standing.STOPPING:
        return "evicted, its pods are stopping" + (f": {_why(entry)}" if entry.why else "")
    words = "admitted" if entry.standing is Standing.ADMITTED else "has quota, not admitted yet,"
    return f"{words} with {nodes(entry)} {'node' if entry.size == 1 else 'nodes'}"


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """The lines that tell of a change.

    Args:
        before: What was told.
        after: What there is to tell now.
    """
    for key, line in before.items():
        if key not in after:
            yield visible(f"{line.partition(':')[0]}: left the queue")
    for key, line in after.items():
        if before.get(key) != line:
            yield visible(line)


def queue_record(queue: Queue) -> dict[str, Any]:
    """A queue for programs: the keys stay, new ones may come; amounts are text, exact, in the resource's own unit."""
    return {
        "name": queue.name,
        "namespace": queue.namespace,
        "clusterQueue": queue.cluster_queue,
        "cohort": queue.cohort,
        "strategy": queue.strategy,
        "state": str(queue.state),
        "message": queue.why,
        "waiting": queue.pending,
        "admitted": queue.admitted,
        "quota": [
            {
                "flavor": share.flavor,
                "resource": share.resource,
                "used": _exact(share.used),
                "usedInClusterQueue": _exact(share.total),
                "nominal": _exact(share.quota),
                "borrowed": _exact(share.borrowed),
                "borrowable": _exact(share.borrowable),
            }
            for share in queue.shares
        ],
        "unknown": list(queue.unknown),
    }


def contents_record(found: Contents) -> dict[str, Any]:
    """A queue and what is in it for programs."""
    return {
        **queue_record(found.queue),
        "unknown": list(found.unknown),
        "admittedWorkloads": [entry_record(entry) for entry in found.admitted],
        "waitingWorkloads": [entry_record(entry) for entry in found.waiting],
    }


def entry_record(entry: Entry) -> dict[str, Any]:
    """A Workload for programs."""
    return {
        "workload": entry.workload,
        "namespace": entry.namespace,
        "queue": entry.queue,
        "kind": entry.owner.kind,
        "name": entry.owner.name,
        "state": str(entry.standing),
        "position": entry.position,
        "size": entry.size,
        "minSize": entry.min_size,
        "admittedSize": entry.admitted_size,
        "resources": {resource: _exact(value) for resource, value in entry.amounts.items()},
        "flavors": list(entry.flavors),
        "priority": entry.priority,
        "created": entry.created.isoformat() if entry.created else None,
        "since": entry.since.isoformat() if entry.since else None,
        "reason": entry.why.reason if entry.why else "",
        "message": entry.why.message if entry.why else "",
    }


def _exact(value: Decimal | None) -> str | None:
    return None if value is None else f"{value.normalize():f}"
