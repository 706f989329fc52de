"""The wall clock, for the few timestamps that are written into objects.

Everything that waits or measures uses the event loop's own clock (`loop.time()`, `asyncio.sleep`), which
tests replace by a virtual one; only dates need this.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def now() -> datetime:
    """The time now, in UTC."""
    return datetime.now(UTC)


def micro_time(moment: datetime) -> str:
    """`metav1.MicroTime`, as in "2026-01-02T03:04:05.000006Z"; always six digits, which the server insists on."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def whole_seconds(moment: datetime) -> str:
    """`metav1.Time`, as in "2026-01-02T03:04:05Z": for conditions and status fields."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
