"""start.sh with real Flux: brokers that form an instance on this machine, their ends and whose doing they were."""

import os
import re
import signal
from datetime import datetime

import pytest

from kueue_flux.api.mode import Mode
from kueue_flux.flux import layout, script
from kueue_flux.flux.certificate import given_certificate, new_certificate
from kueue_flux.flux.termination import Reason, Termination
from tests.api import certificates
from tests.flux.instance import PATIENCE
from tests.flux.test_certificate import sections

# Brokers are processes here: on a busy machine one may come late, so a failure is tried once more.
pytestmark = [pytest.mark.real_flux, pytest.mark.flaky(reruns=1)]

QUIET = {layout.ENV_QUIET: "1"}
LAUNCHER = Mode.LAUNCHER
LOST = script.WORKER_LOST


def ended(instance):
    """The exit codes of an instance that left nothing behind."""
    codes = instance.wait()
    instance.until(lambda: not instance.leftovers())
    return codes


def begun(instance, word="begun", times=4):
    """Wait until each task has said so, and each rank is ready."""
    instance.until(lambda: instance.stdout().count(word) == times)
    assert instance.all_ready()


def test_four_brokers_run_four_tasks(boot, shell):
    with boot("--", "sh", "-c", "flux getattr rank", shell=shell) as instance:
        assert ended(instance) == [0, 0, 0, 0]
        assert sorted(instance.stdout().split()) == ["0", "1", "2", "3"]
        assert instance.termination() == Termination(0, Reason.COMMAND_SUCCEEDED)
        assert re.search(r"is rank 0 of 4, Flux [0-9]+\.[0-9]+", instance.stderr(0))
        assert "runs: flux run -N4 -n4 -- sh -c 'flux getattr rank'" in instance.stderr(0)
        assert [instance.stdout(rank) for rank in (1, 2, 3)] == ["", "", ""]


@pytest.mark.parametrize("topology", ["kary:1", "binomial"])
def test_brokers_in_a_tree(boot, topology):
    # in a chain the last worker reaches the lead through all the others, also while they leave
    with boot("--", "flux", "getattr", "tbon.level", broker={"topology": topology}) as instance:
        assert ended(instance) == [0, 0, 0, 0]
        levels = {"kary:1": ["0", "1", "2", "3"], "binomial": ["0", "1", "1", "2"]}
        assert sorted(instance.stdout().split()) == levels[topology]


def test_the_secret_key_shows_nowhere(boot):
    with boot("--", "true", env={layout.ENV_DEBUG: "1"}) as instance:
        assert ended(instance) == [0, 0, 0, 0]
        secret = sections(instance.certificate.read_text())["curve"]["secret-key"]
        assert len(instance.stderr()) > 1000  # it was talkative
        assert secret not in "".join(read(rank) for rank in range(4) for read in (instance.stdout, instance.stderr))


def test_a_broker_with_another_certificate_is_not_let_in(boot):
    with boot("--", "true", size=3, first=[0]) as instance:
        right = instance.certificate.read_text()
        instance.until(lambda: instance.has_socket(0))
        instance.deliver(new_certificate("mc-0", now=datetime.now()))
        instance.start([1])
        instance.until(lambda: instance.has_socket(1))
        instance.certificate.unlink()
        instance.certificate.write_text(right)
        instance.start([2])
        instance.until(lambda: instance.ready(2))
        assert not instance.ready(1)  # though it came before
        assert not instance.ready(0)
        for rank in (0, 1, 2):
            instance.signal(rank)
        assert instance.wait() == [143, 143, 143]


@pytest.mark.parametrize("text", [certificates.TEXT, certificates.curve()], ids=["whole", "keys alone"])
def test_brokers_join_by_a_given_certificate(boot, text):
    with boot("--", "flux", "getattr", "rank", size=2, first=[]) as instance:
        instance.deliver(given_certificate(text, "mc-0"))
        instance.start()
        assert ended(instance) == [0, 0]
        assert sorted(instance.stdout().split()) == ["0", "1"]


