"""start.sh on its own, with a stand-in for Flux: shells, settings, exit codes, what it passes on and what it says."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kueue_flux.api.mode import Mode
from kueue_flux.flux import layout, script
from kueue_flux.flux.termination import Reason, Termination
from tests.flux.instance import PATIENCE, Instance

SCRIPTS = script.scripts()
TEXT = "\n".join(SCRIPTS.values())
QUIET = {layout.ENV_QUIET: "1"}
LAUNCHER = Mode.LAUNCHER


def run(stand_in, *args, shell="/bin/sh", size=1, env=None, **more):
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
    internal = {f"KUEUE_FLUX_{name}" for name in ("STAGE", "READY", "ENDED", "SAVED", "KEPT")}
    internal |= {f"KUEUE_FLUX_{name}" for name in ("HOOKS", "HOOK", "NEXT", "FILE", "CODE")}
    assert set(re.findall(r"\bKUEUE_FLUX_\w+|\bJOB_COMPLETION_INDEX\b", TEXT)) - internal == declared
    defaults = dict(re.findall(r"\$\{(KUEUE_FLUX_\w+):-([^}]+)\}", TEXT))
    assert defaults[layout.ENV_CONFIG] == layout.CONFIG_DIR
    assert defaults[layout.ENV_CURVE] == layout.CURVE_SOURCE
    assert defaults[layout.ENV_RUNDIR] == layout.RUN_DIR
    assert defaults[layout.ENV_TERMINATION_LOG] == layout.TERMINATION_LOG


def test_every_reason_is_known():
    written = set(
        re.findall(r"\b(?:Command|Batch|Flux|Worker|Job|Pre|Post)[A-Z]\w+\b|\bTerminated\b|\bStopped\b", TEXT)
    )
    said_by_kubernetes = {Reason.OUT_OF_MEMORY, Reason.KILLED}
    assert written == set(Reason) - said_by_kubernetes


def test_user_text_is_never_shell_text():
    # neither evaluated nor expanded without quotes
    assert not re.search(r"\beval\b|\$\*(?!\")|[^\"]\$@", TEXT)


def test_the_codes_agree():
    assert f"worker_lost={script.WORKER_LOST}\n" in TEXT
    reserved = re.search(r'\*:"\$worker_lost"((?: \| \*:\d+)+)\) exit 1', TEXT)
    assert {script.WORKER_LOST, *map(int, re.findall(r"\d+", reserved[1]))} == set(script.RESERVED)


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_is_posix_shell(shell, name):
    subprocess.run([shell, "-n"], input=SCRIPTS[name], text=True, check=True)


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="no shellcheck on this machine")
def test_shellcheck():
    folder = Path(script.__file__).parent / "scripts"
    files = [str(folder / name) for name in SCRIPTS]
    assert sorted(files) == sorted(map(str, folder.iterdir()))
    subprocess.run(["shellcheck", "--shell=sh", "--external-sources", *files], cwd=folder.parents[2], check=True)


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
        (["sh", "-c", "exit 2"], 1, Termination(2, Reason.COMMAND_FAILED)),
        (["sh", "-c", "exit 128"], 1, Termination(128, Reason.COMMAND_FAILED)),
        # Linux has 64 signals
        (["sh", "-c", "exit 192"], 192, Termination(192, Reason.COMMAND_SIGNALED)),
        (["sh", "-c", "exit 193"], 193, Termination(193, Reason.COMMAND_FAILED)),
        (["sh", "-c", "exit 255"], 255, Termination(255, Reason.COMMAND_FAILED)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.parametrize("how", [{}, {"env": QUIET}, {"mode": LAUNCHER}], ids=["verbose", "quiet", "launcher"])
def test_exit_codes(finished, shell, how, command, code, termination):
    done = finished("--", *command, shell=shell, **how)
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


@pytest.mark.parametrize("mode", [Mode.RUN, Mode.LAUNCHER])
def test_the_command_s_words_arrive_as_they_are(finished, shell, mode):
    done = finished("--", "printf", "%s\\0", *WORDS, shell=shell, mode=mode)
    assert done.stdout().split("\0")[:-1] == WORDS


def test_one_word_is_not_taken_for_shell_text(finished, shell):
    # a broker runs an initial program of one word with a shell
    done = finished("--", "echo injected >&2", shell=shell, mode=LAUNCHER)
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
    instance = run(str(tmp_path / "bin"), "--", "true", shell=shell, env=env)
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
    with Instance("--", "sh", "-c", command, size=2, path=stand_in, shell=shell, mode=LAUNCHER) as instance:
        instance.until(lambda: "begun" in instance.stdout())
        instance.until(instance.all_ready)
        for rank in (0, 1):
            instance.signal(rank)
        assert instance.wait() == [143, 143]
        assert instance.stdout() == "begun\nsaved\n"
        assert instance.termination() == Termination(143, Reason.TERMINATED)


def test_a_command_that_takes_no_notice_is_left_to_the_broker(stand_in, shell):
    env = {layout.ENV_GRACE: "0"}
    command = "trap '' TERM; echo begun; sleep 600"
    with Instance("--", "sh", "-c", command, mode=LAUNCHER, size=1, path=stand_in, shell=shell, env=env) as instance:
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


# -- the user's hooks


def hooks(**text):
    """Files of hooks, by their fields' names in Python."""
    return {"files": {name.replace("_", "-"): f"{lines}\n" for name, lines in text.items()}}


