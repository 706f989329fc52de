"""Kueue's messages, as it wrote them on a real cluster, and what is said of them."""

import pytest

from kueue_flux.kueue.words import brief, is_preemption
from kueue_flux.kueue.workload import Signal

ASSIGN = "couldn't assign flavors to pod set main: "
MISSING = f"{ASSIGN}insufficient unused quota for cpu in flavor small, 400m more needed"
NEVER = (
    f"{ASSIGN}insufficient quota for cpu in flavor small, previously considered podsets requests (0) + current podset "
    "request (5) > maximum capacity (400m)"
)


def preempted(why):
    return (
        "Preempted to accommodate a workload (UID: 1-2, JobUID: 3-4) due to "
        f"{why}; preemptor path: /all/b; preemptee path: /all/a"
    )


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (MISSING, "400m more cpu of small needed"),
        (
            f"{MISSING}, insufficient unused quota for memory in flavor large, 1.5Gi more needed",
            "400m more cpu of small needed, 1.5Gi more memory of large needed",
        ),
        (NEVER, "asks for 5 cpu, and small has 400m at most"),
        (f"{MISSING}. Pending the preemption of 1 workload(s)", "waits for 1 that is preempted to stop"),
        (f"{MISSING}. Pending the preemption of 2 workload(s)", "waits for 2 that are preempted to stop"),
        (preempted("prioritization in the ClusterQueue"), "preempted by priority in ClusterQueue b"),
        (preempted("reclamation within the cohort"), "ClusterQueue b took back the quota that it had lent"),
        (preempted("Fair Sharing within the cohort"), "preempted by fair sharing with ClusterQueue b"),
        (
            preempted("reclamation within the cohort while borrowing"),
            "preempted by ClusterQueue b, which borrows",
        ),
        (preempted("something new"), "preempted by ClusterQueue b: something new"),
        ("LocalQueue q is\nstopped", "LocalQueue q is stopped"),
        ("", "Pending"),
    ],
)
def test_what_is_said_of_a_message(message, said):
    assert brief(Signal("Pending", message)) == said


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (MISSING, "400m more cpu of small needed for its full size"),
        (NEVER, "asks for 5 cpu for its full size, and small has 400m at most"),
    ],
)
def test_numbers_are_those_of_the_full_size(message, said):
    assert brief(Signal("Pending", message), partial=True) == said


def test_what_tells_of_a_preemption():
    assert is_preemption(preempted("prioritization in the ClusterQueue"))
    assert not is_preemption(f"{MISSING}. Pending the preemption of 1 workload(s)")
