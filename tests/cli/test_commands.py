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

from kueue_flux.cli import commands, follow
from tests.client import objects
from tests.client.objects import MINICLUSTERS, PODS, lead, line, log_path, minicluster, queued, running, succeeded
from tests.client.server import Reply, event, failure, listing, watch

ONE = f"{MINICLUSTERS}/hello"
EVENTS = "/api/v1/namespaces/team/events"
QUEUES = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/localqueues"
QUEUE = "kueue.x-k8s.io/"
CLASSES = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"
LOG = line(1, "hello-0") + line(2, "hello-1")
SUBMIT = ("submit", "-q", "team-a", "-i", "ubuntu", "-N", "4", "--name", "hello")


def cluster_with_a_run(server, *states):
    """A MiniCluster that goes through these states after it was created, and a lead that writes two lines."""
    first, *later = states
    server.on("GET", QUEUES, listing({"metadata": {"name": "team-a"}}))
    server.on("POST", MINICLUSTERS, Reply(first, status=201))
    server.on("GET", ONE, Reply(first))
    server.on("GET", MINICLUSTERS, listing(first))
    server.on("WATCH", MINICLUSTERS, watch(*(event("MODIFIED", state) for state in later), asyncio.Event()))
    server.on("GET", PODS, listing(lead("a", "terminated")))
    server.on("GET", f"{PODS}/hello-0-a", Reply(lead("a", "terminated")))
    # Followed first, then asked once more for what came since the last second.
    server.on("GET", log_path("a"), Reply(LOG), Reply(line(2, "hello-1")))


def progress(err):
    """The lines of progress without their times."""
    return [re.sub(r"^ *\d+\.\ds  ", "", text) for text in err.splitlines()]


async def test_submit_prints_the_name(server, invoke):
    server.on("GET", QUEUES, listing({"metadata": {"name": "team-a"}}))
    server.on("POST", MINICLUSTERS, Reply(queued(), status=201))
    ended = await invoke(*SUBMIT, "--", "hostname")
    assert ended == (0, "hello\n", "")
    assert server.bodies[0]["spec"]["containers"][0]["command"] == "hostname"


async def test_submit_can_print_what_was_created(server, invoke):
    server.on("POST", MINICLUSTERS, Reply(queued(), status=201))
    ended = await invoke("submit", "-i", "ubuntu", "-o", "yaml", "--", "hostname")
    assert yaml.safe_load(ended.out)["metadata"]["uid"] == "uid-hello"


async def test_submit_wait_shows_output_on_stdout_and_progress_on_stderr(server, invoke):
    cluster_with_a_run(server, queued(queuePosition=1), running(), objects.failed())
    ended = await invoke(*SUBMIT, "--wait", "--", "sh", "-c", "exit 3")
    assert ended.code == 3
    assert ended.out == "hello-0\nhello-1\n"
    lines = progress(ended.err)
    assert lines[0] == "submitted hello"
    assert lines[1].startswith("waiting for quota in queue team-a: position 1 (1 ahead), insufficient")
    assert lines[-1] == "failed: the command exited with code 3 (CommandFailed)"


async def test_submit_wait_without_logs(server, invoke):
    cluster_with_a_run(server, queued(), succeeded())
    ended = await invoke(*SUBMIT, "--wait", "--no-logs", "--", "hostname")
    assert (ended.code, ended.out) == (0, "")


async def test_logs_alone_imply_waiting(server, invoke):
    cluster_with_a_run(server, queued(), succeeded())
    ended = await invoke(*SUBMIT, "-f", "--", "hostname")
    assert (ended.code, ended.out) == (0, "hello-0\nhello-1\n")


async def test_who_may_not_read_logs_can_still_wait(server, invoke):
    cluster_with_a_run(server, queued(), succeeded())
    server.scripts["GET", PODS].clear()
    server.on("GET", PODS, failure(403, "cannot list pods"))
    ended = await invoke(*SUBMIT, "--wait", "--", "hostname")
    assert (ended.code, ended.out) == (0, "")
    assert "the output cannot be shown: cannot list pods" in ended.err


