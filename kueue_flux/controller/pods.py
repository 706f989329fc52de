"""What a pod's status says about its broker."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kueue_flux.flux.termination import Reason, Termination, parse_termination
from kueue_flux.kueue.workload import Signal

INDEX = "batch.kubernetes.io/job-completion-index"
LEAD = 0
NO_INDEX = "-1"

SANDBOX_READY = "PodReadyToStartContainers"

# ContainerStateTerminated: what a container runtime says where the kernel ended one of its processes.
OOM_KILLED = "OOMKilled"
# The same, where its first process could not be started, as containerd and others call it; the message says why.
CANNOT_START = frozenset({"StartError", "ContainerCannotRun"})
SIGKILLED = 137

# A container that waits for one of these will not start until somebody changes something.
IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
STUCK_REASONS = IMAGE_REASONS | {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}


@dataclass(frozen=True)
class PodView:
    """One pod of the Job.

    Attributes:
        name: The pod's name.
        index: Its completion index, which is its broker's rank.
        created: When it was created (RFC 3339).
        running: Its containers run.
        ready: Its broker is up (or was, and has ended well), whatever its sidecars do. Of services: all of them are up.
        stuck: Why it does not start, when it will not by itself.
        unmounted_since: When it got its node (RFC 3339), if the node has not mounted all of its volumes since.
        failing: Which container had to be started again, and why; None where none had to.
        starting: Containers that run and are not up yet, and since when they run (RFC 3339).
        termination: How the container that runs Flux ended; None while it has not.
    """

    name: str
    index: int
    created: str
    running: bool
    ready: bool
    stuck: Signal | None
    unmounted_since: str | None
    failing: str | None
    starting: list[tuple[str, str]]
    termination: Termination | None


def read(pod: Mapping[str, Any], container: str | None) -> PodView:
    """Read a pod of the Indexed Job, in which `container` runs Flux; or, for None, the pod of services."""
    meta, status = pod["metadata"], pod.get("status", {})
    conditions = {c["type"]: c for c in status.get("conditions", [])}
    phase = status.get("phase", "Pending")
    termination = _termination(status, container) if container else None
    up = _is_ready(status, container) if container else conditions.get("Ready", {}).get("status") == "True"
    # A worker that has ended well was up: the pod is not ready any more before its phase tells why.
    ended_well = phase == "Succeeded" or (termination is not None and termination.exit_code == 0)
    return PodView(
        name=meta["name"],
        index=int(_index(pod)),
        created=meta["creationTimestamp"],
        running=phase == "Running",
        ready=ended_well or up,
        stuck=_stuck(status, conditions),
        # the sandbox of a pod that has ended is gone as well
        unmounted_since=_unmounted_since(conditions) if phase == "Pending" else None,
        failing=_failing(status),
        starting=_starting(status),
        termination=termination,
    )


def is_numbered(pod: Mapping[str, Any]) -> bool:
    """Whether a pod can be one of the Job's: users may write labels, and one that is no number says nothing."""
    index = _index(pod)
    return index == NO_INDEX or (index.isascii() and index.isdecimal())


def _index(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("labels", {}).get(INDEX, NO_INDEX))


def lead(pods: Iterable[PodView]) -> PodView | None:
    """The lead's pod; of several the youngest, which has taken the place of those that were lost."""
    leads = [pod for pod in pods if pod.index == LEAD]
    return max(leads, key=lambda pod: (pod.created, pod.name), default=None)


def _is_ready(status: Mapping[str, Any], name: str) -> bool:
    return any(c.get("name") == name and c.get("ready") for c in status.get("containerStatuses", []))


def _failing(status: Mapping[str, Any]) -> str | None:
    # Only sidecars and services are ever started again: all other containers end with their pod.
    for container in (*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])):
        ended = container.get("lastState", {}).get("terminated")
        if container.get("restartCount") and ended:
            why = "" if ended.get("reason") in (None, "Error", "Completed") else f" ({_words(ended)})"
            count = container["restartCount"]
            times = "once" if count == 1 else f"{count} times"
            return f"container {container['name']} ended with exit code {ended['exitCode']}{why}, restarted {times}"
    return None


def _words(ended: Mapping[str, Any]) -> str:
    """Why a container ended: the runtime's reason, and its message where it could not be started."""
    reason, message = ended["reason"], ended.get("message", "")
    return f"{reason}: {message}" if reason in CANNOT_START and message else reason


def _starting(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    runs = [(c, c.get("state", {}).get("running")) for c in status.get("containerStatuses", [])]
    return [(c["name"], running["startedAt"]) for c, running in runs if running and not c.get("started")]


def _stuck(status: Mapping[str, Any], conditions: Mapping[str, Mapping[str, Any]]) -> Signal | None:
    for container in (*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") in STUCK_REASONS:
            # The kubelet names the image, which need not be the container's: it may be that of a volume.
            return Signal(waiting["reason"], f"container {container['name']}: {waiting.get('message', '')}")
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return Signal(scheduled.get("reason", "Unschedulable"), scheduled.get("message", ""))
    return None


def _unmounted_since(conditions: Mapping[str, Mapping[str, Any]]) -> str | None:
    # The sandbox is made once the volumes are mounted (Kubernetes: PodReadyToStartContainers).
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") != "True" or conditions.get(SANDBOX_READY, {}).get("status") != "False":
        return None
    return scheduled.get("lastTransitionTime")


def _termination(status: Mapping[str, Any], name: str) -> Termination | None:
    for container in status.get("containerStatuses", []):
        ended = container.get("state", {}).get("terminated")
        if container.get("name") == name and ended:
            return _end(ended, name)
    if status.get("phase") == "Failed":  # by then none of these is started again
        for container in status.get("initContainerStatuses", []):
            ended = container.get("state", {}).get("terminated")
            if ended and ended.get("reason") in CANNOT_START:
                return _end(ended, container["name"])
    return None


def _end(ended: Mapping[str, Any], container: str) -> Termination:
    code = int(ended["exitCode"])
    if ended.get("reason") in CANNOT_START:
        return Termination(code, Reason.FLUX_FAILED, f"container {container} cannot start: {ended.get('message', '')}")
    told = parse_termination(ended.get("message", ""))
    if ended.get("reason") == OOM_KILLED and code != 0:
        return Termination(told.exit_code if told else code, Reason.OUT_OF_MEMORY)
    return told or Termination(code, Reason.KILLED if code == SIGKILLED else None)


def unmounted_since(pods: list[PodView]) -> datetime | None:
    """Since when a pod has had a node that has not mounted its volumes; the longest of all."""
    since = [datetime.fromisoformat(pod.unmounted_since) for pod in pods if pod.unmounted_since]
    return min(since, default=None)