def test_a_secret_without_a_certificate_is_told_in_quiet_mode_too(boot):
    with boot("--", "true", size=1, first=[], env=QUIET) as instance:
        instance.certificate.unlink()
        instance.certificate.write_text("no certificate")
        instance.start()
        assert ended(instance) == [1]
        assert instance.termination() == Termination(1, Reason.FLUX_FAILED)
        assert "is no CURVE certificate" in instance.stderr()


@pytest.mark.parametrize(
    ("command", "codes", "termination"),
    [
        (["sh", "-c", "exit 3"], [3, 0, 0, 0], Termination(3, Reason.COMMAND_FAILED)),
        (["no-such-command"], [127, 0, 0, 0], Termination(127, Reason.COMMAND_NOT_FOUND)),
        (["/etc/passwd"], [126, 0, 0, 0], Termination(126, Reason.COMMAND_NOT_EXECUTABLE)),
        (["sh", "-c", "kill -KILL $$"], [1, 0, 0, 0], Termination(137, Reason.COMMAND_SIGNALED)),
        (["sh", "-c", "exit 113"], [1, 0, 0, 0], Termination(113, Reason.COMMAND_FAILED)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and isinstance(value[0], str) else "",
)
@pytest.mark.parametrize("env", [{}, QUIET], ids=["verbose", "quiet"])
def test_exit_codes(boot, env, command, codes, termination):
    with boot("--", *command, env=env) as instance:
        assert ended(instance) == codes
        assert instance.termination() == termination


@pytest.mark.parametrize("args", [["--no-such-option", "--", "true"], ["-N9", "-n9", "--", "true"]], ids=" ".join)
@pytest.mark.parametrize("env", [{}, QUIET], ids=["verbose", "quiet"])
def test_a_job_that_flux_does_not_take(boot, args, env):
    with boot(*args, size=1, env=env) as instance:
        assert ended(instance)[0] != 0
        assert instance.termination().reason == Reason.JOB_REJECTED
        assert re.search("unrecognized arguments|unsatisfiable", instance.stderr())  # in quiet mode as well


def test_quiet_mode_prints_the_job_s_output_and_nothing_else(boot):
    with boot("--", "sh", "-c", "echo out; echo err >&2; exit 3", env=QUIET) as instance:
        assert ended(instance) == [3, 0, 0, 0]
        assert instance.stdout(0) == "out\n" * 4
        assert instance.stderr(0) == "err\n" * 4
        assert [read(rank) for rank in (1, 2, 3) for read in (instance.stdout, instance.stderr)] == [""] * 6


WORDS = ["", "a  b", "x\ny", "it's", '"', "$(id)", "$HOME", "*", "\\", "-n", "--", "\u00e9\U0001f600"]


@pytest.mark.parametrize("mode", [Mode.RUN, Mode.LAUNCHER])
def test_the_command_s_words_arrive_as_they_are(boot, mode):
    with boot("--", "printf", "%s\\1", *WORDS, size=1, mode=mode) as instance:
        assert ended(instance) == [0]
        assert instance.stdout().split("\1")[:-1] == WORDS


@pytest.mark.parametrize("mode", [Mode.RUN, Mode.LAUNCHER])
def test_a_command_whose_name_begins_with_a_dash(boot, flux_path, tmp_path, mode):
    tool = tmp_path / "-tool"
    tool.write_text("#!/bin/sh\necho it runs with $*\n")
    tool.chmod(0o755)
    with boot("--", "-tool", "-N9", size=1, mode=mode, env={"PATH": f"{flux_path}:{tmp_path}"}) as instance:
        assert ended(instance) == [0]
        assert instance.stdout() == "it runs with -N9\n"


def test_a_lot_of_output_arrives_whole(boot):
    with boot("--", "sh", "-c", "seq 1 20000; printf end", size=2, env=QUIET) as instance:
        assert ended(instance) == [0, 0]
        expected = "".join(f"{n}\n" for n in range(1, 20001)) + "end"
        assert sorted(instance.stdout()) == sorted(expected * 2)


def test_the_command_s_stdin_is_empty(boot):
    with boot("--", "cat", size=1) as instance:
        assert ended(instance) == [0]


def test_a_launcher_is_run_once_and_starts_its_tasks_itself(boot):
    script_text = "echo launched; flux run -N4 -n4 printenv FLUX_TASK_RANK; exit 5"
    with boot("--", "sh", "-c", script_text, mode=LAUNCHER) as instance:
        assert ended(instance) == [5, 0, 0, 0]
        assert sorted(instance.stdout().split()) == ["0", "1", "2", "3", "launched"]


@pytest.mark.parametrize(
    ("options", "mode", "bound"),
    [
        ([], Mode.RUN, False),
        (["-o", "cpu-affinity=on", "-o", "gpu-affinity=on"], Mode.RUN, True),
        (["--", "flux", "run", "-n1"], LAUNCHER, False),
    ],
    ids=["default", "asked for", "launcher"],
)
def test_tasks_are_bound_to_nothing_unless_that_is_asked_for(boot, options, mode, bound):
    # R has 1 CPU and no GPU, whatever the machine has
    command = "nproc; echo GPUs: ${CUDA_VISIBLE_DEVICES-all}"
    with boot(*options, "--", "sh", "-c", command, size=1, mode=mode, env=QUIET) as instance:
        assert ended(instance) == [0]
        cpus = 1 if bound else len(os.sched_getaffinity(0))
        assert instance.stdout().splitlines() == [str(cpus), "GPUs: -1" if bound else "GPUs: all"]


def test_workers_do_what_a_job_may_ask_of_them(boot):
    """They load few modules; the rest is asked of the lead."""
    task = """
        [ "$FLUX_TASK_RANK" = 1 ] || exit 0
        flux getattr rank
        flux submit --wait --quiet -n1 true && echo submitted
        flux kvs put a.b=7 && flux kvs get a.b
        flux jobs --no-header --format='{status_abbrev}' | head -n1
        flux resource list --no-header --states=all --format='{nnodes}'
        flux run -n1 -o cpu-affinity=per-task echo nested
    """
    with boot("--", "sh", "-c", task, size=2, cores=2) as instance:
        assert ended(instance) == [0, 0]
        assert instance.stdout().split() == ["1", "submitted", "7", "R", "2", "nested"]


def test_workers_with_flux_s_own_scripts(boot):
    with boot("--", "flux", "getattr", "rank", size=2, env={layout.ENV_FULL_RC: "1"}) as instance:
        assert ended(instance) == [0, 0]
        assert sorted(instance.stdout().split()) == ["0", "1"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to another user")
def test_as_a_user_with_a_certificate_of_its_group(boot):
    """As in a pod with runAsUser and fsGroup: mounts are root's, the Secret's file is 0440."""
    with boot("--", "id", "-u", size=2, certificate_mode=0o440, user=65534) as instance:
        assert ended(instance) == [0, 0]
        assert instance.stdout().split() == ["65534", "65534"]
        assert instance.termination() == Termination(0, Reason.COMMAND_SUCCEEDED)


def test_the_state_goes_to_the_rundir_where_nothing_else_can_be_written(boot):
    with boot("--", "flux", "getattr", "statedir", size=1, env={"TMPDIR": "/proc/none"}) as instance:
        assert ended(instance) == [0]
        assert instance.stdout().strip() == f"{instance.rundir(0)}/broker/state"


# -- readiness


def test_a_worker_is_ready_when_it_has_joined_the_lead_when_all_have(boot):
    with boot("--", "sh", "-c", "echo begun; sleep 600", size=3, first=[0, 1]) as instance:
        instance.until(lambda: instance.ready(1))
        assert not instance.ready(0)
        assert instance.stdout() == ""
        instance.start([2])
        begun(instance, times=3)
        instance.signal(0)
        assert ended(instance)[0] == 143


# -- the end that comes from outside


@pytest.mark.parametrize("how", ["kill_broker", "kill_container"])
def test_a_worker_that_dies_ends_the_command(boot, how):
    with boot("--", "sh", "-c", "echo begun; sleep 600") as instance:
        begun(instance)
        getattr(instance, how)(2)
        codes = instance.wait()
        # all count as lost, so that the Job runs them all again
        assert codes == [LOST, LOST, LOST if how == "kill_broker" else -signal.SIGKILL, LOST]
        assert instance.termination().reason == Reason.WORKER_LOST


@pytest.mark.parametrize("how", ["kill_broker", "kill_container"])
def test_workers_notice_that_the_lead_has_died(boot, how):
    with boot("--", "sh", "-c", "echo begun; sleep 600", broker={"heartbeat_timeout": "4s"}) as instance:
        begun(instance)
        getattr(instance, how)(0)
        lead, *workers = instance.wait()
        assert workers == [LOST, LOST, LOST]
        if how == "kill_broker":
            assert lead == 1
            assert instance.termination() == Termination(1, Reason.FLUX_FAILED)


def test_a_worker_that_starts_again_rejoins(boot, tmp_path):
    go = tmp_path / "go"
    command = f"echo begun; while [ ! -e {go} ]; do sleep 0.1; done; flux run -N3 -n3 flux getattr rank"
    with boot("--", "sh", "-c", command, size=3, mode=LAUNCHER) as instance:
        begun(instance, times=1)
        instance.kill_container(2)
        (instance.rundir(2) / layout.READY_FILE).unlink()
        instance.start([2])
        instance.until(lambda: instance.ready(2))
        instance.until(lambda: instance.flux(0, "overlay", "status", "--summary") == "full")
        go.touch()
        assert ended(instance) == [0, 0, 0]
        assert sorted(instance.stdout().split()) == ["0", "1", "2", "begun"]


def test_the_instance_forms_again_when_all_start_again(boot, tmp_path):
    """As the Job does it after the lead was lost: workers end with 113, all are made anew."""
    go = tmp_path / "go"
    command = f"echo begun; while [ ! -e {go} ]; do sleep 0.1; done"
    with boot("--", "sh", "-c", command, size=2, mode=LAUNCHER) as instance:
        begun(instance, times=1)
        instance.kill_container(0)
        instance.start([0])
        assert instance.processes[1].wait(PATIENCE) == LOST  # the new lead does not know it
        go.touch()
        instance.start([1])
        assert ended(instance) == [0, 0]


def test_sigterm_lets_the_tasks_end_in_order(boot, shell):
    """As when Kueue evicts: all containers are told to stop at once."""
    task = "trap 'echo saved; exit 0' TERM; echo begun; sleep 600 & wait"
    with boot("--", "sh", "-c", task, shell=shell) as instance:
        begun(instance)
        for rank in range(4):
            instance.signal(rank)
        assert instance.wait() == [143, 143, 143, 143]
        assert instance.stdout().count("saved") == 4
        assert instance.termination() == Termination(143, Reason.TERMINATED)


def test_sigterm_to_the_lead_alone(boot):
    with boot("--", "sh", "-c", "echo begun; exec sleep 600") as instance:
        begun(instance)
        instance.signal(0)
        assert ended(instance) == [143, LOST, LOST, LOST]
        assert instance.termination() == Termination(143, Reason.TERMINATED)


def test_sigterm_to_a_worker_alone(boot):
    with boot("--", "sh", "-c", "echo begun; exec sleep 600", env={layout.ENV_GRACE: "1"}) as instance:
        begun(instance)
        instance.signal(1)
        assert instance.wait() == [LOST, 143, LOST, LOST]
        assert instance.termination().reason == Reason.WORKER_LOST


def test_tasks_that_take_no_notice_of_sigterm(boot):
    with boot("--", "sh", "-c", "trap '' TERM; echo begun; sleep 600", env={layout.ENV_GRACE: "1"}) as instance:
        begun(instance)
        for rank in range(4):
            instance.signal(rank)
        assert instance.wait() == [143, 143, 143, 143]


@pytest.mark.parametrize("moment", ["at once", "while joining", "when ready"])
def test_sigterm_while_booting(boot, moment):
    with boot("--", "sleep", "600", size=3) as instance:
        if moment == "while joining":
            instance.until(lambda: all(map(instance.has_socket, range(3))))
        elif moment == "when ready":
            instance.until(lambda: instance.ready(1))
        for rank in (0, 1, 2):
            instance.signal(rank)
        codes = ended(instance)
        # the very first moments are the shell's, before it has said what is to happen
        assert codes == [143, 143, 143] if moment != "at once" else set(codes) <= {143, -signal.SIGTERM}


def test_a_lead_without_its_workers_can_be_stopped(boot):
    with boot("--", "true", size=2, first=[0]) as instance:
        instance.until(lambda: instance.has_socket(0))
        instance.signal(0)
        assert ended(instance) == [143]
