"""The resource set: R version 1 for equal hosts."""

import json

import pytest

from kueue_flux.api import hostlist
from kueue_flux.flux.resource_set import resource_set


@pytest.mark.parametrize(
    ("size", "cores", "ranks", "core_ids", "nodelist"),
    [
        (1, 1, "0", "0", "mc-0"),
        (4, 1, "0-3", "0", "mc-[0-3]"),
        (3, 8, "0-2", "0-7", "mc-[0-2]"),
    ],
)
def test_resource_set(size, cores, ranks, core_ids, nodelist):
    r = resource_set([f"mc-{rank}" for rank in range(size)], cores)
    assert r["version"] == 1
    assert r["execution"]["R_lite"] == [{"rank": ranks, "children": {"core": core_ids}}]
    assert r["execution"]["nodelist"] == [nodelist]


@pytest.mark.parametrize(
    ("gpus", "children"), [(0, {"core": "0-1"}), (1, {"core": "0-1", "gpu": "0"}), (4, {"core": "0-1", "gpu": "0-3"})]
)
def test_gpus_are_children_beside_the_cores(gpus, children):
    assert resource_set(["a", "b"], 2, gpus)["execution"]["R_lite"] == [{"rank": "0-1", "children": children}]


def test_it_is_plain_json_and_keeps_the_order_of_ranks():
    hosts = ["head", "mc-7", "mc-3"]
    r = json.loads(json.dumps(resource_set(hosts, 2)))
    assert r == resource_set(hosts, 2)
    assert hostlist.decode(",".join(r["execution"]["nodelist"])) == hosts


def test_it_has_no_end_in_time():
    execution = resource_set(["a"], 1)["execution"]
    assert (execution["starttime"], execution["expiration"]) == (0, 0)


@pytest.mark.parametrize(
    ("hosts", "cores", "why"),
    [([], 1, "at least one host"), (["a", "a"], 1, "once"), (["a"], 0, "at least one core"), (["a"], -2, "core")],
)
def test_it_refuses(hosts, cores, why):
    with pytest.raises(ValueError, match=why):
        resource_set(hosts, cores)


def test_it_refuses_fewer_gpus_than_none():
    with pytest.raises(ValueError, match="-1 GPUs"):
        resource_set(["a"], 1, -1)
