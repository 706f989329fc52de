import json

import pytest

from kueue_flux.restful.jobinfo import describe, f58, matches, returncode
from kueue_flux.restful.output import parse_events, redirected, written

JOB = {"id": 1552869294080, "state": 16, "name": "app", "t_run": 100.0}


@pytest.mark.parametrize(
    ("job", "code"),
    [
        ({"waitstatus": 0, "result": 1}, 0),
        ({"waitstatus": 3 << 8, "result": 2}, 3),
        ({"waitstatus": 9, "result": 2}, -9),
        ({"waitstatus": 127 << 8, "result": 2}, 127),
        ({"result": 4}, -128),
        ({"result": 2}, 1),
        ({"result": 8}, ""),
        ({}, ""),
        ({"waitstatus": ""}, ""),
    ],
)
def test_returncode(job, code):
    assert returncode(job) == code


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (1, "NEW"),
        (2, "DEPEND"),
        (4, "PRIORITY"),
        (8, "SCHED"),
        (16, "RUN"),
        (32, "CLEANUP"),
        (64, "INACTIVE"),
        (128, "128"),
    ],
)
def test_a_state_is_a_word(state, word):
    assert describe({"id": 1, "state": state})["state"] == word


@pytest.mark.parametrize(("result", "word"), [(1, "COMPLETED"), (2, "FAILED"), (4, "CANCELED"), (8, "TIMEOUT")])
def test_a_result_is_a_word(result, word):
    assert describe({"id": 1, "state": 64, "result": result})["result"] == word


def test_what_a_job_does_not_have_yet_is_empty():
    job = describe({"id": 1, "state": 8})
    absent = ("nnodes", "nodelist", "ranks", "expiration", "duration", "waitstatus", "result", "returncode")
    assert [job[name] for name in absent] == [""] * len(absent)
    assert job["runtime"] == 0.0
    assert job["exception"] == {"occurred": "", "severity": "", "type": "", "note": ""}


def test_a_job_ran_until_it_ended_or_runs_until_now():
    assert describe(JOB, now=103.5)["runtime"] == 3.5
    assert describe({**JOB, "t_cleanup": 102.0}, now=200.0)["runtime"] == 2.0


def test_an_exception_is_told():
    job = describe({**JOB, "exception_occurred": True, "exception_severity": 0, "exception_type": "cancel"})
    assert job["exception"] == {"occurred": True, "severity": 0, "type": "cancel", "note": ""}


@pytest.mark.parametrize(
    ("jobid", "text"),
    # RFC 19's
    [
        (0, "f1"),
        (1, "f2"),
        (57, "fz"),
        (1234, "fNH"),
        (1888, "fZZ"),
        (3363, "fzz"),
        (3364, "f211"),
        (4369, "f2JL"),
        (4294967295, "f7YXq9G"),
        (6731191091817518, "fuZZybuNNy"),
        (18446744073709551615, "fjpXCZedGfVQ"),
    ],
)
def test_f58(jobid, text):
    assert f58(jobid) == text


@pytest.mark.parametrize(
    ("query", "found"), [("app", True), ("APP", True), ("RUN", True), ("1552869", True), ("other", False)]
)
def test_search(query, found):
    assert matches(describe(JOB), query) is found


@pytest.mark.parametrize(
    ("name", "context", "text"),
    [
        ("header", {"version": 1}, b""),
        ("data", {"stream": "stdout", "rank": "0", "data": "a line\n"}, b"a line\n"),
        ("data", {"stream": "stderr", "rank": "0", "data": "🥞"}, "🥞".encode()),
        ("data", {"stream": "stdout", "rank": "0", "data": "/3g=", "encoding": "base64"}, b"\xffx"),
        ("data", {"stream": "stdout", "rank": "0", "data": "ab", "repeat": 3}, b"ababab"),
        ("data", {"stream": "stdout", "rank": "0", "eof": True}, b""),
        ("data", {"stream": "stdout", "rank": "0", "data": "\ud800"}, b"?"),
        ("log", {"rank": 0, "level": 0, "message": "no such file"}, b"flux-shell[0]: FATAL: no such file\n"),
        ("log", {"rank": 1, "level": 3, "message": "hm"}, b"flux-shell[1]: ERROR: hm\n"),
        ("log", {"rank": 1, "level": 5, "message": "note"}, b""),
        ("redirect", {"stream": "stdout", "rank": "0", "path": "x"}, b""),
        (
            "exception",
            {"type": "alloc", "severity": 0, "note": "too big"},
            b"job.exception type=alloc severity=0 too big\n",
        ),
        ("exception", {"type": "cancel", "severity": 0}, b"job.exception type=cancel severity=0\n"),
        ("anything", {}, b""),
    ],
)
def test_written(name, context, text):
    assert written({"name": name, "context": context}) == text


def test_redirected():
    event = {"name": "redirect", "context": {"stream": "stdout", "rank": "0-3", "path": "/data/x"}}
    assert redirected(event) == "stdout of task 0-3 goes to /data/x"
    assert redirected({"name": "data", "context": {"data": "x"}}) == ""


def test_an_eventlog_is_events():
    lines = [{"timestamp": 1.0, "name": "header", "context": {"version": 1}}, {"timestamp": 2.0, "name": "x"}]
    log = "".join(json.dumps(line) + "\n" for line in lines)
    assert list(parse_events(log)) == [
        {"name": "header", "context": {"version": 1}},
        {"name": "x", "context": {}},
    ]
