"""Other programs: run for what they print, line by line with progress, or to see whether they work.

Every failure carries the end of what the program printed, since that is where the reason is.
"""

import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kueue_flux.devcluster.errors import CommandFailed

_TAIL_LINES = 30


def _environment(extra: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if extra is None else {**os.environ, **extra}


def output(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout: float | None = None,
) -> str:
    """Run a command and return what it printed on stdout.

    Args:
        argv: the command.
        cwd: where to run it.
        env: variables to add to this process's.
        stdin: text for its standard input.
        timeout: seconds until it is killed.

    Raises:
        CommandFailed: it ended with another status than 0, or not in time.
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env=_environment(env),
            input=stdin,
            timeout=timeout,
            capture_output=True,
            text=True,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(words, 124, f"no answer within {timeout:g} s") from error
    if done.returncode:
        raise CommandFailed(words, done.returncode, _tail((done.stderr or done.stdout).splitlines()))
    return done.stdout


def works(argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, timeout: float = 30) -> bool:
    """Whether a command ends with status 0.

    Args:
        argv: the command.
        env: variables to add to this process's.
        timeout: seconds until it counts as failed.
    """
    try:
        output(argv, env=env, timeout=timeout)
    except (CommandFailed, FileNotFoundError):
        return False
    return True


def stream(
    argv: Sequence[str | Path],
    on_line: Callable[[str], None],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    first_line_within: float | None = None,
) -> None:
    """Run a command and hand on each line it prints (stdout and stderr together) while it runs.

    Args:
        argv: the command.
        on_line: called with each line, without its line end.
        cwd: where to run it.
        env: variables to add to this process's.
        first_line_within: seconds until a command that has printed nothing is ended.

    Raises:
        CommandFailed: it ended with another status than 0, or said nothing in time.
    """
    words = [str(word) for word in argv]
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    with subprocess.Popen(
        words,
        cwd=cwd,
        env=_environment(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as child:
        assert child.stdout is not None  # noqa: S101 - PIPE above
        patience = threading.Timer(first_line_within, child.terminate) if first_line_within else None
        if patience:
            patience.start()
        for line in child.stdout:
            if patience:
                patience.cancel()
            tail.append(line.rstrip("\n"))
            on_line(tail[-1])
        if patience:
            patience.cancel()
    if child.returncode:
        raise CommandFailed(words, child.returncode, _tail(tail))


def _tail(lines: Sequence[str] | deque[str]) -> str:
    return "\n".join(list(lines)[-_TAIL_LINES:])


@dataclass(frozen=True)
class Pid:
    """A process by its id and start, so that another that got the same id later is not taken for it.

    Args:
        pid: the process id.
        started: clock ticks after boot at which it started (field 22 of /proc/<pid>/stat, proc(5)).
    """

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Pid | None":
        """The running process with this id; None where there is none, or only a zombie.

        Args:
            pid: the process id.
        """
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = stat.rpartition(")")[2].split()  # the command before it may contain spaces and brackets
        # a zombie may have threads that still run, and hold its ports, for a moment after its first one ended
        ended = fields[0] == "Z" and int(fields[17]) <= 1
        return None if ended else cls(pid, int(fields[19]))

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return Pid.of(self.pid) == self

    def stop(self, *, grace: float) -> None:
        """End the process: SIGTERM, and SIGKILL where it is still there after the grace time.

        Args:
            grace: seconds between the two.
        """
        for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 10.0)):
            if not self.alive():
                return
            os.kill(self.pid, number)
            end = time.monotonic() + patience
            while self.alive() and time.monotonic() < end:
                time.sleep(0.1)
