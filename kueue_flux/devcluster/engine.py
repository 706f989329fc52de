"""The Docker engine: one that answers is used as it is; else one is installed, started and later stopped.

An engine of our own keeps its data in the cache, so that images survive `down`, and gets the runtime
wrapper of `files/runc-wrapper.py` where the machine cannot give CAP_SYS_RESOURCE.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kueue_flux.devcluster import machine, packages, paths, process
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.progress import Progress

_SOCKET = Path("/var/run/docker.sock")
_CAP_SYS_RESOURCE = 24  # linux/capability.h
_FOLDER = "_engine"  # no cluster's name: kind allows no underscore
_START_TIMEOUT = 60.0
_STOP_GRACE = 60.0


def docker() -> Path:
    """The docker client.

    Raises:
        DevClusterError: there is none on PATH.
    """
    found = packages.find("docker")
    if found is None:
        raise DevClusterError("no docker client was found", "run `kueue-flux dev up` as root, or install Docker")
    return found


def answers() -> bool:
    """Whether an engine answers the docker client."""
    client = packages.find("docker")
    return client is not None and process.works([client, "version", "--format", "{{.Server.Version}}"])


def ours() -> process.Pid | None:
    """The engine that `ensure` started, while it runs."""
    record = _record()
    if record is None:
        return None
    pid = process.Pid(record["pid"], record["started"])
    return pid if pid.alive() else None


def died() -> bool:
    """Whether an engine that `ensure` started has ended without `release`."""
    return _record() is not None and ours() is None


def control(verb: str, containers: Sequence[str]) -> None:
    """Start or unpause containers.

    Args:
        verb: `start` or `unpause`.
        containers: their names.

    Raises:
        CommandFailed: one of them cannot be.
    """
    process.output([docker(), verb, *containers])


def cgroup_version() -> int:
    """The version of the cgroups that the engine gives its containers, 1 or 2."""
    return int(process.output([docker(), "info", "--format", "{{.CgroupVersion}}"]))


def lacks_sys_resource() -> bool:
    """Whether no process here can have CAP_SYS_RESOURCE (field CapBnd of proc(5))."""
    status = Path("/proc/self/status")
    if not status.exists():  # not a Linux; the engine runs in a machine of its own
        return False
    for line in status.read_text().splitlines():
        if line.startswith("CapBnd:"):
            return not int(line.split()[1], 16) >> _CAP_SYS_RESOURCE & 1
    return False


def ensure(progress: Progress) -> None:
    """Make sure that a Docker engine answers; one that does is left untouched.

    Args:
        progress: told what is done.

    Raises:
        DevClusterError: there is none and it cannot be started here.
    """
    if answers():
        return
    if "DOCKER_HOST" in os.environ:
        raise DevClusterError(
            f"no Docker engine answers at DOCKER_HOST={os.environ['DOCKER_HOST']}",
            "start that engine, or unset DOCKER_HOST",
        )
    if os.geteuid() != 0:
        raise DevClusterError(
            "no Docker engine answers, and only root can start one",
            "start it (sudo systemctl start docker), or use `kueue-flux dev up --profile control-plane`",
        )
    packages.ensure_tools(
        {
            "dockerd": "docker.io",
            "docker": "docker.io",
            "runc": "runc",
            "iptables": "iptables",
            "ip": "iproute2",
        },
        progress,
    )
    if not answers():  # installing may have started it after all
        with progress.stage("start the Docker engine"):
            _start()


def release(progress: Progress) -> list[str]:
    """Stop the engine if `ensure` started it and nothing runs on it; undo what it did to the machine.

    Args:
        progress: told what is done.

    Returns:
        What is on the machine now and was not before the engine started, which should be nothing.
    """
    record = _record()
    if record is None:
        return []
    pid = process.Pid(record["pid"], record["started"])
    if pid.alive():
        running = process.output([docker(), "ps", "--format", "{{.Names}}"]).split()
        if running:
            progress.note(f"the Docker engine stays: other containers run on it ({', '.join(running)})")
            return []
        with progress.stage("stop the Docker engine"):
            pid.stop(grace=_STOP_GRACE)
    before = machine.Snapshot.from_json(record["before"])
    machine.release_mounts(before, [_data_root(), *map(Path, ("/run/docker", "/run/containerd"))])
    machine.restore(before)
    shutil.rmtree(_record_file().parent)
    with suppress(OSError):  # it may hold the states of other clusters
        paths.state_root().rmdir()
    return machine.leftovers(before, machine.Snapshot.take())


def describe() -> str:
    """Whose engine it is, in words."""
    if not answers():
        return "no Docker engine answers"
    pid = ours()
    if pid is None:
        return "the machine's own Docker engine, left as it is"
    wrapped = ", with the runtime wrapper for a missing CAP_SYS_RESOURCE" if lacks_sys_resource() else ""
    return f"started by `up` (dockerd, pid {pid.pid}){wrapped}; `down` stops it"


def _start() -> None:
    folder = paths.state_dir(_FOLDER)
    previous = _record()
    # an engine of ours that died took nothing away: the machine before it is the one to go back to
    before = machine.Snapshot.from_json(previous["before"]) if previous else machine.Snapshot.take()
    (folder / "dockerd.pid").unlink(missing_ok=True)
    config = folder / "daemon.json"
    config.write_text(json.dumps(_config(folder), indent=2))
    log = folder / "dockerd.log"
    dockerd = packages.find("dockerd")
    if dockerd is None:
        raise DevClusterError("dockerd was not found", "apt-get install docker.io")
    with log.open("wb") as out:
        child = subprocess.Popen(
            [dockerd, "--config-file", config],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # a Ctrl-C in the terminal is not for the engine
        )
    pid = process.Pid.of(child.pid)
    if pid is not None:
        record = {"pid": pid.pid, "started": pid.started, "before": before.to_json()}
        _record_file().write_text(json.dumps(record))
    end = time.monotonic() + _START_TIMEOUT
    while not answers():
        if child.poll() is not None or time.monotonic() > end:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise DevClusterError(f"dockerd did not start; its log ends with\n{tail}", f"see {log}")
        time.sleep(0.3)


def _config(folder: Path) -> dict[str, object]:
    """Dockerd's configuration (docs.docker.com, dockerd reference, daemon configuration file)."""
    config: dict[str, object] = {
        "hosts": [f"unix://{_SOCKET}"],
        "data-root": str(_data_root()),
        "pidfile": str(folder / "dockerd.pid"),
    }
    if lacks_sys_resource():
        wrapper = folder / "runc-wrapper"
        # the interpreter itself rather than a venv's link to it; -I -S: it needs the standard library only
        interpreter = Path(sys.executable).resolve()
        wrapper.write_text(f"#!{interpreter} -IS\n{paths.packaged('runc-wrapper.py').read_text()}")
        wrapper.chmod(0o755)
        config["runtimes"] = {"runc-without-sys-resource": {"path": str(wrapper)}}
        config["default-runtime"] = "runc-without-sys-resource"
    return config


def _data_root() -> Path:
    return paths.cache_dir() / "docker"


def _record_file() -> Path:
    return paths.state_root() / _FOLDER / "engine.json"


def _record() -> dict[str, Any] | None:
    file = _record_file()
    return json.loads(file.read_text()) if file.exists() else None
