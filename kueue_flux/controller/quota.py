"""What the queues can ever give, read from the stores of Kueue's queues, and who waits for those that are changed.

A ClusterQueue's status changes with each admission, its specification by an admin's hand alone. Nobody is woken but
by a change of the specification.
"""

from collections.abc import Callable, Iterable, Iterator

from kueue_flux.controller.resources import COHORTS, REQUEST
from kueue_flux.controller.services import is_services, newest_workload, queue_of
from kueue_flux.kueue.capacity import Capacity, CohortView, Request, not_covered, read_cohort, shortfall, uncovered
from kueue_flux.kueue.queues import ClusterQueueView, read_cluster_queue
from kueue_flux.kueue.workload import Signal, read
from kueue_flux.runtime.resource import Key, Object
from kueue_flux.runtime.store import Store

WAITING = "waiting-by-queue"
"""The index of the store of Jobs by which those that wait are found: `NAMESPACE/LOCALQUEUE`."""
BY_CLUSTER_QUEUE = "by-cluster-queue"
"""The index of the store of LocalQueues by which those of a ClusterQueue are found."""

KEPT = 4096
"""How many answers are kept: those to different requests, which are far fewer than those who ask."""

# Kueue's words for a resource that no group covers. Source: Kueue 0.19, ``pkg/scheduler/flavorassigner``.
_UNAVAILABLE = "resource {} unavailable in ClusterQueue"


def waits_in(job: Object) -> Iterator[str]:
    """The values of the index WAITING."""
    if job["spec"].get("suspend") and (queue := queue_of(job)):
        yield f"{job['metadata']['namespace']}/{queue}"


def cluster_queue_of(local_queue: Object) -> Iterator[str]:
    """The values of the index BY_CLUSTER_QUEUE."""
    if name := local_queue["spec"].get("clusterQueue"):
        yield name


JOB_INDEXES = {WAITING: waits_in}
"""What the store of Jobs needs for `Quota`."""
LOCAL_QUEUE_INDEXES = {BY_CLUSTER_QUEUE: cluster_queue_of}
"""What the store of LocalQueues needs for it."""


class Quota:
    """What queues can ever give.

    Args:
        cluster_queues: Store of ClusterQueues; empty without Kueue.
        local_queues: Store of LocalQueues, with the index BY_CLUSTER_QUEUE.
        cohorts: Store of Cohorts.
    """

    def __init__(self, cluster_queues: Store, local_queues: Store, cohorts: Store) -> None:
        self._cluster_queues = cluster_queues
        self._local_queues = local_queues
        self._cohorts = cohorts
        self._capacity: Capacity | None = None
        self._views: dict[str, ClusterQueueView] = {}
        self._known: dict[tuple[str, Request, bool], Signal | None] = {}
        for store in (cluster_queues, cohorts):
            store.subscribe(self._forget)

    def never(self, job: Object, workloads: Store) -> Signal | None:
        """Why a Job can never be given what it asks for; None where it may, or nobody knows, or it has it.

        Args:
            job: The Job, as its store has it.
            workloads: Store of Workloads.
        """
        queue, workload = queue_of(job), newest_workload(workloads, job)
        if queue is None or workload is None or (request := workload[REQUEST]) is None:
            return None
        view = self._view(job["metadata"]["namespace"], queue)
        said = read(workload)
        if view is None or said.quota_reserved:
            return None
        key = (view.name, request, is_services(job))
        if key not in self._known:
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[key] = shortfall(request, view, self._all(), of_services=is_services(job))
        waiting = said.waiting.message if said.waiting else ""
        lacking = (not_covered(name, view) for name in uncovered(request, view) if _UNAVAILABLE.format(name) in waiting)
        return self._known[key] or next(lacking, None)

    def wakes(self, jobs: Store, wake: Callable[[Object], None]) -> None:
        """Call `wake` with each Job that waits in a queue whose quota is changed from now on.

        Args:
            jobs: Store of Jobs, with the index WAITING.
            wake: Called with the Job.
        """

        def tell(local_queues: Iterable[Key]) -> None:
            for namespace, name in local_queues:
                for job in jobs.by_index(WAITING, f"{namespace}/{name}"):
                    wake(job)

        def quota_changed(old: Object | None, new: Object | None) -> None:
            if _spec(old) != _spec(new):
                tell(self._concerned(old, new))

        def local_queue_changed(old: Object | None, new: Object | None) -> None:
            if _spec(old) != _spec(new):
                meta = (new or old or {})["metadata"]
                tell([(meta["namespace"], meta["name"])])

        self._cluster_queues.subscribe(quota_changed)
        self._cohorts.subscribe(quota_changed)
        self._local_queues.subscribe(local_queue_changed)

    def _concerned(self, *versions: Object | None) -> set[Key]:
        """The LocalQueues whose bound depends on a ClusterQueue or Cohort."""
        names: set[str] = set()
        for obj in versions:
            if obj is None:
                continue
            spec, name = obj["spec"], obj["metadata"]["name"]
            if obj["kind"] == COHORTS.kind:
                names |= self._all().related(name) | self._all().related(spec.get("parentName", ""))
            else:
                names |= {name} | self._all().related(spec.get("cohortName", ""))
        found = (queue for name in names for queue in self._local_queues.by_index(BY_CLUSTER_QUEUE, name))
        return {(queue["metadata"]["namespace"], queue["metadata"]["name"]) for queue in found}

    def _view(self, namespace: str, queue: str) -> ClusterQueueView | None:
        local_queue = self._local_queues.get(namespace, queue)
        name = local_queue["spec"].get("clusterQueue") if local_queue else None
        self._all()
        return self._views.get(name) if name else None

    def _all(self) -> Capacity:
        if self._capacity is None:
            self._views = {queue["metadata"]["name"]: read_cluster_queue(queue) for queue in self._cluster_queues}
            cohorts: list[CohortView] = [read_cohort(cohort) for cohort in self._cohorts]
            self._capacity = Capacity(self._views.values(), cohorts)
        return self._capacity

    def _forget(self, old: Object | None, new: Object | None) -> None:
        if _spec(old) != _spec(new):
            self._capacity = None
            self._known.clear()


def _spec(obj: Object | None) -> object:
    return obj["spec"] if obj else None
