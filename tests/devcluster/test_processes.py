"""Processes that outlive the command that started them: real ones, small and short-lived."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.processes import Command, Processes

SLEEP = Command.of(["/bin/sleep", "600"])
# says when it is ready and ignores SIGTERM, as a process that hangs would
STUBBORN = Command.of(["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"])


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    found = Processes(tmp_path)
    yield found
    found.stop_all(grace=0)


def alive(pid: int) -> bool:
    """Whether it runs; one that has ended and waits for its parent to notice does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def wait_for_output(processes: Processes, name: str, text: str) -> None:
    processes.wait_until(name, lambda: text in processes.log(name).read_text(), timeout=5)


def test_a_running_process_is_left_alone_and_found_again_by_another_command(processes, tmp_path):
    pid = processes.start("a", SLEEP)
    assert processes.start("a", SLEEP) == pid
    later = Processes(tmp_path)
    assert (later.names(), later.pid("a")) == (["a"], pid)
    assert later.runs("a", SLEEP)
    assert not later.runs("a", STUBBORN)
    assert not later.runs("b", SLEEP)


def test_a_process_with_another_command_is_replaced(processes):
    first = processes.start("a", SLEEP)
    second = processes.start("a", Command.of(["/bin/sleep", "601"]))
    assert second != first
    assert not alive(first)


def test_it_gets_its_environment_writes_to_its_log_and_runs_in_the_folder(processes, tmp_path):
    command = Command.of(["/bin/sh", "-c", 'echo "$WHO in $(pwd)" >&2; sleep 600'], {"WHO": "me"})
    processes.start("a", command)
    wait_for_output(processes, "a", "me")
    assert processes.tail("a") == f"me in {tmp_path}"


def test_stop_ends_all_at_once_and_kills_what_ignores_it(processes):
    pids = [processes.start("polite", SLEEP), processes.start("stubborn", STUBBORN)]
    wait_for_output(processes, "stubborn", "ready")
    started = time.monotonic()
    processes.stop("polite", "stubborn", "never-started", grace=0.3)
    assert time.monotonic() - started < 3
    assert not any(alive(pid) for pid in pids)
    assert processes.names() == ["polite", "stubborn"]


def test_restart_runs_the_same_command_again(processes):
    first = processes.start("a", SLEEP)
    os.kill(first, signal.SIGKILL)
    second = processes.restart("a")
    assert second != first
    assert Path(f"/proc/{second}/cmdline").read_text().split("\0")[:2] == ["/bin/sleep", "600"]


def test_a_stopped_process_is_ended_too(processes):
    pid = processes.start("a", SLEEP)
    processes.signal("a", signal.SIGSTOP)
    processes.stop("a", grace=5)
    assert not alive(pid)


def test_a_process_whose_first_thread_has_ended_still_runs(processes):
    # as kube-apiserver in the moment after SIGKILL, when its ports are not free yet
    script = "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); print('up')"
    leave = "ctypes.CDLL(None).pthread_exit(None)"
    pid = processes.start("a", Command.of([sys.executable, "-u", "-c", f"{script}; {leave}"]))
    wait_for_output(processes, "a", "up")
    deadline = time.monotonic() + 5
    while "State:\tZ" not in Path(f"/proc/{pid}/status").read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    assert processes.pid("a") == pid
    processes.stop("a", grace=1)
    assert processes.pid("a") is None


def test_stop_all_forgets(processes, tmp_path):
    pid = processes.start("a", SLEEP)
    processes.stop_all()
    assert not alive(pid)
    assert processes.names() == []
    assert not (tmp_path / "processes.json").exists()


def test_somebody_elses_process_with_the_same_id_is_never_touched(processes, tmp_path):
    processes.start("a", SLEEP)
    processes.stop("a")
    stranger = subprocess.Popen(["/bin/sleep", "600"])
    try:
        file = tmp_path / "processes.json"
        records = json.loads(file.read_text())
        records["a"]["pid"] = stranger.pid  # as after a reboot: its id, but not its start time, which is in ticks
        records["a"]["started"] -= 1
        file.write_text(json.dumps(records))
        assert processes.pid("a") is None
        processes.stop_all()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_waiting_ends_with_the_process_and_shows_what_it_said(processes):
    processes.start("a", Command.of(["/bin/sh", "-c", "echo no such database; exit 3"]))
    with pytest.raises(DevClusterError, match=r"a ended while starting(.|\n)*no such database"):
        processes.wait_until("a", lambda: False, timeout=10)


def test_waiting_ends_in_time(processes):
    processes.start("a", SLEEP)
    with pytest.raises(DevClusterError, match=r"a was not listening within 0\.2 s"):
        processes.wait_until("a", lambda: False, timeout=0.2, what="listening")


def test_a_process_survives_the_command_that_started_it(tmp_path):
    script = (
        "import sys; from pathlib import Path; from kueue_flux.devcluster.processes import Command, Processes;"
        "Processes(Path(sys.argv[1])).start('a', Command.of(['/bin/sleep', '600']))"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path], check=True, cwd=Path(__file__).parents[2])
    processes = Processes(tmp_path)
    pid = processes.pid("a")
    assert pid is not None
    assert os.getsid(pid) == pid, "a Ctrl-C at the terminal would reach it"
    processes.stop_all()
    assert Processes(tmp_path).pid("a") is None
