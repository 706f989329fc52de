"""What the control-plane tests work with: a namespace with a queue, and pods that end when the test says so."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

import yaml

from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.kubernetes_api import ApiError, KubernetesApi, Manifest

T = TypeVar("T")

QUEUE = "queue"
FLAVOR = "default-flavor"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"

KUEUE = "kueue.x-k8s.io/v1beta2"
API_VERSIONS = {
    "ConfigMap": "v1",
    "Event": "events.k8s.io/v1",
    "Job": "batch/v1",
    "LocalQueue": KUEUE,
    "MiniCluster": "flux-framework.org/v1alpha2",
    "NetworkPolicy": "networking.k8s.io/v1",
    "Pod": "v1",
    "Secret": "v1",
    "Service": "v1",
    "Workload": KUEUE,
}
"""The kinds that tests look at by kind alone."""

# what a look at an object that is not (wholly) there raises; a wait goes on, and shows the last one at its end
NOT_YET = (AssertionError, LookupError, TypeError)


def wait_for(
    what: str, look: Callable[[], T], *, timeout: float = 30, context: Callable[[], str] = str, every: float = 0.1
) -> T:
    """Wait until `look` returns something true, and return that.

    Args:
        what: what is waited for, for the message.
        look: asked again and again; may fail an assert or look into an object that is not there yet.
        timeout: seconds.
        context: called when it takes too long, for what to show beside.
        every: seconds between two looks.

    Raises:
        AssertionError: it took too long; with what was seen last.
    """
    end = time.monotonic() + timeout
    seen: object = None
    while True:
        try:
            if found := look():
                return found
            seen = found
        except NOT_YET as error:
            seen = error
        if time.monotonic() > end:
            raise AssertionError(f"waited {timeout:g} s for {what}; seen last: {seen!r}\n{context()}")
        time.sleep(every)


def condition(obj: Manifest | None, kind: str) -> Manifest:
    """A condition in an object's status; {} where it has none of this type.

    Args:
        obj: the object.
        kind: the condition's type.
    """
    conditions = ((obj or {}).get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item["type"] == kind), {})


def is_true(obj: Manifest | None, kind: str) -> bool:
    """Whether a condition in an object's status is True."""
    return condition(obj, kind).get("status") == "True"


def resource_flavor() -> Manifest:
    """The one flavor of all test queues."""
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": FLAVOR}}


def cluster_queue(name: str, namespace: str, *, cpu: int, memory_gib: int, preemption: bool) -> Manifest:
    """A ClusterQueue for one namespace.

    Args:
        name: its name.
        namespace: whose workloads it takes.
        cpu: quota, in cores.
        memory_gib: quota, in GiB.
        preemption: whether a workload may preempt one of lower priority.
    """
    quota = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": f"{memory_gib}Gi"}]
    return {
        "apiVersion": KUEUE,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "preemption": {"withinClusterQueue": "LowerPriority" if preemption else "Never"},
            "resourceGroups": [
                {"coveredResources": ["cpu", "memory"], "flavors": [{"name": FLAVOR, "resources": quota}]}
            ],
        },
    }


