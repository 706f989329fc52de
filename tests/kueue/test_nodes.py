"""What nodes have: which of them take a flavor's pods, how much together, and how that is written."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from kueue_flux.api.pod import Toleration
from kueue_flux.kueue.nodes import read_node, rounded, total, written

GPU = {"key": "nvidia.com/gpu", "value": "yes", "effect": "NoSchedule"}


def node(name: str = "n", *, labels: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    allocatable = fields.pop("allocatable", {"cpu": "15500m", "memory": "60Gi", "pods": "110"})
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": fields, "status": {"allocatable": allocatable}}


def test_what_is_nothing_or_not_counted_is_left_out() -> None:
    allocatable = {
        "cpu": "4",
        "pods": "110",
        "hugepages-2Mi": "0",
        "attachable-volumes-csi-x": "25",
        "nvidia.com/gpu": 8,
    }
    found = read_node(node(allocatable=allocatable))
    assert found.allocatable == {"cpu": Decimal(4), "nvidia.com/gpu": Decimal(8)}


def test_a_node_without_a_status_has_nothing() -> None:
    assert read_node({"metadata": {"name": "new"}}).allocatable == {}


@pytest.mark.parametrize(
    ("tolerations", "taints", "takes"),
    [
        ([], [], True),
        ([], [GPU], False),
        ([], [{**GPU, "effect": "PreferNoSchedule"}], True),
        ([Toleration(key="nvidia.com/gpu", operator="Exists")], [GPU], True),
        ([Toleration(operator="Exists")], [GPU], True),
        ([Toleration(key="nvidia.com/gpu", value="yes")], [GPU], True),
        ([Toleration(key="nvidia.com/gpu", operator="Equal", value="no")], [GPU], False),
        ([Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoExecute")], [GPU], False),
        ([Toleration(key="other", operator="Exists")], [GPU], False),
        ([Toleration(operator="Exists", effect="NoSchedule")], [GPU, {"key": "x", "effect": "NoExecute"}], False),
    ],
)
def test_taints_and_tolerations(tolerations: list[Toleration], taints: list[dict[str, str]], takes: bool) -> None:
    assert read_node(node(taints=taints)).takes({}, tolerations) is takes


def test_labels_and_cordons() -> None:
    found = read_node(node(labels={"pool": "a", "zone": "b"}))
    assert found.takes({"pool": "a"}, [])
    assert not found.takes({"pool": "b"}, [])
    assert not found.takes({"gpu": ""}, [])
    assert not read_node(node(unschedulable=True)).takes({}, [Toleration(operator="Exists")])


def test_together() -> None:
    nodes = [read_node(node(str(index))) for index in range(3)]
    assert total(nodes) == {"cpu": Decimal("46.5"), "memory": Decimal(180 * 2**30)}
    assert total([]) == {}


@pytest.mark.parametrize(
    ("resource", "amount", "exact", "short"),
    [
        ("cpu", "46.5", "46500m", "46500m"),
        ("cpu", "40", "40", "40"),
        ("cpu", "1024", "1024", "1024"),
        ("cpu", "0.0005", "0", "0"),
        ("memory", str(180 * 2**30), "180Gi", "180Gi"),
        ("memory", str(2560 * 2**30), "2560Gi", "2560Gi"),
        ("memory", str(16393244 * 1024), "16393244Ki", "15.6Gi"),
        ("memory", "1000000001", "1000000001", "953.7Mi"),
        ("memory", "0", "0", "0"),
        ("ephemeral-storage", str(2**40), "1Ti", "1Ti"),
        ("hugepages-2Mi", str(2**21), "2Mi", "2Mi"),
        ("nvidia.com/gpu", "8", "8", "8"),
    ],
)
def test_amounts_are_written_as_kubernetes_does(resource: str, amount: str, exact: str, short: str) -> None:
    assert written(resource, Decimal(amount)) == exact
    assert rounded(resource, Decimal(amount)) == short
