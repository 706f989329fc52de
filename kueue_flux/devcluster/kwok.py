"""Nodes and pods that exist only in the API: kwok says in their status what kubelets would.

So a laptop holds hundreds of nodes and thousands of pods, and a test decides when a pod ends and how. kwok
has no behaviour of its own: it plays "stages", which are read from its Go module and bent in a few places,
named below. One is our own: a pod that is deleted ends first, since the Job controller waits for that.

Source: https://kwok.sigs.k8s.io/docs/user/stages-configuration/
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from kueue_flux.devcluster.kubernetes_api import KubernetesApi, Manifest

COMPLETE_AFTER = "pod-complete.stage.kwok.x-k8s.io/delay"
"""Annotation on a Job's pod: how long it runs before it succeeds, as a Go duration such as `2s`."""
READY_AFTER = "pod-ready.stage.kwok.x-k8s.io/delay"
"""Annotation on a pod: how long after it was bound to a node it becomes Running and Ready, `0s` if absent."""

_SIZE = "kueue-flux.dev/size"
"""Annotation on a node: its size as it was asked for; in its status the API server writes 1000 as `1k`."""

_STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
)

_ENDED = ("Succeeded", "Failed")
_POD_KILLED: Manifest = {
    "apiVersion": "kwok.x-k8s.io/v1alpha1",
    "kind": "Stage",
    "metadata": {"name": "pod-killed"},
    "spec": {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {
            "matchExpressions": [
                {"key": ".metadata.deletionTimestamp", "operator": "Exists"},
                {"key": ".status.phase", "operator": "NotIn", "values": list(_ENDED)},
            ]
        },
        # what a kubelet reports of containers that end on SIGTERM
        "next": {
            "statusTemplate": """
                {{ $now := Now }}
                phase: Failed
                containerStatuses:
                {{ range .spec.containers }}
                - name: {{ .name | Quote }}
                  image: {{ .image | Quote }}
                  ready: false
                  started: false
                  restartCount: 0
                  state:
                    terminated:
                      exitCode: 143
                      reason: Error
                      startedAt: {{ $now | Quote }}
                      finishedAt: {{ $now | Quote }}
                {{ end }}
            """
        },
    },
}


def configuration(module: Path, *, pod_seconds: float | None, pod_cidr: str = "10.128.0.0/9") -> str:
    """kwok's configuration file: its options and its stages.

    Args:
        module: folder of the Go module sigs.k8s.io/kwok.
        pod_seconds: how long a Job's pod runs unless it is annotated with `COMPLETE_AFTER`; None: for ever.
        pod_cidr: where pods get their addresses from.
    """
    options = {
        "cidr": pod_cidr,
        "manageAllNodes": True,
        # with 0, its default without a configuration, the nodes' leases are never renewed
        "nodeLeaseParallelism": 4,
        "nodeLeaseDurationSeconds": 40,
        "nodePlayStageParallelism": 4,
        "podPlayStageParallelism": 8,
        "enablePodsOnNodeSyncListPager": False,
        "enablePodsOnNodeSyncStreamWatch": True,
    }
    kwok = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "metadata": {"name": "kwok"},
        "options": options,
    }
    stages = [yaml.safe_load((module / "kustomize/stage" / name).read_text()) for name in _STAGES]
    return yaml.safe_dump_all([kwok, *(_bent(stage, pod_seconds) for stage in stages), _POD_KILLED])


def _bent(stage: Manifest, pod_seconds: float | None) -> Manifest:
    spec = stage["spec"]
    match stage["metadata"]["name"]:
        case "pod-ready":
            spec["delay"] = _delay(0, READY_AFTER)
        case "pod-complete":
            spec["delay"] = _delay(pod_seconds or 0, COMPLETE_AFTER)
            if pod_seconds is None:
                annotated = {"key": f'.metadata.annotations["{COMPLETE_AFTER}"]', "operator": "Exists"}
                spec["selector"]["matchExpressions"].append(annotated)
        case "pod-delete":
            ended = {"key": ".status.phase", "operator": "In", "values": list(_ENDED)}
            spec["selector"]["matchExpressions"].append(ended)
    return stage


def _delay(seconds: float, annotation: str) -> dict[str, Any]:
    expression = f'.metadata.annotations["{annotation}"]'
    return {
        "durationMilliseconds": round(seconds * 1000),
        "durationFrom": {"expressionFrom": expression},
    }


def node_name(index: int) -> str:
    """The name of the node with this index; sorted by name they are sorted by index."""
    return f"kwok-{index:04d}"


def node(index: int, *, cpu: int, memory_gib: int) -> Manifest:
    """A node as its kubelet would register it.

    Args:
        index: its number, from 0.
        cpu: cores.
        memory_gib: GiB of memory.
    """
    name = node_name(index)
    capacity = {"cpu": str(cpu), "memory": f"{memory_gib}Gi", "pods": "1000"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "type": "kwok",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {"kwok.x-k8s.io/node": "fake", _SIZE: f"cpu={cpu},memory={memory_gib}Gi"},
        },
        "status": {"allocatable": capacity, "capacity": capacity},
    }


def set_nodes(api: KubernetesApi, count: int, *, cpu: int, memory_gib: int) -> None:
    """Make the cluster have exactly these nodes, touching only those that differ.

    Args:
        api: the cluster.
        count: how many.
        cpu: cores of each.
        memory_gib: GiB of memory of each.
    """
    there = {item["metadata"]["name"]: item for item in api.list("v1", "Node", labels="type=kwok")}
    wanted = {node_name(index): node(index, cpu=cpu, memory_gib=memory_gib) for index in range(count)}
    # size cannot be changed under running pods by a patch alone, since kwok keeps what it wrote: made anew
    stale = [item for name, item in there.items() if not _same_size(item, wanted.get(name))]
    missing = [item for name, item in wanted.items() if name not in there or there[name] in stale]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(api.delete, stale))
        list(pool.map(api.create, missing))


def _same_size(there: Manifest, wanted: Manifest | None) -> bool:
    size = there["metadata"].get("annotations", {}).get(_SIZE)
    return wanted is not None and size == wanted["metadata"]["annotations"][_SIZE]


def ready_nodes(api: KubernetesApi) -> int:
    """How many of kwok's nodes are Ready and in its hands: it plays no pods on a node whose Lease it has not got."""
    held = {lease["metadata"]["name"] for lease in api.list("coordination.k8s.io/v1", "Lease", "kube-node-lease")}
    return sum(
        condition["type"] == "Ready" and condition["status"] == "True" and item["metadata"]["name"] in held
        for item in api.list("v1", "Node", labels="type=kwok")
        for condition in item["status"].get("conditions", [])
    )