async def test_a_queue_that_does_not_exist(server, invoke):
    server.on("GET", QUEUES, listing({"metadata": {"name": "team-b"}}, {"metadata": {"name": "team-c"}}))
    ended = await invoke(*SUBMIT, "--", "hostname")
    assert ended.code == 2
    assert ended.err == "Error: namespace team has no LocalQueue team-a\n  there are: team-b, team-c\n"
    assert server.asked("POST", MINICLUSTERS) == 0


async def test_a_priority_class_that_does_not_exist(server, invoke):
    server.on("GET", QUEUES, listing({"metadata": {"name": "team-a"}}))
    server.on("GET", CLASSES, listing({"metadata": {"name": "low"}}, {"metadata": {"name": "high"}}))
    ended = await invoke(*SUBMIT, "--priority", "urgent", "--", "hostname")
    assert ended == (2, "", "Error: there is no WorkloadPriorityClass urgent\n  there are: high, low\n")
    assert server.asked("POST", MINICLUSTERS) == 0


@pytest.mark.parametrize(
    "answer", [listing({"metadata": {"name": "high"}}), failure(403, "no"), failure(503, "starting")]
)
async def test_a_priority_class_that_exists_or_cannot_be_looked_for(server, invoke, answer):
    server.on("GET", QUEUES, listing({"metadata": {"name": "team-a"}}))
    server.on("GET", CLASSES, answer)
    server.on("POST", MINICLUSTERS, Reply(queued(), status=201))
    assert await invoke(*SUBMIT, "--priority", "high", "--", "hostname") == (0, "hello\n", "")


async def test_priority_classes_are_read_only_where_one_is_named(server, invoke):
    server.on("GET", QUEUES, listing({"metadata": {"name": "team-a"}}))
    server.on("POST", MINICLUSTERS, Reply(queued(), status=201))
    assert (await invoke(*SUBMIT, "--", "hostname")).code == 0
    assert server.asked("GET", CLASSES) == 0


async def test_of_several_namespaces_all_are_checked_before_anything_is_created(server, invoke, tmp_path):
    good, bad = (
        {
            "apiVersion": "flux-framework.org/v1alpha2",
            "kind": "MiniCluster",
            "metadata": {"name": "hello", "namespace": namespace, "labels": {"kueue.x-k8s.io/queue-name": "team-a"}},
            "spec": {"containers": [{"image": "ubuntu", "command": "hostname"}]},
        }
        for namespace in ("team", "there")
    )
    server.on("GET", QUEUES, listing({"metadata": {"name": "team-a"}}))
    server.on("GET", QUEUES.replace("/team/", "/there/"), listing())
    server.on("POST", MINICLUSTERS, Reply(queued(), status=201))
    file = tmp_path / "two.yaml"
    file.write_text(yaml.safe_dump_all([good, bad]))
    ended = await invoke("submit", str(file))
    assert "Error: namespace there has no LocalQueue team-a" in ended.err
    assert server.asked("POST", MINICLUSTERS) == 0


async def test_a_namespace_without_queues(server, invoke):
    server.on("GET", QUEUES, listing())
    ended = await invoke(*SUBMIT, "--", "hostname")
    assert "there are none: ask your cluster's admin" in ended.err


@pytest.mark.parametrize(
    ("answer", "said"), [(Reply("404 page not found", status=404), "has no Kueue"), (failure(403, "no"), "")]
)
async def test_where_queues_cannot_be_listed_it_is_submitted_all_the_same(server, invoke, answer, said):
    server.on("GET", QUEUES, answer)
    server.on("POST", MINICLUSTERS, Reply(queued(), status=201))
    ended = await invoke(*SUBMIT, "--", "hostname")
    assert (ended.code, ended.out) == (0, "hello\n")
    assert said in ended.err


async def test_what_only_the_api_server_finds(server, invoke):
    server.on(
        "POST", MINICLUSTERS, failure(422, "MiniCluster is invalid", causes=[{"field": "spec", "message": "too odd"}])
    )
    ended = await invoke("submit", "-i", "ubuntu", "--", "hostname")
    assert (ended.code, ended.err) == (1, "Error: MiniCluster is invalid\n  spec: too odd\n")


