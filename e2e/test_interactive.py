"""Instances that wait for people: used by command, in a terminal and from Python; and how they end."""

from __future__ import annotations

import json
import os
import pty
import select
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from e2e.kit import EXAMPLES, UNTIL_TOLD, Namespace, as_yaml, example, rows
from tests.control_plane.kit import is_true

pytestmark = [pytest.mark.real_flux, pytest.mark.extended]

PATIENCE = 90.0


@pytest.fixture(scope="module")
def mine(make_namespace: Callable[..., Namespace]) -> Iterator[Namespace]:
    """A namespace in which the interactive example runs, on two nodes."""
    namespace = make_namespace()
    text = as_yaml(example("interactive/minicluster.yaml", namespace.cluster.flux.reference))
    ran = namespace.kueue_flux("submit", "-", stdin=text)
    assert (ran.code, ran.lines) == (0, ["interactive"]), ran.err
    assert namespace.kueue_flux("wait", "interactive", "--for", "ready").code == 0
    yield namespace
    ran = namespace.kueue_flux("stop", "interactive")
    assert (ran.code, ran.out) == (0, "interactive stopped\n"), ran.err


class TestInUse:
    """One instance, used in every way."""

    def test_run(self, mine: Namespace):
        ran = mine.kueue_flux("run", "interactive", "--", "-N2", "sh", "-c", "hostname; echo err >&2")
        assert (ran.code, sorted(ran.lines)) == (0, ["interactive-0", "interactive-1"])
        assert ran.err == "err\nerr\n"

    def test_run_exits_as_the_job_did(self, mine: Namespace):
        assert mine.kueue_flux("run", "interactive", "--", "sh", "-c", "exit 7").code == 7
        ran = mine.kueue_flux("run", "interactive", "--", "-N99", "true")
        assert ran.code == 1
        assert "unsatisfiable" in ran.err
        ran = mine.kueue_flux("run", "interactive", "--", "--no-such-option", "true")
        assert ran.code == 1
        assert "Flux does not take the job" in ran.err

    def test_words_and_input_arrive_as_they_are(self, mine: Namespace):
        words = ["a  b", "it's", "$HOME", "*", "", "é"]
        program = "import json, sys; print(json.dumps(sys.argv[1:])); print(sys.stdin.read().upper())"
        ran = mine.kueue_flux(
            "run", "interactive", "--stdin", "--", "python3", "-c", program, *words, stdin="typed in\n" * 1000
        )
        assert ran.code == 0, ran.err
        assert json.loads(ran.lines[0]) == words
        assert ran.lines[1:1001] == ["TYPED IN"] * 1000

    def test_jobs_that_are_left_to_themselves(self, mine: Namespace):
        ran = mine.kueue_flux("submit-job", "interactive", "--", "--job-name=left", "sleep", "600")
        assert ran.code == 0, ran.err
        (job_id,) = ran.lines
        found = json.loads(mine.kueue_flux("jobs", "interactive", "-o", "json").out)
        (job,) = [job for job in found if job["id"] == job_id]
        assert (job["name"], job["state"], job["tasks"]) == ("left", "RUN", 1)
        assert "left" in mine.kueue_flux("jobs", "interactive").out
        used = {
            r["state"]: r["nodes"] for r in json.loads(mine.kueue_flux("resources", "interactive", "-o", "json").out)
        }
        assert used == {"free": 1, "allocated": 1, "down": 0}
        assert mine.kueue_flux("shell", "interactive", "--", "flux", "cancel", job_id).code == 0

    def test_an_interrupted_run_is_cancelled(self, mine: Namespace):
        typist = Typist(mine, "run", "interactive", "--", "--job-name=broken-off", "sh", "-c", "echo begun; sleep 600")
        typist.until(b"begun")
        typist.type(b"\x03")
        assert typist.exit_code() == 130
        found = json.loads(mine.kueue_flux("jobs", "interactive", "-o", "json").out)
        assert [job["result"] for job in found if job["name"] == "broken-off"] == ["CANCELED"]

    def test_a_shell_without_a_terminal(self, mine: Namespace):
        ran = mine.kueue_flux("shell", "interactive", stdin="flux getattr size; cd /tmp; pwd; exit 4\n")
        assert (ran.code, ran.lines) == (4, ["2", "/tmp"])

    def test_a_shell_in_a_terminal(self, mine: Namespace):
        typist = Typist(mine, "shell", "interactive")
        typist.until(b"connected to interactive")
        typist.resize(33, 99)
        typist.type(b"stty size\r")
        typist.until(b"33 99")
        typist.resize(44, 111)
        typist.type(b"sleep 600\r")
        time.sleep(1)
        typist.type(b"\x03")  # ends that, and not the shell
        typist.type(b"stty size; flux resource list -no {nnodes} -s all; hostname; exit 5\r")
        typist.until(b"44 111\r\n2\r\ninteractive-0\r\n")
        assert typist.exit_code() == 5

    def test_top(self, mine: Namespace):
        typist = Typist(mine, "top", "interactive")
        typist.until(b"nodes")
        typist.type(b"q")
        assert typist.exit_code() == 0

    def test_it_is_ready_and_has_not_finished(self, mine: Namespace):
        (shown,) = rows(mine.kubectl("get", "minicluster", "interactive"))
        assert (shown["READY"], shown["FINISHED"]) == ("True", "Running")


