"""The commands `queue` and `top` as a user types them."""

import asyncio
import contextlib
import json
import os
import pty
import re
import signal
import sys

import pytest
import yaml

from tests.client.objects import MINICLUSTERS
from tests.client.queue_objects import (
    ALL_LOCAL_QUEUES,
    ALL_WORKLOADS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    WORKLOADS,
    a_queue,
    local_queue,
    workload,
)
from tests.client.server import Reply, failure, listing


@pytest.fixture
def queues(server):
    a_queue(server)
    server.on("GET", LOCAL_QUEUES, listing(local_queue("team-a")))
    server.on("GET", MINICLUSTERS, listing())
    return server


async def test_the_list(queues, invoke):
    assert await invoke("queue") == (
        0,
        "NAME     CLUSTERQUEUE   COHORT   WAITING   ADMITTED   USED      STATE\n"
        "team-a   science        all      2         1          cpu 5/4   active\n",
        "",
    )


async def test_the_list_of_all_namespaces(queues, invoke):
    queues.on("GET", ALL_LOCAL_QUEUES, listing(local_queue("team-a", namespace="there")))
    ended = await invoke("queue", "-A")
    assert ended.out.splitlines()[1].startswith("there       team-a ")


async def test_what_may_not_be_read_is_said_once(queues, invoke):
    queues.scripts["GET", LOCAL_QUEUES].clear()
    queues.on("GET", LOCAL_QUEUES, listing(local_queue("team-a"), local_queue("team-b")))
    queues.scripts["GET", CLUSTER_QUEUES].clear()
    queues.on("GET", CLUSTER_QUEUES, failure(403, "no"))
    queues.on("GET", f"{CLUSTER_QUEUES}/science", failure(403, "no"))
    ended = await invoke("queue")
    assert (ended.code, ended.err) == (0, "not shown: quota of ClusterQueue science: it may not be read\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "no LocalQueues in namespace team: ask your cluster's admin for one\n"),
        (("-A",), "no LocalQueues: ask your cluster's admin for one\n"),
    ],
)
async def test_no_queues(server, invoke, args, said):
    server.on("GET", LOCAL_QUEUES, listing())
    server.on("GET", ALL_LOCAL_QUEUES, listing())
    assert await invoke("queue", *args) == (0, "", said)


async def test_one_queue(queues, invoke):
    ended = await invoke("queue", "team-a")
    assert (ended.code, ended.err) == (0, "")
    assert re.search(r"\n  0 +\(1 of other queues\)\n  1 +next +2 to 4 +cpu 4 ", ended.out)


async def test_a_queue_that_does_not_exist(queues, invoke):
    assert await invoke("queue", "nope") == (
        1,
        "",
        "Error: there is no LocalQueue nope in namespace team\n  there are: team-a\n",
    )


async def test_for_programs(queues, invoke):
    assert json.loads((await invoke("queue", "-o", "json")).out)[0]["quota"][0]["nominal"] == "4"
    found = yaml.safe_load((await invoke("queue", "team-a", "-o", "yaml")).out)
    assert [(item["name"], item["position"]) for item in found["waitingWorkloads"]] == [("next", 1), ("later", 3)]


async def test_top_off_a_terminal_is_printed_once(queues, invoke):
    ended = await invoke("top")
    assert ended.code == 0
    assert ended.out.startswith("team-a  active, 1 admitted, 2 waiting\n  small  cpu  [||||||||||||||||||||] 5/4, ")
    assert "\nRunning: 0\n" in ended.out


async def test_top_of_all_namespaces(queues, invoke):
    queues.on("GET", ALL_LOCAL_QUEUES, listing(local_queue("team-a")))
    queues.on("GET", ALL_WORKLOADS, listing(workload("next")))
    queues.on("GET", "/apis/flux-framework.org/v1alpha2/miniclusters", listing())
    assert "team-a in team  active" in (await invoke("top", "-A")).out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("queue", "-A", "-n", "team"), "contradict each other"),
        (("top", "-A", "-n", "team"), "contradict each other"),
        (("queue", "team-a", "-A"), "a NAME is looked for in one namespace"),
        (("top", "hello", "-A"), "a NAME is looked for in one namespace"),
        (("queue", "--watch"), "--watch shows one queue: name it"),
        (("queue", "team-a", "--watch", "-o", "json"), "leave one out"),
        (("queue", ""), "it is empty"),
    ],
)
async def test_what_cannot_be_meant(server, invoke, args, said):
    ended = await invoke(*args)
    assert ended.code == 2
    assert said in " ".join(ended.err.replace("│", " ").split())
    assert server.requests == []


CODE = "import sys; from kueue_flux.cli.main import run; sys.exit(run(sys.argv[1:]))"


def interruptible():
    # A test run in the background of a script has ^C switched off, and its children inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def test_watching_off_a_terminal_is_a_line_for_each_change(queues):
    queues.scripts["GET", WORKLOADS].clear()
    queues.on("GET", WORKLOADS, listing(workload("next")), listing(workload("next", admitted=2)))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CODE, "queue", "team-a", "--watch"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=interruptible,
    )
    assert process.stdout is not None
    lines = [(await asyncio.wait_for(process.stdout.readline(), 30)).decode() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert (process.returncode, b"Traceback" in err) == (130, False)
    assert [line[10:] for line in lines] == [
        "team-a: active, cpu 5/4\n",
        "next: waiting at position 1: 3 more cpu of small needed for its full size\n",
        "next: admitted with 2 of 4 nodes\n",
    ]
    assert all(re.match(r"\d\d:\d\d:\d\d  ", line) for line in lines)


@pytest.mark.parametrize(
    ("words", "drawn"), [(("queue", "team-a", "-w"), b"Waiting: 2"), (("top",), b"active\x1b[0m, 1 admitted")]
)
async def test_on_a_terminal_it_is_drawn_until_interrupted(queues, words, drawn):
    """Also over an outage, of which it tells."""
    read = queues.scripts["GET", WORKLOADS]
    read.extend([failure(503, "going down"), *list(read)])
    terminal, end = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CODE, *words),
        stdin=end,
        stdout=end,
        stderr=end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "150", "LINES": "40"},
        preexec_fn=interruptible,
    )
    os.close(end)
    shown, interrupted = b"", False
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while part := await asyncio.to_thread(os.read, terminal, 4096):
            shown += part
            if not interrupted and b"going down" in shown and drawn in shown:
                interrupted = True
                process.send_signal(signal.SIGINT)
    os.close(terminal)
    assert await process.wait() == 130
    assert b"trying again" in shown
    assert b"Traceback" not in shown


async def test_a_terminal_gets_errors_too(server, invoke):
    server.on("GET", f"{LOCAL_QUEUES}/team-a", Reply("404 page not found", status=404))
    server.on("GET", LOCAL_QUEUES, Reply("404 page not found", status=404))
    for words in (("queue",), ("queue", "team-a"), ("queue", "team-a", "-w"), ("top",)):
        ended = await invoke(*words)
        assert (ended.code, ended.err) == (
            1,
            "Error: this cluster has no queues: Kueue is not installed, or older than 0.19\n",
        )