async def test_control_characters_of_the_cluster_do_not_reach_the_terminal(server, invoke):
    refused = minicluster("hello", ("Accepted", "False", "InvalidSpec", "odd \x1b]0;title\x07 image"))
    cluster_with_a_run(server, refused)
    server.on("GET", EVENTS, listing())
    server.scripts["POST", MINICLUSTERS].clear()
    server.on("POST", MINICLUSTERS, failure(422, "no \x1b[2J", causes=[{"field": "spec", "message": "no \x9b"}]))
    for words in (
        ("status", "hello"),
        ("status", "hello", "--watch"),
        ("list",),
        ("list", "-o", "wide"),
        ("wait", "hello"),
        ("submit", "-i", "ubuntu", "--", "hostname"),
    ):
        ended = await invoke(*words)
        assert [char for char in ended.out + ended.err if not char.isprintable() and char != "\n"] == [], words
    assert r"no \x1b[2J" in ended.err
    assert r"no \x9b" in ended.err


@pytest.mark.parametrize(
    ("queues", "unless", "said"),
    [
        (listing({"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}), "", "queue-name; there are: a, b\n"),
        (listing(), "", "queue-name\n"),
        (failure(403, "no"), ", unless there is a LocalQueue default", "queue-name\n"),
        (listing({"metadata": {"name": "default"}}), "", None),
        (
            listing({"metadata": {"name": "default"}, "spec": {"stopPolicy": "Hold"}}),
            ", for LocalQueue default, which would be given, is stopped",
            "queue-name; there are: default\n",
        ),
        (Reply("404 page not found", status=404), "", None),
    ],
)
async def test_what_passes_by_the_quota_is_told(server, invoke, queues, unless, said):
    server.on("GET", QUEUES, queues)
    server.on("POST", MINICLUSTERS, Reply(queued(), status=201))
    ended = await invoke("submit", "-i", "ubuntu", "--name", "hello", "--", "hostname")
    assert (ended.code, ended.out) == (0, "hello\n")
    note = f"note: hello names no queue: it runs at once, past any quota{unless}\n"
    assert ended.err == ("" if said is None else f"{note}  to wait for quota: --queue NAME, or the label {QUEUE}{said}")


def several(tmp_path, *names):
    file = tmp_path / "several.yaml"
    file.write_text(
        yaml.safe_dump_all(
            {
                "apiVersion": "flux-framework.org/v1alpha2",
                "kind": "MiniCluster",
                "metadata": {"name": name},
                "spec": {"containers": [{"image": "ubuntu", "command": "hostname"}]},
            }
            for name in names
        )
    )
    return str(file)


@pytest.mark.parametrize(
    ("fails_in_dry_run", "out", "how_far"),
    [(True, "", "nothing was submitted"), (False, "a\n", "submitted: a; not submitted: b, c")],
)
async def test_of_several_all_are_created_or_it_is_told_which(server, invoke, tmp_path, fails_in_dry_run, out, how_far):
    created = []

    async def post(request):
        if request.method != "POST":
            return None
        name, dry_run = (await request.json())["metadata"]["name"], "dryRun" in request.query
        if name == "b" and dry_run == fails_in_dry_run:
            return failure(409, "b already exists")
        if not dry_run:
            created.append(name)
        return Reply(minicluster(name), status=201)

    server.hook = post
    ended = await invoke("submit", several(tmp_path, "a", "b", "c"))
    assert (ended.code, ended.out, created) == (1, out, out.split())
    assert "Error: b already exists\n" in ended.err
    assert how_far in ended.err


async def test_what_becomes_of_each_that_is_deleted_is_told(server, invoke):
    async def answer(request):
        name = request.path.rpartition("/")[2]
        if request.method == "DELETE":
            return failure(403, f"no {name}") if name == "kept" else Reply(running())
        name = request.query.get("fieldSelector", "").removeprefix("metadata.name=")
        return listing(running()) if name == "slow" and "watch" not in request.query else None

    server.hook = answer
    server.on("GET", MINICLUSTERS, listing())
    ended = await invoke("delete", "slow", "quick", "--timeout", "0.4")
    assert (ended.code, ended.out) == (124, "quick deleted\n")
    assert "MiniCluster slow is still being deleted" in ended.err
    ended = await invoke("delete", "slow", "kept", "quick", "--timeout", "0.4")
    assert (ended.code, ended.out) == (1, "quick deleted\n")
    assert "Error: no kept" in ended.err
    assert "MiniCluster slow is still being deleted" in ended.err


async def test_several_minis_are_waited_for_and_the_first_failure_is_the_exit_code(server, invoke, tmp_path):
    manifest = {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"image": "ubuntu", "command": "hostname"}]},
    }
    file = tmp_path / "two.yaml"
    file.write_text(yaml.safe_dump_all([manifest, {**manifest, "metadata": {"name": "b"}}]))
    ends = {"a": objects.SUCCEEDED, "b": objects.FAILED}
    tried_and_made = [*ends, *ends]
    server.on("POST", MINICLUSTERS, *(Reply(minicluster(name), status=201) for name in tried_and_made))

    async def by_name(request):
        if request.method != "GET" or "watch" in request.query:
            return None
        name = request.query["fieldSelector"].removeprefix("metadata.name=")
        return listing(minicluster(name, ends[name], exitCode={"a": 0, "b": 3}[name]))

    server.hook = by_name
    ended = await invoke("submit", str(file), "--wait")
    assert ended.code == 3
    assert re.search(r"^a +\d+\.\ds  succeeded", ended.err, re.MULTILINE)
    assert re.search(r"^b +\d+\.\ds  failed: the command exited with code 3", ended.err, re.MULTILINE)


