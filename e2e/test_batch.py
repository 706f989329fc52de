"""Batches on real Flux: their output in order, their files, and what is said of lines that fail."""

from __future__ import annotations

import pytest

from e2e.kit import Namespace, as_yaml

pytestmark = [pytest.mark.real_flux, pytest.mark.extended]


def test_the_lines_of_a_batch_run_and_print_in_their_order(namespace: Namespace):
    ran = namespace.run_example("batch/minicluster.yaml", timeout=240)
    assert ran.code == 0, ran.err
    four = sorted(line for line in ran.lines if line.startswith("four"))
    assert four == ["four, task 0 of 2", "four, task 1 of 2"]
    rest = [line for line in ran.lines if line not in four]
    assert rest == ["one", "two, part 1", "two, part 2", "two, part 3", "three", "five"]
    assert ran.lines[-1] == "five"


def test_a_raw_batch_is_a_script_of_the_user_s(namespace: Namespace):
    ran = namespace.run_example("batch/raw.yaml", timeout=240)
    assert ran.code == 0, ran.err
    assert (sorted(ran.lines[:2]), ran.lines[2:]) == (["raw-batch-0", "raw-batch-1"], ["2 jobs"])


LINES = """\
echo one; echo to stderr >&2
sh -c 'exit 3'
/no/such/program
echo four
"""


def test_lines_that_fail_are_named_and_the_others_run(namespace: Namespace):
    ran = namespace.run_spec("fails", {"size": 2}, {"batch": True, "command": LINES})
    assert ran.code == 3, ran.err
    assert ran.lines[0] == "one"
    assert "four" in ran.lines
    told = "2 of 4 jobs failed: job-1 (exit code 3), job-2 (exit code 127) (BatchFailed, exit code 3)"
    assert namespace.message("fails", "Finished") == told
    assert len(namespace.pods("fails")) == 2, "it is not tried again"


def test_the_output_is_in_files_on_the_lead_as_users_of_the_flux_operator_know_it(namespace: Namespace):
    post = """
        [ "$JOB_COMPLETION_INDEX" = 0 ] || exit 0
        ls -1 /tmp/fluxout
        cat /tmp/fluxout/job-0.out /tmp/fluxout/job-0.err
    """
    ran = namespace.run_spec("files", {"size": 2}, {"batch": True, "command": LINES, "commands": {"post": post}})
    names = [f"job-{index}.{stream}" for index in range(4) for stream in ("err", "out")]
    assert ran.lines[-len(names) - 2 :] == [*names, "one", "to stderr"]


def test_logs_keep_the_output_instead_of_printing_it(namespace: Namespace):
    container = {"batch": True, "logs": "/tmp/kept", "command": LINES, "commands": {"post": "cat /tmp/kept/job-3.out"}}
    ran = namespace.run_spec("kept", {"size": 1}, container)
    assert (ran.code, ran.lines) == (3, ["four"])


def test_the_tasks_are_how_many_lines_run_at_a_time(namespace: Namespace):
    # each line waits for the other: with one at a time neither would end
    meet = "touch /tmp/{0}; until [ -e /tmp/{1} ]; do sleep 0.1; done; echo met"
    lines = "\n".join(["-n1 sleep 0", meet.format("a", "b"), meet.format("b", "a")])
    # what Flux has is the limit; what is asked for has to fit a node beside others
    resources = {"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "2"}}}
    ran = namespace.run_spec("meet", {"size": 1, "tasks": 0}, {"batch": True, "command": lines, **resources})
    assert (ran.code, ran.lines) == (0, ["met", "met"]), ran.err


@pytest.mark.parametrize("command", ["", "\n  \n# nothing\n"], ids=["no-text", "no-lines"])
def test_a_batch_of_nothing_is_refused(namespace: Namespace, command: str):
    text = as_yaml(namespace.of_spec("nothing", {}, {"batch": True, "command": command}))
    applied = namespace.cluster.run(
        namespace.cluster.kubectl_program, "-n", namespace.name, "apply", "-f", "-", stdin=text
    )
    assert applied.code == 1
    assert "a batch needs at least one line that is neither empty nor a comment" in applied.err
    typed = namespace.kueue_flux("submit", "-", stdin=text)
    assert typed.code == 2
    assert "spec.containers[0].command: a batch needs at least one line" in typed.err
    assert "write a command on each line" in typed.err
