"""Queues as text: the tables, the bars, the lines, the records."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from kueue_flux.cli import queues
from kueue_flux.cli.chronicle import granted
from kueue_flux.client.queues import Contents, Grant, Overview, Queue, Share, State
from kueue_flux.client.status import Status
from kueue_flux.kueue.entries import Entry, Standing
from kueue_flux.kueue.workload import Owner, Signal
from tests.client import objects

NOW = datetime(2030, 1, 31, 12, 2, 5, tzinfo=UTC)
GIB = Decimal(2**30)
CPU = Share("small", "cpu", Decimal(2), Decimal(5), Decimal(4), Decimal(1), Decimal("0.5"))
MEMORY = Share("small", "memory", 2 * GIB, 2 * GIB, 8 * GIB, Decimal(0), 0 * GIB)
QUEUE = Queue("team-a", "team", "science", "all", "StrictFIFO", State.ACTIVE, "", 2, 1, (CPU, MEMORY))
HIDDEN = replace(
    QUEUE,
    cohort=None,
    strategy=None,
    shares=(Share("small", "cpu", Decimal(2)),),
    unknown=("quota of ClusterQueue science: it may not be read",),
)
NEEDED = Signal("Pending", "insufficient unused quota for cpu in flavor small, 3 more needed")


def entry(name="sim", **values):
    made = Entry(
        workload=f"job-{name}",
        namespace="team",
        queue="team-a",
        owner=Owner("MiniCluster", name),
        standing=Standing.WAITING,
        size=4,
        min_size=4,
        admitted_size=None,
        amounts={"cpu": Decimal(4), "memory": 8 * GIB},
        flavors=(),
        priority=0,
        created=datetime(2030, 1, 31, 12, tzinfo=UTC),
        since=None,
        position=0,
        why=NEEDED,
    )
    return replace(made, **values)


RUNS = entry(
    "runs", standing=Standing.ADMITTED, admitted_size=2, flavors=("small",), since=NOW, position=None, why=None
)


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", "0", "0"),
        ("cpu", "0.25", "250m"),
        ("cpu", "1.5", "1.5"),
        ("cpu", "100", "100"),
        ("cpu", "1000.04", "1000"),
        ("memory", "0", "0"),
        ("memory", "1000", "1000"),
        ("memory", str(8 * 2**30), "8Gi"),
        ("memory", str(1536 * 2**20), "1.5Gi"),
        ("memory", str(2**50), "1024Ti"),
        ("hugepages-2Mi", str(2**21), "2Mi"),
        ("nvidia.com/gpu", "10", "10"),
    ],
)
def test_amounts(resource, value, text):
    assert queues.amount(resource, Decimal(value)) == text


def test_the_list():
    held = replace(
        QUEUE, name="team-b", cohort="", state=State.HELD, why="its stopPolicy\nis Hold", shares=(), pending=0
    )
    assert queues.queue_list([QUEUE, held], all_namespaces=False) == (
        "NAME     CLUSTERQUEUE   COHORT   WAITING   ADMITTED   USED                      STATE\n"
        "team-a   science        all      2         1          cpu 5/4, memory 2Gi/8Gi   active\n"
        "team-b   science        -        0         1          -                         held: its stopPolicy is Hold"
    )


def test_the_list_of_all_namespaces_where_quota_may_not_be_read():
    assert queues.queue_list([HIDDEN], all_namespaces=True) == (
        "NAMESPACE   NAME     CLUSTERQUEUE   COHORT   WAITING   ADMITTED   USED    STATE\n"
        "team        team-a   science        -        2         1          cpu 2   active"
    )


def test_flavors_are_one_sum_in_the_list():
    large = replace(CPU, flavor="large", total=Decimal(1), quota=Decimal(2))
    assert queues.used(replace(QUEUE, shares=(CPU, large))) == "cpu 6/6"


def test_the_state_alone_is_coloured():
    text = queues.queue_list([QUEUE], all_namespaces=False, paint=lambda text, colour: f"<{colour}>{text}</>")
    assert text.splitlines()[1].endswith("   <green>active</>")


def test_a_queue_whole():
    waiting = (
        entry("next", position=1, min_size=2),
        entry("etl", owner=Owner("Job", "etl"), position=4, size=1, min_size=1, priority=9, amounts={}),
        entry("x", owner=Owner("", ""), position=None, size=None, why=None),
    )
    assert queues.contents(Contents(QUEUE, (RUNS,), waiting, ("this\nand that",)), NOW) == (
        "team-a in namespace team\n"
        "  State         active\n"
        "  ClusterQueue  science\n"
        "  Cohort        all\n"
        "  Strategy      StrictFIFO: nobody passes who is next\n"
        "\n"
        "Quota\n"
        "  FLAVOR   RESOURCE   HERE   CLUSTERQUEUE   QUOTA   BORROWED   COULD BORROW\n"
        "  small    cpu        2      5              4       1          500m\n"
        "  small    memory     2Gi    2Gi            8Gi     0          0\n"
        "\n"
        "Admitted: 1\n"
        "  NAME   SIZE     USES                FLAVOR   PRIORITY   SINCE\n"
        "  runs   2 of 4   cpu 4, memory 8Gi   small    0          0s\n"
        "\n"
        "Waiting: 3\n"
        "  POSITION   NAME                  SIZE     ASKS FOR            PRIORITY   AGE    WHY\n"
        "  0          (1 of other queues)\n"
        "  1          next                  2 to 4   cpu 4, memory 8Gi   0          2m5s   "
        "3 more cpu of small needed for its full size\n"
        "  2-3        (2 of other queues)\n"
        "  4          job/etl               1        -                   9          2m5s   3 more cpu of small needed\n"
        "  -          workload/job-x        -        cpu 4, memory 8Gi   0          2m5s   -\n"
        "\n"
        "not shown: this and that"
    )


def test_a_queue_of_which_the_quota_may_not_be_read():
    text = queues.contents(Contents(HIDDEN, (), (), HIDDEN.unknown), NOW)
    assert "Cohort" not in text
    assert "  FLAVOR   RESOURCE   HERE\n  small    cpu        2\n" in text
    assert text.endswith("Waiting: 0\n\nnot shown: quota of ClusterQueue science: it may not be read")


def test_without_a_cohort_nothing_is_said_of_borrowing():
    text = queues.contents(Contents(replace(QUEUE, cohort=""), (), ()), NOW)
    assert "  Cohort        none\n" in text
    assert "BORROW" not in text


@pytest.mark.parametrize(
    ("values", "since"),
    [
        ({"standing": Standing.STOPPING}, "0s (evicted, its pods are stopping)"),
        ({"standing": Standing.RESERVED, "why": Signal("A", "waits for x")}, "0s (not yet: waits for x)"),
    ],
)
def test_what_has_quota_and_does_not_run(values, since):
    text = queues.contents(Contents(QUEUE, (replace(RUNS, **values),), ()), NOW)
    assert f"   {since}\n" in text


def test_control_characters_do_not_reach_the_terminal():
    odd = replace(QUEUE, name="\x1b[2J", why="\x1b]0;x\x07", state=State.INACTIVE, cohort="\x9b", cluster_queue="\x1b")
    bad = entry("\x1b", why=Signal("\x1b", "\x1b[2J"))
    found = Contents(odd, (replace(bad, standing=Standing.STOPPING),), (bad,), ("\x1b",))
    texts = [
        queues.contents(found, NOW),
        queues.queue_list([odd], all_namespaces=True),
        queues.overview(Overview((odd,), (), (bad,), ("\x1b",)), NOW, all_namespaces=True),
        *queues.changes({"gone": "\x1b: x"}, queues.standings(found)),
    ]
    assert [char for text in texts for char in text if not char.isprintable() and char != "\n"] == []


def test_the_overview():
    status = Status.from_object(objects.running())
    alone = Status.from_object(objects.minicluster("alone", *objects.STARTED))
    found = Overview((QUEUE,), ((status, RUNS), (alone, None)), (entry("next", position=1),), ())
    assert queues.overview(found, NOW, all_namespaces=False) == (
        "team-a  active, 1 admitted, 2 waiting\n"
        "  small  cpu     [||||||||||||||||||||] 5/4, 2 of it here, 1 borrowed\n"
        "  small  memory  [|||||               ] 2Gi/8Gi\n"
        "\n"
        "Running: 2\n"
        "  NAME    QUEUE    NODES   CPU   BROKERS   AGE\n"
        "  hello   team-a   4       4     4/4       2m5s\n"
        "  alone   team-a   4       -     0/4       2m5s\n"
        "\n"
        "Waiting: 1\n"
        "  QUEUE    POSITION   NAME   SIZE   ASKS FOR            PRIORITY   AGE    WHY\n"
        "  team-a   1          next   4      cpu 4, memory 8Gi   0          2m5s   3 more cpu of small needed"
    )


def test_the_overview_of_all_namespaces():
    found = Overview((QUEUE, HIDDEN), ((Status.from_object(objects.running()), None),), (entry(),), HIDDEN.unknown)
    text = queues.overview(found, NOW, all_namespaces=True)
    assert "team-a in team  active" in text
    assert "  small  cpu  2 used here\n" in text
    assert text.count("  NAMESPACE   ") == 2
    assert text.endswith("\n\nnot shown: quota of ClusterQueue science: it may not be read")


@pytest.mark.parametrize(
    ("total", "quota", "colour", "filled"),
    [
        (0, 4, "green", 0),
        (1, 4, "green", 5),
        (3, 4, "yellow", 15),
        (4, 4, "yellow", 20),
        (9, 4, "red", 20),
        (1, 0, "yellow", 20),
    ],
)
def test_bars(total, quota, colour, filled):
    share = Share("small", "cpu", Decimal(total), Decimal(total), Decimal(quota), Decimal(0))
    (line,) = queues.bars(replace(QUEUE, shares=(share, Share("large", "cpu", Decimal(0)))))  # what is 0 is left out
    (painted,) = queues.bars(replace(QUEUE, shares=(share,)), lambda text, colour: f"<{colour}>{text}</>")
    assert line.count("|") == filled
    assert f"<{colour}>{'|' * filled}</>" in painted


def test_what_is_told_line_by_line():
    before = queues.standings(Contents(QUEUE, (RUNS,), (entry("next", position=1),)))
    stopping = replace(RUNS, standing=Standing.STOPPING, why=Signal("Preempted", "by another"))
    reserved = entry("new", standing=Standing.RESERVED, size=1, admitted_size=1)
    after = queues.standings(Contents(replace(QUEUE, state=State.HELD, why="x"), (stopping, reserved), ()))
    assert list(queues.changes({}, before)) == [
        "team-a: active, cpu 5/4, memory 2Gi/8Gi",
        "runs: admitted with 2 of 4 nodes",
        "next: waiting at position 1: 3 more cpu of small needed",
    ]
    assert list(queues.changes(before, after)) == [
        "next: left the queue",
        "team-a: held: x, cpu 5/4, memory 2Gi/8Gi",
        "runs: evicted, its pods are stopping: by another",
        "new: has quota, not admitted yet, with 1 node",
    ]
    assert list(queues.changes(after, after)) == []


@pytest.mark.parametrize(
    ("grant", "line"),
    [
        (Grant("science", (), "", {}), "quota of ClusterQueue science"),
        (
            Grant("science", ("large", "small"), "all", {"cpu": Decimal("0.2")}),
            "quota of ClusterQueue science, flavor large and small; it borrows cpu 200m of cohort all",
        ),
    ],
)
def test_where_quota_comes_from(grant, line):
    assert granted(grant) == line


def test_the_keys_for_programs_are_stable():
    """Scripts rely on them: add keys, never rename or remove any."""
    record = queues.contents_record(Contents(QUEUE, (RUNS,), (entry(),), ("x",)))
    assert list(record) == [
        "name",
        "namespace",
        "clusterQueue",
        "cohort",
        "strategy",
        "state",
        "message",
        "waiting",
        "admitted",
        "quota",
        "unknown",
        "admittedWorkloads",
        "waitingWorkloads",
    ]
    assert record["quota"][0] == {
        "flavor": "small",
        "resource": "cpu",
        "used": "2",
        "usedInClusterQueue": "5",
        "nominal": "4",
        "borrowed": "1",
        "borrowable": "0.5",
    }
    assert record["unknown"] == ["x"]
    assert record["waitingWorkloads"] == [
        {
            "workload": "job-sim",
            "namespace": "team",
            "queue": "team-a",
            "kind": "MiniCluster",
            "name": "sim",
            "state": "waiting",
            "position": 0,
            "size": 4,
            "minSize": 4,
            "admittedSize": None,
            "resources": {"cpu": "4", "memory": "8589934592"},
            "flavors": [],
            "priority": 0,
            "created": "2030-01-31T12:00:00+00:00",
            "since": None,
            "reason": "Pending",
            "message": NEEDED.message,
        }
    ]