def test_hooks_come_in_their_order_and_say_what_they_like(finished, shell):
    files = hooks(**{name: f"echo {name}" for name in ("init", "pre", "broker_pre", "worker_pre", "post")})
    done = finished("--", "echo", "command", size=2, shell=shell, **files)
    assert done.codes == [0, 0]
    assert done.stdout(0).split() == ["init", "pre", "broker_pre", "command", "post"]
    assert done.stdout(1).split() == ["init", "pre", "worker_pre", "post"]


def test_what_hooks_change_is_there_for_the_command_and_the_post(finished, shell, tmp_path):
    pre = f"""
        export EXPORTED="it's $INIT" REMOVED; NOT_EXPORTED=1
        cd {tmp_path}; umask 027; ulimit -c 0; ulimit -n 77
        set -- what is this
        config=x; size=x; rank=x; word=x; private=x; quiet=x; mode=x; stage=x; own=x; IFS=:
    """
    show = 'echo "$EXPORTED|${NOT_EXPORTED-none}|${REMOVED-none}|$PWD|$(umask)|$(ulimit -n)|$#|$1"'
    env = {"REMOVED": "1"}
    files = hooks(init="export INIT=early; unset REMOVED", pre=pre, post=show)
    done = finished("--", "sh", "-c", show, "sh", " a  b\n", shell=shell, env=env, **files)
    told = f"it's early|none|none|{tmp_path}|0027|77"
    assert done.stdout() == f"{told}|1| a  b\n\n{told}|0|\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("false", 1),
        ("return 3", 3),
        ("exit 4", 4),
        ("exit 0", 1),  # and what comes after it was left out
        ("no-such-program", 127),
        ("kill -KILL $$", 137),
        ("cat <<", 2),
    ],
)
@pytest.mark.parametrize("env", [{}, QUIET], ids=["verbose", "quiet"])
def test_a_hook_that_fails_ends_all(finished, shell, env, text, code):
    done = finished("--", "echo", "command", shell=shell, env=env, **hooks(pre=f"echo told\n{text}", post="echo post"))
    assert done.stdout().replace("told\n", "") == ""
    assert "told\n" in done.stdout() + done.stderr()  # in quiet mode too: it may say why
    end = done.termination()
    assert (end.reason, end.note) == (Reason.PRE_FAILED, f"commands.pre failed with exit code {end.exit_code}")
    if "<<" not in text:  # a shell's own codes differ
        assert end.exit_code == code
        assert done.codes == [1 if code in script.RESERVED else code]


