"""Fluent builders of the objects that the adapter reads, as the API server would return them.

A test says only what it is about: `minicluster().queue("q").size(4).build()`. Each method changes the builder and
returns it; `obj()` gives a copy of the object as JSON, so that one builder can give several objects.
"""

from __future__ import annotations

from typing import Any, Self

import orjson

from kueue_flux.api.minicluster import MiniCluster

NAMESPACE = "team"
NAME = "hello"
QUEUE = "kueue.x-k8s.io/queue-name"
GATED = "kueue.x-k8s.io/admission-gated-by"
INDEX = "batch.kubernetes.io/job-completion-index"
AT = "2030-01-31T12:00:00Z"
"""When everything was created, and when every condition changed, that does not say otherwise."""


def owner(obj: dict[str, Any]) -> dict[str, Any]:
    """The ownerReference by which an object belongs to `obj`."""
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def condition(kind: str, status: str = "True", reason: str = "", message: str = "", at: str = AT) -> dict[str, Any]:
    """A condition; the reason is the type where none is given."""
    return {"type": kind, "status": status, "reason": reason or kind, "message": message, "lastTransitionTime": at}


class Builder:
    """What all objects have."""

    def __init__(self, api_version: str, kind: str, name: str, namespace: str = NAMESPACE) -> None:
        self._obj: dict[str, Any] = {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{kind.lower()}-{name}",
                "resourceVersion": "1",
                "creationTimestamp": AT,
            },
        }

    def obj(self) -> dict[str, Any]:
        """A copy of the object."""
        copy: dict[str, Any] = orjson.loads(orjson.dumps(self._obj))
        return copy

    def meta(self, **fields: Any) -> Self:
        """Set fields of metadata, named as in JSON."""
        self._obj["metadata"].update(fields)
        return self

    def label(self, key: str, value: str) -> Self:
        self._obj["metadata"].setdefault("labels", {})[key] = value
        return self

    def owned_by(self, obj: dict[str, Any]) -> Self:
        self._obj["metadata"].setdefault("ownerReferences", []).append(owner(obj))
        return self

    def condition(self, kind: str, status: str = "True", reason: str = "", message: str = "", at: str = AT) -> Self:
        """Set a condition of the status."""
        conditions = self._status("conditions", [])
        conditions[:] = [c for c in conditions if c["type"] != kind]
        conditions.append(condition(kind, status, reason, message, at))
        return self

    def _status(self, key: str, default: Any) -> Any:
        return self._obj.setdefault("status", {}).setdefault(key, default)


class MiniClusterBuilder(Builder):
    """A MiniCluster whose application image has Flux, unless told otherwise."""

    def __init__(self, name: str, namespace: str) -> None:
        super().__init__("flux-framework.org/v1alpha2", "MiniCluster", name, namespace)
        self.meta(uid=f"uid-{name}", generation=1)
        self._container: dict[str, Any] = {"image": "app:1", "command": "hostname"}
        self._obj["spec"] = {"size": 4, "tasks": 4, "containers": [self._container]}
        self.flux_container(disable=True)

    def build(self) -> MiniCluster:
        """The MiniCluster as the adapter parses it.

        Raises:
            InvalidMiniCluster: it cannot be run.
        """
        return MiniCluster.from_object(self.obj())

    def spec(self, **fields: Any) -> Self:
        """Set fields of spec, named as in JSON."""
        self._obj["spec"].update(fields)
        return self

    def size(self, size: int, tasks: int | None = None) -> Self:
        """Set the number of pods and (the same, unless given) of tasks."""
        return self.spec(size=size, tasks=size if tasks is None else tasks)

    def queue(self, name: str) -> Self:
        return self.label(QUEUE, name)

    def command(self, text: str) -> Self:
        return self.container(command=text)

    def container(self, **fields: Any) -> Self:
        """Set fields of the container that runs Flux."""
        self._container.update(fields)
        return self

    def sidecar(self, name: str, **fields: Any) -> Self:
        """Add a container that does not run Flux; the first one then says that it does."""
        containers = self._obj["spec"]["containers"]
        containers[0]["runFlux"] = True
        containers.append({"name": name, "image": f"{name}:1", **fields})
        return self

    def service(self, name: str = "web", **fields: Any) -> Self:
        """Add a service container."""
        self._obj["spec"].setdefault("services", []).append({"name": name, "image": f"{name}:1", **fields})
        return self

    def _part(self, *path: str, **fields: Any) -> Self:
        part = self._obj["spec"]
        for name in path:
            part = part.setdefault(name, {})
        part.update(fields)
        return self

    def flux(self, **fields: Any) -> Self:
        return self._part("flux", **fields)

    def flux_container(self, **fields: Any) -> Self:
        return self._part("flux", "container", **fields)

    def view(self, **fields: Any) -> Self:
        """Take Flux from an image of its own."""
        del self._obj["spec"]["flux"]["container"]["disable"]
        return self.flux_container(**fields)

    def pod(self, **fields: Any) -> Self:
        return self._part("pod", **fields)

    def network(self, **fields: Any) -> Self:
        return self._part("network", **fields)

    def logging(self, **fields: Any) -> Self:
        return self._part("logging", **fields)

    def status(self, **fields: Any) -> Self:
        self._obj.setdefault("status", {}).update(fields)
        return self


