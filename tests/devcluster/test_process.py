"""Running other programs: their output, their failures with the reason, their end."""

import os
import signal
import subprocess
import time

import pytest

from kueue_flux.devcluster import process
from kueue_flux.devcluster.errors import CommandFailed


def test_output_is_stdout_alone():
    assert process.output(["sh", "-c", "echo out; echo err >&2"]) == "out\n"


def test_a_variable_is_added_to_the_environment(monkeypatch):
    monkeypatch.setenv("KEPT", "1")
    assert process.output(["sh", "-c", "echo $KEPT$ADDED"], env={"ADDED": "2"}) == "12\n"


def test_a_failure_carries_status_and_reason():
    with pytest.raises(CommandFailed) as caught:
        process.output(["sh", "-c", "echo the reason >&2; exit 3"])
    assert caught.value.status == 3
    assert caught.value.output == "the reason"
    assert "the reason" in str(caught.value)


def test_too_late_is_a_failure():
    with pytest.raises(CommandFailed, match=r"no answer within 0\.1 s"):
        process.output(["sleep", "5"], timeout=0.1)


def test_stream_hands_on_both_outputs_line_by_line():
    lines = []
    process.stream(["sh", "-c", "echo one; echo two >&2"], lines.append)
    assert lines == ["one", "two"]


def test_stream_fails_with_the_last_lines_only():
    with pytest.raises(CommandFailed) as caught:
        process.stream(["sh", "-c", "seq 100; exit 1"], lambda line: None)
    assert caught.value.output.splitlines()[0] == "71"
    assert caught.value.output.splitlines()[-1] == "100"


def test_a_silent_command_is_ended():
    started = time.monotonic()
    with pytest.raises(CommandFailed):
        process.stream(["sleep", "30"], lambda line: None, first_line_within=0.1)
    assert time.monotonic() - started < 10


def test_a_command_that_has_spoken_may_take_its_time():
    process.stream(["sh", "-c", "echo begun; sleep 0.4"], lambda line: None, first_line_within=0.2)


@pytest.mark.parametrize(("argv", "expected"), [(["true"], True), (["false"], False), (["/no/such/program"], False)])
def test_works(argv, expected):
    assert process.works(argv) is expected


def test_a_process_is_known_by_its_start_too():
    me = process.Pid.of(os.getpid())
    assert me is not None
    assert me.alive()
    assert not process.Pid(me.pid, me.started + 1).alive()


def test_no_process_and_a_zombie_are_not_running():
    child = subprocess.Popen(["true"])
    end = time.monotonic() + 10
    while process.Pid.of(child.pid) is not None:
        assert time.monotonic() < end
        time.sleep(0.01)
    child.wait()
    assert process.Pid.of(child.pid) is None


def test_stopping_is_gentle_first():
    with subprocess.Popen(["sleep", "60"]) as child:
        pid = process.Pid.of(child.pid)
        pid.stop(grace=10)
        assert child.wait() == -signal.SIGTERM


def test_what_ignores_sigterm_is_killed():
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        process.Pid.of(child.pid).stop(grace=0.3)
        assert child.wait() == -signal.SIGKILL
