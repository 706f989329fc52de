"""What is being done and how far it is, readable in a terminal and in a CI log.

Building a cluster from nothing takes half an hour. In a terminal one line is kept up to date; without a tty
a line is printed when a stage begins, at least every `heartbeat` seconds while it lasts, and when it ends.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.status import Status

WORTH_TELLING = 5
"""How many of the longest stages the summary names,"""
WORTH_TELLING_SECONDS = 2.0
"""and how long they must have been."""


def duration(seconds: float) -> str:
    """A length of time as a person reads it, for example `7.4 s` or `3 min 05 s`.

    Args:
        seconds: the length.
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


@dataclass
class Stage:
    """One piece of work in hand.

    Args:
        title: what it is.
        started: when it began, in seconds of the progress's clock.
        depth: how many stages it is part of.
    """

    title: str
    started: float
    depth: int
    detail: str = ""

    def update(self, detail: str) -> None:
        """Say how far the stage is; shown at the next heartbeat.

        Args:
            detail: for example `214 of 1930 packages`.
        """
        self.detail = detail


@dataclass(frozen=True)
class Taken:
    """How long a finished stage took.

    Args:
        title: what it was.
        seconds: how long it took.
    """

    title: str
    seconds: float


@dataclass
class Progress:
    """Prints stages, nested as they are entered, and keeps how long the outermost ones took.

    Args:
        console: where to print; standard error by default, since standard output is for results.
        heartbeat: seconds between two lines about a stage where there is no terminal.
        clock: returns seconds; replaced in tests.
    """

    console: Console = field(default_factory=lambda: Console(stderr=True, highlight=False))
    heartbeat: float = 20.0
    clock: Callable[[], float] = time.monotonic
    taken: list[Taken] = field(default_factory=list)
    _stack: list[Stage] = field(default_factory=list)
    _status: Status | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def stage(self, title: str) -> Iterator[Stage]:
        """Report a piece of work for as long as the `with` block lasts.

        Args:
            title: what it is, for example `build etcd v3.7.3`.
        """
        stage = Stage(title, self.clock(), depth=len(self._stack))
        self._stack.append(stage)
        if stage.depth == 0:
            self._start_ticking()
        if not self.console.is_terminal:
            self._print(stage, f"{title} ...")
        ending = "failed after"
        try:
            yield stage
            ending = "done in"
        finally:
            self._stack.pop()
            seconds = self.clock() - stage.started
            if stage.depth == 0:
                self._stop_ticking()
                self.taken.append(Taken(title, seconds))
            self._print(stage, f"{title}: {ending} {duration(seconds)}")

    def note(self, text: str) -> None:
        """Print a line that is worth keeping.

        Args:
            text: the line.
        """
        self.console.print("  " * len(self._stack) + text, markup=False, soft_wrap=True)

    def update(self, detail: str) -> None:
        """Say how far the innermost stage is; nothing where there is none.

        Args:
            detail: for example `214 of 1930 packages`.
        """
        if self._stack:
            self._stack[-1].update(detail)

    def beat(self) -> None:
        """Show the innermost stage as it stands; called by the ticker."""
        stages = list(self._stack)
        if not stages:
            return
        stage = stages[-1]
        text = f"{stage.title}: " + (f"{stage.detail}, " if stage.detail else "")
        text += duration(self.clock() - stage.started)
        if self._status is not None:
            self._status.update(text.replace("[", r"\["))
        else:
            self._print(stage, text)

    def summary(self) -> str:
        """How long it took in all, and in lines of their own the longest of the outermost stages."""
        total = sum(item.seconds for item in self.taken)
        longest = sorted(self.taken, key=lambda item: -item.seconds)[:WORTH_TELLING]
        told = [item for item in longest if item.seconds >= WORTH_TELLING_SECONDS]
        return "\n".join(
            [f"took {duration(total)}", *(f"  {duration(item.seconds):>12}  {item.title}" for item in told)]
        )

    def _print(self, stage: Stage, text: str) -> None:
        self.console.print("  " * stage.depth + text, markup=False, soft_wrap=True)

    def _start_ticking(self) -> None:
        interval = self.heartbeat
        if self.console.is_terminal:
            self._status = self.console.status("")
            self._status.start()
            interval = 0.5
        self._stop = stop = threading.Event()

        def tick() -> None:
            while not stop.wait(interval):
                self.beat()

        threading.Thread(target=tick, name="progress", daemon=True).start()

    def _stop_ticking(self) -> None:
        self._stop.set()
        if self._status is not None:
            self._status.stop()
            self._status = None
