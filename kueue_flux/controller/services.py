"""The service containers of a MiniCluster: how they stand, and whose turn it is to get theirs.

Services come before the MiniCluster that calls them, so they hold quota while it waits for its own. If all that are
queued did that, services could fill the quota, and none of their MiniClusters would ever be admitted. So in each
LocalQueue one MiniCluster after the other gets its services: at most one holds them without having been admitted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kueue_flux.api.conditions import ConditionType
from kueue_flux.api.rules import SERVICES_SUFFIX
from kueue_flux.controller.pods import PodView
from kueue_flux.controller.resources import JOBS, MINICLUSTERS
from kueue_flux.kueue import labels as kueue
from kueue_flux.kueue import workload
from kueue_flux.kueue.workload import Signal, WorkloadView
from kueue_flux.manifests.common import MINICLUSTER, ROLE, SERVICES
from kueue_flux.runtime.resource import Key, Object
from kueue_flux.runtime.store import Store

# The one reason for which a MiniCluster is not accepted and all is done for it that was done before.
SPEC_CHANGED = "SpecChanged"

BY_QUEUE = "services-by-queue"
"""The index of the store of Jobs by which those of services are found; see `queue_of_services`."""

# Nothing but a change of the queue or of the MiniCluster ends this waiting, so nobody waits for it.
HOPELESS = frozenset(
    {"ExceedsMaxQuota", "NoMatchingFlavor", "Misconfigured", "Suspended", "Deactivated", "Inadmissible"}
)
# What Kueue said of a gated Job it said before it was gated; only that somebody took it out is always up to date.
HOPELESS_THOUGH_GATED = frozenset({"Deactivated"})


@dataclass
class Services:
    """The service containers of one MiniCluster.

    Attributes:
        job: Their Job as the API server returned it; None while there is none.
        workload: The Job's Workload; None without Kueue, or before Kueue made it.
        pods: The Job's pods that are not being deleted; one, or none.
        holdup: What keeps the pod from starting, where it does not say so itself.
        never: Why they can never be given what they ask for, as things are.
    """

    job: Object | None = None
    workload: WorkloadView | None = None
    pods: list[PodView] = field(default_factory=list)
    holdup: Signal | None = None
    never: Signal | None = None

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
        if self.never:
            return Signal(self.never.reason, f"its services come first, and never fit: it {self.never.message}")
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
        never_fits: Says whether a Job can never be given what it asks for.
    """

    def __init__(
        self,
        miniclusters: Store,
        jobs: Store,
        workloads: Store,
        never_fits: Callable[[Object], bool] = lambda job: False,
    ) -> None:
        self._miniclusters = miniclusters
        self._jobs = jobs
        self._workloads = workloads
        self._never_fits = never_fits

    def next(self, namespace: str, queue: str | None) -> Key | None:
        """The MiniCluster that is to get its services now; None where another is still on its way, or none waits."""
        found = self._jobs.by_index(BY_QUEUE, f"{namespace}/{queue or ''}")
        if any(not is_gated(job) and self._is_on_its_way(job) for job in found):
            return None
        gated = sorted(
            filter(is_gated, found), key=lambda j: (j["metadata"]["creationTimestamp"], j["metadata"]["name"])
        )
        first = next(filter(self._can_go_on, gated), None)
        return _minicluster_of(first) if first else None

    def concerned(self, *versions: Object | None) -> set[Key]:
        """The MiniClusters whose turn may have come with a change of a MiniCluster, a Job or a Workload."""
        behind = [self._services_behind(obj) for obj in versions if obj is not None]
        queues = {(job["metadata"]["namespace"], queue_of(job)) for job in behind if job is not None}
        return {key for queue in queues if (key := self.next(*queue))}

    def _services_behind(self, obj: Object) -> Object | None:
        """The Job of services of the MiniCluster that an object is, or belongs to."""
        meta = obj["metadata"]
        if is_services(obj):
            return obj
        owner = next((o["name"] for o in meta.get("ownerReferences", []) if o["kind"] == JOBS.kind), None)
        if owner and obj.get("kind") != MINICLUSTERS.kind:  # it is a Workload
            job = self._jobs.get(meta["namespace"], owner)
            if job is None or is_services(job):
                return job
            return self._jobs.get(meta["namespace"], owner + SERVICES_SUFFIX)
        return self._jobs.get(meta["namespace"], meta["name"] + SERVICES_SUFFIX)  # a Job is called as its MiniCluster

    def _is_on_its_way(self, services: Object) -> bool:
        """Whether services hold quota, or are about to, and their MiniCluster is going to be admitted next."""
        return not self._has_arrived(services) and self._can_go_on(services)

    def _has_arrived(self, services: Object) -> bool:
        """Whether the MiniCluster was admitted; one that is evicted later keeps its services, and what they hold."""
        key = _minicluster_of(services)
        mc, job = self._miniclusters.get(*key), self._jobs.get(*key)
        if mc is not None and mc["status"].get("admissions"):
            return True
        view = workload_of(self._workloads, job) if job else None
        return view is not None and view.admission is not None

    def _can_go_on(self, services: Object) -> bool:
        """Whether a MiniCluster can get its services and be admitted after them: nobody waits for one that cannot."""
        key = _minicluster_of(services)
        mc, job = self._miniclusters.get(*key), self._jobs.get(*key)
        if mc is None or job is None or _is_at_rest(mc):
            return False
        if not (_belongs_to(services, mc) and _belongs_to(job, mc)):
            return False
        if self._never_fits(services) or self._never_fits(job):
            return False
        hopeless = HOPELESS_THOUGH_GATED if is_gated(services) else HOPELESS
        views = [workload_of(self._workloads, each) for each in (services, job)]
        return all(view is not None and not (view.waiting and view.waiting.reason in hopeless) for view in views)


def workload_of(workloads: Store, job: Object) -> WorkloadView | None:
    """What Kueue says of a Job."""
    newest = newest_workload(workloads, job)
    return workload.read(newest) if newest else None


def newest_workload(workloads: Store, job: Object) -> Object | None:
    """The Workload of a Job; of several, while Kueue replaces one by another, the newest counts."""
    return max(
        (w for w in workloads.owned_by(job["metadata"]["uid"]) if "deletionTimestamp" not in w["metadata"]),
        key=lambda w: (w["metadata"]["creationTimestamp"], w["metadata"]["name"]),
        default=None,
    )


def _minicluster_of(services: Object) -> Key:
    meta = services["metadata"]
    return meta["namespace"], meta.get("labels", {}).get(MINICLUSTER, "")


def _belongs_to(job: Object, mc: Object) -> bool:
    return mc["metadata"]["uid"] in {owner["uid"] for owner in job["metadata"].get("ownerReferences", [])}


def _is_at_rest(mc: Object) -> bool:
    """Whether nothing is done for a MiniCluster: it is being deleted, has ended, or is not accepted."""
    conditions = {c["type"]: c for c in mc["status"].get("conditions", [])}
    accepted = conditions.get(ConditionType.ACCEPTED, {})
    refused = accepted.get("status") == "False" and accepted.get("reason") != SPEC_CHANGED
    ended = conditions.get(ConditionType.FINISHED, {}).get("status") == "True"
    return "deletionTimestamp" in mc["metadata"] or ended or refused