class JobBuilder(Builder):
    """The suspended Job of a MiniCluster."""

    def __init__(self, mc: dict[str, Any]) -> None:
        name, namespace = mc["metadata"]["name"], mc["metadata"]["namespace"]
        super().__init__("batch/v1", "Job", name, namespace)
        self.meta(uid=f"{name}-job-uid-0001").owned_by(mc).label("app.kubernetes.io/managed-by", "kueue-flux")
        self.label("flux-framework.org/minicluster", name)
        if queue := mc["metadata"].get("labels", {}).get(QUEUE):
            self.label(QUEUE, queue)
        size = mc["spec"]["size"]
        self._obj["spec"] = {"suspend": True, "parallelism": size, "completions": size}
        self._obj["status"] = {}

    def unsuspended(self) -> Self:
        self._obj["spec"]["suspend"] = False
        return self

    def started(self, at: str = AT) -> Self:
        self._obj["status"]["startTime"] = at
        return self.unsuspended()

    def succeeded(self, at: str = AT) -> Self:
        """The Job controller's word that index 0 has succeeded; pods may still be leaving."""
        return self.condition("SuccessCriteriaMet", reason="SuccessPolicy", message="index 0 succeeded", at=at)

    def failing(self, reason: str = "PodFailurePolicy", message: str = "exit code 3", at: str = AT) -> Self:
        """The Job controller's word that the Job has failed; pods may still be leaving."""
        return self.condition("FailureTarget", reason=reason, message=message, at=at)

    def complete(self, at: str = AT) -> Self:
        return self.succeeded(at).condition("Complete", reason="SuccessPolicy", at=at)

    def failed(self, reason: str = "PodFailurePolicy", message: str = "exit code 3", at: str = AT) -> Self:
        return self.failing(reason, message, at).condition("Failed", reason=reason, message=message, at=at)


class ServicesJobBuilder(JobBuilder):
    """The suspended Job of a MiniCluster's service containers, which Kueue is kept from admitting."""

    def __init__(self, mc: dict[str, Any]) -> None:
        super().__init__(mc)
        name = mc["metadata"]["name"]
        self.meta(name=f"{name}-services", uid=f"{name}-services-job-uid-0001").gated("flux-framework.org/turn")
        self.label("flux-framework.org/role", "services")
        self._obj["spec"] |= {"parallelism": 1, "completions": 1}

    def gated(self, by: str | None) -> Self:
        return self.meta(annotations={GATED: by} if by else {})


class WorkloadBuilder(Builder):
    """The Workload that Kueue makes for a Job."""

    def __init__(self, job: dict[str, Any]) -> None:
        name, namespace = f"job-{job['metadata']['name']}", job["metadata"]["namespace"]
        super().__init__("kueue.x-k8s.io/v1beta2", "Workload", name, namespace)
        self.owned_by(job).label("kueue.x-k8s.io/job-uid", job["metadata"]["uid"])
        pod_set = {"name": "main", "count": job["spec"]["parallelism"], "template": {"spec": {"containers": []}}}
        self._obj["spec"] = {"podSets": [pod_set], "active": True, "priority": 0, "queueName": "q"}

    def spec(self, **fields: Any) -> Self:
        self._obj["spec"].update(fields)
        return self

    def waiting(self, reason: str = "WaitingForQuota", message: str = "2 more cpu needed", at: str = AT) -> Self:
        self._obj.setdefault("status", {}).pop("admission", None)
        return self.condition("QuotaReserved", "False", reason, message, at)

    def reserved(self, count: int | None = None, at: str = AT) -> Self:
        """Set quota aside for so many pods (all of them, without saying so, where no number is given)."""
        assignment: dict[str, Any] = {"name": "main"}
        if count is not None:
            assignment["count"] = count
        self._obj.setdefault("status", {})["admission"] = {"clusterQueue": "cq", "podSetAssignments": [assignment]}
        return self.condition("QuotaReserved", at=at)

    def admitted(self, count: int | None = None, at: str = AT) -> Self:
        return self.reserved(count, at).condition("Admitted", at=at)

    def evicted(self, reason: str = "Preempted", message: str = "by a workload of higher priority") -> Self:
        return self.condition("Evicted", reason=reason, message=message)

    def finished(self) -> Self:
        return self.condition("Finished", reason="Succeeded")


