"""Several kinds of nodes: which flavor is taken, and that it reaches the pods and Flux."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.kubernetes_api import Manifest
from tests.control_plane.kit import Namespace
from tests.control_plane.miniclusters import config_map, events, expect, hosts, minicluster, running, succeed
from tests.control_plane.nodes import labelled
from tests.control_plane.queues import flavor, set_queue

pytestmark = pytest.mark.usefixtures("adapter")

KIND = "example.com/kind"
TAINT = {"key": "example.com/spot", "value": "yes", "effect": "NoSchedule"}
TOLERATION = {"key": "example.com/spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}

Make = Callable[[Manifest], str]


@pytest.fixture
def flavors(cluster: Cluster, make: Make) -> Any:
    """Two kinds of nodes, and a flavor for each: one at any time, and one that is tainted."""
    steady = make(flavor("steady", nodeLabels={KIND: "steady"}))
    spot = make(flavor("spot", nodeLabels={KIND: "spot"}, nodeTaints=[TAINT], tolerations=[TOLERATION]))
    with labelled(cluster.api, {0: {KIND: "steady"}, 1: {KIND: "steady"}, 2: {KIND: "spot"}, 3: {KIND: "spot"}}):
        yield steady, spot


def placed(namespace: Namespace, kind: str, size: int, name: str = "mc") -> list[Manifest]:
    """Check that running pods were told of a flavor, and lie on its nodes. Returns them."""
    pods = namespace.running_pods(name, size)
    assert {pod["spec"]["nodeSelector"][KIND] for pod in pods} == {kind}
    nodes = {"steady": {"kwok-0000", "kwok-0001"}, "spot": {"kwok-0002", "kwok-0003"}}[kind]
    assert {pod["spec"]["nodeName"] for pod in pods} <= nodes
    return pods


def cores(namespace: Namespace, name: str = "mc") -> list[Manifest]:
    """What R says of ranks and cores."""
    found: list[Manifest] = json.loads(config_map(namespace, name)["data"]["R.json"])["execution"]["R_lite"]
    return found


def test_when_one_flavor_is_full_the_next_is_taken(namespace: Namespace, flavors: tuple[str, str]):
    steady, spot = flavors
    set_queue(namespace, {steady: 4, spot: 4})
    namespace.create(minicluster("first", cpu="2"))
    running(namespace, "first")
    assert all(
        "tolerations" not in pod["spec"] or TOLERATION not in pod["spec"]["tolerations"]
        for pod in placed(namespace, "steady", 2, "first")
    )
    namespace.create(minicluster("second", cpu="2"))
    running(namespace, "second")
    assert all(TOLERATION in pod["spec"]["tolerations"] for pod in placed(namespace, "spot", 2, "second"))
    for name in ("first", "second"):
        assert cores(namespace, name) == [{"rank": "0-1", "children": {"core": "0-1"}}]
    namespace.create(minicluster("third", cpu="2"))
    waiting = expect(namespace, "QuotaReserved=False", "third", says=f"in flavor {spot}, 4 more needed")
    assert steady in next(c["message"] for c in waiting["status"]["conditions"] if c["type"] == "QuotaReserved")
    succeed(namespace, "second")
    placed(namespace, "spot", 2, "third")


def test_it_comes_back_on_other_nodes_with_another_flavor(namespace: Namespace, flavors: tuple[str, str]):
    steady, spot = flavors
    preemption = {"withinClusterQueue": "LowerPriority"}
    fungibility = {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "MayStopSearch"}
    set_queue(namespace, {steady: 2, spot: 2}, preemption=preemption, flavorFungibility=fungibility)
    namespace.create(minicluster("low"))
    placed(namespace, "steady", 2, "low")
    running(namespace, "low")
    namespace.create(minicluster("high", priority=namespace.priority_class(1000)))
    placed(namespace, "steady", 2, "high")
    running(namespace, "low")
    placed(namespace, "spot", 2, "low")
    assert hosts(namespace, "low") == ["low-0", "low-1"]
    assert any("Evicted" in line and "Preempted" in line for line in events(namespace, "low"))


def test_fewer_nodes_of_one_flavor_are_taken_where_no_flavor_has_all(namespace: Namespace, flavors: tuple[str, str]):
    steady, spot = flavors
    set_queue(namespace, {steady: 2, spot: 3})
    namespace.create(minicluster(size=4, minSize=2))
    found = running(namespace, size=3)
    placed(namespace, "spot", 3)
    expect(namespace, "Admitted=True/Admitted", says="3 of 4 pods")
    assert cores(namespace) == [{"rank": "0-2", "children": {"core": "0"}}]
    assert found["status"]["admission"]["size"] == 3


def test_more_than_any_flavor_can_give_names_the_one_that_comes_nearest(namespace: Namespace, flavors: tuple[str, str]):
    steady, spot = flavors
    set_queue(namespace, {steady: 2, spot: 3})
    namespace.create(minicluster(size=4))
    says = f"ClusterQueue {namespace.name} can give at most 3 in one flavor ({spot}) (3 of its own)"
    expect(namespace, "QuotaReserved=False/ExceedsMaxQuota", says=says)


def test_nodes_that_no_flavor_has_are_said(namespace: Namespace, flavors: tuple[str, str]):
    set_queue(namespace, dict.fromkeys(flavors, 4))
    namespace.create(minicluster(pod={"nodeSelector": {KIND: "quantum"}}))
    expect(namespace, "QuotaReserved=False", says="doesn't match node affinity")


def test_a_resource_for_which_there_is_no_quota_is_said(namespace: Namespace):
    mc = minicluster()
    mc["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}}
    namespace.create(mc)
    says = f"asks for nvidia.com/gpu; ClusterQueue {namespace.name} can give at most 0"
    expect(namespace, "QuotaReserved=False/ExceedsMaxQuota", says=says)
