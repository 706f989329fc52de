"""Exponential back-off with jitter: how long to wait before asking the server again."""

from __future__ import annotations

import random


class Backoff:
    """Delays that double with every failure, each up to twice as long by chance so that clients do not march
    in step.

    Args:
        base: seconds of the first delay, before jitter.
        cap: most seconds of a delay, before jitter.
        jitter: up to this share of the delay is added.
    """

    def __init__(self, base: float = 0.8, cap: float = 30.0, jitter: float = 1.0) -> None:
        self._base = base
        self._cap = cap
        self._jitter = jitter
        self._failures = 0

    @property
    def failures(self) -> int:
        """Failures since the last success."""
        return self._failures

    def next(self) -> float:
        """Count a failure; returns the seconds to wait."""
        delay = min(self._base * 2.0 ** min(self._failures, 60), self._cap)
        self._failures += 1
        return delay * (1.0 + random.random() * self._jitter)  # noqa: S311

    def reset(self) -> None:
        """Count a success."""
        self._failures = 0
