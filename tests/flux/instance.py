"""A Flux instance of several brokers on this machine: one start.sh process each, in place of a pod each."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from kueue_flux.api.mode import Mode
from kueue_flux.flux import layout, script
from kueue_flux.flux.broker import BrokerConfig, Host, broker_toml
from kueue_flux.flux.certificate import Certificate, new_certificate
from kueue_flux.flux.resource_set import resource_set
from kueue_flux.flux.termination import Termination, parse_termination

PATIENCE = 120.0
"""Seconds that anything may take on a machine that is busy with other things."""


class Instance:
    """Brokers as start.sh processes: rank R has its own rundir, port, host name and output files.

    Args:
        args: Options of what submits, `--`, the command's words.
        mode: What the lead is for.
        files: What the user wrote that shells read, by file name.
        size: Number of brokers.
        tasks: Number of tasks; as many as brokers when None.
        cores: Cores that each broker has.
        env: Settings beside those that each rank needs.
        path: PATH of the processes.
        shell: What /bin/sh is.
        broker: Fields of BrokerConfig other than the paths and the hosts.
        certificate_mode: Mode of the certificate as it is delivered.
        first: Ranks that are started on entering the context, all by default.
        user: Numeric user to run as, the caller's when None; the files then belong to root and its group.
    """

    def __init__(
        self,
        *args: str,
        mode: Mode = Mode.RUN,
        files: Mapping[str, str] | None = None,
        size: int = 4,
        tasks: int | None = None,
        cores: int = 1,
        env: Mapping[str, str] | None = None,
        path: str | None = None,
        shell: str = "/bin/sh",
        broker: Mapping[str, Any] | None = None,
        certificate_mode: int = 0o400,
        first: Iterable[int] | None = None,
        user: int | None = None,
    ) -> None:
        self.size, self.shell, self.user = size, shell, user
        self.first = range(size) if first is None else first
        self.env = {"PATH": path or os.environ["PATH"], "HOME": "/", **(env or {})}
        # not pytest's own directory: a socket's path may have 107 bytes at most
        self.directory = Path(tempfile.mkdtemp(prefix="kf-"))
        self.directory.chmod(0o755)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.arguments = _arguments(args, mode, self.env)
        self.env[layout.ENV_MODE] = mode
        names = [f"mc-{rank}" for rank in range(size)]
        hosts = [
            Host(name, bind=f"tcp://lo:{port}", connect=f"tcp://127.0.0.1:{port}")
            for name, port in zip(names, _free_ports(size), strict=True)
        ]
        for rank in range(size):
            config, rundir = self.directory / f"config-{rank}", self.rundir(rank)
            config.mkdir()
            if user is not None:  # as an emptyDir is: anyone's to write, root's to own
                rundir.mkdir()
                rundir.chmod(0o777)
            text = broker_toml(
                BrokerConfig(
                    hosts=hosts,
                    curve_path=str(rundir / layout.CURVE_FILE),
                    resources_path=str(config / layout.RESOURCES_FILE),
                    **(broker or {}),
                )
            )
            content_by_name = {
                layout.BROKER_FILE: text,
                layout.RESOURCES_FILE: json.dumps(resource_set(names, cores)),
                layout.SIZE_FILE: str(size),
                layout.TASKS_FILE: str(size if tasks is None else tasks),
                **{name: text.replace("/bin/sh", shell) for name, text in script.scripts().items()},
                **(files or {}),
            }
            for name, content in content_by_name.items():
                (config / name).write_text(content)
        self.certificate = self.directory / layout.CURVE_FILE
        self.deliver(new_certificate("mc-0", now=datetime.now()), certificate_mode)
        if user is not None:
            os.chown(self.certificate, 0, user)
            self._open_logs_to_all()

    def __enter__(self) -> "Instance":
        self.start(self.first)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
        _kill(self.leftovers())
        for process in self.processes.values():
            process.wait()
        if error is not None:
            error.add_note(self.story())
        shutil.rmtree(self.directory)

    def start(self, ranks: Iterable[int] | None = None) -> None:
        """Start the containers of these ranks, all of them by default."""
        for rank in range(self.size) if ranks is None else ranks:
            config = self.directory / f"config-{rank}"
            env = {
                layout.ENV_CONFIG: str(config),
                layout.ENV_CURVE: str(self.certificate),
                layout.ENV_RUNDIR: str(self.rundir(rank)),
                layout.ENV_TERMINATION_LOG: str(self._file("termination", rank)),
                layout.ENV_HOSTNAME: f"mc-{rank}",
                layout.ENV_INDEX: str(rank),
                **self.env,
            }
            words = [
                word.replace("/bin/sh", self.shell).replace(layout.CONFIG_DIR, str(config))
                for word in self.arguments.words
            ]
            if self.arguments.counts_at is not None:
                env[layout.ENV_COUNTS_AT] = str(self.arguments.counts_at)
            with self._file("stdout", rank).open("ab") as out, self._file("stderr", rank).open("ab") as err:
                self.processes[rank] = subprocess.Popen(
                    [self.shell, str(config / layout.START_FILE), *words],
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    cwd="/",
                    start_new_session=True,
                    user=self.user,
                    group=self.user,
                    extra_groups=[] if self.user is not None else None,
                )

    def deliver(self, certificate: Certificate, mode: int = 0o400) -> None:
        """Put a certificate where containers that start from now on find it."""
        self.certificate.unlink(missing_ok=True)
        self.certificate.write_text(certificate.reveal())
        self.certificate.chmod(mode)

    def rundir(self, rank: int) -> Path:
        return self.directory / f"run-{rank}"

    def _file(self, what: str, rank: int) -> Path:
        return self.directory / f"{what}-{rank}"

    def _open_logs_to_all(self) -> None:
        for rank in range(self.size):
            log = self._file("termination", rank)
            log.touch()
            log.chmod(0o666)  # as the kubelet makes it

    # -- what it did

    def stdout(self, rank: int = 0) -> str:
        return self._file("stdout", rank).read_text(errors="surrogateescape")

    def stderr(self, rank: int = 0) -> str:
        return self._file("stderr", rank).read_text(errors="surrogateescape")

    def termination(self, rank: int = 0) -> Termination | None:
        log = self._file("termination", rank)
        return parse_termination(log.read_text()) if log.exists() else None

    def ready(self, rank: int) -> bool:
        return (self.rundir(rank) / layout.READY_FILE).exists()

    def wait(self) -> list[int]:
        """Exit codes by rank, once all containers have ended."""
        until = time.monotonic() + PATIENCE
        return [self.processes[rank].wait(max(0.0, until - time.monotonic())) for rank in sorted(self.processes)]

    def until(self, true: Callable[[], bool]) -> None:
        """Wait for something to become true while the instance runs."""
        until = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < until, "it did not happen"
            time.sleep(0.02)

    def has_socket(self, rank: int) -> bool:
        """Whether the rank's broker runs: it makes its socket before it looks for the others."""
        return (self.rundir(rank) / "local").exists()

    def all_ready(self) -> bool:
        return all(self.ready(rank) for rank in range(self.size))

    # -- what is done to it

    def signal(self, rank: int, signum: int = signal.SIGTERM) -> None:
        """Signal a container's first process, as a kubelet does."""
        self.processes[rank].send_signal(signum)

    def enter(self, rank: int, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run words in a rank's container, as `kueue-flux shell` does."""
        config = self.directory / f"config-{rank}"
        env = {**self.env, layout.ENV_CONFIG: str(config), layout.ENV_RUNDIR: str(self.rundir(rank))}
        words = (self.shell, str(config / "enter.sh"), *words)
        return subprocess.run(
            words, env=env, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL
        )

    def stop(self) -> None:
        """End the instance, as `kueue-flux stop` does."""
        private = self.rundir(0) / "broker"
        (private / "stopped").touch()
        os.kill(int((private / "command.pid").read_text()), signal.SIGTERM)

    def kill_broker(self, rank: int) -> None:
        """The broker dies, start.sh lives."""
        os.kill(int(self.flux(rank, "getattr", "broker.pid")), signal.SIGKILL)

    def kill_container(self, rank: int) -> None:
        """Everything in the container dies at once."""
        mine = f"{layout.ENV_RUNDIR}={self.rundir(rank)}".encode()
        self.processes[rank].kill()
        _kill(self._processes_with(mine))
        self.processes[rank].wait()

    def flux(self, rank: int, *words: str) -> str:
        """Run a flux command against a rank's broker."""
        env = {**self.env, "FLUX_URI": f"local://{self.rundir(rank)}/local"}
        return subprocess.run(
            ["flux", *words], env=env, check=True, capture_output=True, text=True, timeout=PATIENCE
        ).stdout.strip()

    # -- what it left

    def leftovers(self) -> list[int]:
        """Processes that were started by this instance, zombies aside."""
        return self._processes_with(str(self.directory).encode())

    @staticmethod
    def _processes_with(text: bytes) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with suppress(OSError):  # it ended meanwhile, or is not ours
                    if text in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
        return found

    def story(self) -> str:
        """All that was said, for a failed test."""
        parts = []
        for rank in range(self.size):
            for what in ("stdout", "stderr", "termination"):
                file = self._file(what, rank)
                if file.exists() and (text := file.read_text(errors="replace")):
                    parts.append(f"-- {what} of rank {rank}\n{text[-3000:].rstrip()}")
        return "\n".join(parts)


def _arguments(args: Sequence[str], mode: Mode, env: Mapping[str, str]) -> script.Arguments:
    dashes = args.index("--") if "--" in args else len(args)
    options, command = args[:dashes], args[dashes + 1 :]
    if mode is Mode.RUN:
        quiet, debug = layout.ENV_QUIET in env, layout.ENV_DEBUG in env
        return script.run_arguments(command, options=options, quiet=quiet, debug=debug)
    return script.batch_arguments(options=options) if mode is Mode.BATCH else script.Arguments(tuple(command))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
