"""An event loop whose clock jumps: a test that waits ten minutes takes milliseconds, and is exact to the
second.

Production code waits by `asyncio.sleep` and measures by `loop.time()`, so it needs to know nothing of this.
Only for tests without sockets: a real peer would not keep up with a clock that jumps.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

TURNS_WITHOUT_TIME = 200_000
"""So many turns of the loop in one instant are a hot loop."""


class HotLoopError(AssertionError):
    """Something runs for ever without waiting."""


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0  # not 0: code that takes 0 for "never" shall be found out
        self.turns = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("every task waits for something that will never happen")
        ready: list[Any] = super().select(0)
        if timeout > 0 and not ready:
            self.now += timeout
            self.turns = 0
        self.turns += 1
        if self.turns > TURNS_WITHOUT_TIME:
            raise HotLoopError(f"{self.turns} turns of the loop at {self.now:g} s")
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop in virtual time."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test in virtual time."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
