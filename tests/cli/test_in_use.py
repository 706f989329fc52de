"""The commands that use a MiniCluster's Flux instance: what they run there, print, and exit with."""

import asyncio
import json
import os
import pty
import select
import socket
import sys
import time

import httpx
import pytest

from kueue_flux.cli import tty
from tests.client import objects, pod_port
from tests.client.objects import MINICLUSTERS, PODS, lead, running, succeeded
from tests.client.pod_exec import STDERR, Process, serve
from tests.client.server import Reply, event, listing, watch

PATIENCE = 60.0


@pytest.fixture
def processes(server):
    """What is run in the lead of MiniCluster hello, which runs; what each prints is what it was called with."""
    server.on("GET", f"{MINICLUSTERS}/hello", Reply(objects.running()))
    server.on("GET", PODS, listing(lead("a", "running")))
    answers = {
        ("flux", "submit"): ("fAb1\n", 0),
        ("flux", "job"): ("from the job\n", 3),
        ("flux", "jobs", "-a", "--count=0", "--json"): ('{"jobs": []}', 0),
        ("flux", "jobs"): ("JOBID\n", 0),
        ("flux", "resource", "list", "--no-header"): ("free\t1\t2\t0\tmc-0\n", 0),
        ("flux", "resource"): ("STATE\n", 0),
    }

    async def program(process: Process) -> int:
        words = tuple(process.words[2:])
        text, code = next((a for key, a in answers.items() if words[: len(key)] == key), ("", 0))
        if process.query["stdin"] == "true":
            await process.stdin_closed.wait()
        await process.print(text)
        await process.print("told\n" if "complain" in words else "", STDERR)
        return 7 if "fail" in words else code

    return serve(server, program)


def words(processes):
    return [process.words[2:] for process in processes]


async def test_run(invoke, processes):
    ended = await invoke("run", "hello", "--", "-N2", "hostname", "--", "-x")
    assert (ended.code, ended.out) == (3, "from the job\n")
    assert words(processes) == [["flux", "submit", "-N2", "hostname", "--", "-x"], ["flux", "job", "attach", "fAb1"]]
    assert [process.query["stdin"] for process in processes] == ["false", "false"]


async def test_submit_job(invoke, processes):
    ended = await invoke("submit-job", "hello", "--", "-t", "5m", "sleep", "9")
    assert (ended.code, ended.out) == (0, "fAb1\n")
    assert words(processes) == [["flux", "submit", "-t", "5m", "sleep", "9"]]


@pytest.mark.parametrize(
    ("command", "out"),
    [
        (("jobs", "hello"), "JOBID\n"),
        (("jobs", "hello", "-o", "json"), "[]\n"),
        (("resources", "hello"), "STATE\n"),
        (("resources", "hello", "-o", "yaml"), "- state: free\n  nodes: 1\n  cores: 2\n  gpus: 0\n  hosts: mc-0\n"),
    ],
)
async def test_lists(invoke, processes, command, out):
    ended = await invoke(*command)
    assert (ended.code, ended.out) == (0, out)


@pytest.fixture
def redirected(monkeypatch, tmp_path):
    """A file that is this process's input."""
    (tmp_path / "in").write_text("line\n" * 100_000)
    with (tmp_path / "in").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        yield file


async def test_a_command_in_place_of_a_shell(invoke, processes, redirected):
    ended = await invoke("shell", "hello", "--", "complain", "fail")
    assert (ended.code, ended.err) == (7, "told\n")
    assert words(processes) == [["complain", "fail"]]
    assert processes[0].query["tty"] == "false"


@pytest.mark.parametrize("command", [("shell", "hello", "--", "cat"), ("run", "hello", "--stdin", "--", "cat")])
async def test_input_is_handed_on(invoke, processes, redirected, command):
    await invoke(*command)
    assert processes[-1].stdin == b"line\n" * 100_000


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (("run", "hello"), "a command is needed: kueue-flux run NAME -- COMMAND..."),
        (("submit-job", "hello"), "a command is needed"),
        (("run", "hello", "hostname"), "after two dashes: kueue-flux run NAME -- COMMAND..."),
        (("shell", "hello", "bash"), "after two dashes: kueue-flux shell NAME -- COMMAND..."),
        (("run", "hello", "--timeout", "5", "--", "true"), "add --wait, or leave it out"),
        (("stop", "hello", "--no-wait", "--timeout", "5"), "leave one out"),
        (("top", "hello"), "top needs a terminal"),
        (("submit", "--interactive", "-i", "app", "--", "true"), "--interactive runs no command"),
        (("submit", "--interactive"), "an image"),
    ],
)
async def test_what_cannot_be_meant(invoke, processes, command, complaint):
    ended = await invoke(*command)
    assert ended.code == 2
    assert complaint in " ".join(ended.err.replace("│", " ").split())
    assert processes == []


async def test_not_running_is_an_error_with_a_remedy(invoke, server):
    server.on("GET", f"{MINICLUSTERS}/hello", Reply(objects.queued()))
    ended = await invoke("run", "hello", "--", "true")
    assert ended.code == 1
    assert "MiniCluster hello does not run yet: it waits in queue" in ended.err
    assert "wait for it: kueue-flux wait hello --for ready" in ended.err


async def test_wait_until_it_runs(invoke, server, processes):
    server.on("GET", MINICLUSTERS, listing(objects.queued()))
    server.on("WATCH", MINICLUSTERS, watch(event("MODIFIED", objects.running()), asyncio.Event()))
    ended = await invoke("run", "hello", "--wait", "--", "true")
    assert ended.code == 3
    assert "running on 4 nodes" in ended.err