@pytest.mark.parametrize(
    ("field", "file", "rank"),
    [("init", "init", 0), ("brokerPre", "broker-pre", 0), ("workerPre", "worker-pre", 1)],
)
def test_the_hook_that_failed_is_named(stand_in, field, file, rank):
    with Instance("--", "true", size=2, path=stand_in, files={file: "exit 5"}, first=[rank]) as instance:
        assert instance.wait() == [5]
        end = Termination(5, Reason.PRE_FAILED, f"commands.{field} failed with exit code 5")
        assert instance.termination(rank) == end


@pytest.mark.parametrize(
    ("strict", "text", "goes_on"),
    [
        (None, "false; true", True),
        ("on", "false; true", False),
        ("on", "echo $NOT_SET; true", False),
        ("on", "true", True),
        ("off", "false", True),
        ("off", "exit 1", False),
    ],
)
def test_how_strict(finished, shell, strict, text, goes_on):
    env = {layout.ENV_STRICT: strict} if strict else {}
    done = finished("--", "echo", "command", shell=shell, env=env, **hooks(pre=text))
    assert (done.stdout() == "command\n") is goes_on
    assert done.termination().reason is (Reason.COMMAND_SUCCEEDED if goes_on else Reason.PRE_FAILED)


@pytest.mark.parametrize("quiet", ["", "1"])
def test_a_hook_that_is_passed_over_is_told_but_where_it_is_to_be_quiet(finished, shell, quiet):
    env = {layout.ENV_STRICT: "off", layout.ENV_QUIET: quiet}
    done = finished("--", "echo", "command", shell=shell, env=env, **hooks(pre="false"))
    assert ("pre failed with exit code 1" in done.stderr()) is (not quiet)
    assert done.stdout() == "command\n"


@pytest.mark.parametrize(
    ("strict", "command", "text", "end"),
    [
        (None, "exit 0", "exit 3", Termination(0, Reason.COMMAND_SUCCEEDED)),
        (None, "exit 4", "echo post", Termination(4, Reason.COMMAND_FAILED)),
        ("on", "exit 0", "exit 3", Termination(3, Reason.POST_FAILED, "commands.post failed with exit code 3")),
        ("on", "exit 0", "false; true", Termination(1, Reason.POST_FAILED, "commands.post failed with exit code 1")),
        ("on", "exit 4", "exit 3", Termination(4, Reason.COMMAND_FAILED)),
        ("off", "exit 0", "exit 3", Termination(0, Reason.COMMAND_SUCCEEDED)),
    ],
)
def test_the_post_comes_after_all_and_rarely_matters(finished, shell, strict, command, text, end):
    env = {layout.ENV_STRICT: strict} if strict else {}
    done = finished("--", "sh", "-c", command, shell=shell, env=env, **hooks(post=text))
    assert (done.codes, done.termination()) == ([end.exit_code], end)
    assert ("post" in done.stdout()) is ("echo" in text)


def test_quiet_hides_what_hooks_print_but_not_the_post(finished, shell):
    files = hooks(init="echo a", pre="echo b >&2", broker_pre="echo c", post="echo post")
    done = finished("--", "echo", "command", shell=shell, env=QUIET, **files)
    assert (done.stdout(), done.stderr()) == ("command\npost\n", "")


def test_sigterm_ends_a_hook_at_once(stand_in, shell):
    with Instance("--", "true", size=1, path=stand_in, shell=shell, **hooks(pre="echo begun; sleep 600")) as instance:
        instance.until(lambda: "begun" in instance.stdout())
        instance.signal(0)
        assert instance.wait() == [143]
        assert instance.termination() == Termination(143, Reason.TERMINATED)


def test_sigterm_after_hooks_reaches_the_command(stand_in, shell):
    command = "trap 'echo saved; exit 0' TERM; echo begun; sleep 600 & wait"
    files = hooks(pre="export A=1", post="echo post")
    with Instance("--", "sh", "-c", command, size=1, path=stand_in, shell=shell, mode=LAUNCHER, **files) as instance:
        instance.until(lambda: "begun" in instance.stdout())
        instance.signal(0)
        assert instance.wait() == [143]
        assert instance.stdout() == "begun\nsaved\n"
        assert instance.termination() == Termination(143, Reason.TERMINATED)


