"""The stand-in, started by the real start.sh from the files that the adapter writes, on one host's loopback."""

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kueue_flux.devcluster.images import standin
from kueue_flux.devcluster.images.standin.flux_stand_in import files
from kueue_flux.flux.broker import BrokerConfig, Host, broker_toml
from kueue_flux.flux.certificate import new_certificate
from kueue_flux.flux.resource_set import resource_set
from kueue_flux.flux.script import run_arguments, scripts

SECONDS = 30


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for item in sockets:
        item.bind(("127.0.0.1", 0))
    ports = [item.getsockname()[1] for item in sockets]
    for item in sockets:
        item.close()
    return ports


class Pods:
    """The containers of one MiniCluster, as processes."""

    def __init__(self, folder: Path, size: int, *, cores: int = 1, tasks: int = 0) -> None:
        self.folder = folder
        self.size = size
        self.config = folder / "config"
        self.config.mkdir()
        certificate = folder / "curve.cert"
        certificate.write_text(new_certificate("mc-0", now=datetime.now(UTC)).reveal())
        certificate.chmod(0o400)
        ports = free_ports(size)
        hosts = [
            Host(f"mc-{rank}", bind=f"tcp://127.0.0.1:{port}", connect=f"tcp://127.0.0.1:{port}")
            for rank, port in enumerate(ports)
        ]
        config = BrokerConfig(
            hosts,
            curve_path=str(certificate),
            resources_path=str(self.config / "R.json"),
        )
        (self.config / "broker.toml").write_text(broker_toml(config))
        (self.config / "R.json").write_text(json.dumps(resource_set([host.name for host in hosts], cores)))
        for name, text in scripts().items():
            (self.config / name).write_text(text)
        (self.config / "size").write_text(str(size))
        (self.config / "tasks").write_text(str(tasks))
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        command = bin_folder / "flux"
        package = Path(standin.__file__).parent
        program = "from flux_stand_in.commands import main; sys.exit(main(sys.argv[1:]))"
        command.write_text(f"#!{sys.executable}\nimport sys; sys.path.insert(0, {str(package)!r})\n{program}\n")
        command.chmod(0o755)
        self.path = f"{bin_folder}:/usr/bin:/bin"
        self.children: list[subprocess.Popen[str]] = []

    def start(self, rank: int, argv: Sequence[str], **env: str) -> subprocess.Popen[str]:
        run = self.folder / f"run-{rank}"
        run.mkdir()
        arguments = run_arguments(argv, quiet="KUEUE_FLUX_QUIET" in env)
        settings = {
            "PATH": self.path,
            "HOME": str(self.folder),
            "JOB_COMPLETION_INDEX": str(rank),
            "KUEUE_FLUX_HOSTNAME": f"mc-{rank}",
            "KUEUE_FLUX_CONFIG": str(self.config),
            "KUEUE_FLUX_CURVE": str(self.folder / "curve.cert"),
            "KUEUE_FLUX_RUNDIR": str(run),
            "KUEUE_FLUX_TERMINATION_LOG": str(self.folder / f"termination-{rank}"),
            "KUEUE_FLUX_COUNTS_AT": str(arguments.counts_at),
            **env,
        }
        child = subprocess.Popen(
            ["/bin/sh", str(self.config / "start.sh"), *arguments.words],
            env=settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.children.append(child)
        return child

    def run(self, *argv: str, **env: str) -> tuple[str, str, list[int]]:
        """Start all ranks and return the lead's output, its errors, and all exit codes in rank order."""
        workers = [self.start(rank, argv, **env) for rank in range(self.size - 1, 0, -1)]
        lead = self.start(0, argv, **env)
        out, err = lead.communicate(timeout=SECONDS)
        for worker in workers:
            worker.communicate(timeout=SECONDS)
        return out, err, [lead.returncode, *(worker.returncode for worker in reversed(workers))]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    # pytest's own paths can be too long for a Unix socket
    short = Path(f"/tmp/si-{os.getpid()}-{abs(hash(tmp_path)) % 10**6}")
    short.mkdir()
    yield short
    subprocess.run(["rm", "-rf", short], check=True)


def test_a_command_runs_on_every_rank_and_everybody_leaves_in_peace(folder: Path) -> None:
    pods = Pods(folder, 3)
    out, err, codes = pods.run("sh", "-c", "echo rank $FLUX_TASK_RANK of $FLUX_JOB_SIZE")
    assert sorted(out.splitlines()) == ["rank 0 of 3", "rank 1 of 3", "rank 2 of 3"]
    assert codes == [0, 0, 0]
    assert "stand-in" in err  # start.sh prints the version
    assert (folder / "termination-0").read_text() == "exit-code=0\nreason=CommandSucceeded\n"


def test_tasks_are_spread_over_the_ranks(folder: Path) -> None:
    out, _, codes = Pods(folder, 2, cores=2, tasks=4).run("sh", "-c", "echo $FLUX_TASK_RANK")
    assert sorted(out.split()) == ["0", "1", "2", "3"]
    assert codes == [0, 0]


@pytest.mark.parametrize(
    ("argv", "code", "reason"),
    [
        (["sh", "-c", "exit $((FLUX_TASK_RANK + 1))"], 3, "CommandFailed"),
        (["no-such-command"], 127, "CommandNotFound"),
        (["/etc/passwd"], 126, "CommandNotExecutable"),
    ],
)
def test_the_highest_exit_code_is_the_leads(folder: Path, argv: list[str], code: int, reason: str) -> None:
    _, _, codes = Pods(folder, 3).run(*argv)
    assert codes == [code, 0, 0]
    assert (folder / "termination-0").read_text() == f"exit-code={code}\nreason={reason}\n"


def test_quiet_shows_nothing_but_the_output(folder: Path) -> None:
    out, err, codes = Pods(folder, 2).run("sh", "-c", "echo out; echo err >&2; exit 3", KUEUE_FLUX_QUIET="1")
    assert (sorted(out.split()), sorted(err.split()), codes) == (["out", "out"], ["err", "err"], [3, 0])


def test_more_tasks_than_cores_are_refused(folder: Path) -> None:
    _, err, codes = Pods(folder, 2, tasks=3).run("hostname")
    assert codes[0] == 1
    assert "unsatisfiable" in err
    assert (folder / "termination-0").read_text().endswith("reason=JobRejected\n")


def test_a_lost_worker_fails_the_job(folder: Path) -> None:
    pods = Pods(folder, 2)
    worker = pods.start(1, ["sleep", "60"])
    lead = pods.start(0, ["sleep", "60"])
    ready = folder / "run-0" / "broker" / "command.pid"
    for _ in range(SECONDS * 10):
        if ready.exists():
            break
        subprocess.run(["sleep", "0.1"], check=True)
    broker = subprocess.run(
        ["pgrep", "-P", str(worker.pid), "-f", "flux broker"], capture_output=True, text=True, check=True
    )
    subprocess.run(["kill", "-KILL", *broker.stdout.split()], check=True)
    worker.communicate(timeout=SECONDS)
    assert worker.returncode == 113
    lead.communicate(timeout=SECONDS)
    assert (folder / "termination-0").read_text().endswith("reason=WorkerLost\n")


def test_a_stranger_without_the_key_stays_outside(folder: Path) -> None:
    pods = Pods(folder, 2)
    certificate = folder / "curve.cert"
    lead = pods.start(0, ["true"])
    subprocess.run(["sleep", "1"], check=True)  # it has read its certificate
    certificate.chmod(0o600)
    certificate.write_text(new_certificate("mc-0", now=datetime.now(UTC)).reveal())
    stranger = pods.start(1, ["true"])
    with pytest.raises(subprocess.TimeoutExpired):
        lead.wait(timeout=4)  # no quorum
    for child in (lead, stranger):
        child.terminate()
        child.communicate(timeout=SECONDS)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ("mc-[0-2,7]", ["mc-0", "mc-1", "mc-2", "mc-7"]),
        ("n[08-10]x", ["n08x", "n09x", "n10x"]),
    ],
)
def test_host_lists_are_read(text: str, names: list[str]) -> None:
    assert files.decode(text) == names


def test_a_certificate_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "curve.cert"
    path.write_text(new_certificate("h", now=datetime.now(UTC)).reveal())
    path.chmod(0o440)
    with pytest.raises(SystemExit, match="can be read by others"):
        files.read_certificate(path)
    path.chmod(stat.S_IRUSR)
    public, secret = files.read_certificate(path)
    assert len(public) == len(secret) == 40
    assert secret.decode() not in repr(files.Config([], "", "", public, secret, None))