async def test_stop(invoke, server, processes):
    server.on("GET", MINICLUSTERS, listing(objects.running()))
    server.on("WATCH", MINICLUSTERS, watch(event("MODIFIED", objects.succeeded()), asyncio.Event()))
    ended = await invoke("stop", "hello")
    assert (ended.code, ended.out, ended.err) == (0, "hello stopped\n", "")
    assert processes[0].words[3] == "stop"


async def test_stop_without_waiting(invoke, processes):
    ended = await invoke("stop", "hello", "--no-wait")
    assert (ended.code, ended.out) == (0, "hello is being stopped\n")


async def test_a_command_that_was_stopped_has_failed(invoke, server, processes):
    server.on("GET", MINICLUSTERS, listing(objects.failed()))
    ended = await invoke("stop", "hello")
    assert (ended.code, ended.out) == (0, "hello stopped\n")
    assert "the command exited with code 3" in ended.err


async def test_what_has_finished_is_stopped_already(invoke, server):
    server.on("GET", f"{MINICLUSTERS}/hello", Reply(objects.succeeded()))
    ended = await invoke("stop", "hello")
    assert (ended.code, ended.out) == (0, "")
    assert "hello has finished already" in ended.err


async def test_an_interactive_minicluster(invoke):
    ended = await invoke(
        "submit", "--interactive", "-i", "app:1", "-N", "2", "--name", "mine", "--dry-run", "-o", "json"
    )
    assert ended.code == 0
    found = json.loads(ended.out)
    assert found["metadata"]["name"] == "mine"
    assert found["spec"]["interactive"] is True
    assert found["spec"]["containers"] == [{"image": "app:1"}]


async def test_how_to_go_on_is_said(invoke, server):
    server.on("POST", MINICLUSTERS, Reply(objects.queued(), status=201))
    ended = await invoke("submit", "--interactive", "-i", "app:1", "--name", "hello")
    assert ended.code == 0
    assert "use it: kueue-flux shell --wait hello" in ended.err


# -- a terminal


class Typist:
    """A person at a terminal, in which the command runs."""

    def __init__(self, *args: str) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execv(sys.executable, [sys.executable, "-m", "kueue_flux.cli.main", *args])
        self.seen = b""

    def until(self, text: bytes) -> None:
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.seen += os.read(self.terminal, 65536)

    def type(self, text: bytes) -> None:
        os.write(self.terminal, text)

    def exit_code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


async def test_a_shell_in_a_terminal(server, processes, monkeypatch):
    async def shell(process: Process) -> int:
        await process.until(lambda: bool(process.sizes))
        await process.print("prompt> ")
        await process.until(lambda: process.stdin.endswith(b"\x04"))
        await process.print(b"typed " + process.stdin.replace(b"\x03", b"^C").replace(b"\x04", b"^D"))
        return 9

    seen = serve(server, shell)
    monkeypatch.setenv("TERM", "screen")

    def person() -> int:
        typist = Typist("shell", "hello")
        typist.until(b"connected to hello")
        typist.until(b"prompt> ")
        typist.type(b"a\rb\x03\x04")  # every key as it is: a return is none of ours, and ^C ends nothing here
        typist.until(b"typed a\rb^C^D")
        return typist.exit_code()

    assert await asyncio.to_thread(person) == 9
    (process,) = seen
    assert process.words[2:4] == ["env", "TERM=screen"]
    assert (process.query["tty"], process.query["stdin"]) == ("true", "true")


def test_a_terminal_is_as_it_was_afterwards(monkeypatch):
    import termios

    controller, terminal = pty.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        before = termios.tcgetattr(terminal)
        with tty.raw():
            assert termios.tcgetattr(terminal) != before
        assert termios.tcgetattr(terminal) == before
    os.close(controller)


def serving():
    obj = running()
    obj["spec"]["containers"] = [{"image": "ubuntu"}]
    return obj


@pytest.fixture
def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.mark.parametrize(
    ("flags", "out", "said"),
    [
        ((), "", "kubectl get secret hello-restful -n team -o 'jsonpath={.data.token}' | base64 -d\n"),
        (("--show-token",), "t0ken\n", "/docs"),
    ],
)
async def test_port_forward(server, invoke, free_port, flags, out, said):
    ended = asyncio.Event()
    server.on("GET", f"{MINICLUSTERS}/hello", Reply(serving()))
    server.on("GET", PODS, listing(lead("a", "running")))
    server.on("GET", "/api/v1/namespaces/team/secrets/hello-restful", Reply({"data": {"token": "dDBrZW4="}}))
    server.on("GET", MINICLUSTERS, listing(serving()))
    server.on("WATCH", MINICLUSTERS, watch(ended, event("MODIFIED", succeeded()), asyncio.Event()))
    pod_port.serve(server, int(server.url.rpartition(":")[2]))  # which answers what it does not know with 404
    running_command = asyncio.create_task(invoke("port-forward", "hello", str(free_port), *flags))
    await server.until(lambda: any(method == "WATCH" for method, *_ in server.requests))
    async with httpx.AsyncClient(trust_env=False) as session:
        assert (await session.get(f"http://127.0.0.1:{free_port}/v1")).status_code == 404
    ended.set()
    done = await running_command
    assert (done.code, done.out) == (0, f"http://127.0.0.1:{free_port}\n{out}")
    assert said in done.err
    assert ("t0ken" in done.err) is False
    assert "MiniCluster hello has ended: the command succeeded" in done.err


async def test_port_forward_of_one_that_runs_a_command(server, invoke):
    server.on("GET", f"{MINICLUSTERS}/hello", Reply(running()))
    server.on("GET", PODS, listing(lead("a", "running")))
    done = await invoke("port-forward", "hello", "0")
    assert (done.code, done.out) == (1, "")
    assert "Error: MiniCluster hello has no RESTful API\n" in done.err