async def test_wait_ends_with_the_commands_exit_code(server, invoke):
    cluster_with_a_run(server, running(), objects.failed())
    assert (await invoke("wait", "hello")).code == 3


async def test_wait_for_ready(server, invoke):
    cluster_with_a_run(server, queued(), running())
    ended = await invoke("wait", "hello", "--for", "ready")
    assert ended.code == 0
    assert progress(ended.err)[-1] == "running on 4 nodes"


async def test_a_failure_without_an_exit_code_is_1(server, invoke):
    server.on("GET", MINICLUSTERS, listing(minicluster("hello", ("Finished", "True", "Failed", "DeadlineExceeded"))))
    assert (await invoke("wait", "hello")).code == 1


async def test_wait_gives_up_with_124_and_says_that_it_goes_on(server, invoke):
    cluster_with_a_run(server, queued())
    ended = await invoke("wait", "hello", "--timeout", "0.3", "-n", "team")
    assert ended.code == 124
    assert ended.err.endswith(
        "Error: MiniCluster hello is not finished after 0.3 s\n"
        "MiniCluster hello goes on\n"
        "  watch it: kueue-flux wait hello -n team\n"
        "  end it: kueue-flux delete hello -n team\n"
    )


async def test_wait_gives_up_on_a_cluster_that_does_not_answer(server, invoke):
    async def silence(request):
        await server.closing.wait()

    server.hook = silence
    ended = await invoke("wait", "hello", "--timeout", "0.3")
    assert ended.code == 124
    assert ended.err.startswith(
        "Error: the cluster has not answered within 0.3 s: where MiniCluster hello stands is not known\n"
    )
    assert "goes on" not in ended.err


async def test_wait_gives_up_on_a_cluster_that_answers_no_more(server, invoke):
    server.on("GET", MINICLUSTERS, listing(running()))
    server.on("WATCH", MINICLUSTERS, failure(503, "going down"))
    ended = await invoke("wait", "hello", "--timeout", "0.5")
    assert ended.code == 124
    assert "where MiniCluster hello stands is not known" in ended.err


@pytest.mark.parametrize("flags", [(), ("--follow",)])
async def test_logs_of_one_that_is_refused(server, invoke, flags):
    refused = minicluster("hello", ("Accepted", "False", "InvalidSpec", "size is 0"))
    cluster_with_a_run(server, refused)
    server.scripts["GET", PODS].clear()
    server.on("GET", PODS, listing())
    ended = await invoke("logs", "hello", *flags)
    assert (ended.code, ended.out) == (1, "")
    assert "Error: MiniCluster hello is refused: size is 0 (InvalidSpec)\n" in ended.err
    assert "--follow" not in ended.err


async def test_submit_says_once_that_it_is_refused(server, invoke):
    refused = minicluster("hello", ("Accepted", "False", "InvalidSpec", "size is 0"))
    cluster_with_a_run(server, refused)
    server.scripts["GET", PODS].clear()
    server.on("GET", PODS, listing())
    ended = await invoke(*SUBMIT, "--wait", "--", "hostname")
    assert ended.code == 1
    assert ended.err.count("is refused") == 1
    assert "cannot be shown" not in ended.err


