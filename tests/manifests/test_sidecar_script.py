"""sidecar.sh in each shell that an image may have: what it runs, when, and how it ends."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kueue_flux.manifests import sidecar

SHELLS = {name: command for name in ("dash", "bash", "busybox") if (command := shutil.which(name))}
TEXT = sidecar._script()


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    return [SHELLS[request.param], *(["sh"] if request.param == "busybox" else [])]


@pytest.fixture
def started(shell: list[str], tmp_path: Path) -> Iterator[object]:
    """Starts a sidecar; what is left of it is killed at the end."""
    running: list[subprocess.Popen[str]] = []

    def start(*texts: str, **env: str) -> subprocess.Popen[str]:
        (tmp_path / "bin").mkdir(exist_ok=True)
        process = subprocess.Popen(
            [*shell, "-c", TEXT, "sidecar", *texts],
            stdout=(tmp_path / "out").open("w"),
            stderr=(tmp_path / "err").open("w"),
            env={"PATH": "/usr/bin:/bin", **env},
            cwd=tmp_path,
            text=True,
            start_new_session=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(path: Path, text: str = "") -> str:
    """Wait until a file is there and has a text."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if path.exists() and text in path.read_text():
            return path.read_text()
        time.sleep(0.02)
    raise AssertionError(f"no {text!r} in {path.read_text() if path.exists() else path}")


def stop(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(20)


def test_it_runs_all_of_it_in_one_shell_in_order(started, tmp_path):
    process = started("A=init; echo $A", "", "B=main; echo $A $B", "echo $A $B post")
    wait_for(tmp_path / "err", "the sidecar's command has ended")
    assert (tmp_path / "out").read_text().split("\n") == ["init", "init main", "init main post", ""]
    assert process.poll() is None  # ended well is no reason to be started again
    assert stop(process) == 0


def test_it_waits_for_flux_between_init_and_the_command(started, tmp_path):
    ready = tmp_path / "ready"
    process = started("echo init", str(ready), '[ -e "$READY" ] && echo main', "", READY=str(ready))
    wait_for(tmp_path / "out", "init")
    ready.touch()
    wait_for(tmp_path / "out", "main")
    wait_for(tmp_path / "err", "has ended")
    assert stop(process) == 0


@pytest.mark.parametrize(
    ("command", "post", "code"),
    [
        ("exit 3", "echo never", 3),
        ("false", "echo post", 1),
        ("true", "exit 4", 4),
        ("(exit 3)", "exit 4", 4),
        ("(exit 3)", "(exit 4)", 3),
        ("no-such-command-there-is", "", 127),
        ("exec sh -c 'exit 5'", "", 5),
    ],
)
def test_a_failure_ends_the_container_and_is_told(started, tmp_path, command, post, code):
    process = started("", "", command, post)
    assert process.wait(20) == code
    assert f"the sidecar's command ended with exit code {code}" in (tmp_path / "err").read_text()


def test_text_that_is_no_shell_text_is_a_failure(started, tmp_path):
    assert started("", "", "if then", "").wait(20) != 0
    assert (tmp_path / "err").read_text()


def test_a_signal_reaches_the_command_and_is_waited_for(started, tmp_path):
    process = started("", "", "trap 'echo got it; exit 0' TERM; echo up; while :; do sleep 0.1; done", "")
    wait_for(tmp_path / "out", "up")
    assert stop(process) == 0
    assert (tmp_path / "out").read_text() == "up\ngot it\n"


def test_a_command_that_takes_its_shells_place_gets_the_signal(started, tmp_path):
    process = started("", "", "echo up; exec sleep 100", "")
    wait_for(tmp_path / "out", "up")
    assert stop(process) == 143


def test_a_signal_ends_it_while_it_waits_for_flux(started, tmp_path):
    process = started("echo up", str(tmp_path / "never"), "echo main", "")
    wait_for(tmp_path / "out", "up")
    assert stop(process) == 143
    assert (tmp_path / "out").read_text() == "up\n"


def test_what_the_user_wrote_sees_no_arguments_and_no_input(started, tmp_path):
    started("", "", 'echo "[$#]"; read -r line || echo nothing', "")
    assert wait_for(tmp_path / "out", "nothing") == "[0]\nnothing\n"


def test_quiet_says_nothing_but_failures(started, tmp_path):
    process = started("", "", "echo out", "", KUEUE_FLUX_QUIET="1")
    wait_for(tmp_path / "out", "out")
    assert stop(process) in (0, 143)  # after its end, or in the middle of it
    assert (tmp_path / "err").read_text() == ""
    assert started("", "", "exit 3", "", KUEUE_FLUX_QUIET="1").wait(20) == 3
    assert "exit code 3" in (tmp_path / "err").read_text()


def test_bash_reads_the_text_where_there_is_bash(started, tmp_path):
    started("", "", "[[ ${JOB_COMPLETION_INDEX} -eq 0 ]] && echo lead", "", JOB_COMPLETION_INDEX="0")
    wait_for(tmp_path / "out", "lead")


def test_sh_reads_it_where_there_is_none(started, tmp_path):
    bin = tmp_path / "bin"
    bin.mkdir()
    for name in ("sh", "sleep"):
        (bin / name).symlink_to(shutil.which(name) or "")
    started("", "", 'echo "${BASH_VERSION:-no bash}"', "", PATH=str(bin))
    wait_for(tmp_path / "out", "no bash")


def test_flux_of_a_view_is_found_after_what_the_image_has(started, tmp_path):
    view = tmp_path / "view"
    (view / "bin").mkdir(parents=True)
    (view / "lib/python3.11/site-packages").mkdir(parents=True)
    flux = view / "bin/flux"
    flux.write_text('#!/bin/sh\n[ -n "${LD_LIBRARY_PATH:-}" ] && echo flux\n')
    flux.chmod(0o755)
    started("", "", "flux; echo $PYTHONPATH; echo $LD_LIBRARY_PATH; echo ${PATH##*:}", "", KUEUE_FLUX_VIEW=str(view))
    wait_for(tmp_path / "out", "bin")
    assert (tmp_path / "out").read_text().splitlines() == [
        "flux",
        f"{view}/lib/python3.11/site-packages",
        f"{view}/lib:{view}/lib64",
        f"{view}/bin",
    ]


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_the_script_is_clean():
    checked = subprocess.run(["shellcheck", "-s", "sh", "-"], input=TEXT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
