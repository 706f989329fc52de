"""A cluster in miniature around the adapter: Kueue, the Job controller and kubelets, as far as the adapter sees them.

`World` holds the server and plays the others, `Adapter` is one process of ours with stores of its own, and `Life`
brings them together: it lets everybody work until nobody has anything left to do, and starts a new process where
the old one was killed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kueue_flux.controller import quota, resources
from kueue_flux.controller.quota import Quota
from kueue_flux.controller.reconcile import Reconciler
from kueue_flux.controller.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    CONFIG_MAPS,
    JOBS,
    LOCAL_QUEUES,
    MINICLUSTERS,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICES,
    WORKLOADS,
)
from kueue_flux.controller.services import JOB_INDEXES
from kueue_flux.flux import layout
from kueue_flux.flux.script import RESERVED
from kueue_flux.kueue.visibility import Place
from kueue_flux.runtime.controller import Result
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Object, Resource
from kueue_flux.runtime.store import Store
from tests import builders
from tests.builders import NAME, NAMESPACE, MiniClusterBuilder, condition
from tests.controller.fake_api import FakeApi, FakeClient, Fault, Killed, copied, selects

KEY = (NAMESPACE, NAME)
SERVICES_NAME = f"{NAME}-services"
OURS = "app.kubernetes.io/managed-by=kueue-flux"
DEFAULT_QUEUE = "default"


class NotYetError(AssertionError):
    """What is to happen cannot: the adapter has not done its part."""


@dataclass(frozen=True)
class Start:
    """A pod's containers were started, with these files.

    Attributes:
        pod: The pod's name.
        index: Its completion index.
        period: Which admission it was, counted by Kueue, from 1 (0 without a queue).
        certificate: The certificate that it mounted.
        brokers: For how many brokers its configuration was made.
    """

    pod: str
    index: int
    period: int
    certificate: str
    brokers: int


class World:
    """The cluster; each method is something that somebody other than the adapter does.

    Attributes:
        api: The server.
        period: The number of admissions so far.
        starts: Every pod that was started, in order.
        positions: What the visibility API says.
        unpullable: Indexes of pods whose image cannot be pulled.
        listening: Services take connections.
        refused: The Job controller can make no pods.
        unmountable: Indexes of pods of which a node cannot mount all volumes.
    """

    def __init__(self) -> None:
        self.api = FakeApi()
        self.period = 0
        self.starts: list[Start] = []
        self.unpullable: set[int] = set()
        self.unmountable: set[int] = set()
        self.refused = False
        self.listening = True
        self._pods = 0
        self.positions: dict[tuple[str, str], Place] = {}

    def pass_time(self, seconds: float = 10) -> None:
        self.api.now += timedelta(seconds=seconds)

    @property
    def stamp(self) -> str:
        return self.api.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    # -- what there is

    def get(self, resource: Resource, name: str = NAME) -> Object:
        """The object, which must be there."""
        obj = self.api.get(resource, name, NAMESPACE)
        if obj is None:
            raise NotYetError(f"there is no {resource.kind} {name}")
        return obj

    @property
    def status(self) -> dict[str, Any]:
        return self.get(MINICLUSTERS)["status"]

    def reasons(self) -> dict[str, str]:
        """Each condition of the MiniCluster as its status and reason."""
        return {c["type"]: f"{c['status']} {c['reason']}" for c in self.status.get("conditions", [])}

    def message(self, kind: str) -> str:
        (found,) = [c["message"] for c in self.status["conditions"] if c["type"] == kind]
        return str(found)

    def certificate(self) -> str | None:
        """What the Secret that pods mount holds now, or None."""
        data = self._data(SECRETS, f"{NAME}-curve", [layout.CURVE_FILE])
        return base64.b64decode(data[layout.CURVE_FILE]).decode() if data else None

    def files(self) -> dict[str, str] | None:
        """What the ConfigMap that pods mount holds now, or None."""
        return self._data(CONFIG_MAPS, f"{NAME}-flux", layout.CONFIG_FILES)

    def _data(self, resource: Resource, name: str, files: Iterable[str]) -> dict[str, str] | None:
        """A kubelet mounts nothing that lacks one of the keys which the volume names."""
        found = self.api.get(resource, name, NAMESPACE)
        data = found.get("data", {}) if found else {}
        return data if set(files) <= set(data) else None

    def kinds(self) -> set[str]:
        """The kinds of which the MiniCluster has an object."""
        return {obj["kind"] for obj in self.api.objects.values()}

    def workload(self) -> Object:
        return self.get(WORKLOADS, f"job-{NAME}")

    # -- the user

    def submit(self, mc: MiniClusterBuilder) -> Object:
        manifest = mc.obj()
        for given in ("uid", "resourceVersion", "generation", "creationTimestamp"):
            del manifest["metadata"][given]
        return self.api.create(MINICLUSTERS, manifest)

    def edit(self, resource: Resource, change: Callable[[Object], object], name: str = NAME) -> Object:
        """Change an object in place."""
        obj = copied(self.get(resource, name))
        change(obj)
        return self.api.update(resource, obj)

    # -- Kueue

    def with_default_queue(self) -> None:
        """Let Kueue's webhook give each Job without a queue the namespace's default one."""

        def webhook(obj: Object) -> None:
            if obj["kind"] == "Job":
                obj["metadata"]["labels"].setdefault(builders.QUEUE, DEFAULT_QUEUE)

        self.api.webhooks.append(webhook)

    def make_workload(self, job: str = NAME) -> None:
        """Kueue sees a Job, and makes its Workload."""
        self.api.create(WORKLOADS, builders.workload(self.get(JOBS, job)).obj())

    def asks_for(self, cpu: int, job: str = NAME) -> Callable[[], None]:
        """Kueue sees a Job whose pods ask for so many cores, and makes its Workload."""

        def make() -> None:
            containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
            made = builders.workload(self.get(JOBS, job)).obj()
            made["spec"]["podSets"][0]["template"]["spec"]["containers"] = containers
            self.api.create(WORKLOADS, made)

        return make

    def _workload_conditions(self, *new: dict[str, Any], job: str = NAME, **status: Any) -> None:
        def change(obj: Object) -> None:
            kinds = {c["type"] for c in new}
            kept = [c for c in obj["status"].get("conditions", []) if c["type"] not in kinds]
            obj["status"] |= {**status, "conditions": [*kept, *new]}

        self.edit(WORKLOADS, change, f"job-{job}")

    def give_quota(self, cpu: int, queue: str = "q") -> None:
        """An admin makes a LocalQueue and its ClusterQueue, or changes its quota."""
        flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        spec = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}]}
        if self.api.get(CLUSTER_QUEUES, "cq", "") is None:
            self.api.create(CLUSTER_QUEUES, {"metadata": {"name": "cq", "namespace": ""}, "spec": spec})
            local = {"metadata": {"name": queue, "namespace": NAMESPACE}, "spec": {"clusterQueue": "cq"}}
            self.api.create(LOCAL_QUEUES, local)
        else:
            self.api.update(CLUSTER_QUEUES, {**copied(self.api.get(CLUSTER_QUEUES, "cq", "")), "spec": spec})

    def keep_waiting(self, reason: str = "WaitingForQuota", message: str = "2 more cpu needed") -> None:
        self._workload_conditions(condition("QuotaReserved", "False", reason, message, self.stamp))

    def admit(self, count: int | None = None) -> None:
        """Kueue admits the Job with so many pods, and unsuspends it."""
        self._must_be_free(NAME)
        self.period += 1
        assignment = {"name": "main"} | ({} if count is None else {"count": count})
        self._workload_conditions(
            condition("Evicted", "False", "QuotaReserved", "", self.stamp),
            condition("QuotaReserved", at=self.stamp),
            condition("Admitted", at=self.stamp),
            admission={"clusterQueue": "cq", "podSetAssignments": [assignment]},
        )

        def unsuspend(job: Object) -> None:
            job["spec"]["suspend"] = False
            if count is not None:
                job["spec"] |= {"parallelism": count, "completions": count}

        self.edit(JOBS, unsuspend)

    def _must_be_free(self, job: str) -> None:
        if builders.GATED in self.get(JOBS, job)["metadata"].get("annotations", {}):
            raise NotYetError(f"Job {job} is gated")

    def admit_services(self) -> None:
        """Kueue admits the Job of services, and unsuspends it."""
        self._must_be_free(SERVICES_NAME)
        self._workload_conditions(
            condition("Evicted", "False", "QuotaReserved", "", self.stamp),
            condition("QuotaReserved", at=self.stamp),
            condition("Admitted", at=self.stamp),
            admission={"clusterQueue": "cq", "podSetAssignments": [{"name": "main"}]},
            job=SERVICES_NAME,
        )
        self.edit(JOBS, lambda job: job["spec"].update(suspend=False), SERVICES_NAME)

    def evict_services(self) -> None:
        """Kueue evicts the Job of services, and suspends it."""
        self._workload_conditions(
            condition("Evicted", "True", "Preempted", "by a workload of higher priority", self.stamp),
            condition("QuotaReserved", "False", "Pending", "preempted", self.stamp),
            condition("Admitted", "False", "NoReservation", "", self.stamp),
            job=SERVICES_NAME,
        )
        self.edit(JOBS, lambda job: job["spec"].update(suspend=True), SERVICES_NAME)

    def evict(self, reason: str = "Preempted", message: str = "by a workload of higher priority") -> None:
        self._workload_conditions(condition("Evicted", "True", reason, message, self.stamp))

    def suspend(self) -> None:
        """Kueue suspends the evicted Job and puts its size back."""
        size = self.get(MINICLUSTERS)["spec"]["size"]
        self.edit(JOBS, lambda job: job["spec"].update(suspend=True, parallelism=size, completions=size))

    def release(self) -> None:
        """Kueue takes the quota back, once no pod is left."""
        if self._broker_pods():
            raise NotYetError("there are pods")
        self._workload_conditions(
            condition("QuotaReserved", "False", "Pending", "preempted", self.stamp),
            condition("Admitted", "False", "NoReservation", "", self.stamp),
        )
        self.edit(WORKLOADS, lambda obj: obj["status"].pop("admission"), f"job-{NAME}")

    # -- the Job controller and the kubelets

    def work(self) -> None:
        """Everybody does what there is to do: pods come, start, find one another, and go."""
        self._serve()
        job = self.api.get(JOBS, NAME, NAMESPACE)
        if job is None or job["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") != "kueue-flux":
            return
        over = any(c["type"] in ("Complete", "Failed") for c in job["status"].get("conditions", []))
        if job["spec"].get("suspend"):
            for pod in self._broker_pods():
                self.api.delete(PODS, pod["metadata"]["name"], NAMESPACE)
            self.edit(JOBS, lambda obj: obj["status"].pop("startTime", None))
        elif not over:
            self.edit(JOBS, lambda obj: obj["status"].setdefault("startTime", self.stamp))
            if not self.refused:
                self._create_pods(job)
            self._start_pods()
            self._boot()

    def _create_pods(self, job: Object) -> None:
        present = {pod["metadata"]["labels"][builders.INDEX] for pod in self._broker_pods() if not _is_lost(pod)}
        for index in range(job["spec"]["completions"]):
            if str(index) not in present:
                self._pods += 1
                made = builders.pod(job, index, f"{self._pods:05}").obj()
                self.api.create(PODS, made)
                self._set_pod(made["metadata"]["name"], made["status"])

    def _broker_pods(self) -> list[Object]:
        return [pod for pod in self.api.all(PODS) if builders.INDEX in pod["metadata"]["labels"]]

    def _serve(self) -> None:
        """The pod of services comes and goes with its Job."""
        job = self.api.get(JOBS, SERVICES_NAME, NAMESPACE)
        name = f"{SERVICES_NAME}-xxxxx"
        found = self.api.get(PODS, name, NAMESPACE)
        if job is None or job["spec"]["suspend"]:
            if found is not None:
                self.api.delete(PODS, name, NAMESPACE)
            return
        made = builders.pod(job).of_services().meta(name=name)
        found = found or self.api.create(PODS, made.obj())
        since = found["metadata"]["creationTimestamp"]
        self._set_pod(name, (made.listening() if self.listening else made.deaf(since)).obj()["status"])

    def _active_pods(self) -> list[Object]:
        pods = [pod for pod in self._broker_pods() if "deletionTimestamp" not in pod["metadata"]]
        return [pod for pod in pods if pod["status"].get("phase") in (None, "Pending", "Running")]

    def running(self) -> list[str]:
        """The names of the pods that run."""
        return [pod["metadata"]["name"] for pod in self._active_pods() if pod["status"]["phase"] == "Running"]

    def _set_pod(self, name: str, status: dict[str, Any]) -> None:
        self.edit(PODS, lambda pod: pod.update(status=status), name)

    def _start_pods(self) -> None:
        """A kubelet starts a pod as soon as what it mounts is there."""
        certificate, files = self.certificate(), self.files()
        for pod in self._active_pods():
            name, index = pod["metadata"]["name"], int(pod["metadata"]["labels"][builders.INDEX])
            if pod["status"]["phase"] != "Pending":
                continue
            if certificate is None or files is None:
                since = pod["metadata"]["creationTimestamp"]
                self._set_pod(name, builders.pod(self.get(JOBS), index).unmounted(since).obj()["status"])
            elif index in self.unpullable:
                stuck = builders.pod(self.get(JOBS), index).waiting_for("ImagePullBackOff", "no such tag")
                self._set_pod(name, stuck.obj()["status"])
            elif index in self.unmountable:
                since = pod["metadata"]["creationTimestamp"]
                self._set_pod(name, builders.pod(self.get(JOBS), index).unmounted(since).obj()["status"])
            else:
                self.starts.append(Start(name, index, self.period, certificate, int(files["size"])))
                self._set_pod(name, builders.pod(self.get(JOBS), index).running().obj()["status"])

    def _boot(self) -> None:
        """Brokers with one certificate, as many as all of them expect, form an instance, and are ready."""
        running = self.running()
        files = {(s.certificate, s.brokers) for s in self.starts if s.pod in running}
        if len(files) == 1 and {len(running)} == {brokers for _, brokers in files}:
            for name in running:
                self._set_pod(name, builders.pod(self.get(JOBS)).ready().obj()["status"])

    def lead(self) -> Object:
        leads = [pod for pod in self._active_pods() if pod["metadata"]["labels"][builders.INDEX] == "0"]
        if not leads:
            raise NotYetError("there is no lead")
        return leads[0]

    def end_lead(self, exit_code: int = 0, message: str = "") -> None:
        """The command ends; only an instance that has booted can have run it."""
        lead = self.lead()
        if not any(c["type"] == "Ready" and c["status"] == "True" for c in lead["status"]["conditions"]):
            raise NotYetError("Flux is not up")
        ended = builders.pod(self.get(JOBS)).ended(exit_code, message).obj()["status"]
        self._set_pod(lead["metadata"]["name"], ended)

    def decide_job(
        self, succeeded: bool = True, reason: str = "PodFailurePolicy", message: str = "by exit code"
    ) -> None:
        """The Job controller sees how the lead ended."""
        kind = "SuccessCriteriaMet" if succeeded else "FailureTarget"
        self._job_condition(condition(kind, "True", reason, message, self.stamp))

    def finish_job(
        self, succeeded: bool = True, reason: str = "PodFailurePolicy", message: str = "by exit code"
    ) -> None:
        """The Job controller has ended what was left of the pods."""
        for pod in self._active_pods():
            self.api.delete(PODS, pod["metadata"]["name"], NAMESPACE)
        self._job_condition(condition("Complete" if succeeded else "Failed", "True", reason, message, self.stamp))

    def _job_condition(self, new: dict[str, Any]) -> None:
        self.edit(JOBS, lambda job: job["status"].setdefault("conditions", []).append(new))

    def finish_workload(self) -> None:
        self._workload_conditions(condition("Finished", "True", "Succeeded", "", self.stamp))


def _is_lost(pod: Object) -> bool:
    """Whether the Job controller replaces the pod: it is leaving, or has ended as none does whose command has ended."""
    if "deletionTimestamp" in pod["metadata"]:
        return True
    states = [container["state"] for container in pod["status"].get("containerStatuses", [])]
    return any(state.get("terminated", {}).get("exitCode") in RESERVED for state in states)


class Adapter:
    """One process of the adapter, its stores filled from the server's history.

    Args:
        world: The cluster.
        fault: What goes wrong with its writes.
        last: The kind whose writes come after others that are under way at the same time.
        behind: How many of the newest events of a type its stores have not heard of yet.
    """

    def __init__(
        self,
        world: World,
        fault: Fault | None = None,
        last: str = "",
        behind: dict[Resource, int] | None = None,
    ) -> None:
        self.client = FakeClient(world.api, fault, last)
        self.told: list[tuple[str, str, str]] = []
        self._api = world.api
        self.stores = {
            MINICLUSTERS: Store(transform=resources.keep_minicluster),
            JOBS: Store({**JOB_INDEXES, **quota.JOB_INDEXES}, resources.keep_job),
            PODS: Store(transform=resources.keep_pod),
            WORKLOADS: Store(transform=resources.keep_workload),
            CLUSTER_QUEUES: Store(transform=resources.keep_queue),
            LOCAL_QUEUES: Store(quota.LOCAL_QUEUE_INDEXES, resources.keep_queue),
            COHORTS: Store(transform=resources.keep_queue),
        }
        self.quota = Quota(*(self.stores[resource] for resource in (CLUSTER_QUEUES, LOCAL_QUEUES, COHORTS)))
        self._seen = dict.fromkeys(self.stores, 0)
        for resource in self.stores:
            self.hear(resource, len(self._news(resource)) - (behind or {}).get(resource, 0))
        self.reconciler = Reconciler(
            self.client,  # type: ignore[arg-type]  # as much of a Client as the control loop uses
            miniclusters=self.stores[MINICLUSTERS],
            jobs=self.stores[JOBS],
            workloads=self.stores[WORKLOADS],
            pods=self.stores[PODS],
            positions=world.positions,
            quota=self.quota,
            events=self,
            clock=lambda: world.api.now,
        )

    def event(self, regarding: Object, kind: str, reason: str, note: str, *, action: str) -> None:
        """`runtime.events.Recorder`: note what the user is told."""
        assert regarding["metadata"]["name"] == NAME
        assert action
        self.told.append((kind, reason, note))

    @property
    def writes(self) -> int:
        return len(self.client.writes)

    def _news(self, resource: Resource) -> list[Any]:
        selector = OURS if resource in (JOBS, PODS) else ""
        events = [e for e in self._api.history if e.resource == resource]
        if selector:
            events = [e for e in events if selects(selector, e.obj["metadata"].get("labels", {}))]
        return events[self._seen[resource] :]

    def pending(self, resource: Resource) -> int:
        """How many events the store has not heard of yet."""
        return len(self._news(resource))

    def hear(self, resource: Resource, count: int | None = None, times: int = 1) -> int:
        """Let a store hear the next events, each one so many times. Returns how many there were."""
        events = self._news(resource)[:count] if count is None or count > 0 else []
        store = self.stores[resource]
        for event in events:
            for _ in range(times):
                if event.kind == "DELETED":
                    store.delete(copied(event.obj))
                else:
                    store.observe(copied(event.obj))
        self._seen[resource] += len(events)
        return len(events)

    def hear_all(self) -> int:
        """Let every store hear everything. Returns how many events there were."""
        return sum(self.hear(resource) for resource in self.stores)

    async def turn(self) -> Result | None:
        """Reconcile the MiniCluster once."""
        return await self.reconciler.reconcile(KEY)


class Life:
    """The life of one MiniCluster, with processes of the adapter that come and go.

    Args:
        world: The cluster.
        fault: What goes wrong with the first process's writes.
        last: See `Adapter`.
        away: How many stages go by before a killed process is followed by another.
    """

    def __init__(self, world: World, fault: Fault | None = None, last: str = "", away: int = 0) -> None:
        self.world = world
        self.adapter: Adapter | None = Adapter(world, fault, last)
        self.adapters = [self.adapter]
        self._last = last
        self._away = away

    async def stage(self, happens: Callable[[], object]) -> None:
        """Something happens, and everybody works until there is nothing left to do."""
        self.world.pass_time()
        if self.adapter is None:
            self._away -= 1
        try:
            happens()
        except NotYetError:
            if self.adapter is not None:
                raise
            await self.finish()  # the others wait for the adapter, so it comes back now
            happens()
        await self.settle()

    async def settle(self) -> None:
        """Let everybody work until there is nothing left to do."""
        for _ in range(100):
            self.world.work()
            if self.adapter is None:
                if self._away > 0:
                    return
                self._restart()
            try:
                if not await self._turn():
                    self._check()
                    return
            except Killed:
                self.adapter = None
            except ApiError:
                continue  # the work queue brings the key again
        raise AssertionError("they go on for ever")

    def _check(self) -> None:
        """What runs was started with the files that are in place, whatever happened before."""
        certificate = self.world.certificate()
        for pod in self.world.running():
            (start,) = [start for start in self.world.starts if start.pod == pod]
            assert certificate in (None, start.certificate), f"{pod} runs with a certificate that is not in force"

    async def finish(self) -> None:
        """If nobody is there any more, somebody comes."""
        self._away = 0
        await self.settle()

    def _restart(self) -> None:
        self.adapter = Adapter(self.world, None, self._last)
        self.adapters.append(self.adapter)

    async def _turn(self) -> bool:
        """Hear the news and reconcile. Returns whether anything happened."""
        assert self.adapter
        version = self.world.api.version
        heard = self.adapter.hear_all()
        await self.adapter.turn()
        self.world.work()
        return bool(heard) or self.world.api.version > version


__all__ = ["KEY", "NETWORK_POLICIES", "SERVICES", "Adapter", "Life", "Start", "World"]