@pytest.mark.parametrize("rank", [0, 1])
def test_sigterm_during_the_post(stand_in, shell, rank, tmp_path):
    go = tmp_path / "go"
    post = f"echo post; until [ -e {go} ]; do sleep 0.05; done; echo over"
    with Instance("--", "true", size=2, path=stand_in, shell=shell, **hooks(post=post)) as instance:
        instance.until(lambda: "post" in instance.stdout(rank))
        instance.signal(rank)
        if rank == 1:  # told so because the lead's has ended, it may finish
            go.touch()
        instance.processes[rank].wait(PATIENCE)
        assert instance.stdout(rank) == ("post\n" if rank == 0 else "post\nover\n")
        go.touch()
        assert instance.wait() == [0, 0]
        assert instance.termination() == Termination(0, Reason.COMMAND_SUCCEEDED)


def test_bash_reads_hooks_where_there_is_one(finished, shell):
    files = hooks(pre="[[ -n $BASH_VERSION ]] && export WHO=bash; declare -x DECLARED=1", post="[[ 1 ]] && echo post")
    done = finished("--", "sh", "-c", "echo $WHO $DECLARED", shell=shell, **files)
    assert done.stdout() == "bash 1\npost\n"


def test_users_of_the_flux_operator_find_its_file(finished, shell, tmp_path):
    mount = tmp_path / "it's mounted"
    env = {layout.ENV_MOUNT: str(mount)}
    done = finished("--", "true", shell=shell, env=env, **hooks(pre=f'. "{mount}/flux-view.sh"; echo "$fluxsocket"'))
    assert done.stdout() == f"local://{done.rundir(0)}/local\n"


# -- other settings


def test_timed(finished, shell):
    done = finished("--", "true", shell=shell, env={layout.ENV_TIMED: "1", **QUIET})
    assert re.fullmatch(r"FLUXTIME fluxsubmit wall time 0:\d\d\.\d\d\nFLUXTIME fluxstart wall time 0:\d\d\.\d\d\n",
                        done.stderr())  # fmt: skip


@pytest.mark.parametrize(
    ("hundredths", "text"),
    [(7, "0:00.07"), (473, "0:04.73"), (6109, "1:01.09"), (360000, "1:00:00"), (450199, "1:15:01")],
)
def test_a_time_reads_as_time_says_it(shell, hundredths, text):
    program = f"{SCRIPTS['common.sh']}\nclock() {{ echo {1000 + hundredths}; }}; took x 1000"
    ran = subprocess.run([shell, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stderr == f"FLUXTIME x wall time {text}\n"


def test_a_wrapped_broker(finished, shell, tmp_path):
    wrapper = tmp_path / "wrapper"
    wrapper.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >"$0.$JOB_COMPLETION_INDEX"; shift 2; WRAPPED=1 exec "$@"\n')
    wrapper.chmod(0o755)
    done = finished("--", "printenv", "WRAPPED", size=2, shell=shell, env={layout.ENV_WRAP: f"{wrapper},-a b,*"})
    assert done.stdout() == "1\n"
    for rank in (0, 1):
        assert Path(f"{wrapper}.{rank}").read_text().splitlines()[:4] == ["-a b", "*", "flux", "broker"]


def test_zeromq(finished):
    told = finished("--", "true", env={layout.ENV_ZEROMQ: "1"}).directory.joinpath("broker-0").read_text()
    assert "-Stbon.zmqdebug=1\n" in told
    assert "-Slog-stderr-level=7\n" in told


def test_on_the_node_s_network_a_broker_has_its_pod_s_name(finished, shell, tmp_path):
    wrapper = tmp_path / "wrapper"
    wrapper.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >"$0.$JOB_COMPLETION_INDEX"; exec "$@"\n')
    wrapper.chmod(0o755)
    env = {layout.ENV_HOSTNAME: "", layout.ENV_HOST_PREFIX: "other-", layout.ENV_WRAP: str(wrapper)}
    finished("--", "true", size=2, shell=shell, env=env)
    for rank in (0, 1):
        assert f"-Shostname=other-{rank}" in Path(f"{wrapper}.{rank}").read_text().splitlines()
