"""What the project aims at, and whether what was measured meets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench import numbers

INJECTION_MS = 10.0
RATE = 0.95
RUN_SECONDS = 1.0
MEMORY_MIB = 200.0


@dataclass(frozen=True)
class Aim:
    """One aim.

    Attributes:
        what: In words.
        measured: What was measured, in words.
        met: Whether that meets it.
    """

    what: str
    measured: str
    met: bool


def check(results: Mapping[str, Any]) -> list[Aim]:
    """Hold the results against the aims; those of a part that was not run are left out."""
    aims: list[Aim] = []
    if "scale" in results:
        aims += _of_scale(results["scale"])
    if "pods" in results:
        aims += _of_pods(results["pods"])
    return aims


def _of_scale(part: Mapping[str, Any]) -> list[Aim]:
    aims = [
        Aim(
            f"injection p50 <= {INJECTION_MS:g} ms after admission, {row['situation']}",
            f"{row['p50']:.1f} ms",
            row["p50"] <= INJECTION_MS,
        )
        for row in numbers.injection(part)
        if row["view"] == "as clients see it"
    ]
    for variant, rounds in numbers.sides(part["rounds"]).items():
        for row in numbers.comparison(rounds):
            if row["what"] in ("admitted /s", "finished /s"):
                what = f"{row['what'].removesuffix(' /s')} a second >= {RATE:g} of plain Jobs, {variant}"
                aims.append(Aim(what, f"{row['ratio']:.2f}", row["ratio"] >= RATE))
    for row in numbers.memory(part["standing"]):
        what = f"<= {MEMORY_MIB:g} MiB at 10,000 MiniClusters, {row['what']} (extrapolated)"
        aims.append(Aim(what, f"{row['at_ten_thousand']:.0f} MiB", row["at_ten_thousand"] <= MEMORY_MIB))
    return aims


def _of_pods(part: Mapping[str, Any]) -> list[Aim]:
    """RUN within a second of the last container, in every single run: a slow tail is what the aim excludes."""
    (row,) = [row for row in numbers.stages(part) if row["what"] == "containers up to Flux RUN"]
    what = f"RUN within {RUN_SECONDS:g} s of the last container's start, {part['size']} brokers, in every run"
    return [Aim(what, f"median {row['median']:.2f} s, max {row['max']:.2f} s", row["max"] <= RUN_SECONDS)]
