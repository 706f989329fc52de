"""start.sh on its own, with a stand-in for Flux: shells, settings, exit codes, what it passes on and what it says."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kueue_flux.flux import layout, script
from kueue_flux.flux.termination import Reason, Termination
from tests.flux.instance import Instance

TEXT = script.start_script()
QUIET = {layout.ENV_QUIET: "1"}
LAUNCHER = {layout.ENV_LAUNCHER: "1"}


def run(stand_in, *args, shell=("/bin/sh",), size=1, env=None, **more):
    """Run a whole instance to its end; returns it with its files still there to be read."""
    instance = Instance(*args, size=size, path=stand_in, shell=shell, env=env, **more)
    instance.start()
    instance.codes = instance.wait()
    return instance


@pytest.fixture
def finished(stand_in):
    """Runs instances to their end, and cleans up after them."""
    instances = []

    def run_one(*args, **more):
        instances.append(run(stand_in, *args, **more))
        return instances[-1]

    yield run_one
    for instance in instances:
        instance.__exit__(None, None, None)


# -- the text


def test_every_setting_is_documented_and_every_default_is_the_layout_s():
    declared = {value for name, value in vars(layout).items() if name.startswith("ENV_")}
    internal = {"KUEUE_FLUX_STAGE", "KUEUE_FLUX_READY", "KUEUE_FLUX_ENDED"}
    assert set(re.findall(r"\bKUEUE_FLUX_\w+|\bJOB_COMPLETION_INDEX\b", TEXT)) - internal == declared
    defaults = dict(re.findall(r"\$\{(KUEUE_FLUX_\w+):-([^}]+)\}", TEXT))
    assert defaults[layout.ENV_CONFIG] == layout.CONFIG_DIR
    assert defaults[layout.ENV_CURVE] == layout.CURVE_SOURCE
    assert defaults[layout.ENV_RUNDIR] == layout.RUN_DIR
    assert defaults[layout.ENV_TERMINATION_LOG] == layout.TERMINATION_LOG


def test_every_reason_is_known():
    written = set(re.findall(r"\b(?:Command|Flux|Worker|Job)[A-Z]\w+\b|\bTerminated\b", TEXT))
    said_by_kubernetes = {Reason.OUT_OF_MEMORY, Reason.KILLED}
    assert written == set(Reason) - said_by_kubernetes


def test_user_text_is_never_shell_text():
    # neither evaluated nor expanded without quotes
    assert not re.search(r"\beval\b|\$\*(?!\")|[^\"]\$@", TEXT)


def test_the_codes_agree():
    assert f"worker_lost={script.WORKER_LOST}\n" in TEXT
    reserved = re.search(r'\*:"\$worker_lost" \| \*:(\d+) \| \*:(\d+)\) exit 1', TEXT)
    assert {script.WORKER_LOST, *map(int, reserved.groups())} == script.RESERVED


def test_it_is_posix_shell(shell):
    subprocess.run([*shell, "-n"], input=TEXT, text=True, check=True)


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="no shellcheck on this machine")
def test_shellcheck():
    subprocess.run(["shellcheck", "--shell=sh", "-"], input=TEXT, text=True, check=True)


# -- the lead


@pytest.mark.parametrize(
    ("command", "code", "termination"),
    [
        (["true"], 0, Termination(0, Reason.COMMAND_SUCCEEDED)),
        (["sh", "-c", "exit 3"], 3, Termination(3, Reason.COMMAND_FAILED)),
        (["no-such-command"], 127, Termination(127, Reason.COMMAND_NOT_FOUND)),
        (["/etc/passwd"], 126, Termination(126, Reason.COMMAND_NOT_EXECUTABLE)),
        (["sh", "-c", "kill -SEGV $$"], 139, Termination(139, Reason.COMMAND_SIGNALED)),
        # codes that mean something else to the Job are kept in the termination log only
        (["sh", "-c", "kill -KILL $$"], 1, Termination(137, Reason.COMMAND_SIGNALED)),
        (["sh", "-c", "exit 143"], 1, Termination(143, Reason.COMMAND_SIGNALED)),
        (["sh", "-c", "exit 113"], 1, Termination(113, Reason.COMMAND_FAILED)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.parametrize("env", [{}, QUIET, LAUNCHER], ids=["verbose", "quiet", "launcher"])
def test_exit_codes(finished, shell, env, command, code, termination):
    done = finished("--", *command, shell=shell, env=env)
    assert done.codes == [code]
    assert done.termination() == termination


WORDS = [
    "",
    "a  b",
    "x\ny",
    "tab\t",
    "it's",
    '"',
    "$(id)",
    "`id`",
    "$HOME",
    "*",
    "\\",
    "-n",
    "--",
    "\u00e9\U0001f600",
    ";",
]


@pytest.mark.parametrize("env", [{}, LAUNCHER], ids=["run", "launcher"])
def test_the_command_s_words_arrive_as_they_are(finished, shell, env):
    done = finished("--", "printf", "%s\\0", *WORDS, shell=shell, env=env)
    assert done.stdout().split("\0")[:-1] == WORDS


def test_one_word_is_not_taken_for_shell_text(finished, shell):
    # a broker runs an initial program of one word with a shell
    done = finished("--", "echo injected >&2", shell=shell, env=LAUNCHER)
    assert done.codes == [127]
    assert "injected\n" not in done.stderr().replace("'echo injected >&2'", "")


@pytest.mark.parametrize(
    ("size", "tasks", "options", "expected"),
    [
        (4, 4, [], "run -N4 -n4 -- true"),
        (4, 8, [], "run -N4 -n8 -- true"),
        (4, 0, [], "run -N4 -- true"),
        (4, 2, [], "run -n2 -- true"),
        (1, 1, ["-o", "cpu-affinity=off"], "run -N1 -n1 -o cpu-affinity=off -- true"),
    ],
)
def test_options_of_flux_run(finished, size, tasks, options, expected):
    done = finished(*options, "--", "true", size=size, tasks=tasks)
    assert (done.directory / "run").read_text().strip() == expected


def test_what_a_person_wants_to_know_is_said(finished, shell):
    done = finished("--", "printf", "a b", "it's", shell=shell)
    assert "is rank 0 of 1, Flux 9.9.9\n" in done.stderr()
    assert "runs: flux run -N1 -n1 -- printf 'a b' 'it'\\''s'\n" in done.stderr()
    assert done.stdout() == "a b"


def test_quiet_says_nothing_of_its_own(finished, shell):
    done = finished("--", "sh", "-c", "echo out; echo err >&2; exit 3", shell=shell, env=QUIET)
    assert (done.codes, done.stdout(), done.stderr()) == ([3], "out\n", "err\n")
    assert "-Slog-stderr-level=0" in done.directory.joinpath("broker-0").read_text()


@pytest.mark.parametrize(
    ("env", "level"),
    [({}, 3), ({layout.ENV_LOG_LEVEL: "6"}, 6), ({layout.ENV_DEBUG: "1"}, 7), ({layout.ENV_LOG_LEVEL: "6"} | QUIET, 0)],
)
def test_log_level(finished, env, level):
    done = finished("--", "true", env=env)
    assert f"-Slog-stderr-level={level}\n" in done.directory.joinpath("broker-0").read_text()


def test_a_shell_for_flux_is_named_where_the_image_has_none(finished):
    # Flux would take bash, which small images lack
    assert finished("--", "printenv", "SHELL").stdout() == "/bin/sh\n"
    assert finished("--", "printenv", "SHELL", env={"SHELL": "/bin/dash"}).stdout() == "/bin/dash\n"


def test_what_names_the_lead_s_pod_does_not_reach_the_tasks(finished):
    done = finished("--", "env", env={"HOSTNAME": "mc-0"})
    names = {line.split("=")[0] for line in done.stdout().splitlines()}
    assert not names & {"HOSTNAME", "JOB_COMPLETION_INDEX", "KUEUE_FLUX_STAGE", "FLUX_DISABLE_JOB_CLEANUP"}


@pytest.mark.parametrize(
    ("status", "code", "termination"),
    [
        ("none", 3, Termination(3, Reason.JOB_REJECTED)),
        ('{"exception_type":"alloc","exception_note":"unsatisfiable"}', 3, Termination(3, Reason.JOB_REJECTED)),
        (
            '{"exception_type":"exec","exception_note":"node failure on mc-2 (rank 2)"}',
            script.WORKER_LOST,
            Termination(3, Reason.WORKER_LOST),
        ),
    ],
)
def test_why_flux_run_failed(finished, status, code, termination):
    done = finished("--", "sh", "-c", "exit 3", env={"STAND_IN_STATUS": status})
    assert (done.codes, done.termination()) == ([code], termination)


def test_a_broker_that_fails_is_not_the_command_s_failure(finished, shell):
    done = finished("--", "true", shell=shell, env={"STAND_IN_BROKER_EXIT": "42"})
    assert (done.codes, done.termination()) == ([1], Termination(1, Reason.FLUX_FAILED))
    assert "Flux failed before the command began: the broker exited with 42" in done.stderr()


@pytest.mark.parametrize("env", [{}, QUIET], ids=["verbose", "quiet"])
def test_no_flux(shell, env, tmp_path):
    (tmp_path / "bin").mkdir()
    for tool in ("uname", "sed", "cat", "mkdir", "rm", "cp", "chmod", "mv"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    instance = run(str(tmp_path / "bin"), "--", "true", shell=[shutil.which(shell[0]), *shell[1:]], env=env)
    with_files = instance.codes, instance.termination(), instance.stderr()
    instance.__exit__(None, None, None)
    assert with_files[:2] == ([127], Termination(127, Reason.FLUX_NOT_FOUND))
    assert "there is no 'flux' here" in with_files[2]


# -- the workers


def test_workers_leave_with_the_lead(finished, shell):
    done = finished("--", "true", shell=shell, size=3)
    assert done.codes == [0, 0, 0]
    assert done.termination(1) is None
    assert done.stdout(1) == done.stdout(2) == ""


def test_a_failed_command_is_no_failure_of_the_workers(finished):
    assert finished("--", "sh", "-c", "exit 3", size=2).codes == [3, 0]


def test_each_rank_says_when_it_is_ready(stand_in):
    with Instance("--", "sleep", "600", size=2, path=stand_in) as instance:
        instance.until(instance.all_ready)
        instance.signal(0)
        assert instance.wait()[0] == 143


def test_workers_start_with_flux_s_own_scripts_where_that_is_asked_for(finished):
    done = finished("--", "true", size=2, env={layout.ENV_FULL_RC: "1", "STAND_IN_BROKER_EXIT": "1"})
    assert "-Sbroker.rc1_path=rc1_path of the image && :" in done.directory.joinpath("broker-1").read_text()
    assert done.codes[1] == script.WORKER_LOST


# -- files and signals


@pytest.mark.parametrize("mode", [0o400, 0o440, 0o444])
def test_the_certificate_is_copied_for_the_broker_alone(finished, shell, mode):
    done = finished("--", "true", size=2, shell=shell, certificate_mode=mode)
    assert [done.directory.joinpath(f"curve-mode-{rank}").read_text() for rank in (0, 1)] == ["400\n", "400\n"]


def test_the_certificate_is_not_shown(finished):
    done = finished("--", "true", size=2, env={layout.ENV_DEBUG: "1"})
    secret = re.search(r'secret-key = "(.*)"', done.certificate.read_text()).group(1)
    assert secret not in done.story()


def test_a_container_that_starts_again_starts_anew(stand_in):
    with Instance("--", "sh", "-c", "exit 3", size=1, path=stand_in) as instance:
        instance.wait()
        instance.env["STAND_IN_BROKER_EXIT"] = "9"  # so that nothing it finds can be of this run
        instance.start()
        assert instance.wait() == [1]
        assert instance.termination() == Termination(1, Reason.FLUX_FAILED)
        assert not instance.ready(0)


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda i: i.env.update({layout.ENV_INDEX: ""}), "JOB_COMPLETION_INDEX"),
        (lambda i: i.env.update({layout.ENV_INDEX: "x"}), "JOB_COMPLETION_INDEX"),
        (lambda i: (i.directory / "config-0" / "size").write_text("four"), "must hold a number"),
        (lambda i: (i.directory / "config-0" / "tasks").unlink(), "must hold a number"),
        (lambda i: i.certificate.unlink(), "cannot copy the certificate"),
    ],
)
def test_a_container_that_is_not_as_it_should_be(stand_in, shell, prepare, message):
    instance = Instance("--", "true", size=1, path=stand_in, shell=shell)
    prepare(instance)
    with instance:
        assert instance.wait() == [1]
        assert message in instance.stderr()
        assert instance.termination() == Termination(1, Reason.FLUX_FAILED)


def test_no_termination_log_is_no_failure(finished):
    done = finished("--", "sh", "-c", "exit 3", env={layout.ENV_TERMINATION_LOG: "/proc/none"})
    assert done.codes == [3]


@pytest.mark.parametrize("finds_its_own", [False, True])
def test_a_view_comes_after_what_the_image_has(stand_in, tmp_path, finds_its_own):
    view = tmp_path / "view"
    (view / "lib/python3.11/site-packages").mkdir(parents=True)
    (view / "bin").mkdir()
    shutil.copy(Path(stand_in.split(":")[0]) / "flux", view / "bin" / "flux")
    path = "/usr/bin:/bin"
    if shutil.which("flux", path=path):
        pytest.skip("there is a flux in /usr/bin, which would go first")
    if finds_its_own:
        (view / ".mounted-at").write_text("/mnt/flux\n")
    command = ("sh", "-c", 'echo "$PATH"; echo "${PYTHONPATH:-none}"')
    instance = run(path, "--", *command, env={layout.ENV_VIEW: str(view)})
    out = instance.stdout()
    instance.__exit__(None, None, None)
    python = "none" if finds_its_own else f"{view}/lib/python3.11/site-packages"
    assert out.splitlines() == [f"{path}:{view}/bin", python]


def test_sigterm_reaches_the_command_first(stand_in, shell):
    command = "trap 'echo saved; exit 0' TERM; echo begun; sleep 600 & wait"
    with Instance("--", "sh", "-c", command, size=2, path=stand_in, shell=shell, env=LAUNCHER) as instance:
        instance.until(lambda: "begun" in instance.stdout())
        instance.until(instance.all_ready)
        for rank in (0, 1):
            instance.signal(rank)
        assert instance.wait() == [143, 143]
        assert instance.stdout() == "begun\nsaved\n"
        assert instance.termination() == Termination(143, Reason.TERMINATED)


def test_a_command_that_takes_no_notice_is_left_to_the_broker(stand_in, shell):
    env = {layout.ENV_GRACE: "0", **LAUNCHER}
    command = "trap '' TERM; echo begun; sleep 600"
    with Instance("--", "sh", "-c", command, size=1, path=stand_in, shell=shell, env=env) as instance:
        instance.until(lambda: "begun" in instance.stdout())
        instance.signal(0)
        assert instance.wait() == [143]
        assert instance.termination() == Termination(143, Reason.TERMINATED)


def test_workers_of_a_lead_that_was_told_to_stop_have_not_succeeded(stand_in):
    # an index that succeeded would be missing when the Job runs again
    with Instance("--", "sleep", "600", size=2, path=stand_in) as instance:
        instance.until(instance.all_ready)
        instance.signal(0)
        assert instance.wait() == [143, script.WORKER_LOST]
        assert instance.termination(1) == Termination(script.WORKER_LOST, Reason.WORKER_LOST)
