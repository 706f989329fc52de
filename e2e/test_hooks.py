"""What runs around the command: hooks that set up and tear down, scripts, and how long it all took."""

from __future__ import annotations

import re

import pytest

from e2e.kit import Namespace

pytestmark = [pytest.mark.real_flux, pytest.mark.extended]


def test_hooks_and_a_script(namespace: Namespace):
    ran = namespace.run_example("hooks/minicluster.yaml")
    assert ran.code == 0, ran.err
    assert sorted(ran.lines[:2]) == [
        "hello, task 0 in /tmp/work: 0 is the lead",
        "hello, task 1 in /tmp/work: 1 is a worker",
    ]
    assert ran.lines[2:] == ["2 tasks were greeted"]


def test_a_launcher_with_a_prefix_that_is_timed(namespace: Namespace):
    ran = namespace.run_example("launcher/minicluster.yaml")
    assert ran.code == 0, ran.err
    assert ran.lines[:2] == ["first", "second"]
    told = [re.fullmatch(r"FLUXTIME (\w+) wall time \d+:\d\d\.\d\d", line) for line in ran.lines[2:]]
    assert [found and found[1] for found in told] == ["fluxsubmit", "fluxstart"]


@pytest.mark.parametrize(("field", "pods"), [("init", 1), ("pre", 2), ("brokerPre", 2), ("workerPre", 2)])
def test_a_hook_that_fails_is_named(namespace: Namespace, field: str, pods: int):
    ran = namespace.run_spec("fails", {"size": pods}, {"command": "echo ran", "commands": {field: "echo why; exit 5"}})
    assert (ran.code, "ran" in ran.lines) == (5, False), ran
    told = f"commands.{field} failed with exit code 5 (PreFailed, exit code 5)"
    assert namespace.message("fails", "Finished") == told


def test_a_failed_hook_may_be_passed_over(namespace: Namespace):
    spec = {"logging": {"strict": False, "quiet": True}}
    ran = namespace.run_spec("goes-on", spec, {"command": "echo ran", "commands": {"pre": "false"}})
    assert (ran.code, ran.lines) == (0, ["ran"]), ran.err


def test_post_runs_after_a_command_that_failed(namespace: Namespace):
    ran = namespace.run_spec("after", {}, {"command": "sh -c 'echo ran; exit 3'", "commands": {"post": "echo after"}})
    assert (ran.code, ran.lines) == (3, ["ran", "after"]), ran.err


def test_a_shell_reads_a_command_that_needs_one(namespace: Namespace):
    command = "echo one | tr a-z A-Z && echo ${FLUX_JOB_SIZE}"
    ran = namespace.run_spec("piped", {}, {"command": command})
    assert (ran.code, ran.lines) == (0, ["ONE", "1"]), ran.err


def test_what_submits_and_what_runs_the_broker_can_be_chosen(namespace: Namespace):
    flux = {"container": {"disable": True}, "submitCommand": "flux submit", "wrap": "env,WRAPPED=yes"}
    ran = namespace.run_spec(
        "chosen", {"flux": flux, "size": 2, "tasks": 2}, {"command": "sh -c 'echo $WRAPPED; exit 6'"}
    )
    assert (ran.code, ran.lines) == (6, ["yes", "yes"]), ran.err


def test_zeromq_s_events_are_logged(namespace: Namespace):
    ran = namespace.run_spec("events", {"size": 2, "logging": {"zeromq": True}}, {"command": "true"})
    assert ran.code == 0, ran.err
    worker = next(pod["metadata"]["name"] for pod in namespace.pods("events") if "-1-" in pod["metadata"]["name"])
    assert "sockevent" in namespace.kubectl("logs", worker)