PODS_REFUSED = "no pod could be made: violates PodSecurity restricted:latest"


async def test_pods_that_cannot_be_made_are_told(server, invoke):
    """By a PodSecurity namespace, or a ResourceQuota."""
    ready = ("Ready", "False", "PodsNotCreated", PODS_REFUSED)
    stuck = minicluster("hello", objects.ACCEPTED, objects.RESERVED, objects.ADMITTED, ready, queue="team-a")
    cluster_with_a_run(server, stuck)
    server.on("GET", EVENTS, listing())
    status = (await invoke("status", "hello")).out
    assert f"Status    admitted with 4 nodes, pods 0/4, brokers 0/4: {PODS_REFUSED} (PodsNotCreated)" in status
    assert f"PodsNotCreated: {PODS_REFUSED}" in status.partition("Conditions")[2]
    assert PODS_REFUSED in (await invoke("wait", "hello", "--timeout", "0.5")).err


async def test_wait_on_one_that_is_refused(server, invoke):
    server.on("GET", MINICLUSTERS, listing(minicluster("hello", ("Accepted", "False", "InvalidSpec", "size is 0"))))
    ended = await invoke("wait", "hello")
    assert ended.code == 1
    assert "Error: MiniCluster hello is refused: size is 0 (InvalidSpec)" in ended.err


async def test_interrupted_it_says_that_the_minicluster_goes_on(server, tmp_path):
    cluster_with_a_run(server, queued())
    code = "import sys; from kueue_flux.cli.main import run; sys.exit(run(sys.argv[1:]))"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, "wait", "hello"),
        stderr=asyncio.subprocess.PIPE,
        env=os.environ,
        # A test run in the background of a script has ^C switched off, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    first = await asyncio.wait_for(process.stderr.readline(), 20)
    assert b"waiting for quota" in first
    process.send_signal(signal.SIGINT)
    rest = (await process.stderr.read()).decode()
    assert await process.wait() == 130
    assert "MiniCluster hello goes on\n  watch it: kueue-flux wait hello\n" in rest
    assert "Traceback" not in rest


async def test_what_passes_in_a_moment_is_not_told(server, invoke, monkeypatch):
    first = minicluster("hello")
    waiting = minicluster("hello", ("QuotaReserved", "False", "WaitingForWorkload", "not yet"), version=2)
    down = minicluster("hello", *objects.STARTED, version=9, admissions=1, podsRunning=1, admission={"size": 4})
    cluster_with_a_run(server, first, waiting, running(8), down, succeeded(10))
    ended = await invoke("wait", "hello")
    assert progress(ended.err) == ["running on 4 nodes", "succeeded: the command succeeded"]


def starting(brokers, version):
    status = {"admissions": 1, "podsRunning": 4, "brokersReady": brokers, "admission": {"size": 4}, "queue": "team-a"}
    return minicluster("hello", *objects.STARTED, version=version, **status)


async def test_brokers_of_a_short_run_that_go_down_are_not_told(server, invoke, monkeypatch):
    """They may do so before anybody has seen all of them up."""
    monkeypatch.setattr(follow, "COUNTS_SECONDS", 0.0)
    cluster_with_a_run(server, starting(1, 2), starting(0, 3), succeeded(4))
    ended = await invoke("wait", "hello")
    assert progress(ended.err) == [
        "admitted with 4 nodes, pods 4/4, brokers 1/4",
        "succeeded: the command succeeded",
    ]


async def test_brokers_that_stay_away_are_told_as_such(monkeypatch):
    monkeypatch.setattr(follow, "COUNTS_SECONDS", 0.01)
    monkeypatch.setattr(follow, "ENDING_SECONDS", 0.05)
    told, noticed = [], asyncio.Event()

    def say(text):
        told.append(text.partition("s  ")[2])
        if "go down" in text:
            noticed.set()

    class Client:
        async def watch(self, _name, on_outage):
            yield running()
            yield starting(3, 3)
            await noticed.wait()
            yield succeeded()

    async with asyncio.timeout(20):
        await follow.Follower(Client(), "hello", say=say).run()
    assert told == ["running on 4 nodes", "brokers go down: 3 of 4 left", "succeeded: the command succeeded"]