class Typist:
    """A person at a terminal, in which a command runs."""

    def __init__(self, namespace: Namespace, command: str, *words: str) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ["KUBECONFIG"] = str(namespace.cluster.kubeconfig)
            words = ("-m", "kueue_flux.cli.main", command, "-n", namespace.name, *words)
            os.execv(sys.executable, [sys.executable, *words])
        self.seen = b""

    def until(self, text: bytes) -> None:
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.terminal], [], [], 0.2)[0]:
                self.seen += os.read(self.terminal, 65536)

    def type(self, text: bytes) -> None:
        os.write(self.terminal, text)

    def resize(self, lines: int, columns: int) -> None:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def exit_code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def interactive(namespace: Namespace, name: str, *, size: int = 1, **spec: object) -> None:
    """Submit one and wait until it runs."""
    text = as_yaml(namespace.of_spec(name, {"size": size, "interactive": True, **spec}, {}))
    ran = namespace.kueue_flux("submit", "-", stdin=text)
    assert ran.code == 0, ran.err
    namespace.wait_running(name)


def test_a_program_in_python_uses_it_and_ends_it(namespace: Namespace):
    interactive(namespace, "used", size=2)
    ran = namespace.cluster.run(sys.executable, EXAMPLES / "interactive" / "use.py", "used", namespace.name)
    assert ran.code == 0, ran.err
    first, *jobs, last = ran.lines
    assert first == "used-0 used-1"
    assert sorted(jobs) == ["hostname: INACTIVE on 2 of 2 nodes ", "sleep: RUN on 1 of 2 nodes (this one)"]
    assert last == "it was stopped"


@pytest.mark.parametrize("how", ["stop", "flux-shutdown"])
def test_one_that_is_stopped_has_succeeded(namespace: Namespace, how: str):
    interactive(namespace, "over", size=2)
    assert namespace.kueue_flux("submit-job", "over", "--", "sleep", "600").code == 0
    if how == "stop":
        ran = namespace.kueue_flux("stop", "over")
        assert (ran.code, ran.out, ran.err) == (0, "over stopped\n", "")
    else:
        assert namespace.kueue_flux("shell", "over", "--", "flux", "shutdown", "--background").code == 0
    found = namespace.wait_succeeded("over")
    assert found["status"]["exitCode"] == 0
    assert namespace.message("over", "Finished") == "it was stopped"
    assert namespace.kueue_flux("wait", "over").code == 0
    again = namespace.kueue_flux("stop", "over")
    assert again.code == 0
    assert "over has finished already" in again.err
    ran = namespace.kueue_flux("shell", "over", "--", "true")
    assert ran.code == 1
    assert "MiniCluster over has finished: it was stopped" in ran.err


def test_the_deadline_ends_it(namespace: Namespace):
    interactive(namespace, "late", deadlineSeconds=20)
    found = namespace.wait_finished("late")
    assert "DeadlineExceeded" in namespace.message("late", "Finished")
    assert not is_true(found, "Ready")
    assert namespace.condition("late", "Finished") == ("True", "Failed")


def test_its_deletion_ends_it(namespace: Namespace):
    interactive(namespace, "gone", size=2)
    assert namespace.kueue_flux("delete", "gone").code == 0
    assert namespace.pods("gone") == []


def test_a_command_that_is_given_too_is_not_run(namespace: Namespace):
    container = {"command": "sh -c 'exit 3'"}
    text = as_yaml(namespace.of_spec("both", {"interactive": True}, container))
    assert namespace.kueue_flux("submit", "-", stdin=text).code == 0
    namespace.wait_running("both")
    assert namespace.kueue_flux("run", "both", "--", "echo", "still here").out == "still here\n"
    assert namespace.kueue_flux("stop", "both").code == 0


def test_one_that_runs_a_command_can_be_used_too(namespace: Namespace):
    namespace.start("busy", *UNTIL_TOLD, size=2)
    namespace.wait_running("busy")
    namespace.wait_output("busy", "begun")
    found = json.loads(namespace.kueue_flux("jobs", "busy", "-o", "json").out)
    assert [job["state"] for job in found] == ["RUN"]
    assert namespace.kueue_flux("shell", "busy", "--", "flux", "getattr", "size").out == "2\n"
    ran = namespace.kueue_flux("stop", "busy")
    assert (ran.code, ran.out) == (0, "busy stopped\n")
    assert namespace.message("busy", "Finished") == "it was stopped before the command ended (Stopped, exit code 143)"


def test_one_that_waits_for_quota_says_so(namespace: Namespace):
    namespace.stop_queue("Hold")
    ran = namespace.kueue_flux(
        "submit", "--interactive", "-q", "queue", "-i", namespace.cluster.flux.reference, "--name", "waits"
    )
    assert ran.code == 0, ran.err
    namespace.wait_condition("waits", "QuotaReserved", "False", "Inadmissible")
    ran = namespace.kueue_flux("shell", "waits")
    assert ran.code == 1
    assert "MiniCluster waits does not run yet: it waits in queue queue" in ran.err
    assert "wait for it: kueue-flux wait waits --for ready" in ran.err


def test_who_may_not_run_programs_in_pods_is_told(namespace: Namespace, tmp_path):
    interactive(namespace, "closed")
    namespace.kubectl("create", "serviceaccount", "reader")
    namespace.kubectl(
        "create", "rolebinding", "reader", "--clusterrole=view", f"--serviceaccount={namespace.name}:reader"
    )
    token = namespace.kubectl("create", "token", "reader").strip()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(namespace.cluster.kubeconfig.read_text())
    admin = namespace.cluster.kubectl("config", "current-context").strip()
    for words in (
        ("set-credentials", "reader", f"--token={token}"),
        ("set-context", "reader", f"--cluster={admin}", "--user=reader"),
    ):
        namespace.cluster.kubectl("config", "--kubeconfig", str(kubeconfig), *words)
    ran = namespace.kueue_flux("run", "closed", "--kubeconfig", str(kubeconfig), "--context", "reader", "--", "true")
    assert ran.code == 1
    assert "you may not run programs in pod closed-0-" in ran.err
    assert "ask for permission to create pods/exec" in ran.err
