"""What `status --watch` tells of a MiniCluster that is preempted, and comes back with fewer nodes."""

from decimal import Decimal

import pytest

from kueue_flux.cli import chronicle, follow
from kueue_flux.client.errors import Unavailable
from kueue_flux.client.queues import Grant
from tests.client import objects
from tests.client.objects import ACCEPTED, ADMITTED, RESERVED, minicluster

PREEMPTED = (
    "Preempted to accommodate a workload (UID: 1, JobUID: 2) due to reclamation within the cohort; "
    "preemptor path: /all/b; preemptee path: /all/a"
)
NEEDED = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor small, 2 more needed"
BY_PREEMPTION = ("Admitted", "False", "Preempted", PREEMPTED)


def injected(size):
    return ("Injected", "True", "FilesWritten", f"certificate and configuration for {size} brokers written")


def state(*conditions, **status):
    return minicluster("hello", *conditions, queue="team-a", workload="job-hello", **status)


def waiting(message, admissions=0, **status):
    quota = ("QuotaReserved", "False", "Pending", message)
    lost = (BY_PREEMPTION,) if admissions else ()
    return state(ACCEPTED, quota, *lost, admissions=admissions, queuePosition=0, **status)


def starting(number, size, pods=0, brokers=0):
    admission = {"id": f"a{number}", "size": size}
    return state(
        ACCEPTED, RESERVED, ADMITTED, injected(size), objects.STARTING,
        admission=admission, admissions=number, podsRunning=pods, brokersReady=brokers,
    )  # fmt: skip


def running(number, size):
    return state(
        ACCEPTED, RESERVED, ADMITTED, injected(size), objects.READY,
        admission={"id": f"a{number}", "size": size}, admissions=number, podsRunning=size, brokersReady=size,
    )  # fmt: skip


def stopping():
    return state(ACCEPTED, RESERVED, BY_PREEMPTION, admissions=1, admission={"id": "a1", "size": 4})


class Client:
    """Goes through these states, and tells of quota what it is given to tell."""

    def __init__(self, states, *grants):
        self._states = states
        self._grants = list(grants)

    async def watch(self, _name, on_outage):
        for found in self._states:
            yield found

    async def with_positions(self, statuses):
        return tuple(statuses)

    async def grant(self, workload):
        assert workload == "job-hello"
        found = self._grants.pop(0) if len(self._grants) > 1 else self._grants[0]
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(follow, "COUNTS_SECONDS", 0.0)
    monkeypatch.setattr(follow, "WORDS_SECONDS", 0.0)


async def told(states, *grants):
    lines = []
    await chronicle.Chronicle(Client(states, *(grants or (None,))), "hello", say=lines.append).run()
    assert all(line[2] == line[5] == ":" and line[8:10] == "  " for line in lines)
    return [line[10:] for line in lines]


LENT = Grant("a", ("small",), "all", {"cpu": Decimal(2)})
OWN = Grant("a", ("small",), "all", {})


async def test_each_step_and_why():
    states = [
        waiting(NEEDED),
        starting(1, 4),
        starting(1, 4, pods=4, brokers=1),
        running(1, 4),
        stopping(),
        waiting(PREEMPTED, admissions=1),
        waiting(NEEDED, admissions=1),
        starting(2, 2),
        starting(2, 2, pods=2),
        running(2, 2),
        objects.succeeded(9),
    ]
    assert await told(states, LENT, OWN) == [
        "waiting for quota in queue team-a: position 0 (next), 2 more cpu of small needed (Pending)",
        "admitted with 4 nodes, pods 0/4, brokers 0/4",
        "pods 4/4, brokers 1/4",
        "quota of ClusterQueue a, flavor small; it borrows cpu 2 of cohort all",
        "running on 4 nodes",
        "evicted, its pods are stopping: ClusterQueue b took back the quota that it had lent (Preempted)",
        "waiting for quota in queue team-a: position 0 (next)",
        "waiting for quota in queue team-a: position 0 (next), 2 more cpu of small needed (Pending)",
        "admitted with 2 of 4 nodes, pods 0/2, brokers 0/2",
        "new certificate and configuration for 2 brokers written",
        "pods 2/2, brokers 0/2",
        "quota of ClusterQueue a, flavor small",
        "running on 2 nodes",
        "succeeded: the command succeeded",
    ]


async def test_an_eviction_that_was_not_seen_to_begin_is_told_with_the_wait():
    lines = await told([running(1, 4), waiting(PREEMPTED, admissions=1), objects.succeeded(9)])
    assert lines[1] == (
        "evicted (Preempted), waiting for quota in queue team-a: position 0 (next), "
        "ClusterQueue b took back the quota that it had lent (Pending)"
    )


async def test_lines_do_not_repeat():
    other = PREEMPTED.replace("UID: 1", "UID: 3")
    states = [stopping(), waiting(PREEMPTED, admissions=1), waiting(other, admissions=1), objects.succeeded(9)]
    assert (await told(states)).count("waiting for quota in queue team-a: position 0 (next)") == 1


async def test_where_quota_comes_from_is_asked_once_more_after_an_outage():
    states = [starting(1, 4), starting(1, 4, pods=4), running(1, 4), objects.succeeded(9)]
    lines = await told(states, Unavailable("away"), LENT)
    assert lines.count("quota of ClusterQueue a, flavor small; it borrows cpu 2 of cohort all") == 1


async def test_without_a_queue_there_is_no_quota_to_tell_of():
    alone = minicluster("hello", ACCEPTED, RESERVED, ADMITTED, objects.READY, admissions=1, podsRunning=4)
    alone["metadata"]["labels"] = {}
    assert await told([alone, objects.succeeded(9)], AssertionError("nobody is asked")) == [
        "running on 4 nodes",
        "succeeded: the command succeeded",
    ]


async def test_each_state_is_drawn():
    drawn = []

    async def draw(_obj, status):
        drawn.append(str(status.stage))

    states = [running(1, 4), objects.succeeded(9)]
    lines = chronicle.Chronicle(Client(states, None), "hello", say=lambda _line: None, draw=draw)
    await lines.run()
    assert drawn[0] == "Running"
    assert lines.latest["status"]["exitCode"] == 0
