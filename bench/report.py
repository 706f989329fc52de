"""The results as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench import aims, numbers

SHOWN_CALLS = 12


def text(results: Mapping[str, Any]) -> str:
    """Everything that was measured, as tables."""
    machine = results["machine"]
    made_of = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    blocks = [
        f"{results['at']}: {machine['cores']} cores, {machine['memory_gib']:g} GiB, Linux {machine['kernel']}, "
        f"load {machine['load_at_start'][0]:g} at the start\n{made_of}"
    ]
    if "scale" in results:
        blocks += _scale(results["scale"])
    if "pods" in results:
        blocks += _pods(results["pods"])
    verdicts = [[aim.what, aim.measured, "met" if aim.met else "NOT MET"] for aim in aims.check(results)]
    blocks.append(_table("Aims", ["", "measured", ""], verdicts))
    return "\n\n".join(blocks)


def _scale(part: Mapping[str, Any]) -> list[str]:
    blocks = []
    shape = f"{part['count']} of each, {part['size']} pods each"
    for variant, rounds in numbers.sides(part["rounds"]).items():
        rows = [
            [row["what"], _number(row["job"]), _number(row["mc"]), _number(row["ratio"])]
            + [" ".join(_number(value) for value in row[side]) for side in ("jobs", "mcs")]
            for row in numbers.comparison(rounds)
        ]
        head = ["", "plain Jobs", "MiniClusters", "ratio", "rounds: Jobs", "MiniClusters"]
        blocks.append(_table(f"Beside plain Jobs, {variant} ({shape})", head, rows))
    rows = [
        [row["situation"], row["view"], *(_number(row[key]) for key in ("p50", "p90", "p99", "max"))]
        for row in numbers.injection(part)
    ]
    head = ["", "", "p50", "p90", "p99", "max"]
    blocks.append(_table("From admission to injection, in ms", head, rows))
    variant, rounds = next(iter(numbers.sides(part["rounds"]).items()))
    cost = numbers.adapter(rounds)
    rows = [
        ["requests", _number(cost["requests"])],
        ["of them writes", _number(cost["writes"])],
        ["of them events", _number(cost["events"])],
        ["reconciles", _number(cost["reconciles"])],
        ["CPU, ms", _number(cost["cpu_seconds"] * 1000)],
        ["wait for a worker, ms a reconcile", _number(cost["queue_seconds"] * 1000)],
        ["work, ms a reconcile", _number(cost["turn_seconds"] * 1000)],
        ["memory at the end, MiB in all", _number(cost["resident_mib"])],
    ]
    blocks.append(_table(f"What a MiniCluster costs the adapter, {variant}", ["", ""], rows))
    rows = [[call, _number(job), _number(mc)] for call, job, mc in numbers.calls(rounds)[:SHOWN_CALLS]]
    head = ["", "a plain Job", "a MiniCluster"]
    blocks.append(_table(f"Requests of all clients, the greatest differences, {variant}", head, rows))
    blocks += _standing(part["standing"])
    return blocks


def _standing(standing: Mapping[str, Any]) -> list[str]:
    idle = [
        [
            row["what"],
            f"{row['seconds']:g}",
            ", ".join(f"{n} {method}" for method, n in row["requests"].items()) or "none",
            *(_number(row[key]) for key in ("lists", "reconciles")),
            _number(row["cpu_seconds"]),
        ]
        for row in standing["idle"]
    ]
    head = ["", "seconds", "requests", "lists", "reconciles", "CPU, s"]
    blocks = [_table("The adapter while nothing happens", head, idle)]
    memory = [
        [row["what"], *(_number(row[key]) for key in ("resident_mib", "peak_mib", "per_thousand", "at_ten_thousand"))]
        for row in numbers.memory(standing)
    ]
    empty = standing["empty"]
    memory.insert(0, [empty["what"], _number(empty["resident_mib"]), _number(empty["peak_mib"]), "", ""])
    head = ["", "now", "peak", "per 1,000", "at 10,000 (extrapolated)"]
    return [*blocks, _table("Memory of the adapter, in MiB", head, memory)]


def _pods(part: Mapping[str, Any]) -> list[str]:
    rows = []
    for row in numbers.stages(part):
        values = (row["median"], row["min"], row["max"], row["max"] - row["min"])
        rows.append([row["what"], str(row["runs"]), *(_number(value) for value in values)])
    title = f"Stages of {len(part['runs'])} runs of {part['size']} brokers, in seconds ({part['flux']})"
    return [_table(title, ["", "runs", "median", "min", "max", "spread"], rows)]


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [title]
    for row in [head, *rows] if any(head) else rows:
        # words to the left, numbers to the right
        cells = [
            text.ljust(width) if column == 0 or not _is_number(rows, column) else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def _is_number(rows: Sequence[Sequence[str]], column: int) -> bool:
    return all(row[column].replace(".", "").replace("-", "").isdigit() or not row[column] for row in rows)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"
