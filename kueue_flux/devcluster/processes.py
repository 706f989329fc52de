"""The long-lived processes of a cluster: started apart from this one, found again later, ended by id.

`kueue-flux dev up` returns while etcd and the others go on running, so what is known of them lives in a file
beside their logs. Of each process its start time is kept as well: after a reboot its id may belong to
somebody else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.process import Pid

POLL_SECONDS = 0.05
_TAIL_LINES = 15
_TAIL_COLUMNS = 400


@dataclass(frozen=True)
class Command:
    """What to run.

    Args:
        argv: the command, its program as an absolute path.
        env: variables added to this process's environment.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> Command:
        """A command from words and paths."""
        return cls(tuple(str(word) for word in argv), dict(env or {}))


class Processes:
    """The processes of one cluster, by name.

    Each runs in `directory`, in a session of its own (so that a Ctrl-C meant for this command does not reach
    it), and writes stdout and stderr to `logs/<name>.log`.

    Args:
        directory: the cluster's state folder.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._file = directory / "processes.json"

    def names(self) -> list[str]:
        """The names of all processes ever started and not forgotten since, in the order of their start."""
        return list(self._records())

    def pid(self, name: str) -> int | None:
        """The id of a running process; None where it is not running.

        Args:
            name: which process.
        """
        record = self._records().get(name)
        if record is None:
            return None
        _reap()
        pid = Pid(record["pid"], record["started"])
        return pid.pid if pid.alive() else None

    def runs(self, name: str, command: Command) -> bool:
        """Whether a process runs, and with this command.

        Args:
            name: which process.
            command: what it should run.
        """
        return self.pid(name) is not None and self._command(name) == command

    def log(self, name: str) -> Path:
        """Where a process writes what it prints.

        Args:
            name: which process.
        """
        return self.directory / "logs" / f"{name}.log"

    def tail(self, name: str) -> str:
        """The last lines a process printed, each cut to what fits into a message.

        Args:
            name: which process.
        """
        if not self.log(name).exists():
            return ""
        lines = self.log(name).read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        return "\n".join(line[:_TAIL_COLUMNS] for line in lines)

    def start(self, name: str, command: Command) -> int:
        """Make sure that a process runs; one that runs already is left alone if its command is the same.

        Args:
            name: how it will be known, and the name of its log.
            command: what to run.

        Returns:
            Its process id.
        """
        running = self.pid(name)
        if running is not None:
            if self.runs(name, command):
                return running
            self.stop(name)
        self.log(name).parent.mkdir(parents=True, exist_ok=True)
        with self.log(name).open("ab") as log:
            child = subprocess.Popen(
                command.argv,
                cwd=self.directory,
                env={**os.environ, **command.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _children[child.pid] = child
        born = Pid.of(child.pid)
        records = self._records()
        # one that ended before we could look at it has no start time: recorded so, it counts as not running
        records[name] = {"pid": child.pid, "started": born.started if born else -1, **asdict(command)}
        self._save(records)
        return child.pid

    def restart(self, name: str) -> int:
        """Start a process again as it was started last; stop it first where it still runs.

        Args:
            name: which process.

        Raises:
            KeyError: no such process was ever started.
        """
        command = self._command(name)
        self.stop(name)
        return self.start(name, command)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process and return at once; nothing happens where it is not running.

        Args:
            name: which process.
            number: for example SIGSTOP, to see what others do when it hangs.
        """
        if (pid := self.pid(name)) is not None:
            os.kill(pid, number)

    def stop(self, *names: str, grace: float = 5.0) -> None:
        """End processes, all at once: SIGTERM, and SIGKILL for those still there after the grace time.

        They stay known, so that `restart` can bring them back.

        Args:
            names: which processes; unknown ones and those that have ended are passed over.
            grace: seconds between the two signals; 0 kills at once.
        """
        if grace > 0:
            for name in names:
                self.signal(name, signal.SIGTERM)
                self.signal(name, signal.SIGCONT)  # a process that was stopped would not see it
            self._wait_gone(names, grace)
        for name in names:
            self.signal(name, signal.SIGKILL)
        if left := self._wait_gone(names, 10):
            raise DevClusterError(
                f"{', '.join(left)} did not end after SIGKILL", "look for processes in state D: ps -ef"
            )

    def stop_all(self, *, grace: float = 5.0) -> None:
        """End every process and forget it.

        Args:
            grace: seconds between SIGTERM and SIGKILL.
        """
        self.stop(*self.names(), grace=grace)
        self._file.unlink(missing_ok=True)

    def wait_until(self, name: str, ready: Callable[[], bool], *, timeout: float, what: str = "ready") -> None:
        """Wait until a process answers, and no longer than it lives.

        Args:
            name: which process.
            ready: asked again and again; must not raise.
            timeout: seconds.
            what: what is waited for, for the message.

        Raises:
            DevClusterError: it ended, or was not ready in time; with the end of its log.
        """
        end = time.monotonic() + timeout
        while not ready():
            if self.pid(name) is None:
                raise self._failure(name, "ended while starting")
            if time.monotonic() > end:
                raise self._failure(name, f"was not {what} within {timeout:g} s")
            time.sleep(POLL_SECONDS)

    def _failure(self, name: str, problem: str) -> DevClusterError:
        return DevClusterError(f"{name} {problem}; the end of {self.log(name)}:\n{self.tail(name)}")

    def _wait_gone(self, names: Sequence[str], timeout: float) -> list[str]:
        end = time.monotonic() + timeout
        while left := [name for name in names if self.pid(name) is not None]:
            if time.monotonic() > end:
                break
            time.sleep(POLL_SECONDS)
        return left

    def _command(self, name: str) -> Command:
        record = self._records()[name]
        return Command(tuple(record["argv"]), record["env"])

    def _records(self) -> dict[str, dict[str, Any]]:
        if not self._file.exists():
            return {}
        records: dict[str, dict[str, Any]] = json.loads(self._file.read_text())
        return records

    def _save(self, records: dict[str, dict[str, Any]]) -> None:
        # replaced as a whole: a command that is interrupted here must not lose the ids of what runs
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(records, indent=1))
        new.replace(self._file)


# Our own children must be waited for, else they stay as zombies for as long as this process lives; whoever started
# them, since a cluster may be brought up and taken down through different objects.
_children: dict[int, subprocess.Popen[bytes]] = {}


def _reap() -> None:
    for pid, child in list(_children.items()):
        if child.poll() is not None:
            del _children[pid]
