"""Another operator at work on the same MiniClusters, remembered for a while.

Each write of ours takes over the fields that the other one wrote, and with them the trace of it; and each may
provoke an answer. So what was seen is kept for a minute after it was last seen, and said once in that time.

It is told on the MiniCluster, in the log and as a metric, and is no matter of readiness: whoever may edit a MiniCluster
can leave such traces on it, and the controller serves everybody else all the same.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from kueue_flux.runtime.resource import Key, text_of

log = structlog.get_logger(__name__)

HOLD = timedelta(seconds=60)
CLOCK_SKEW = timedelta(seconds=60)
"""How far another machine's clock may be ahead; what claims to be of a later time is no trace of anybody."""


@dataclass
class Conflict:
    """What was seen of another operator on one MiniCluster.

    Attributes:
        what: What it did, in words.
        seen: When that was last seen.
        told: When the MiniCluster's status last said so.
    """

    what: str
    seen: datetime
    told: datetime | None = None


class Conflicts:
    """The MiniClusters on which another operator was seen."""

    def __init__(self) -> None:
        self._by_key: dict[Key, Conflict] = {}

    def see(self, key: Key, what: str, now: datetime) -> None:
        """Note that another operator was at work."""
        if key not in self._by_key:
            log.warning("another operator is at work: run only one", minicluster=text_of(key), seen=what)
        conflict = self._by_key.setdefault(key, Conflict(what, now))
        conflict.what, conflict.seen = what, now

    def current(self, key: Key, now: datetime) -> Conflict | None:
        """The conflict over a MiniCluster, unless it was last seen longer ago than `HOLD`."""
        conflict = self._by_key.get(key)
        if conflict is not None and now - conflict.seen >= HOLD:
            del self._by_key[key]
            return None
        return conflict

    def forget(self, key: Key) -> None:
        """The MiniCluster is gone."""
        self._by_key.pop(key, None)

    def __len__(self) -> int:
        """On how many MiniClusters another operator was seen in the last minute."""
        return len(self._by_key)
