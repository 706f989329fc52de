"""Records as the benchmark makes them, small and round."""

from __future__ import annotations

from typing import Any

from bench.scale import JOB_SIDE, MINICLUSTER_SIDE


def times(per_second: float = 10.0, injection: float = 0.005) -> dict[str, Any]:
    return {
        "admitted_per_second": per_second,
        "finished_per_second": per_second / 2,
        "unsuspended": [1.0, 2.0, 3.0],
        "finished": [4.0],
        "job_finished_to_finished": [],
        "injection": [injection],
        "injection_in_etcd": [injection * 2],
        "admission_to_turn": [injection / 2],
    }


def cost(requests: float, calls: dict[str, float]) -> dict[str, Any]:
    return {
        "requests": requests,
        "writes": requests - 1,
        "calls": calls,
        "cpu_seconds": {"kube-apiserver": 2.0, "adapter": 1.0},
        "cpu_seconds_of_others": 0.5,
        "resident_mib": {"adapter": 80.0},
        "adapter": {
            "requests": 18.0,
            "writes": 17.0,
            "events": 5.0,
            "reconciles": 30.0,
            "watch_events": 40.0,
            "queue_seconds": 0.001,
            "turn_seconds": 0.002,
        },
    }


def round_of(side: str, number: int, per_second: float, variant: str = "quota for all") -> dict[str, Any]:
    calls = {"POST jobs": 1.0} | ({"POST secrets": 1.0, "PUT endpoints": 5.0} if side == MINICLUSTER_SIDE else {})
    requests = 60.0 if side == MINICLUSTER_SIDE else 40.0
    return {
        "variant": variant,
        "round": number,
        "side": side,
        "count": 100,
        "times": times(per_second),
        "cost": cost(requests, calls),
    }


def scale(*, mc_per_second: float = 9.0, injection: float = 0.005) -> dict[str, Any]:
    rounds = [
        round_of(JOB_SIDE, 1, 10.0),
        round_of(MINICLUSTER_SIDE, 1, mc_per_second),
        round_of(MINICLUSTER_SIDE, 2, mc_per_second),
        round_of(JOB_SIDE, 2, 12.0),
    ]
    for each in rounds:
        each["times"]["injection"] = [injection, injection, injection * 10]
    point = {"what": "1000 waiting", "resident_mib": 90.0, "peak_mib": 95.0, "count": 1000, "before_mib": 80.0}
    idle = {
        "what": "200 finished MiniClusters",
        "seconds": 60.0,
        "requests": {},
        "lists": 0.0,
        "watches_reopened": 0.0,
        "reconciles": 0.0,
        "cpu_seconds": 0.05,
    }
    return {
        "count": 200,
        "size": 4,
        "one_at_a_time": times(1.0, injection),
        "rounds": rounds,
        "standing": {
            "idle": [idle],
            "empty": {"what": "no MiniCluster", "resident_mib": 70.0, "peak_mib": 72.0},
            "points": [point],
        },
    }


def pods(*slowest: float) -> dict[str, Any]:
    """Runs whose brokers took so long from the last container to RUN."""
    runs = [
        {
            "created": 0.1,
            "admitted": 0.2,
            "injected": 0.21,
            "containers up": 1.0,
            "Flux RUN": 1.0 + boot,
            "output": 2.5 + boot,
            "finished": 4.0 + boot,
        }
        for boot in slowest
    ]
    return {"cluster": "dev", "flux": "a Flux", "real_flux": True, "adapter": "image", "size": 4, "runs": runs}


def results(**parts: Any) -> dict[str, Any]:
    machine = {"cores": 2, "memory_gib": 8.0, "kernel": "6.1", "machine": "x86_64", "load_at_start": [0.1, 0.1, 0.1]}
    return {"at": "2026-01-02T03:04:05+00:00", "machine": {**machine, "versions": {"kueue": "v0.19.2"}}, **parts}
