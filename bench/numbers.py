"""From what was measured to the numbers that are reported: pure functions over the records of the two parts."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.scale import JOB_SIDE, MINICLUSTER_SIDE

Record = Mapping[str, Any]

STEPS = (
    ("admitted", "injected"),
    ("containers up", "Flux RUN"),
    ("Flux RUN", "output"),
    ("output", "finished"),
)
"""The differences between two stages that matter."""


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which `percent` % of the values lie, interpolated between its neighbours.

    Raises:
        ValueError: There are no values.
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Percentiles and the greatest of some values."""
    return {f"p{percent}": percentile(values, percent) for percent in (50, 90, 99)} | {"max": max(values)}


def sides(records: Sequence[Record]) -> dict[str, dict[str, list[Record]]]:
    """The rounds by variant and side, in the order in which they ran."""
    found: dict[str, dict[str, list[Record]]] = defaultdict(lambda: {JOB_SIDE: [], MINICLUSTER_SIDE: []})
    for record in records:
        found[record["variant"]][record["side"]].append(record)
    return found


_ROWS: tuple[tuple[str, Callable[[Record], float]], ...] = (
    ("admitted /s", lambda r: r["times"]["admitted_per_second"]),
    ("finished /s", lambda r: r["times"]["finished_per_second"]),
    ("create to unsuspended, p50, s", lambda r: percentile(r["times"]["unsuspended"], 50)),
    ("create to unsuspended, p99, s", lambda r: percentile(r["times"]["unsuspended"], 99)),
    ("API requests, each", lambda r: r["cost"]["requests"]),
    ("API writes, each", lambda r: r["cost"]["writes"]),
    ("kube-apiserver CPU, ms each", lambda r: r["cost"]["cpu_seconds"]["kube-apiserver"] / r["count"] * 1000),
    ("other processes' CPU, s", lambda r: r["cost"]["cpu_seconds_of_others"]),
)


def comparison(rounds: Mapping[str, Sequence[Record]]) -> list[dict[str, Any]]:
    """Plain Jobs beside MiniClusters: each row with both means, their ratio and the rounds as they were.

    Args:
        rounds: Of one variant, by side.
    """
    rows = []
    for name, value in _ROWS:
        jobs, mcs = ([value(record) for record in rounds[side]] for side in (JOB_SIDE, MINICLUSTER_SIDE))
        job, mc = statistics.fmean(jobs), statistics.fmean(mcs)
        ratio = mc / job if job else None
        rows.append({"what": name, "job": job, "mc": mc, "ratio": ratio, "jobs": jobs, "mcs": mcs})
    return rows


def calls(rounds: Mapping[str, Sequence[Record]]) -> list[tuple[str, float, float]]:
    """(request, by plain Jobs, by MiniClusters), each for one of them; the greatest differences first."""
    job, mc = (
        {
            call: statistics.fmean(record["cost"]["calls"].get(call, 0.0) for record in rounds[side])
            for call in {call for record in rounds[side] for call in record["cost"]["calls"]}
        }
        for side in (JOB_SIDE, MINICLUSTER_SIDE)
    )
    found = [(call, job.get(call, 0.0), mc.get(call, 0.0)) for call in job.keys() | mc.keys()]
    return sorted(found, key=lambda row: (row[1] - row[2], row[0]))


def injection(part: Record) -> list[dict[str, Any]]:
    """From admission to injection in milliseconds: by situation and point of view."""
    situations = [("one at a time", [part["one_at_a_time"]])]
    for variant, rounds in sides(part["rounds"]).items():
        situations.append((variant, [record["times"] for record in rounds[MINICLUSTER_SIDE]]))
    views = (
        ("as clients see it", "injection"),
        ("in etcd", "injection_in_etcd"),
        ("until the adapter's turn", "admission_to_turn"),
    )
    rows = []
    for situation, measured in situations:
        for view, key in views:
            values = [seconds * 1000 for each in measured for seconds in each[key]]
            rows.append({"situation": situation, "view": view, "count": len(values), **spread(values)})
    return rows


def adapter(rounds: Mapping[str, Sequence[Record]]) -> dict[str, float]:
    """What one MiniCluster costs the adapter."""
    records = rounds[MINICLUSTER_SIDE]
    costs = [record["cost"]["adapter"] for record in records]
    means = {key: statistics.fmean(cost[key] for cost in costs) for key in costs[0]}
    cpu = statistics.fmean(record["cost"]["cpu_seconds"]["adapter"] / record["count"] for record in records)
    resident = max(record["cost"]["resident_mib"]["adapter"] for record in records)
    return {**means, "cpu_seconds": cpu, "resident_mib": resident}


def memory(standing: Record) -> list[dict[str, Any]]:
    """Memory for each 1,000 MiniClusters, and what that would make of 10,000: an extrapolation.

    Args:
        standing: `empty`, and `points` with the memory before and after there were `count` more MiniClusters.
    """
    empty = standing["empty"]["resident_mib"]
    rows = []
    for point in standing["points"]:
        per_thousand = (point["resident_mib"] - point["before_mib"]) / point["count"] * 1000
        rows.append({**point, "per_thousand": per_thousand, "at_ten_thousand": empty + 10 * per_thousand})
    return rows


def stages(part: Record) -> list[dict[str, Any]]:
    """Each stage, and each of `STEPS`, over all runs, in seconds."""
    runs: list[Mapping[str, float]] = part["runs"]
    names = sorted({stage for run in runs for stage in run}, key=lambda stage: min(run.get(stage, 1e9) for run in runs))
    rows = [_stage(stage, [run[stage] for run in runs if stage in run]) for stage in names]
    for first, last in STEPS:
        values = [run[last] - run[first] for run in runs if first in run and last in run]
        if values:
            rows.append(_stage(f"{first} to {last}", values))
    return rows


def _stage(name: str, values: list[float]) -> dict[str, Any]:
    low, high = min(values), max(values)
    return {"what": name, "runs": len(values), "median": statistics.median(values), "min": low, "max": high}