async def test_a_run_after_an_eviction_is_told_from_the_beginning(server, invoke, monkeypatch):
    monkeypatch.setattr(follow, "COUNTS_SECONDS", 0.0)
    evicted = (objects.ACCEPTED, objects.RESERVED, ("Admitted", "False", "Preempted", "by another"))
    stopping = minicluster("hello", *evicted, version=3, queue="team-a", admissions=1, brokersReady=3)
    cluster_with_a_run(server, running(), stopping, starting(1, 4), running(5), succeeded(6))
    ended = await invoke("wait", "hello")
    assert progress(ended.err) == [
        "running on 4 nodes",
        "evicted, its pods are stopping: by another (Preempted)",
        "admitted with 4 nodes, pods 4/4, brokers 1/4",
        "running on 4 nodes",
        "succeeded: the command succeeded",
    ]


async def test_after_the_output_nobody_needs_to_be_told_that_it_runs(server, invoke):
    cluster_with_a_run(server, starting(1, 1))
    output_read = asyncio.Event()

    async def until_output(request):
        if request.path == log_path("a") and "sinceTime" in request.query:
            output_read.set()  # the log is read again, from the second at which it ended

    server.hook = until_output
    later = (event("MODIFIED", state) for state in (starting(2, 2), running(3), starting(0, 4), succeeded(5)))
    server.scripts["WATCH", MINICLUSTERS].clear()
    server.on("WATCH", MINICLUSTERS, watch(output_read, *later, asyncio.Event()))
    ended = await invoke(*SUBMIT, "--wait", "--", "hostname")
    assert ended.out == "hello-0\nhello-1\n"
    assert progress(ended.err) == [
        "submitted hello",
        "admitted with 4 nodes, pods 4/4, brokers 1/4",
        "succeeded: the command succeeded",
    ]


async def test_no_controller_is_told(server, invoke, monkeypatch):
    monkeypatch.setattr(follow, "CONTROLLER_SECONDS", 0.2)
    monkeypatch.setattr(follow, "COUNTS_SECONDS", 0.1)
    monkeypatch.setattr(follow, "PASSING_SECONDS", 0.1)
    cluster_with_a_run(server, minicluster("hello"))
    ended = await invoke("wait", "hello", "--timeout", "1")
    lines = progress(ended.err)
    assert lines[0] == "created, waiting for the kueue-flux controller"
    assert lines[1].startswith("no controller has looked at it yet: is kueue-flux running? kubectl get deployments")
    assert sum("no controller" in text for text in lines) == 1


async def test_an_outage_is_told_once(server, invoke, monkeypatch):
    monkeypatch.setattr("kueue_flux.client.watch.FIRST_PAUSE_SECONDS", 0.01)
    server.on("GET", MINICLUSTERS, listing(running()))
    away = failure(503, "starting")
    server.on("WATCH", MINICLUSTERS, away, away, away, watch(event("MODIFIED", succeeded())))
    ended = await invoke("wait", "hello")
    assert ended.code == 0
    assert sum("trying again" in text for text in progress(ended.err)) == 1


async def test_list(server, invoke):
    server.on("GET", MINICLUSTERS, listing(running(), minicluster("new")))
    ended = await invoke("list")
    header, first, second = ended.out.splitlines()
    assert header.split() == ["NAME", "QUEUE", "SIZE", "STATUS", "POSITION", "READY", "AGE", "RESULT"]
    assert first.split()[:6] == ["hello", "team-a", "4", "Running", "-", "4/4"]
    assert second.split()[:6] == ["new", "team-a", "4", "Created", "-", "0/4"]


async def test_list_of_all_namespaces(server, invoke):
    server.on("GET", "/apis/flux-framework.org/v1alpha2/miniclusters", listing(running()))
    ended = await invoke("list", "-A", "-o", "wide")
    header, first = ended.out.splitlines()
    assert header.startswith("NAMESPACE   NAME")
    assert header.endswith("WORKLOAD   ADMISSIONS   MESSAGE")
    assert first.startswith("team        hello")


async def test_list_for_programs(server, invoke):
    server.on("GET", MINICLUSTERS, listing(queued(queuePosition=3)))
    as_json = json.loads((await invoke("list", "-o", "json")).out)
    as_yaml = yaml.safe_load((await invoke("list", "-o", "yaml")).out)
    assert as_json == as_yaml
    assert (as_json[0]["name"], as_json[0]["stage"], as_json[0]["position"]) == ("hello", "Queued", 3)


