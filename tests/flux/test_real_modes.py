"""The modes, with real Flux: batches, instances that stay until they are stopped, hooks around them."""

import pytest

from kueue_flux.api.mode import Mode
from kueue_flux.flux.termination import Reason, Termination
from tests.flux.test_real_flux import QUIET, ended

pytestmark = [pytest.mark.real_flux, pytest.mark.flaky(reruns=1)]

LINES = """\
echo one
# no job
sh -c 'echo two; echo err >&2; exit 3'

echo a && echo b | tr b c
-n2 sh -c 'echo task $FLUX_TASK_RANK'
no-such-command
"""


def test_the_lines_of_a_batch_are_jobs(boot, shell, tmp_path):
    with boot(mode=Mode.BATCH, files={"batch-lines": LINES}, size=2, shell=shell, env=QUIET) as instance:
        assert ended(instance) == [3, 0]
        lines = instance.stdout().splitlines()
        assert lines[:4] == ["one", "two", "a", "c"]  # in their order
        assert sorted(lines[4:]) == ["task 0", "task 1"]
        assert instance.stderr().splitlines()[0] == "err"
        assert "no-such-command: " in instance.stderr().splitlines()[1]
        note = "2 of 5 jobs failed: job-2 (exit code 3), job-6 (exit code 127)"
        assert instance.termination() == Termination(3, Reason.BATCH_FAILED, note)


# -- interactive


def test_an_interactive_instance_stays_until_it_is_stopped(boot, shell):
    with boot(mode=Mode.INTERACTIVE, size=2, cores=2, shell=shell) as instance:
        instance.until(instance.all_ready)
        assert instance.enter(0, "flux", "run", "-N2", "flux", "getattr", "rank").stdout.split() in (
            ["0", "1"],
            ["1", "0"],
        )
        submitted = instance.enter(0, "flux", "submit", "sleep", "600")
        assert submitted.returncode == 0
        assert instance.enter(0, "flux", "run", "sh", "-c", "exit 7").returncode == 7
        instance.stop()
        assert ended(instance) == [0, 0]
        assert instance.termination() == Termination(0, Reason.STOPPED)
        assert "Flux failed" not in instance.stderr()


def test_flux_shutdown_ends_it_too(boot, shell):
    with boot(mode=Mode.INTERACTIVE, size=2, shell=shell) as instance:
        instance.until(instance.all_ready)
        assert instance.enter(0, "flux", "shutdown", "--background").returncode == 0
        assert ended(instance) == [0, 0]
        assert instance.termination() == Termination(0, Reason.STOPPED)
        assert "Flux failed" not in instance.stderr()


def test_an_interactive_instance_that_is_told_to_terminate_has_not_been_stopped(boot):
    with boot(mode=Mode.INTERACTIVE, size=2) as instance:
        instance.until(instance.all_ready)
        for rank in (0, 1):
            instance.signal(rank)
        assert ended(instance) == [143, 143]
        assert instance.termination() == Termination(143, Reason.TERMINATED)


def test_a_command_that_is_stopped_has_failed(boot):
    with boot("--", "sh", "-c", "echo begun; exec sleep 600", size=2) as instance:
        instance.until(lambda: instance.stdout().count("begun") == 2)
        instance.stop()
        assert ended(instance) == [1, 0]
        assert instance.termination() == Termination(143, Reason.STOPPED)
