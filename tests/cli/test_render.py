from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kueue_flux.cli import render
from kueue_flux.cli.visible import visible
from kueue_flux.client.status import Status
from tests.client import objects
from tests.client.objects import ACCEPTED, ADMITTED, RESERVED, minicluster

NOW = datetime(2030, 1, 31, 12, 2, 5, tzinfo=UTC)


def of(*conditions, **status):
    return Status.from_object(minicluster("hello", *conditions, queue="team-a", **status))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (3600, "1h"),
        (11_520, "3h12m"),
        (86_400, "1d"),
        (187_000, "2d3h"),
    ],
)
def test_durations(seconds, text):
    assert render.duration(seconds) == text


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (of(), "created, waiting for the kueue-flux controller"),
        (of(("Accepted", "False", "InvalidSpec", "size is 0")), "refused: size is 0 (InvalidSpec)"),
        (
            of(*objects.QUEUED, queuePosition=2),
            "waiting for quota in queue team-a: position 2 (2 ahead), "
            "insufficient unused quota for cpu (WaitingForQuota)",
        ),
        (
            of(*objects.QUEUED, queuePosition=0),
            "waiting for quota in queue team-a: position 0 (next), insufficient unused quota for cpu (WaitingForQuota)",
        ),
        (
            of(("QuotaReserved", "False", "ExceedsMaxQuota", "40 > 9"), queuePosition=0),
            "waiting for quota in queue team-a: position 0, but asks for more than the queue ever has, "
            "40 > 9 (ExceedsMaxQuota)",
        ),
        (
            of(("QuotaReserved", "False", "Pending", "position 7 in the queue (0 is next): no quota"), queuePosition=7),
            "waiting for quota in queue team-a: position 7 (7 ahead), no quota (Pending)",
        ),
        (
            of(ACCEPTED, objects.WAITING, ("Admitted", "False", "Preempted", "by another"), admissions=1),
            "evicted (Preempted), waiting for quota in queue team-a: "
            "insufficient unused quota for cpu (WaitingForQuota)",
        ),
        (
            of(ACCEPTED, RESERVED, ("Admitted", "False", "AdmissionChecks", "waiting for x")),
            "quota reserved, not admitted yet: waiting for x (AdmissionChecks)",
        ),
        (
            of(ACCEPTED, RESERVED, ("Admitted", "False", "Preempted", "by another"), admissions=1),
            "evicted, its pods are stopping: by another (Preempted)",
        ),
        (
            of(*objects.STARTED, podsRunning=3, brokersReady=2, admission={"size": 4}),
            "admitted with 4 nodes, pods 3/4, brokers 2/4",
        ),
        (
            of(ACCEPTED, RESERVED, ADMITTED, ("Ready", "False", "PodsPending", "3 of 4 pods run"), podsRunning=3),
            "admitted with 4 nodes, pods 3/4, brokers 0/4",
        ),
        (
            of(
                ACCEPTED,
                RESERVED,
                ADMITTED,
                ("Ready", "False", "ImagePullFailed", "no such image"),
                admission={"size": 3},
            ),
            "admitted with 3 of 4 nodes, pods 0/3, brokers 0/3: no such image (ImagePullFailed)",
        ),
        (of(*objects.RUNNING, admission={"size": 3}), "running on 3 nodes"),
        (
            of(ACCEPTED, RESERVED, ADMITTED, ("Ready", "True", "SidecarFailed", "all up, but log ended")),
            "running on 4 nodes: all up, but log ended (SidecarFailed)",
        ),
        (of(objects.SUCCEEDED), "succeeded: the command succeeded"),
        (of(objects.FAILED), "failed: the command exited with code 3 (CommandFailed)"),
    ],
)
def test_where_it_stands_in_one_line(status, line):
    assert render.line(status) == line


def test_who_is_directly_ahead_is_named():
    status = replace(of(*objects.QUEUED, queuePosition=2), behind="first")
    assert render.ahead(status) == "position 2 (2 ahead, behind first)"
    assert render.ahead(replace(status, behind="")) == "position 2 (2 ahead)"


