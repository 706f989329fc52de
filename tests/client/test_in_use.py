"""A MiniCluster's Flux instance, used: what is run where, what is read from it, and what is said where it is not up."""

import asyncio
import json

import pytest

from kueue_flux.client import MiniClusters, instance
from kueue_flux.client.errors import ClientError, Forbidden, JobRejected, NotFound, NotRunning, Unreachable
from kueue_flux.client.exec import Streams
from kueue_flux.client.instance import Completed, Job, Resources
from tests.client import objects
from tests.client.objects import MINICLUSTERS, PODS, lead, minicluster
from tests.client.pod_exec import STDERR, Process, refuse, serve
from tests.client.server import Reply, failure, listing

ENTER = ["/bin/sh", "/etc/flux/config/enter.sh"]
PENDING = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/team/localqueues/team-a/pendingworkloads"


@pytest.fixture
def running(server):
    """A MiniCluster named hello whose brokers are up."""
    server.on("GET", f"{MINICLUSTERS}/hello", Reply(objects.running()))
    server.on("GET", PODS, listing(lead("a", "running")))


class Flux:
    """Programs in the lead's container: what each prints, by its words after enter.sh."""

    def __init__(self, server, **answers):
        self.answers = {key.replace("_", " "): answer for key, answer in answers.items()}
        self.processes = serve(server, self._run)

    @property
    def words(self):
        return [process.words[2:] for process in self.processes]

    async def _run(self, process: Process) -> int | None:
        assert process.words[:2] == ENTER
        assert process.query["container"] == "flux"
        words = " ".join(process.words[2:])
        answer = next((a for key, a in self.answers.items() if words.startswith(key)), "")
        if callable(answer):
            return await answer(process)
        out, err, code = answer if isinstance(answer, tuple) else (answer, "", 0)
        await process.print(out)
        await process.print(err, STDERR)
        return code


async def test_exec(server, client, running):
    flux = Flux(server, printf=("out", "err", 4))
    assert await client.exec("hello", ["printf", "a b"]) == Completed(4, "out", "err")
    assert flux.words == [["printf", "a b"]]


async def test_stdin(server, client, running):
    async def cat(process: Process) -> int:
        await process.stdin_closed.wait()
        await process.print(process.stdin)
        return 0

    Flux(server, cat=cat)
    assert (await client.exec("hello", ["cat"], stdin=b"in")).stdout == "in"


async def test_run_is_submitted_and_followed(server, client, running):
    flux = Flux(server, flux_submit="ƒAb1\n", flux_job_attach=("mc-0\n", "", 3))
    assert await client.run("hello", ["echo", "-n"], options=["-N2"]) == Completed(3, "mc-0\n", "")
    assert flux.words == [["flux", "submit", "-N2", "--", "echo", "-n"], ["flux", "job", "attach", "fAb1"]]


async def test_who_gives_up_waiting_cancels_the_job(server, client, running):
    begun = asyncio.Event()

    async def attach(process: Process) -> None:
        begun.set()
        await process.until(lambda: process.socket.closed)

    flux = Flux(server, flux_submit="fAb1\n", flux_job_attach=attach)
    waiting = asyncio.create_task(client.run("hello", ["sleep", "1000"]))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert flux.words[-1] == ["flux", "cancel", "fAb1"]


async def test_who_gives_up_while_it_is_submitted_cancels_it_too(server, client, running):
    begun, go = asyncio.Event(), asyncio.Event()

    async def submit(process: Process) -> int:
        begun.set()
        await go.wait()
        await process.print("fAb1\n")
        return 0

    flux = Flux(server, flux_submit=submit)
    waiting = asyncio.create_task(client.run("hello", ["sleep", "1000"]))
    await begun.wait()
    waiting.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert flux.words[1:] == [["flux", "cancel", "fAb1"]]


async def test_a_job_whose_connection_is_lost_may_go_on(server, client, running):
    async def attach(_: Process) -> None:
        return None

    Flux(server, flux_submit="fAb1\n", flux_job_attach=attach)
    with pytest.raises(Unreachable, match="may go on: kueue-flux jobs hello"):
        await client.run("hello", ["true"])


