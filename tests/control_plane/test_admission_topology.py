"""Where pods lie to one another: what is asked for on the MiniCluster, and what Kueue says of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.kubernetes_api import Manifest
from tests.control_plane.kit import Namespace
from tests.control_plane.miniclusters import expect, minicluster, running, secret, succeed
from tests.control_plane.nodes import labelled
from tests.control_plane.queues import flavor, set_queue, topology

pytestmark = pytest.mark.usefixtures("adapter")

BLOCK, RACK, HOST = "example.com/block", "example.com/rack", "kubernetes.io/hostname"
KUEUES = "kueue.x-k8s.io"
# two racks of two nodes in one block, one rack of two in another; node 16 cpu each
RACKS = {0: ("b1", "r1"), 1: ("b1", "r1"), 2: ("b1", "r2"), 3: ("b1", "r2"), 4: ("b2", "r3"), 5: ("b2", "r3")}


@pytest.fixture
def laid_out(cluster: Cluster, namespace: Namespace, make: Callable[[Manifest], str]) -> Any:
    """A namespace whose queue hands out nodes by where they lie."""
    levels = make(topology(BLOCK, RACK, HOST))
    name = make(flavor("racks", nodeLabels={"type": "kwok"}, topologyName=levels))
    with labelled(cluster.api, {index: {BLOCK: block, RACK: rack} for index, (block, rack) in RACKS.items()}):
        set_queue(namespace, {name: 1000})
        yield namespace


def annotated(annotations: dict[str, str], **fields: Any) -> Manifest:
    """A MiniCluster whose pods fill half a node each."""
    mc = minicluster(cpu="8", **fields)
    mc["metadata"]["annotations"] = {f"{KUEUES}/{key}": value for key, value in annotations.items()}
    return mc


def racks(namespace: Namespace, size: int) -> list[str]:
    """The racks in which running pods lie, by completion index."""
    names = {f"kwok-{index:04d}": rack for index, (_, rack) in RACKS.items()}
    return [names[pod["spec"]["nodeName"]] for pod in namespace.running_pods("mc", size)]


@pytest.mark.parametrize(
    ("annotations", "size", "lies"),
    [
        ({"podset-required-topology": RACK}, 4, lambda found: len(set(found)) == 1),
        ({"podset-required-topology": BLOCK}, 8, lambda found: set(found) == {"r1", "r2"}),
        ({"podset-preferred-topology": RACK}, 4, lambda found: len(set(found)) == 1),
        ({"podset-preferred-topology": RACK}, 12, lambda found: len(set(found)) == 3),
        ({"podset-unconstrained-topology": "true"}, 12, lambda found: len(set(found)) == 3),
        (
            {"podset-required-topology": BLOCK, "podset-slice-required-topology": RACK, "podset-slice-size": "4"},
            8,
            lambda found: len(set(found[:4])) == len(set(found[4:])) == 1,
        ),
    ],
    ids=str,
)
def test_pods_lie_as_is_asked(
    laid_out: Namespace, annotations: dict[str, str], size: int, lies: Callable[[list[str]], bool]
):
    laid_out.create(annotated(annotations, size=size))
    running(laid_out, size=size)
    found = racks(laid_out, size)
    assert lies(found), found
    template = laid_out.get("Job", "mc")["spec"]["template"]["metadata"]["annotations"]
    assert {key: template[f"{KUEUES}/{key}"] for key in annotations} == annotations
    succeed(laid_out)


@pytest.mark.parametrize(
    ("annotations", "size", "words"),
    [
        ({"podset-required-topology": RACK}, 5, "allows to fit only 4 out of 5 pod(s)"),
        ({"podset-required-topology": "example.com/isle"}, 2, "does not contain the requested level"),
        ({"podset-preferred-topology": "example.com/isle"}, 2, "does not contain the requested level"),
    ],
    ids=str,
)
def test_what_topology_does_not_allow_is_told(laid_out: Namespace, annotations: dict[str, str], size: int, words: str):
    laid_out.create(annotated(annotations, size=size))
    expect(laid_out, "QuotaReserved=False", says=words)
    assert secret(laid_out) is None


def test_a_queue_that_knows_no_topology_says_so(make_namespace: Callable[..., Namespace]):
    namespace = make_namespace(cpu=16)
    namespace.create(annotated({"podset-required-topology": RACK}, size=1))
    expect(namespace, "QuotaReserved=False", says="does not support TopologyAwareScheduling")


def test_two_ways_at_once_are_refused_before_there_is_a_job(namespace: Namespace):
    namespace.create(annotated({"podset-required-topology": RACK, "podset-preferred-topology": RACK}))
    says = f"metadata.annotations.{KUEUES}/podset-preferred-topology: contradicts {KUEUES}/podset-required-topology"
    expect(namespace, "Accepted=False/InvalidSpec", says=says)
    assert namespace.get("Job", "mc") is None


def test_what_comes_later_is_refused_with_the_way_out(namespace: Namespace):
    namespace.create(annotated({"elastic-job": "true"}))
    says = f"metadata.annotations.{KUEUES}/elastic-job: growing and shrinking while it runs is not supported yet"
    expect(namespace, "Accepted=False/UnsupportedField", says=says)
    assert namespace.get("Job", "mc") is None
