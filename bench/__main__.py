"""`python -m bench`: measure, print tables, and keep the raw numbers as JSON.

What is measured, and how, is in bench/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from bench import aims, control_plane, machine, pods, report, scale, standing
from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.progress import Progress
from tests.control_plane.adapter import Adapter

RESULTS = Path(__file__).parent / "results"
ONE_AT_A_TIME = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for.

    Returns:
        0 when all was measured, whether or not the aims are met; 1 when a cluster cannot be had.
    """
    args = _arguments().parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that clusters are taken down
    at = datetime.now(UTC).replace(microsecond=0)
    results: dict[str, Any] = {"at": at.isoformat(), "machine": machine.describe()}
    progress = Progress()
    try:
        if args.only != "pods":
            results["scale"] = measure_scale(args, progress)
        if args.only != "scale":
            with pods.running(progress) as (name, flux):
                results["pods"] = asyncio.run(pods.measure(name, flux, progress, runs=args.runs, size=args.size))
    except DevClusterError as error:
        print(f"error: {error.message}\n{error.remedy or ''}", file=sys.stderr)
        return 1
    results["aims"] = [vars(aim) for aim in aims.check(results)]
    print(report.text(results))
    file = args.json or RESULTS / f"{at:%Y%m%dT%H%M%SZ}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(orjson.dumps(results, option=orjson.OPT_INDENT_2))
    print(f"\nall numbers: {file}")
    return 0


def measure_scale(args: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """What is measured on a control plane whose pods are kwok's."""
    with control_plane.running(args.control_plane, progress) as (cluster, adapter):
        return asyncio.run(_measure_scale(args, progress, cluster, adapter))


async def _measure_scale(
    args: argparse.Namespace,
    progress: Progress,
    cluster: Cluster,
    adapter: Adapter,
) -> dict[str, Any]:
    here = (cluster, adapter, progress)
    empty = await standing.memory(*here, "no MiniCluster")
    alone = await scale.one_at_a_time(*here, count=ONE_AT_A_TIME, size=args.size)
    rounds = await scale.compare(*here, count=args.count, size=args.size)
    finished = ONE_AT_A_TIME + sum(record["count"] for record in rounds if record["side"] == scale.MINICLUSTER_SIDE)
    with_finished = await standing.memory(*here, f"{finished} finished")
    idle_finished = await standing.finished(*here, finished, args.idle_seconds)
    while_running, idle_pending = await standing.pending(
        *here, count=args.pending, size=args.size, seconds=args.idle_seconds
    )
    with_pending = await standing.memory(*here, f"{args.pending} waiting")
    before = with_finished["resident_mib"]
    return {
        "count": args.count,
        "size": args.size,
        "one_at_a_time": alone,
        "rounds": rounds,
        "standing": {
            "idle": [idle_finished, idle_pending],
            "empty": empty,
            "points": [
                {**with_finished, "count": finished, "before_mib": empty["resident_mib"]},
                {**while_running, "count": args.pending, "before_mib": before},
                {**with_pending, "count": args.pending, "before_mib": before},
            ],
        },
    }


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure kueue-flux beside plain Jobs.")
    parser.add_argument("--only", choices=["scale", "pods"], help="one of the two parts; see bench/README.md")
    parser.add_argument("--count", type=int, default=200, help="scale: Jobs, and MiniClusters, in each variant")
    parser.add_argument("--size", type=int, default=4, help="pods of each")
    parser.add_argument("--runs", type=int, default=10, help="pods: how many runs")
    parser.add_argument("--pending", type=int, default=1000, help="scale: MiniClusters that wait, for the memory")
    parser.add_argument("--idle-seconds", type=float, default=60.0, help="scale: how long to look on while idle")
    parser.add_argument(
        "--control-plane",
        metavar="NAME",
        help="scale: use this one, or make it, and leave it up; default: one of its own",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the raw numbers go; default: bench/results/")
    return parser


if __name__ == "__main__":
    sys.exit(main())