async def test_submit_job(server, client, running):
    flux = Flux(server, flux_submit="ƒAb1\n")
    assert await client.submit_job("hello", ["sleep", "60"], options=["-t", "5m"]) == "fAb1"
    assert await client.submit_words("hello", ["-t5m", "sleep"]) == "fAb1"
    assert flux.words == [["flux", "submit", "-t", "5m", "--", "sleep", "60"], ["flux", "submit", "-t5m", "sleep"]]


@pytest.mark.parametrize("call", ["run", "submit_job"])
async def test_a_job_that_flux_does_not_take(server, client, running, call):
    Flux(server, flux_submit=("", "usage: ...\nflux-submit: ERROR: no such option --bad\n", 1))
    with pytest.raises(JobRejected, match="no such option --bad") as raised:
        await getattr(client, call)("hello", ["true"], options=["--bad"])
    assert "flux submit --help" in raised.value.remedy


JOBS = {
    "jobs": [
        {
            "jobid": "ƒAb1", "name": "sleep", "state": "RUN", "ntasks": 2, "nnodes": 1, "nodelist": "mc-0",
            "runtime": 8.5, "status": "RUN",
        },
        {
            "jobid": "ƒAb2", "name": "sh", "state": "INACTIVE", "result": "FAILED", "returncode": 3, "ntasks": 1,
            "nnodes": 2, "nodelist": "mc-[0-1]", "runtime": 0.25,
        },
        {"jobid": "ƒAb3", "name": "big", "state": "SCHED", "ntasks": 99},
        {"jobid": "ƒAb4", "name": "x", "state": "INACTIVE", "result": "CANCELED", "returncode": -128, "ntasks": 1},
    ]
}  # fmt: skip


async def test_jobs(server, client, running):
    flux = Flux(server, flux_jobs=json.dumps(JOBS))
    found = await client.jobs("hello")
    assert found == (
        Job("fAb1", "sleep", "RUN", "", None, 1, 2, "mc-0", 8.5),
        Job("fAb2", "sh", "INACTIVE", "FAILED", 3, 2, 1, "mc-[0-1]", 0.25),
        Job("fAb3", "big", "SCHED", "", None, 0, 99, "", 0),
        Job("fAb4", "x", "INACTIVE", "CANCELED", None, 0, 1, "", 0),
    )
    assert [job.is_finished for job in found] == [False, True, False, True]
    assert flux.words == [["flux", "jobs", "-a", "--count=0", "--json"]]


async def test_resources(server, client, running):
    Flux(server, flux_resource="free\t3\t6\t0\tmc-[1-3]\nallocated\t1\t2\t0\tmc-0\ndown\t0\t0\t0\t\n")
    assert await client.resources("hello") == (
        Resources("free", 3, 6, 0, "mc-[1-3]"),
        Resources("allocated", 1, 2, 0, "mc-0"),
        Resources("down", 0, 0, 0, ""),
    )


async def test_what_flux_cannot_tell(server, client, running):
    Flux(server, flux_jobs=("", "flux-jobs: broken\n", 1))
    with pytest.raises(ClientError, match=r"flux jobs .* ended with 1: flux-jobs: broken"):
        await client.jobs("hello")


async def test_stop(server, client, running):
    async def program(_: Process) -> int:
        return 0

    processes = serve(server, program)
    await client.stop("hello")
    assert processes[0].words == [
        "/bin/sh", "-c", instance.STOP, "stop", "/run/flux/broker/stopped", "/run/flux/broker/command.pid",
    ]  # fmt: skip


async def test_what_cannot_be_stopped(server, client, running):
    async def program(process: Process) -> int:
        await process.print("cat: no such file\n", STDERR)
        return 1

    serve(server, program)
    with pytest.raises(ClientError, match=r"it cannot be stopped: cat: no such file; .*kueue-flux status hello"):
        await client.stop("hello")


