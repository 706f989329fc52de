"""The output of a MiniCluster's command: the log of its lead pod, across pods and lost connections.

The lead has index 0 in the Indexed Job. After an eviction another pod takes its place, and following goes on
with that one. A connection that breaks is taken up again at the line where it broke: lines are asked for with
their timestamps, and those of the last second that were seen before are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from kueue_flux.client.connection import Connection
from kueue_flux.client.errors import ClientError, NotFound, NotStarted, Rejected, Unavailable, Unreachable
from kueue_flux.client.status import Status, refusal

# As the manifests name it.
CONTAINER = "flux"
LEAD = "batch.kubernetes.io/job-completion-index=0"
# The uid, not the name: the pods of a deleted MiniCluster of the same name may still be ending.
MINICLUSTER_UID = "flux-framework.org/minicluster-uid"

# For a log that the kubelet cannot give although the container has run, seconds times attempts.
PAUSE_SECONDS = 0.5
ATTEMPTS = 6

# Seconds are the precision of `sinceTime`: 2030-01-31T12:00:00
_SECOND = 19


@dataclass
class _Cursor:
    """How far one container's log has been read.

    Attributes:
        second: The timestamp of the last line seen, cut to the second.
        zone: Its time zone, as the kubelet wrote it.
        seen: Lines seen that have this second.
    """

    second: str = ""
    zone: str = "Z"
    seen: int = 0
    _to_skip: int = field(default=0, init=False)

    def resume(self) -> dict[str, str]:
        """Query parameters for all lines since the last second seen, which will then be told apart."""
        self._to_skip, self.seen = max(self.seen, self._to_skip), 0
        return {"sinceTime": f"{self.second}{self.zone}"} if self.second else {}

    def take(self, line: bytes) -> bytes | None:
        """Take one line with its timestamp; returns the text, or None for a line seen before."""
        stamp, blank, text = line.partition(b" ")
        moment = stamp.decode(errors="replace")
        if not blank or len(moment) <= _SECOND or moment[10:11] != "T":
            return line  # not from the container: the kubelet says why there is no log
        if moment[:_SECOND] != self.second:
            self.second, self.seen, self._to_skip = moment[:_SECOND], 0, 0
            self.zone = moment[_SECOND:].lstrip(".0123456789") or "Z"
        self.seen += 1
        return None if self.seen <= self._to_skip else text


@dataclass(frozen=True)
class Lead:
    """The lead's pod, and its container once that has been started.

    Attributes:
        pod: The pod's name.
        container: The container's name.
        run: Identifies one run of the container; empty before it has been started.
        running: Whether the container runs now.
    """

    pod: str
    container: str
    run: str
    running: bool


def lead_of(pods: list[dict[str, Any]]) -> Lead | None:
    """The newest of the lead's pods, given in the order of their creation."""
    if not pods:
        return None
    pod = pods[-1]
    containers = [c["name"] for c in pod["spec"]["containers"]]
    name = CONTAINER if CONTAINER in containers else containers[0]
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    status: dict[str, Any] = next((s for s in statuses if s["name"] == name), {})
    state = status.get("state") or {}
    started = "running" in state or "terminated" in state
    run = f"{pod['metadata']['uid']}/{status.get('containerID', '')}" if started else ""
    return Lead(pod["metadata"]["name"], name, run, "running" in state)


def pods_path(namespace: str) -> str:
    """The API path of a namespace's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


def lead_selector(uid: str) -> dict[str, str]:
    """Query parameters that select the pods of the lead of the MiniCluster with this uid."""
    return {"labelSelector": f"{LEAD},{MINICLUSTER_UID}={uid}"}


async def current_lead(connection: Connection, namespace: str, uid: str) -> Lead | None:
    """Ask for the pod of the lead of the MiniCluster with this uid; None where there is none."""
    pods, _ = await connection.collect(pods_path(namespace), lead_selector(uid))
    return lead_of(sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", ""))))


def no_output(status: Status) -> ClientError:
    """Why a MiniCluster has no output: the error, not raised."""
    if refused := refusal(status):
        return refused
    why = f": {status.message}" if status.message else ""
    if status.is_finished:
        return NotStarted(f"MiniCluster {status.name} has ended, and no pod is left that has its output{why}")
    return NotStarted(
        f"MiniCluster {status.name} has no output yet, it is {status.stage}{why}",
        f"wait for it: kueue-flux logs {status.name} -n {status.namespace} --follow",
    )


async def read(connection: Connection, namespace: str, lead: Lead, *, follow: bool) -> AsyncGenerator[bytes, None]:
    """Yield the lines of one container's log, without their line ends, each once.

    Args:
        connection: Where to ask.
        namespace: The pod's namespace.
        lead: The pod; its container has been started.
        follow: Go on until the container ends, over lost connections. Otherwise what is there now.

    Raises:
        ClientError: The log cannot be read.
    """
    path = f"{pods_path(namespace)}/{lead.pod}/log"
    cursor = _Cursor()
    failures = 0
    # One more pass after the container has ended: the stream before it may have been cut short.
    last_pass = not follow
    while True:
        query = {"container": lead.container, "timestamps": "true", **cursor.resume()}
        if not last_pass:
            query["follow"] = "true"
        try:
            async with aclosing(connection.lines(path, query, silence=None)) as lines:
                async for line in lines:
                    failures = 0
                    if (text := cursor.take(line)) is not None:
                        yield text
            if last_pass:
                return
        except NotFound:
            return  # the pod is gone, and what it had to say with it
        except (Unreachable, Unavailable, Rejected) as error:
            # Rejected: "container is waiting to start", from a kubelet that lags behind.
            failures += 1
            if not follow or (failures >= ATTEMPTS and not isinstance(error, Unreachable)):
                raise
            await asyncio.sleep(PAUSE_SECONDS)
        if not last_pass:
            last_pass = await _has_ended(connection, namespace, lead)
            if not last_pass:
                await asyncio.sleep(PAUSE_SECONDS)


async def _has_ended(connection: Connection, namespace: str, lead: Lead) -> bool:
    try:
        pod = await connection.request("GET", f"{pods_path(namespace)}/{lead.pod}")
    except NotFound:
        return True
    except (Unreachable, Unavailable):
        return False
    now = lead_of([pod])
    return now is None or now.run != lead.run or not now.running
