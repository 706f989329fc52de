"""Queues that share: what they lend and borrow, what is taken back, and what can never be had."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kueue_flux.devcluster.kubernetes_api import Manifest
from tests.control_plane.kit import FLAVOR, KUEUE, Namespace, condition
from tests.control_plane.miniclusters import (
    PATIENCE,
    events,
    expect,
    get,
    hosts,
    minicluster,
    running,
    secret,
    secret_key,
    status,
    succeed,
    withdrawn,
)
from tests.control_plane.queues import set_queue, unique

pytestmark = pytest.mark.usefixtures("adapter")

RECLAIM = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


@pytest.fixture
def team_a(make_namespace: Callable[..., Namespace]) -> Namespace:
    return make_namespace(cpu=2)


@pytest.fixture
def team_b(make_namespace: Callable[..., Namespace]) -> Namespace:
    return make_namespace(cpu=2)


def share(*teams: Namespace, cpu: int | dict[str, int] = 2, **spec: object) -> str:
    """Put teams into one cohort, with this quota each. Returns the cohort's name."""
    cohort = unique("cohort")
    for team in teams:
        set_queue(team, {FLAVOR: cpu}, cohortName=cohort, **spec)
    return cohort


def test_what_others_leave_unused_is_borrowed(team_a: Namespace, team_b: Namespace):
    share(team_a, team_b)
    team_a.create(minicluster(size=4))
    running(team_a, size=4)
    expect(team_a, "Admitted=True/Admitted", says=f"all 4 pods admitted by ClusterQueue {team_a.name}")
    assert len(hosts(team_a)) == 4
    team_b.create(minicluster())
    waiting = expect(team_b, "QuotaReserved=False", says="insufficient unused quota for cpu")
    assert "ExceedsMaxQuota" not in condition(waiting, "QuotaReserved")["reason"]
    succeed(team_a)
    running(team_b)
    succeed(team_b)


def test_what_was_borrowed_is_taken_back_and_it_comes_back_smaller(team_a: Namespace, team_b: Namespace):
    share(team_a, team_b, preemption=RECLAIM)
    team_a.create(minicluster(size=4, minSize=2))
    running(team_a, size=4)
    first = secret_key(team_a)
    team_b.create(minicluster())
    running(team_b)
    team_a.wait_for("the second admission", lambda: status(team_a)["admissions"] == 2, timeout=PATIENCE)
    running(team_a, size=2)
    expect(team_a, "Admitted=True/Admitted", says="2 of 4 pods")
    assert hosts(team_a) == ["mc-0", "mc-1"]
    assert secret_key(team_a) != first
    assert any("Evicted" in line and "Preempted" in line and "reclamation" in line for line in events(team_a))
    succeed(team_a)
    succeed(team_b)


def test_without_a_smaller_size_it_waits_until_it_may_borrow_again(team_a: Namespace, team_b: Namespace):
    share(team_a, team_b, preemption=RECLAIM)
    team_a.create(minicluster(size=4))
    running(team_a, size=4)
    first = secret_key(team_a)
    team_b.create(minicluster())
    withdrawn(team_a)
    expect(team_a, "Admitted=False/Preempted", says="reclamation within the cohort")
    expect(team_a, "QuotaReserved=False", says="position 0 in the queue")
    running(team_b)
    assert secret(team_a) is None
    succeed(team_b)
    running(team_a, size=4)
    assert secret_key(team_a) != first
    succeed(team_a)


@pytest.mark.parametrize(
    ("limits", "most", "parts"),
    [
        ({"borrowingLimit": 1}, 3, "2 of its own and 1 that may be borrowed in cohort"),
        ({"lendingLimit": 0}, 2, "2 of its own"),
        ({"lendingLimit": 1}, 3, "2 of its own and 1 that may be borrowed in cohort"),
    ],
    ids=str,
)
def test_limits_of_borrowing_and_lending_are_said_in_numbers(
    team_a: Namespace, team_b: Namespace, limits: dict[str, int], most: int, parts: str
):
    share(team_a, team_b, cpu={"nominalQuota": 2, **limits})
    team_a.create(minicluster("never", size=4))
    said = f"asks for 4 nodes x 1 cpu = 4 cpu; ClusterQueue {team_a.name} can give at most {most} ({parts}"
    expect(team_a, "QuotaReserved=False/ExceedsMaxQuota", "never", says=said)
    kueues_own_words(team_a, "never", f"> maximum capacity ({most})")
    team_a.create(minicluster("fits", size=most))
    running(team_a, "fits", size=most)


def kueues_own_words(namespace: Namespace, name: str, words: str) -> None:
    """What we say of it is what Kueue says once it has looked at it."""
    namespace.wait_for(
        f"Kueue to say: {words}",
        lambda: words in condition(namespace.workload(name), "QuotaReserved")["message"],
        timeout=PATIENCE,
    )


def tree(parent: str, name: str, cpu: int, **limits: int) -> Manifest:
    """A Cohort with quota of its own, within another."""
    resource = {"name": "cpu", "nominalQuota": cpu, **limits}
    memory = {"name": "memory", "nominalQuota": 0}
    flavors = [{"name": FLAVOR, "resources": [resource, memory]}]
    spec = {"parentName": parent, "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]}
    return {"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def test_a_tree_of_cohorts_gives_what_kueue_says_it_can(
    team_a: Namespace, team_b: Namespace, make: Callable[[Manifest], str]
):
    cohort, parent = share(team_a), unique("parent")
    set_queue(team_b, 5, cohortName=parent)
    # its own 2, of the cohort 1, of the parent's 5 no more than 3
    make(tree(parent, cohort, 1, borrowingLimit=3))
    team_a.create(minicluster("never", size=7))
    expect(team_a, "QuotaReserved=False/ExceedsMaxQuota", "never", says="can give at most 6 (2 of its own and 4 that")
    kueues_own_words(team_a, "never", "> maximum capacity (6)")
    team_a.create(minicluster("fits", size=6))
    running(team_a, "fits", size=6)


def test_what_can_never_fit_is_said_deep_in_a_queue_and_goes_on_when_quota_grows(team_a: Namespace):
    set_queue(team_a, 2, queueingStrategy="StrictFIFO")
    team_a.create(minicluster("running"))
    running(team_a, "running")
    team_a.create(minicluster("waiting"))
    expect(team_a, "QuotaReserved=False", "waiting", says="position 0")
    team_a.create(minicluster("never", size=3))
    expect(team_a, "QuotaReserved=False/ExceedsMaxQuota", "never", says="can give at most 2 (2 of its own)")
    warning = f"Warning ExceedsMaxQuota: asks for 3 nodes x 1 cpu = 3 cpu; ClusterQueue {team_a.name} can give"
    team_a.wait_for("an event", lambda: [line for line in events(team_a, "never") if line.startswith(warning)])
    assert condition(team_a.workload("never"), "QuotaReserved") == {}, "Kueue has not looked at it"
    set_queue(team_a, 7)
    running(team_a, "waiting")
    running(team_a, "never", size=3)
    assert sum(line.startswith("Warning ExceedsMaxQuota") for line in events(team_a, "never")) == 1
    assert condition(get(team_a, "never"), "QuotaReserved")["status"] == "True"
