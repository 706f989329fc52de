"""How much more a ClusterQueue could borrow, against Kueue's own arithmetic (resource_node.go, `available`)."""

from decimal import Decimal

import pytest

from kueue_flux.kueue.cohorts import borrowable
from kueue_flux.kueue.queues import read_cluster_queue

CPU = ("small", "cpu")


def queue(name, nominal, used, cohort="all", **limits):
    resource = {"name": "cpu", "nominalQuota": nominal, **limits}
    return read_cluster_queue(
        {
            "metadata": {"name": name},
            "spec": {
                "cohortName": cohort,
                "resourceGroups": [
                    {"coveredResources": ["cpu"], "flavors": [{"name": "small", "resources": [resource]}]}
                ],
            },
            "status": {"flavorsReservation": [{"name": "small", "resources": [{"name": "cpu", "total": str(used)}]}]},
        }
    )


def shared(nominal):
    flavor = {"name": "small", "resources": [{"name": "cpu", "nominalQuota": nominal}]}
    return {"spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}]}}


@pytest.mark.parametrize(
    ("own", "others", "cohort", "more"),
    [
        (queue("a", 4, 0), [], None, 0),
        (queue("a", 4, 1), [queue("b", 4, 1)], None, 3),
        (queue("a", 4, 6), [queue("b", 4, 1)], None, 1),
        (queue("a", 4, 7), [queue("b", 4, 1)], None, 0),
        (queue("a", 4, 0), [queue("b", 4, 6), queue("c", 4, 0)], None, 2),
        (queue("a", 4, 0), [queue("b", 4, 6)], None, 0),
        (queue("a", 4, 5, borrowingLimit="2"), [queue("b", 9, 0)], None, 1),
        (queue("a", 4, 0), [queue("b", 4, 0, lendingLimit="1")], None, 1),
        # What is not lent is used up first.
        (queue("a", 4, 0), [queue("b", 4, 3, lendingLimit="1")], None, 1),
        (queue("a", 4, 0), [queue("b", 4, 4, lendingLimit="1")], None, 0),
        (queue("a", 4, 0), [queue("b", 4, 4)], shared("3"), 3),
        (queue("a", 4, 0), [queue("b", 4, 0, cohort="other")], None, 0),
    ],
)
def test_what_could_be_borrowed(own, others, cohort, more):
    assert borrowable(own, [own, *others], cohort) == {CPU: Decimal(more)}


def test_without_a_cohort_nothing_is_borrowed():
    assert borrowable(queue("a", 4, 0, cohort=""), [queue("b", 4, 0, cohort="")], None) == {}


def test_of_a_cohort_within_another_it_is_not_known():
    assert borrowable(queue("a", 4, 0), [queue("b", 4, 0)], {"spec": {"parentName": "top"}}) is None
