"""Waiting where a person watches: a line for each stage on stderr, the command's output on stdout."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TypeVar

from kueue_flux.api.conditions import Reason
from kueue_flux.cli import render
from kueue_flux.client.errors import ClientError, Deleted, NotStarted, Refused, Unanswered, WaitTimeout
from kueue_flux.client.miniclusters import AsyncMiniClusters, Object, reached
from kueue_flux.client.status import Result, Stage, Status

T = TypeVar("T")

# How often the position in the queue is looked up while waiting, seconds.
POSITION_SECONDS = 5.0
# How often counts of pods and brokers are printed at most, seconds.
COUNTS_SECONDS = 1.0
# How often Kueue's words are printed at most, when nothing but the words changes, seconds.
WORDS_SECONDS = 15.0
# What passes by itself in a moment, and is told only when it does not: no word from the controller or from Kueue
# yet, and brokers that go down, as they do when the command has ended. Seconds.
PASSING = frozenset({Reason.WAITING_FOR_WORKLOAD, "PendingEvaluation"})
PASSING_SECONDS = 1.0
ENDING_SECONDS = 4.0
# Stages before which there is no run, or no more.
WAITING = frozenset({Stage.CREATED, Stage.QUEUED, Stage.RESERVED})
# After so long without a word from the controller, it is probably not there, seconds.
CONTROLLER_SECONDS = 10.0
# For the rest of the output after the end, seconds.
DRAIN_SECONDS = 15.0

NO_CONTROLLER = (
    "no controller has looked at it yet: is kueue-flux running? "
    "kubectl get deployments -A -l app.kubernetes.io/name=kueue-flux"
)


class Follower:
    """Follows one MiniCluster until it reaches a condition or ends.

    Args:
        client: For the MiniCluster's namespace.
        name: Its name.
        condition: The condition type to wait for.
        output: Takes each line of the command's output; None leaves the output alone.
        say: Takes each line for the reader.

    Attributes:
        latest: The MiniCluster as it was last seen; empty before.
    """

    def __init__(
        self,
        client: AsyncMiniClusters,
        name: str,
        *,
        condition: str = "Finished",
        output: Callable[[bytes], None] | None = None,
        say: Callable[[str], None],
    ) -> None:
        self._client = client
        self._name = name
        self._condition = condition
        self._output = output
        self._tell = say
        self.latest: Object = {}
        self._began = time.monotonic()
        self._shown: Status | None = None
        self._shown_line = ""
        self._shown_at = 0.0
        self._held: float | None = None
        # Of the present run: the most brokers that were up, and whether there was output.
        self._most = 0
        self._spoke = False
        self._asked_at = -POSITION_SECONDS
        self._position: int | None = None
        self._behind = ""
        self._warned = False
        self._away = False
        self._answered = False

    async def run(self, limit: float | None = None) -> Result:
        """Follow.

        Args:
            limit: Seconds; None waits for ever.

        Returns:
            The result; its `succeeded` is None where the condition came before the end.

        Raises:
            WaitTimeout: It took longer than the limit.
            Unanswered: The cluster does not answer.
            ClientError: It cannot be followed any more.
        """
        reading = asyncio.create_task(self._read(self._output)) if self._output is not None else None
        try:
            async with asyncio.timeout(limit):
                result, status = await self._watch()
                if reading is not None:
                    await self._drain(reading)
        except TimeoutError:
            if self._away or not self._answered:
                raise Unanswered(self._name, limit) from None
            raise WaitTimeout(f"MiniCluster {self._name} is not {self._condition.lower()} after {limit:g} s") from None
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
        self._print(status)
        return result

    async def _watch(self) -> tuple[Result, Status]:
        """Print stages until the end, which is left for later: the output's last lines come first."""
        objects = self._client.watch(self._name, on_outage=self._outage)
        async with aclosing(ticking(objects, COUNTS_SECONDS)) as states:
            async for obj, is_new in states:
                self._away = self._away and not is_new
                self._answered = True
                self.latest = obj
                status = Status.from_object(obj)
                if (result := reached(obj, status, self._condition)) is not None:
                    return result, status
                status = await self._with_position(status)
                self._show(status)
                await self._seen(obj, status, is_new=is_new)
        raise AssertionError("a watch does not end by itself")

    async def _seen(self, obj: Object, status: Status, *, is_new: bool) -> None:
        """Called with each state, after what there is to tell of it."""

    def _show(self, status: Status) -> None:
        now = time.monotonic()
        self._remember(status)
        if (
            self._words(status) != self._shown_line
            and not self._passes(status, now)
            and not self._too_soon(status, now)
        ):
            self._print(status)
        unseen = status.stage is Stage.CREATED and now - self._began > CONTROLLER_SECONDS
        if unseen and self._shown is not None and not self._warned:
            self._warned = True
            self._line(NO_CONTROLLER)

    def _too_soon(self, status: Status, now: float) -> bool:
        """Whether it differs in counts or words only from what has been told just before."""
        shown = self._shown
        if shown is None or (shown.stage, shown.reason) != (status.stage, status.reason):
            return False
        if status.stage is Stage.QUEUED:
            return shown.position == status.position and now - self._shown_at < WORDS_SECONDS
        return now - self._shown_at < COUNTS_SECONDS

    def _remember(self, status: Status) -> None:
        if status.stage in WAITING:
            self._most, self._spoke = 0, False
        elif status.stage is Stage.RUNNING:
            self._most = status.nodes
        else:
            self._most = max(self._most, status.brokers_ready)

    def _goes_down(self, status: Status) -> bool:
        return status.stage is Stage.STARTING and status.brokers_ready < self._most

    def _passes(self, status: Status, now: float) -> bool:
        """Whether the status may be gone in a moment, and is better not told yet."""
        patience = self._patience(status)
        if not patience:
            self._held = None
            return False
        self._held = now if self._held is None else self._held
        return now - self._held < patience

    def _patience(self, status: Status) -> float:
        """How long a status may last before it is told, seconds."""
        if status.stage is Stage.CREATED or status.reason in PASSING:
            return PASSING_SECONDS
        if status.stage is Stage.RUNNING and self._spoke:
            return math.inf  # the output has said it
        if status.stage is Stage.STARTING and (self._spoke or self._goes_down(status)):
            return ENDING_SECONDS
        return 0.0

    def _words(self, status: Status) -> str:
        if self._goes_down(status):
            return f"brokers go down: {status.brokers_ready} of {self._most} left"
        return render.line(status)

    def _told(self, status: Status) -> str:
        """What is printed of a status, after what was printed before."""
        return self._words(status)

    def _print(self, status: Status) -> None:
        text = self._told(status)
        self._shown, self._shown_at = status, time.monotonic()
        self._shown_line = self._words(status)
        self._line(text)

    def _line(self, text: str) -> None:
        self._tell(f"{time.monotonic() - self._began:6.1f}s  {text}")

    async def _with_position(self, status: Status) -> Status:
        if status.stage is not Stage.QUEUED:
            self._position, self._behind = None, ""
            return status
        if time.monotonic() - self._asked_at >= POSITION_SECONDS:
            self._asked_at = time.monotonic()
            with suppress(ClientError):  # the watch tells of an outage; the controller's position will do
                (asked,) = await self._client.with_positions([status])
                self._position, self._behind = asked.position, asked.behind
        position = status.position if self._position is None else self._position
        return replace(status, position=position, behind=self._behind)

    def _outage(self, error: ClientError) -> None:
        if not self._away:
            self._away = True
            self._line(f"{error.message}; trying again")

    async def _read(self, output: Callable[[bytes], None]) -> None:
        try:
            async with aclosing(self._client.raw_logs(self._name, follow=True)) as lines:
                async for line in lines:
                    self._spoke = True
                    output(line)
        except (Deleted, NotStarted, Refused):
            pass  # the watch tells the same
        except ClientError as error:
            # Whoever may not read logs can still wait.
            self._line(f"the output cannot be shown: {error}")
        except BrokenPipeError:
            # As with `| head`: the result is still waited for, and is the exit code.
            silence_stdout()

    async def _drain(self, reading: asyncio.Task[None]) -> None:
        done, _ = await asyncio.wait([reading], timeout=DRAIN_SECONDS)
        if done:
            reading.result()
        else:
            self._line("the rest of the output did not come in time")


async def ticking(stream: AsyncGenerator[T, None], seconds: float) -> AsyncGenerator[tuple[T, bool], None]:
    """Yield what a stream yields, and the last of it again whenever nothing came for a while.

    Args:
        stream: Is closed with this generator.
        seconds: The while.

    Yields:
        (item, whether it is new).
    """
    async with aclosing(stream):
        coming = asyncio.ensure_future(anext(stream))
        try:
            item = await coming
            is_new = True
            coming = asyncio.ensure_future(anext(stream))
            while True:
                yield item, is_new
                done, _ = await asyncio.wait([coming], timeout=seconds)
                is_new = bool(done)
                if done:
                    item = coming.result()
                    coming = asyncio.ensure_future(anext(stream))
        except StopAsyncIteration:
            return
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


def write_output(line: bytes) -> None:
    """Print one line of a command's output as the command wrote it."""
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def silence_stdout() -> None:
    """Let nothing more be written to a closed pipe, also not when Python flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