@dataclass(frozen=True)
class Namespace:
    """A namespace with a LocalQueue named `queue` on a ClusterQueue of its own.

    Objects are named by kind (see `API_VERSIONS`) and name; manifests need no namespace.
    """

    name: str
    api: KubernetesApi

    def create(self, manifest: Manifest | str) -> Manifest:
        """Create an object, from a dict or YAML, and return it as the server has it."""
        return self.api.create(self._placed(manifest))

    def apply(self, manifest: Manifest | str) -> Manifest:
        """Server-side apply an object, from a dict or YAML, and return it as the server has it."""
        return self.api.apply(self._placed(manifest))

    def get(self, kind: str, name: str) -> Manifest | None:
        """An object, or None."""
        return self.api.find(API_VERSIONS[kind], kind, name, self.name)

    def all(self, kind: str, labels: str = "") -> list[Manifest]:
        """All objects of a kind, sorted by name."""
        found = self.api.list(API_VERSIONS[kind], kind, self.name, labels=labels)
        return sorted(found, key=lambda item: item["metadata"]["name"])

    def delete(self, kind: str, name: str) -> None:
        """Delete an object and, in the background, what it owns."""
        metadata = {"name": name, "namespace": self.name}
        self.api.delete({"apiVersion": API_VERSIONS[kind], "kind": kind, "metadata": metadata})

    def wait_for(self, what: str, look: Callable[[], T], *, timeout: float = 30) -> T:
        """See `wait_for`; a failure shows what is in the namespace."""
        return wait_for(what, look, timeout=timeout, context=self.describe)

    def set_quota(self, *, cpu: int, memory_gib: int = 1024, preemption: bool = False) -> None:
        """Give the ClusterQueue this quota, in cores and GiB."""
        self.api.apply(cluster_queue(self.name, self.name, cpu=cpu, memory_gib=memory_gib, preemption=preemption))

    def stop_queue(self, policy: str | None) -> None:
        """Stop the ClusterQueue: `HoldAndDrain` evicts what runs, `Hold` admits nothing more, None starts it."""
        queue = self.api.get(KUEUE, "ClusterQueue", self.name)
        self.api.patch(queue, {"spec": {"stopPolicy": policy or "None"}})

    def priority_class(self, value: int) -> str:
        """The name of a WorkloadPriorityClass with this value (cluster-wide, shared by all tests)."""
        name = f"priority-{value}"
        self.api.apply(
            {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
        )
        return name

    def workload(self, job: str) -> Manifest | None:
        """The Workload that Kueue made for a Job, or None."""
        uid = (self.get("Job", job) or {}).get("metadata", {}).get("uid")
        return next(iter(self.all("Workload", f"{JOB_UID_LABEL}={uid}")), None) if uid else None

    def pods(self, job: str) -> list[Manifest]:
        """A Job's pods that are not being deleted, by completion index, then by age."""
        found = [
            pod
            for pod in self.all("Pod", f"batch.kubernetes.io/job-name={job}")
            if "deletionTimestamp" not in pod["metadata"]
        ]
        return sorted(found, key=lambda pod: (index_of(pod), pod["metadata"]["creationTimestamp"]))

    def running_pods(self, job: str, count: int, *, timeout: float = 30) -> list[Manifest]:
        """Wait until this many pods of a Job are Running and Ready, and return them by completion index."""

        def look() -> list[Manifest]:
            pods = [pod for pod in self.pods(job) if pod["status"].get("phase") == "Running" and is_true(pod, "Ready")]
            assert len(pods) == count, f"{len(pods)} of {count} pods are Running and Ready"
            return pods

        return self.wait_for(f"{count} running pods of {job}", look, timeout=timeout)

    def finish(self, job: str, exit_code: int = 0, *, index: int = 0, message: str = "") -> None:
        """End the running pod with this completion index of a Job; see `finish_pod`."""
        pod = next(pod for pod in self.pods(job) if index_of(pod) == index and pod["status"].get("phase") == "Running")
        self.finish_pod(pod, exit_code, message=message)

    def finish_pod(self, pod: Manifest, exit_code: int = 0, *, message: str = "") -> None:
        """End a pod as its kubelet would report it.

        Args:
            pod: the pod.
            exit_code: of each of its containers; 0 makes it Succeeded, anything else Failed.
            message: what its containers wrote to their termination log.
        """
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        reason = "Error" if exit_code else "Completed"
        terminated = {"exitCode": exit_code, "reason": reason, "startedAt": now, "finishedAt": now}
        if message:
            terminated["message"] = message
        containers = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": False,
                "started": False,
                "restartCount": 0,
                "state": {"terminated": terminated},
            }
            for container in pod["spec"]["containers"]
        ]
        others = [item for item in pod["status"]["conditions"] if item["type"] not in ("Ready", "ContainersReady")]
        ended = [
            {"type": kind, "status": "False", "reason": "PodFailed" if exit_code else "PodCompleted"}
            | {"lastTransitionTime": now}
            for kind in ("Ready", "ContainersReady")
        ]
        status = {
            "phase": "Failed" if exit_code else "Succeeded",
            "containerStatuses": containers,
            "conditions": [*others, *ended],
        }
        self.api.patch(pod, {"status": status}, subresource="status")

    def describe(self) -> str:
        """What is in the namespace, for a failing test."""
        lines = [f"--- namespace {self.name}"]
        for kind in ("MiniCluster", "Job", "Workload", "Pod", "Secret", "ConfigMap"):
            try:
                lines += [_line(item) for item in self.all(kind)]
            except (ApiError, LookupError) as error:
                lines.append(f"{kind}: {error}")
        events = sorted(self.all("Event"), key=lambda event: event["metadata"]["creationTimestamp"])
        for event in events[-15:]:
            about = event.get("regarding", {})
            lines.append(f"Event {about.get('kind')}/{about.get('name')} {event.get('reason')}: {event.get('note')}")
        return "\n".join(lines)

    def _placed(self, manifest: Manifest | str) -> Manifest:
        content: Manifest = yaml.safe_load(manifest) if isinstance(manifest, str) else manifest
        return {**content, "metadata": {**content["metadata"], "namespace": self.name}}


