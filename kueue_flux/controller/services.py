"""The service containers of a MiniCluster: how they stand, and whose turn it is to get theirs.

Services come before the MiniCluster that calls them, so they hold quota while it waits for its own. If all that are
queued did that, services could fill the quota, and none of their MiniClusters would ever be admitted. So in each
LocalQueue one MiniCluster after the other gets its services: at most one holds them without having been admitted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kueue_flux.controller.pods import PodView
from kueue_flux.kueue import labels as kueue
from kueue_flux.kueue import workload
from kueue_flux.kueue.workload import Signal, WorkloadView
from kueue_flux.manifests.common import MINICLUSTER, ROLE, SERVICES
from kueue_flux.runtime.resource import Key, Object
from kueue_flux.runtime.store import Store

BY_QUEUE = "services-by-queue"
"""The index of the store of Jobs by which those of services are found; see `queue_of_services`."""

# Nothing but a change of the queue or of the MiniCluster ends this waiting, so nobody waits for it.
HOPELESS = frozenset({"ExceedsMaxQuota", "NoMatchingFlavor", "Misconfigured", "Deactivated", "Inadmissible"})


@dataclass
class Services:
    """The service containers of one MiniCluster.

    Attributes:
        job: Their Job as the API server returned it; None while there is none.
        workload: The Job's Workload; None without Kueue, or before Kueue made it.
        pods: The Job's pods that are not being deleted; one, or none.
        holdup: What keeps the pod from starting, where it does not say so itself.
    """

    job: Object | None = None
    workload: WorkloadView | None = None
    pods: list[PodView] = field(default_factory=list)
    holdup: Signal | None = None

    @property
    def queue(self) -> str | None:
        """The LocalQueue of their Job; None without one."""
        return queue_of(self.job) if self.job else None

    @property
    def gated(self) -> bool:
        """Whether Kueue is still kept from admitting them."""
        return bool(self.job and is_gated(self.job))

    @property
    def admitted(self) -> bool:
        """Whether their pod may run."""
        if self.job is None:
            return False
        return self.queue is None or bool(self.workload and self.workload.admission)

    @property
    def ready(self) -> bool:
        """Whether they can be called, or have done what they were there for."""
        return any(pod.ready for pod in self.pods)

    @property
    def suspended(self) -> bool:
        """Whether their Job is suspended."""
        return bool(self.job and self.job["spec"].get("suspend"))

    def waits_for(self) -> Signal:
        """Why they have no quota."""
        if self.gated:
            return Signal("ServicesPending", f"another MiniCluster of queue {self.queue} is getting its services first")
        waiting = self.workload.waiting if self.workload else None
        waiting = waiting or Signal("ServicesPending", "Kueue has not looked at them yet")
        return Signal(waiting.reason or "ServicesPending", f"its services come first: {waiting.message}")

    def trouble(self) -> Signal:
        """Why they are not ready: ServicesNotReady where somebody has to do something, else ServicesStarting."""
        if why := self._failure():
            return Signal("ServicesNotReady", f"its services are not ready: {why}")
        if not self.admitted:
            return Signal("ServicesStarting", self.waits_for().message)
        starting = [name for pod in self.pods for name, _ in pod.starting]
        what = f"{' and '.join(starting)} does not take connections yet" if starting else "their pod is starting"
        return Signal("ServicesStarting", f"its services are not ready: {what}")

    def _failure(self) -> str | None:
        for condition in self.job["status"].get("conditions", []) if self.job else []:
            if condition["type"] in ("FailureTarget", "Failed") and condition["status"] == "True":
                return f"{condition.get('reason', '')}: {condition.get('message', '')}"
        for pod in self.pods:
            if pod.failing:
                return f"pod {pod.name}: {pod.failing}"
            if pod.stuck:
                return f"pod {pod.name}: {pod.stuck.reason}: {pod.stuck.message}"
        return self.holdup.message if self.holdup else None


def queue_of(job: Object) -> str | None:
    """The LocalQueue of a Job; None without one."""
    queue: str | None = job["metadata"].get("labels", {}).get(kueue.QUEUE_NAME)
    return queue


def is_services(job: Object) -> bool:
    """Whether a Job is that of service containers."""
    return bool(job["metadata"].get("labels", {}).get(ROLE) == SERVICES)


def is_gated(job: Object) -> bool:
    """Whether Kueue is kept from admitting a Job."""
    return bool(job["metadata"].get("annotations", {}).get(kueue.ADMISSION_GATED_BY))


def queue_of_services(job: Object) -> Iterator[str]:
    """The values of the index BY_QUEUE: namespace and LocalQueue of a Job of services."""
    if is_services(job):
        yield f"{job['metadata']['namespace']}/{queue_of(job) or ''}"


JOB_INDEXES = {BY_QUEUE: queue_of_services}
"""What the store of Jobs needs for `Turns`."""


class Turns:
    """Whose turn it is to get services, read from the stores each time: there is nothing to remember.

    Args:
        miniclusters: Store of MiniClusters.
        jobs: Store of Jobs, with the index BY_QUEUE.
        workloads: Store of Workloads, indexed by owner.
    """

    def __init__(self, miniclusters: Store, jobs: Store, workloads: Store) -> None:
        self._miniclusters = miniclusters
        self._jobs = jobs
        self._workloads = workloads

    def next(self, namespace: str, queue: str | None) -> Key | None:
        """The MiniCluster that is to get its services now; None where another is still on its way, or none waits."""
        found = self._jobs.by_index(BY_QUEUE, f"{namespace}/{queue or ''}")
        gated = [job for job in found if is_gated(job)]
        if not gated or any(self._is_on_its_way(job) for job in found if not is_gated(job)):
            return None
        first = min(gated, key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]))
        return _minicluster_of(first)

    def concerned(self, *versions: Object | None) -> Key | None:
        """The MiniCluster whose turn may have come with a change of a Job or of a MiniCluster."""
        for obj in versions:
            if obj is None:
                continue
            namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
            if obj.get("spec", {}).get("services"):
                for job in self._jobs.by_index("owner", obj["metadata"]["uid"]):
                    if is_services(job):
                        return self.next(namespace, queue_of(job))
            elif is_services(obj) and name:
                return self.next(namespace, queue_of(obj))
        return None

    def _is_on_its_way(self, services: Object) -> bool:
        """Whether services hold quota, or are about to, while their MiniCluster has yet to be admitted."""
        key = _minicluster_of(services)
        mc = self._miniclusters.get(*key)
        if mc is None or mc["status"].get("admissions") or _ended(mc):
            return False  # one that was evicted keeps its services: what they hold was there before
        job = self._jobs.get(*key)
        return not any(self._is_hopeless(each) for each in (services, job) if each is not None)

    def _is_hopeless(self, job: Object) -> bool:
        views = [workload.read(each) for each in self._workloads.owned_by(job["metadata"]["uid"])]
        return any(view.waiting is not None and view.waiting.reason in HOPELESS for view in views)


def _minicluster_of(job: Object) -> Key:
    return job["metadata"]["namespace"], job["metadata"]["labels"][MINICLUSTER]


def _ended(mc: Object) -> bool:
    conditions: Iterable[dict[str, Any]] = mc["status"].get("conditions", [])
    return any(c["type"] == "Finished" and c["status"] == "True" for c in conditions)