async def test_streams(server, client, running):
    flux = Flux(server, flux_submit="fA\n", flux_job_attach=("a", "b", 2), sh=("c", "d", 5))
    out, err = bytearray(), bytearray()
    streams = Streams(out.extend, err.extend)
    assert await client.execute("hello", ["sh"], streams) == 5
    assert await client.run_job("hello", ["-n2", "true"], streams) == 2
    assert (out, err) == (b"ca", b"db")
    assert flux.words[1] == ["flux", "submit", "-n2", "true"]


# -- where it is not up


@pytest.mark.parametrize(
    ("found", "message", "remedy"),
    [
        (objects.queued(), "waits in queue team-a at position 9, insufficient unused quota", "wait hello --for ready"),
        (minicluster("hello", *objects.STARTED), "it is starting, 2 of 4 brokers are up", "wait hello --for ready"),
        (minicluster("hello"), "it is created, no reason given", "wait hello --for ready"),
        (objects.succeeded(), "has finished: the command succeeded", "kueue-flux logs hello"),
        (
            minicluster("hello", ("Accepted", "False", "InvalidSpec", "spec.size: bad")),
            "is refused: spec.size: bad",
            "delete it",
        ),
    ],
)
async def test_where_it_stands_is_said(server, client, found, message, remedy):
    server.on("GET", f"{MINICLUSTERS}/hello", Reply(found))
    pending = {"items": [{"metadata": {"name": "job-hello"}, "positionInLocalQueue": 7, "positionInClusterQueue": 9}]}
    server.on("GET", PENDING, Reply(pending))
    with pytest.raises(NotRunning) as raised:
        await client.exec("hello", ["true"])
    assert message in raised.value.message
    assert remedy in raised.value.remedy


async def test_one_that_is_being_deleted(server, client):
    found = objects.running()
    found["metadata"]["deletionTimestamp"] = "2030-01-31T12:00:09Z"
    server.on("GET", f"{MINICLUSTERS}/hello", Reply(found))
    with pytest.raises(NotRunning, match="is being deleted"):
        await client.exec("hello", ["true"])


@pytest.mark.parametrize("pods", [[], [lead("a", "waiting")], [lead("a", "terminated")]])
async def test_a_lead_that_is_gone(server, client, pods):
    server.on("GET", f"{MINICLUSTERS}/hello", Reply(objects.running()))
    server.on("GET", PODS, listing(*pods))
    with pytest.raises(NotRunning, match=r"the lead of MiniCluster hello is gone.*wait hello --for ready"):
        await client.exec("hello", ["true"])


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        (failure(403, "cannot create pods/exec"), Forbidden, "you may not run programs in pod hello-0-a.*pods/exec"),
        (failure(404, "pods not found", name="hello-0-a", kind="pods"), NotRunning, "hello-0-a, is gone"),
        (failure(400, "container flux is not running"), NotRunning, "is not running.*kueue-flux status hello"),
        (failure(500, "container not found"), NotRunning, "container not found"),
    ],
)
async def test_what_the_cluster_says_against_it(server, client, running, reply, error, words):
    refuse(server, reply)
    with pytest.raises(error, match=words):
        await client.exec("hello", ["true"])


async def test_there_is_none(server, client):
    server.on("GET", f"{MINICLUSTERS}/nope", failure(404, "not found", name="nope"))
    with pytest.raises(NotFound, match="there is no MiniCluster nope"):
        await client.stop("nope")


async def test_the_same_without_an_event_loop(server, running, tmp_path):
    from tests.client.server import kubeconfig

    Flux(server, flux_submit="fA\n", flux_job_attach=("out", "", 0), flux_jobs=json.dumps({"jobs": []}))

    def use() -> None:
        with MiniClusters(kubeconfig=kubeconfig(tmp_path / "k", server.url)) as miniclusters:
            assert miniclusters.run("hello", ["true"]) == Completed(0, "out", "")
            assert miniclusters.submit_job("hello", ["true"]) == "fA"
            assert miniclusters.jobs("hello") == ()

    await asyncio.to_thread(use)