@dataclass(frozen=True)
class Request:
    """A request to the API server, from its audit log.

    Args:
        verb: `get`, `list`, `watch`, `create`, `patch`, ...
        resource: plural, with `/status` or another subresource.
        namespace: where; "" for none or all.
        name: of the object; "" where the request names none.
        status: HTTP status code.
    """

    verb: str
    resource: str
    namespace: str
    name: str
    status: int


@contextmanager
def recorded_requests(cluster: Cluster) -> Iterator[list[Request]]:
    """What the adapter (and nobody else) asked of the API server during the `with` block; filled at its end.

    A watch that was open before is not in it, nor is one that is still open.
    """
    requests: list[Request] = []
    start = cluster.audit_log.stat().st_size if cluster.audit_log.exists() else 0
    yield requests
    with cluster.audit_log.open() as log:
        log.seek(start)
        for event in map(json.loads, log):
            target = event.get("objectRef", {})
            if event["stage"] == "ResponseComplete" and "resource" in target:
                resource = "/".join(target[key] for key in ("resource", "subresource") if key in target)
                status = event["responseStatus"]["code"]
                where = (target.get("namespace", ""), target.get("name", ""))
                requests.append(Request(event["verb"], resource, *where, status))


def index_of(pod: Manifest) -> int:
    """A pod's completion index, which is its rank; -1 where it has none."""
    return int(pod["metadata"].get("annotations", {}).get(COMPLETION_INDEX, -1))


def indexed_job(
    name: str, size: int, *, queue: str | None = QUEUE, cpu: str = "1", annotations: dict[str, str] | None = None
) -> Manifest:
    """A suspended Indexed Job of `size` pods, each requesting `cpu`.

    Args:
        name: its name.
        size: how many pods, all at once.
        queue: the LocalQueue to submit it to; None for none.
        cpu: quantity of cores for each pod.
        annotations: of its pods, such as `kwok.COMPLETE_AFTER`.
    """
    container = {"name": "main", "image": "fake", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {QUEUE_LABEL: queue} if queue else {}},
        "spec": {
            "suspend": True,
            "parallelism": size,
            "completions": size,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {
                "metadata": {"annotations": annotations or {}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }


def _line(obj: Manifest) -> str:
    status = obj.get("status") or {}
    words = [f"{obj['kind']}/{obj['metadata']['name']}"]
    if "deletionTimestamp" in obj["metadata"]:
        words.append("(being deleted)")
    if obj["kind"] == "Job":
        words.append(f"suspend={obj['spec'].get('suspend')}")
    words += [f"{key}={status[key]}" for key in ("phase", "active", "ready", "succeeded", "failed") if key in status]
    for item in status.get("conditions") or []:
        text = f"{item.get('reason', '')} {item.get('message', '')}".strip()
        words.append(f"\n    {item['type']}={item['status']} {text}")
    return " ".join(words)
