"""Debian packages that the dev cluster needs: installed where that is possible, named where it is not."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kueue_flux.devcluster import process
from kueue_flux.devcluster.errors import CommandFailed, DevClusterError
from kueue_flux.devcluster.progress import Progress

_POLICY = Path("/usr/sbin/policy-rc.d")


def os_release() -> dict[str, str]:
    """What the machine's system says it is (os-release(5)); empty where it does not say."""
    path = Path("/etc/os-release")
    if not path.exists():
        return {}
    pairs = (line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
    return {key: value.strip("\"'") for key, value in pairs}


def installable() -> bool:
    """Whether packages can be installed here: root on Debian, Ubuntu or what derives from them."""
    release = os_release()
    family = {release.get("ID", ""), *release.get("ID_LIKE", "").split()}
    return os.geteuid() == 0 and bool(family & {"debian", "ubuntu"}) and shutil.which("apt-get") is not None


def ensure_tools(tools: dict[str, str], progress: Progress) -> None:
    """Make sure that programs are there, installing the packages of those that are not.

    Args:
        tools: for each program the Debian package that brings it.
        progress: told what is installed.

    Raises:
        DevClusterError: a program is missing and cannot be installed here; the remedy is the command to type.
    """
    missing = {tool: package for tool, package in tools.items() if find(tool) is None}
    if missing:
        install(sorted(set(missing.values())), progress, why=f"{', '.join(sorted(missing))} not found")


def find(tool: str) -> Path | None:
    """Where a program is, also looked for in the folders that only root has on its PATH.

    Args:
        tool: its name.
    """
    found = shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin")
    return Path(found) if found else None


def install(names: Sequence[str], progress: Progress, *, why: str) -> None:
    """Install Debian packages without starting the services that they bring.

    Args:
        names: the packages.
        progress: told what is installed.
        why: what was missing, for the message.

    Raises:
        DevClusterError: packages cannot be installed here.
    """
    if not installable():
        remedy = f"install it; on Debian or Ubuntu: sudo apt-get install --no-install-recommends {' '.join(names)}"
        raise DevClusterError(why, remedy)
    with progress.stage(f"install Debian packages {' '.join(names)}") as stage, _no_service_starts():
        env = {"DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *names]
        try:
            process.stream(command, stage.update, env=env)
        except CommandFailed:
            # most often the package lists are missing or old
            process.stream(["apt-get", "update", "-q"], stage.update, env=env)
            process.stream(command, stage.update, env=env)


@contextmanager
def _no_service_starts() -> Iterator[None]:
    """Keep apt from starting services (invoke-rc.d(8)): what `up` starts, it must know how to stop."""
    if _POLICY.exists():
        yield
        return
    _POLICY.write_text("#!/bin/sh\nexit 101\n")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink()