def test_what_is_missing_is_said_of_the_full_size():
    message = (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor small, 3 more needed"
    )
    status = of(ACCEPTED, ("QuotaReserved", "False", "Pending", message))
    assert render.line(status).endswith("queue team-a: 3 more cpu of small needed (Pending)")
    assert render.line(replace(status, min_size=2)).endswith("small needed for its full size (Pending)")


@pytest.mark.parametrize(
    ("size", "admitted", "queue", "line"),
    [
        (1, 1, "team-a", "admitted with 1 node, pods 0/1, brokers 0/1"),
        (2, 1, "team-a", "admitted with 1 of 2 nodes, pods 0/1, brokers 0/1"),
        (2, 2, "team-a", "admitted with 2 nodes, pods 0/2, brokers 0/2"),
        (1, 1, "", "starting 1 node, pods 0/1, brokers 0/1"),
        (2, 2, "", "starting 2 nodes, pods 0/2, brokers 0/2"),
    ],
)
def test_one_node_is_no_nodes(size, admitted, queue, line):
    obj = minicluster("hello", *objects.STARTED, admission={"size": admitted}, queue=queue)
    obj["spec"]["size"] = size
    obj["metadata"]["labels"] = {}
    assert render.line(Status.from_object(obj)) == line


def test_the_list():
    statuses = [
        of(*objects.QUEUED, queuePosition=2),
        of(*objects.RUNNING, admission={"size": 3}, brokersReady=3),
        of(objects.FAILED, exitCode=3, brokersReady=1),
        of(("Finished", "True", "Failed", "DeadlineExceeded: too long")),
    ]
    assert render.table(render.COLUMNS, [render.row(status, NOW) for status in statuses]) == (
        "NAME    QUEUE    SIZE     STATUS    POSITION   READY   AGE    RESULT\n"
        "hello   team-a   4        Queued    2          0/4     2m5s   -\n"
        "hello   team-a   3 of 4   Running   -          3/3     2m5s   -\n"
        "hello   team-a   4        Failed    -          -       2m5s   exit 3\n"
        "hello   team-a   4        Failed    -          -       2m5s   Failed"
    )


def test_what_can_never_fit_is_no_next_in_line():
    never = ("QuotaReserved", "False", "ExceedsMaxQuota", "asks for more")
    assert render.row(of(objects.ACCEPTED, never, queuePosition=0), NOW)[4] == "never fits"


def test_colours_do_not_shift_columns():
    def paint(text, colour):
        return f"<{colour}>{text}</>"

    rows = [render.row(of(objects.FAILED), NOW), render.row(of(*objects.QUEUED), NOW)]
    _, failed, queued = render.table(render.COLUMNS, rows, paint, 3).splitlines()
    assert "<red>Failed</>" in failed
    assert "<yellow>Queued</>" in queued
    assert failed.index("<red>") == queued.index("<yellow>")


def test_the_wide_list_has_the_message_on_one_line():
    row = render.row(of(("QuotaReserved", "False", "X", "two\nlines"), workload="job-hello"), NOW, wide=True)
    assert row[-3:] == ["job-hello", "0", "two lines"]
    assert len(row) == len(render.WIDE_COLUMNS)


def event(reason, message, **more):
    return {"type": "Normal", "reason": reason, "message": message, "metadata": {}, **more}