class PodBuilder(Builder):
    """A pod of a Job, pending and scheduled unless told otherwise."""

    def __init__(self, job: dict[str, Any], index: int, suffix: str) -> None:
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        super().__init__("v1", "Pod", f"{name}-{index}-{suffix}", namespace)
        self.owned_by(job).label(INDEX, str(index)).label("flux-framework.org/minicluster", name)
        self.label("flux-framework.org/minicluster-uid", job["metadata"]["ownerReferences"][0]["uid"])
        self.label("app.kubernetes.io/managed-by", "kueue-flux")
        self._obj["status"] = {"phase": "Pending"}
        self.condition("PodScheduled")

    def of_services(self) -> Self:
        """Make it the pod of services, which has no index."""
        del self._obj["metadata"]["labels"][INDEX]
        return self.label("flux-framework.org/role", "services")

    def deaf(self, since: str = AT) -> Self:
        """Let its container `web` run and take no connections."""
        self._obj["status"]["phase"] = "Running"
        state = {"name": "web", "state": {"running": {"startedAt": since}}, "ready": False, "started": False}
        self._obj["status"]["containerStatuses"] = [state]
        return self.condition("Ready", "False", "ContainersNotReady")

    def listening(self) -> Self:
        """Let its container `web` take connections."""
        self.deaf()._obj["status"]["containerStatuses"][0] |= {"ready": True, "started": True}
        return self.condition("Ready")

    def _containers(self, ready: bool = False, **state: Any) -> Self:
        container = {"name": "flux", "image": "app:1", "state": state, "ready": ready}
        self._obj["status"]["containerStatuses"] = [container]
        return self

    def unscheduled(self, message: str = "0/3 nodes are available", reason: str = "Unschedulable") -> Self:
        return self.condition("PodScheduled", "False", reason, message)

    def unmounted(self, since: str = AT) -> Self:
        """Give it a node, on which its volumes are not mounted."""
        self.condition("PodScheduled", at=since).condition("PodReadyToStartContainers", "False", at=since)
        return self.waiting_for("ContainerCreating")

    def waiting_for(self, reason: str, message: str = "no", container: str = "containerStatuses") -> Self:
        """Let a container wait for what may never come; `container` is the list it stands in."""
        state = {"waiting": {"reason": reason, "message": message}}
        self._obj["status"][container] = [{"name": "flux", "image": "app:1", "state": state}]
        return self

    def running(self) -> Self:
        self._obj["status"]["phase"] = "Running"
        return self._containers(running={"startedAt": AT}).condition("Ready", "False", "ContainersNotReady")

    def phase(self, phase: str) -> Self:
        self._obj["status"]["phase"] = phase
        return self

    def ready(self) -> Self:
        return self.running()._containers(ready=True, running={"startedAt": AT}).condition("Ready")

    def with_failing_sidecar(self, restarts: int = 1, exit_code: int = 1, reason: str = "Error") -> Self:
        """A sidecar that ended, and was started again so many times; its pod is not ready then."""
        self._obj["status"]["initContainerStatuses"] = [
            {
                "name": "log",
                "restartCount": restarts,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": exit_code, "reason": reason}} if restarts else {},
            }
        ]
        return self.condition("Ready", "False", "ContainersNotReady")

    def ended(self, exit_code: int, message: str = "", reason: str = "") -> Self:
        """End the container that runs Flux, with what it wrote to its termination log and the runtime's reason."""
        self._obj["status"]["phase"] = "Failed" if exit_code else "Succeeded"
        reason = reason or ("Error" if exit_code else "Completed")
        ended = {"exitCode": exit_code, "reason": reason, "finishedAt": AT}
        self._containers(terminated={**ended, "message": message} if message else ended)
        return self.condition("Ready", "False", "PodFailed" if exit_code else "PodCompleted")


def minicluster(name: str = NAME, namespace: str = NAMESPACE) -> MiniClusterBuilder:
    """A MiniCluster of 4 pods and 4 tasks that runs `hostname`, without a queue."""
    return MiniClusterBuilder(name, namespace)


def job(mc: MiniClusterBuilder | dict[str, Any]) -> JobBuilder:
    """The suspended Job of a MiniCluster."""
    return JobBuilder(mc if isinstance(mc, dict) else mc.obj())


def services_job(mc: MiniClusterBuilder | dict[str, Any]) -> ServicesJobBuilder:
    """The suspended Job of a MiniCluster's services."""
    return ServicesJobBuilder(mc if isinstance(mc, dict) else mc.obj())


def workload(of: JobBuilder | dict[str, Any]) -> WorkloadBuilder:
    """The Workload of a Job, at which Kueue has not looked yet."""
    return WorkloadBuilder(of if isinstance(of, dict) else of.obj())


def pod(of: JobBuilder | dict[str, Any], index: int = 0, suffix: str = "xxxxx") -> PodBuilder:
    """A pending pod of a Job, with a completion index."""
    return PodBuilder(of if isinstance(of, dict) else of.obj(), index, suffix)
