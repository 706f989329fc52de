"""What happened to one MiniCluster and why, a line for each step, with the time of day: `status --watch`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from kueue_flux.api.conditions import ConditionType
from kueue_flux.cli import queues, render
from kueue_flux.cli.follow import WAITING, Follower
from kueue_flux.client.errors import ClientError
from kueue_flux.client.miniclusters import AsyncMiniClusters, Object
from kueue_flux.client.queues import Grant
from kueue_flux.client.status import Stage, Status, conditions
from kueue_flux.kueue.words import is_preemption

Draw = Callable[[Object, Status], Awaitable[None]]


class Chronicle(Follower):
    """Follows one MiniCluster to its end, and tells more of each step than one needs who only waits.

    Args:
        client: For the MiniCluster's namespace.
        name: Its name.
        say: Takes each line for the reader.
        draw: Called with each state, and once a second; None where nothing is drawn.
    """

    def __init__(
        self, client: AsyncMiniClusters, name: str, *, say: Callable[[str], None], draw: Draw | None = None
    ) -> None:
        super().__init__(client, name, say=say)
        self._draw = draw
        self._granted: str | None = None
        self._injected: str | None = None
        self._told_eviction = False
        self._last = ""

    async def _seen(self, obj: Object, status: Status, *, is_new: bool) -> None:
        if is_new and status.stage in WAITING:
            self._granted = None
        # Not at the admission itself: what a ClusterQueue says of its use is a moment behind that.
        if is_new and (status.stage is Stage.RUNNING or (status.stage is Stage.STARTING and status.pods_running)):
            await self._tell_grant(status)
        if is_new:
            self._tell_files(obj, status)
        if self._draw is not None:
            await self._draw(obj, status)

    async def _tell_grant(self, status: Status) -> None:
        """Tell once in each admission where the quota comes from."""
        if self._granted is not None or not status.queue:
            return
        try:
            grant = await self._client.grant(status.workload)
        except ClientError:
            return  # the watch tells of an outage; it is asked again with the next state
        self._granted = status.workload
        if grant is not None:
            self._line(granted(grant))

    def _tell_files(self, obj: Object, status: Status) -> None:
        """Tell of each certificate after the first, which comes with every start."""
        admission = (obj.get("status") or {}).get("admission") or {}
        now = str(admission.get("id", ""))
        known, self._injected = self._injected, now or self._injected
        injected: Mapping[str, Any] = conditions(obj).get(ConditionType.INJECTED, {})
        if known and now and now != known and injected.get("status") == "True":
            self._line(f"new {injected.get('message', 'certificate and configuration')}")

    def _told(self, status: Status) -> str:
        """The line without what the lines before have said."""
        shown = self._shown
        if status.stage is Stage.STARTING and not self._goes_down(status):
            told = shown is not None and shown.stage is Stage.STARTING and shown.nodes == status.nodes
            return render.counts(status) if told else render.line(status)
        if status.stage is Stage.QUEUED and self._told_eviction:
            if is_preemption(status.message):
                status = replace(status, message="", reason="")
            return render.line(replace(status, evicted=""))
        return self._words(status)

    def _print(self, status: Status) -> None:
        super()._print(status)
        self._told_eviction = status.stage in WAITING and (self._told_eviction or bool(status.evicted))

    def _line(self, text: str) -> None:
        if text != self._last:
            self._tell(f"{datetime.now():%H:%M:%S}  {text}")
        self._last = text


def granted(grant: Grant) -> str:
    """Where quota comes from, in one line."""
    flavors = f", flavor {' and '.join(grant.flavors)}" if grant.flavors else ""
    lent = f"; it borrows {queues.amounts(grant.borrowed)} of cohort {grant.cohort}" if grant.borrowed else ""
    return f"quota of ClusterQueue {grant.cluster_queue}{flavors}{lent}"