def test_the_report():
    obj = minicluster("hello", *objects.QUEUED, queue="team-a", queuePosition=1, workload="job-hello")
    obj["spec"]["minSize"] = 2
    events = [
        event("Created", "created suspended Job hello", lastTimestamp="2030-01-31T12:00:05Z"),
        event("Waiting", "no quota", eventTime="2030-01-31T12:00:10.123456Z", series={"count": 3}),
    ]
    assert render.report(obj, Status.from_object(obj), events, NOW) == (
        "hello in namespace team\n"
        "  Status    waiting for quota in queue team-a: position 1 (1 ahead), insufficient unused quota for cpu "
        "(WaitingForQuota)\n"
        "  Command   hostname   (image ubuntu)\n"
        "  Size      4 nodes, at least 2\n"
        "  Pods      0/4 running, brokers 0/4 up\n"
        "  Queue     team-a, position 1 (1 ahead)\n"
        "  Workload  job-hello\n"
        "  Age       2m5s\n"
        "\n"
        "Conditions\n"
        "  Accepted       yes  2m  Accepted: accepted\n"
        "  QuotaReserved  no   2m  WaitingForQuota: insufficient unused quota for cpu\n"
        "  Admitted       no   2m  Pending: waiting for quota\n"
        "\n"
        "Events\n"
        "  2m    Normal  Created  created suspended Job hello\n"
        "  114s  Normal  Waiting  no quota (3 times)"
    )


def test_the_report_of_a_finished_one():
    obj = minicluster(
        "hello", objects.FAILED, exitCode=3, admissions=2, completionTime="2030-01-31T12:01:05Z", queue="team-a"
    )
    text = render.report(obj, Status.from_object(obj), [], NOW)
    assert "  Size      4 nodes, admitted 2 times\n" in text
    assert "  Result    Failed, exit code 3\n" in text
    assert "  Age       2m5s, finished 60s ago\n" in text
    assert "Pods" not in text
    assert "Events" not in text


@pytest.mark.parametrize(
    ("spec", "container", "shown"),
    [
        ({}, {"command": "a  b"}, "a b"),
        ({"interactive": True}, {"command": "a"}, "none, it is interactive"),
        ({}, {"commands": {"script": "a"}}, "a script"),
        ({}, {}, "none, it serves a RESTful API"),
    ],
)
def test_the_command_of_a_report(spec, container, shown):
    obj = minicluster("hello", *objects.RUNNING)
    obj["spec"] = {"size": 1, "containers": [{"image": "ubuntu", **container}], **spec}
    report = render.report(obj, Status.from_object(obj), [], NOW)
    assert f"  Command   {shown}   (image ubuntu)\n" in report


def test_only_the_last_events_are_shown():
    many = [event(f"Event{n}", "", lastTimestamp="2030-01-31T12:00:00Z") for n in range(20)]
    text = render.report(minicluster("hello"), of(), many, NOW)
    assert "Event11" not in text
    assert "Event12" in text


STEERING = "a\x1b[2Jb\x07c\x7fd\x9be\rf\u202eg"
SHOWN = r"a\x1b[2Jb\x07c\x7fd\x9be\rf\u202eg"


def test_control_characters_are_shown_and_not_obeyed():
    assert visible(f"{STEERING}\tnext\nline") == f"{SHOWN}\tnext\nline"
    obj = minicluster("hello", ("QuotaReserved", "False", STEERING, STEERING), queue=STEERING, workload=STEERING)
    obj["spec"]["containers"] = [{"image": STEERING, "command": STEERING}]
    status = Status.from_object(obj)
    texts = (
        render.report(obj, status, [event(STEERING, STEERING, type=STEERING)], NOW),
        render.table(render.WIDE_COLUMNS, [render.row(status, NOW, wide=True)]),
    )
    for text in texts:
        assert [char for char in text if not char.isprintable() and char != "\n"] == []
        assert r"a\x1b[2Jb" in text


def test_the_keys_for_programs_are_stable():
    """Scripts rely on them: add keys, never rename or remove any."""
    assert list(render.record(of(objects.FAILED, exitCode=3))) == [
        "name",
        "namespace",
        "stage",
        "reason",
        "message",
        "evicted",
        "queue",
        "position",
        "behind",
        "workload",
        "size",
        "minSize",
        "admittedSize",
        "podsRunning",
        "brokersReady",
        "admissions",
        "exitCode",
        "created",
        "finished",
        "deleting",
    ]