async def test_an_empty_list(server, invoke):
    server.on("GET", MINICLUSTERS, listing())
    assert await invoke("list") == (0, "", "no MiniClusters in namespace team\n")
    assert (await invoke("list", "-o", "json")).out == "[]\n"


async def test_status(server, invoke):
    server.on("GET", ONE, Reply(running()))
    server.on("GET", EVENTS, listing({"metadata": {}, "reason": "BrokersUp", "message": "all 4 brokers are up"}))
    ended = await invoke("status", "hello")
    assert ended.out.startswith("hello in namespace team\n  Status    running on 4 nodes\n")
    assert "all 4 brokers are up" in ended.out
    assert "no controller" not in ended.out


async def test_status_without_events_and_controller(server, invoke):
    old = minicluster("hello")
    old["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    server.on("GET", ONE, Reply(old))
    server.on("GET", EVENTS, failure(403, "no"))
    ended = await invoke("status", "hello")
    assert ended.code == 0
    assert commands.NO_CONTROLLER in ended.out


async def test_status_watch_off_a_terminal_is_one_line_a_change(server, invoke):
    cluster_with_a_run(server, queued(), running(), succeeded())
    ended = await invoke("status", "hello", "--watch")
    assert ended.code == 0
    *_, last = ended.out.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d  succeeded: the command succeeded", last)


async def test_logs(server, invoke):
    cluster_with_a_run(server, succeeded())
    server.scripts["GET", log_path("a")].appendleft(Reply(LOG))
    assert await invoke("logs", "hello") == (0, "hello-0\nhello-1\n", "")
    assert await invoke("logs", "hello", "-f") == (0, "hello-0\nhello-1\n", "")


async def test_logs_that_are_not_there_yet(server, invoke):
    server.on("GET", ONE, Reply(queued()))
    server.on("GET", PODS, listing())
    ended = await invoke("logs", "hello")
    assert ended.code == 1
    assert "has no output yet, it is Queued: insufficient unused quota for cpu\n" in ended.err
    assert "wait for it: kueue-flux logs hello -n team --follow" in ended.err


async def test_delete_waits_and_goes_on_after_an_error(server, invoke):
    server.on("DELETE", f"{MINICLUSTERS}/none", failure(404, "not found", name="none"))
    server.on("DELETE", ONE, Reply(running()))
    server.on("GET", MINICLUSTERS, listing())
    ended = await invoke("delete", "none", "hello")
    assert (ended.code, ended.out) == (1, "hello deleted\n")
    assert "there is no MiniCluster none in namespace team" in ended.err
    assert (await invoke("delete", "hello", "--no-wait")).out == "hello is being deleted\n"


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        (("last",), ["1 pod to end"]),
        (("none",), ["Kubernetes to clear up"]),
        (("unseen",), ["its pods to end"]),
        (("two", "two", "last", "none"), ["2 pods to end", "1 pod to end", "Kubernetes to clear up"]),
    ],
)
async def test_delete_says_what_takes_so_long(server, invoke, monkeypatch, pods, told):
    monkeypatch.setattr(commands, "QUICK_SECONDS", 0.0)
    monkeypatch.setattr(commands, "REDRAW_SECONDS", 0.01)
    a, b = lead("a", "running"), lead("b", "running")
    places = {"two": listing(a, b), "last": listing(b), "none": listing(), "unseen": failure(403, "no")}
    asked = asyncio.Event()
    server.on("DELETE", ONE, Reply(running()))
    server.on("GET", ONE, Reply(running()))
    server.on("GET", MINICLUSTERS, listing(running()))
    server.on("WATCH", MINICLUSTERS, watch(asked, event("DELETED", running()), asyncio.Event()))
    server.on("GET", PODS, *(places[pod] for pod in pods))

    async def count(_request):
        if server.asked("GET", PODS) > len(pods):
            asked.set()

    server.hook = count
    ended = await invoke("delete", "hello")
    assert (ended.code, ended.out) == (0, "hello deleted\n")
    assert ended.err.splitlines() == [f"hello: waiting for {left}" for left in told]
    assert {q["labelSelector"] for m, p, q in server.requests if p == PODS} == {
        "flux-framework.org/minicluster-uid=uid-hello"
    }


