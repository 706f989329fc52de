"""One turn of the control loop over one MiniCluster: what its steps share, and what each of them may do with it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kueue_flux.controller.conflicts import Conflicts
from kueue_flux.controller.facts import Facts
from kueue_flux.controller.resources import JOBS
from kueue_flux.kueue.workload import Signal
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Key, Object
from kueue_flux.runtime.store import Store

# Answers that the same request will get again until somebody changes the MiniCluster, a policy or a quota.
REFUSED = frozenset({400, 403, 422})


@dataclass
class Turn:
    """One turn of the loop over one MiniCluster.

    Attributes:
        client: The API client.
        jobs: The store of Jobs; what a step creates is put there at once.
        facts: What is known; `facts.job` is set by the step that creates it.
        obj: The MiniCluster as stored.
        now: The time of this turn.
        cluster_domain: The cluster's DNS domain.
        conflicts: What was seen of other operators.
        record: `status.admission` as it will be written.
        restored: When it was last looked for what a MiniCluster needs.
        has_turn: Says whether it is this MiniCluster's turn to get its services.
        awaited: Says which FluxSetup's queue must be there before anything starts in a namespace without a queue.
        trouble: Why the MiniCluster or its last change is not accepted.
        events: What to tell the user: (type, reason, note), sent after the status is written.
        again: Seconds after which to look again although nothing may have changed.
        injected: How often files were written, for `status.admissions`.
        cleared: The files of the finished run were deleted; `record` stays, to show what was admitted.
        gone: The MiniCluster was deleted by this turn.
    """

    client: Client
    jobs: Store
    facts: Facts
    obj: dict[str, Any]
    now: datetime
    cluster_domain: str
    conflicts: Conflicts
    restored: dict[Key, datetime]
    record: dict[str, Any] | None = None
    has_turn: Callable[[], bool] = lambda: True
    awaited: Callable[[str], Signal | None] = lambda _namespace: None
    trouble: Signal | None = None
    events: list[tuple[str, str, str]] = field(default_factory=list)
    again: float | None = None
    injected: int = 0
    cleared: bool = False
    gone: bool = False

    def wake(self, delay: timedelta) -> None:
        """Ask for another turn after `delay`, if none is due earlier."""
        seconds = max(delay.total_seconds(), 0.05)
        self.again = seconds if self.again is None else min(self.again, seconds)

    def is_due(self, moment: datetime) -> bool:
        """Whether a moment has come; asks for a turn when it does."""
        if moment > self.now:
            self.wake(moment - self.now)
        return moment <= self.now

    async def patch_job(self, job: Object, patch: Object) -> Object:
        """Change a Job by a merge patch. Returns it as the store has it then.

        Raises:
            ApiError: The API server refused.
        """
        meta = job["metadata"]
        self.jobs.put(await self.client.merge_patch(JOBS, meta["name"], patch, meta["namespace"]))
        return self.jobs.get(meta["namespace"], meta["name"]) or job


def stamp(when: datetime) -> str:
    """A time as Kubernetes writes it, with microseconds (metav1.MicroTime)."""
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def refused(error: ApiError) -> Signal:
    """What is wrong where the API server, or an admission webhook or policy, refuses what is needed, in its words."""
    return Signal("Refused", f"the API server refuses what this MiniCluster needs: {error.message}")
