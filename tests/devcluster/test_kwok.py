"""kwok's configuration: which of its stages are taken, and how they are bent."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kueue_flux.devcluster import kwok

STAGES = {
    "node/fast/node-initialize": "Node",
    "node/heartbeat-with-lease/node-heartbeat-with-lease": "Node",
    "pod/fast/pod-ready": "Pod",
    "pod/fast/pod-complete": "Pod",
    "pod/fast/pod-delete": "Pod",
}


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """As much of kwok's Go module as is read, without what the stages do."""
    for name, kind in STAGES.items():
        path = tmp_path / "kustomize/stage" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        selector = {"matchExpressions": [{"key": ".status.phase", "operator": "Exists"}]}
        stage = {"kind": "Stage", "metadata": {"name": path.stem}}
        stage["spec"] = {"resourceRef": {"kind": kind}, "selector": selector}
        path.write_text(yaml.safe_dump(stage))
    return tmp_path


def stages(module: Path, pod_seconds: float | None) -> dict[str, dict]:
    documents = yaml.safe_load_all(kwok.configuration(module, pod_seconds=pod_seconds))
    return {document["metadata"]["name"]: document for document in documents}


def test_all_stages_are_there_and_leases_are_renewed(module):
    found = stages(module, 10)
    assert set(found) == {"kwok", "pod-killed"} | {Path(name).name for name in STAGES}
    assert found["kwok"]["options"]["nodeLeaseParallelism"] > 0


@pytest.mark.parametrize(("seconds", "milliseconds"), [(10, 10_000), (0.25, 250), (0, 0)])
def test_pods_complete_after_the_time_given_or_annotated(module, seconds, milliseconds):
    complete = stages(module, seconds)["pod-complete"]["spec"]
    assert complete["delay"]["durationMilliseconds"] == milliseconds
    assert kwok.COMPLETE_AFTER in complete["delay"]["durationFrom"]["expressionFrom"]
    assert len(complete["selector"]["matchExpressions"]) == 1


def test_without_a_time_only_annotated_pods_complete(module):
    complete = stages(module, None)["pod-complete"]["spec"]
    assert complete["selector"]["matchExpressions"][1] == {
        "key": f'.metadata.annotations["{kwok.COMPLETE_AFTER}"]',
        "operator": "Exists",
    }


def test_a_deleted_pod_ends_before_it_goes(module):
    """Each state of a deleted pod is one stage's, and only one's."""
    found = stages(module, 10)
    killed, delete = (found[name]["spec"]["selector"]["matchExpressions"][-1] for name in ("pod-killed", "pod-delete"))
    assert (killed["operator"], delete["operator"]) == ("NotIn", "In")
    assert killed["values"] == delete["values"] == ["Succeeded", "Failed"]


def test_nodes_are_sorted_by_index():
    assert sorted(kwok.node_name(index) for index in (0, 2, 10, 999)) == [
        "kwok-0000",
        "kwok-0002",
        "kwok-0010",
        "kwok-0999",
    ]


class Nodes:
    """An API server that keeps nodes, and writes quantities in its own way."""

    def __init__(self) -> None:
        self.there: dict[str, dict] = {}
        self.changes: list[tuple[str, str]] = []

    def list(self, *_: str, labels: str) -> list[dict]:
        return list(self.there.values())

    def create(self, node: dict) -> None:
        node["status"]["allocatable"]["pods"] = "1k"
        self.there[node["metadata"]["name"]] = node
        self.changes.append(("create", node["metadata"]["name"]))

    def delete(self, node: dict) -> None:
        del self.there[node["metadata"]["name"]]
        self.changes.append(("delete", node["metadata"]["name"]))


def test_only_nodes_that_differ_are_touched():
    nodes = Nodes()
    kwok.set_nodes(nodes, 2, cpu=4, memory_gib=8)
    nodes.changes.clear()
    kwok.set_nodes(nodes, 2, cpu=4, memory_gib=8)
    assert nodes.changes == []
    kwok.set_nodes(nodes, 3, cpu=4, memory_gib=8)
    assert nodes.changes == [("create", "kwok-0002")]
    nodes.changes.clear()
    kwok.set_nodes(nodes, 1, cpu=5, memory_gib=8)
    assert sorted(nodes.changes) == [("create", "kwok-0000"), *(("delete", kwok.node_name(i)) for i in range(3))]