async def test_a_quick_deletion_needs_no_words(server, invoke):
    server.on("DELETE", ONE, Reply(running()))
    server.on("GET", MINICLUSTERS, listing())
    assert await invoke("delete", "hello") == (0, "hello deleted\n", "")


async def test_a_deletion_that_takes_too_long(server, invoke):
    server.on("DELETE", ONE, Reply(running()))
    server.on("GET", MINICLUSTERS, listing(running()))
    ended = await invoke("delete", "hello", "--timeout", "0.2")
    assert (ended.code, ended.out) == (124, "")
    assert ended.err == "Error: MiniCluster hello is still being deleted after 0.2 s\n"


@pytest.mark.parametrize("args", [["-n", "there", "list"], ["list", "-n", "there"], ["-n", "x", "list", "-n", "there"]])
async def test_the_namespace_may_stand_on_either_side_of_the_command(server, invoke, args):
    server.on("GET", MINICLUSTERS.replace("team", "there"), listing())
    assert "in namespace there" in (await invoke(*args)).err


async def test_the_context(server, invoke):
    server.on("GET", MINICLUSTERS.replace("team", "elsewhere"), listing())
    assert "in namespace elsewhere" in (await invoke("list", "--context", "there")).err


async def test_no_cluster_at_all(invoke, tmp_path):
    dev = tmp_path / "state" / "kueue-flux" / "dev"
    dev.mkdir(parents=True)
    (dev / "kubeconfig").touch()
    ended = await invoke("list")
    assert ended.code == 1
    assert "no cluster is configured" in ended.err
    assert f"  dev cluster dev: export KUBECONFIG={dev}/kubeconfig\n" in ended.err


async def test_a_cluster_without_kueue_flux(server, invoke):
    ended = await invoke("list")
    assert ended.code == 1
    assert "kueue-flux is not installed\n  ask your cluster's admin for it, or install it: see README.md" in ended.err


async def test_a_reader_that_has_gone_ends_the_logs_quietly(server):
    cluster_with_a_run(server, succeeded())
    server.scripts["GET", log_path("a")].clear()
    server.on("GET", log_path("a"), Reply("".join(line(1, f"line {n}") for n in range(20_000))))
    code = "import sys; from kueue_flux.cli.main import run; sys.exit(run(sys.argv[1:]))"
    process = await asyncio.create_subprocess_shell(
        f'"{sys.executable}" -c "{code}" logs hello | head -1',
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ,
    )
    out, err = await asyncio.wait_for(process.communicate(), 20)
    assert (out, err) == (b"line 0\n", b"")


async def complete(words):
    code = "import sys; from kueue_flux.cli.main import run; sys.exit(run(sys.argv[1:]))"
    env = {"_KUEUE_FLUX_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **env},
    )
    out, err = await asyncio.wait_for(process.communicate(), 20)
    return out.decode().split(), err.decode()


async def test_the_shell_completes_names(server):
    there = MINICLUSTERS.replace("team", "there")
    server.on("GET", there, listing(minicluster("hello"), minicluster("hullo"), minicluster("other")))
    assert await complete("kueue-flux status -n there h") == (["hello", "hullo"], "")


async def test_the_shell_completes_nothing_where_there_is_no_cluster(server):
    server.on("GET", MINICLUSTERS, failure(403, "no"))
    assert await complete("kueue-flux status h") == ([], "")


async def test_status_watch_on_a_terminal_leaves_the_last_report_there(server):
    cluster_with_a_run(server, running(), succeeded())
    server.on("GET", EVENTS, listing())
    terminal, end = pty.openpty()
    code = "import sys; from kueue_flux.cli.main import run; sys.exit(run(sys.argv[1:]))"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, "status", "hello", "--watch"),
        stdin=end,
        stdout=end,
        stderr=end,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(end)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while part := await asyncio.to_thread(os.read, terminal, 4096):
            shown += part
    os.close(terminal)
    assert await process.wait() == 0
    told, _, left = shown.decode().partition("succeeded: the command succeeded")
    assert re.search(r"\d\d:\d\d:\d\d  running on 4 nodes\r\n", told)
    assert "\x1b[1mhello\x1b[0m in namespace team" in left
    assert "\x1b[32msucceeded: the command succeeded\x1b[0m" in left
