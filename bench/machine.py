"""The machine under the benchmark and what its processes use, from /proc: what numbers are worth depends on it."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kueue_flux.devcluster import versions

_TICKS = os.sysconf("SC_CLK_TCK")
_KIB_IN_GIB = 1024 * 1024
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Usage:
    """What a process has used.

    Attributes:
        cpu_seconds: Processor time, in user and kernel mode, of all its threads.
        resident_mib: Memory that it holds now, in MiB.
        peak_mib: The most memory that it has held.
    """

    cpu_seconds: float
    resident_mib: float
    peak_mib: float


def usage(pid: int) -> Usage:
    """What the process `pid` has used so far. Source: proc(5), /proc/pid/stat and status."""
    # the program's name, in parentheses, may contain blanks
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    kib = {line[0]: int(line[1]) for line in lines if line[0] in ("VmRSS:", "VmHWM:")}
    cpu = (int(fields[11]) + int(fields[12])) / _TICKS
    return Usage(cpu, kib["VmRSS:"] / 1024, kib["VmHWM:"] / 1024)


def busy_seconds() -> float:
    """Processor seconds that all processes of the machine have used since it was started. Source: proc(5)."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    return sum(int(ticks) for ticks in (user, nice, system, irq, softirq)) / _TICKS


def describe() -> dict[str, Any]:
    """Cores, kernel, load and versions, for the record."""
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory.split()[1]) / _KIB_IN_GIB, 1),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "load_at_start": [round(load, 2) for load in os.getloadavg()],
        "versions": {
            "kueue-flux": f"{version('kueue-flux')} ({_commit()})",
            "kubernetes": versions.KUBERNETES,
            "kueue": versions.KUEUE,
            "kwok": versions.KWOK,
            "python": platform.python_version(),
        },
    }


def _commit() -> str:
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):  # a checkout that was unpacked from an archive
        return "no git checkout"
