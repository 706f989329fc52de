"""The server on real Flux: jobs that run, wait, write, fail and are cancelled."""

import base64
import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from kueue_flux.restful import settings
from tests.restful.conftest import TOKEN, client
from tests.restful.live import PATIENCE, Live, deliver, until

# Brokers are processes here: on a busy machine one may come late, so a failure is tried once more.
pytestmark = [pytest.mark.real_flux, pytest.mark.flaky(reruns=1)]

SUBMIT = "/v1/jobs/submit"


@pytest.fixture(scope="module")
def live(flux_path):
    with Live(flux_path) as running:
        yield running


@pytest.fixture
def gate(live):
    """A file that jobs wait for: `sh -c WAIT sh FILE`."""
    path = live.workdir / "gate"
    path.unlink(missing_ok=True)
    yield path
    path.touch()
    until(lambda: not live.flux("jobs", "-no", "{id}"))


WAIT = 'echo first; until [ -e "$1" ]; do sleep 0.05; done; echo last'


def waiting(live, gate, **fields):
    return live.submit("sh", "-c", WAIT, "sh", str(gate), **fields)


# -- submit, info, list


def test_a_job_runs_and_is_told_of(live):
    jobid = live.submit("sh", "-c", "echo out; echo err >&2; exit 3")
    job = live.ended(jobid)
    assert (job["id"], job["name"], job["result"], job["returncode"]) == (jobid, "sh", "FAILED", 3)
    assert sorted(live.output(jobid)) == ["err\n", "out\n"]
    assert {"id": jobid} in live.get("/v1/jobs").json()["jobs"]


def test_an_id_may_be_written_in_any_of_flux_ways(live):
    jobid = live.submit("true")
    live.ended(jobid)
    printed = live.flux("job", "id", "--to=f58", str(jobid)).strip()
    assert live.info(jobid)["f58"] == printed.replace("ƒ", "f")
    for form in (jobid, printed, printed.replace("ƒ", "f"), hex(jobid)):
        assert live.info(form)["id"] == jobid


def test_what_is_told_is_what_flux_tells(live):
    for command in (["true"], ["sh", "-c", "exit 7"], ["sh", "-c", "kill -9 $$"], ["/no/such"]):
        live.ended(live.submit(*command))
    told = live.get("/v1/jobs?details=true").json()
    jobs = json.loads(live.flux("jobs", "-a", "--json"))["jobs"]
    assert len(jobs) >= 4
    for job in jobs:
        for name in ("state", "result", "returncode", "nnodes", "nodelist", "ntasks", "name", "runtime"):
            assert told[str(job["id"])][name] == job[name], name
        assert live.info(job["id"]) == told[str(job["id"])]


def test_the_options_do_what_they_say(live, tmp_path):
    shown = "echo $FLUX_TASK_RANK $PWD $COLOUR $(nproc --all >/dev/null; echo $FLUX_JOB_SIZE) $FLUX_JOB_NNODES"
    jobid = live.submit(
        "sh",
        "-c",
        shown,
        num_tasks=2,
        num_nodes=2,
        cores_per_task=1,
        runtime=300,
        workdir=str(tmp_path),
        envars={"COLOUR": "blue"},
        option_flags="verbose=1",
    )
    lines = sorted(line for line in live.output(jobid) if "blue" in line)
    assert lines == [f"{rank} {tmp_path} blue 2 2\n" for rank in (0, 1)]
    assert live.info(jobid)["duration"] == 300.0


def test_exclusive_takes_whole_nodes(live):
    assert live.ended(live.submit("true", num_nodes=1, exclusive=True))["ncores"] == os.cpu_count()


def test_a_job_ends_after_its_runtime(live):
    job = live.ended(live.submit("sleep", "600", runtime=1))
    assert (job["result"], job["exception"]["type"]) == ("TIMEOUT", "timeout")


def test_no_shell_sees_a_command(live):
    jobid = int(live.post(SUBMIT, params={"command": "echo '$HOME;' $(id) > x"}).json()["id"])
    assert live.output(jobid) == ["$HOME; $(id) > x\n"]


def test_a_job_has_the_environment_of_the_server_but_for_its_settings(live):
    variables = dict(
        line.split("=", 1) for line in "".join(live.output(live.submit("env"))).splitlines() if "=" in line
    )
    assert variables["HOME"] == "/"
    assert not [name for name in variables if name.startswith("KUEUE_FLUX_RESTFUL")]


def test_more_jobs_than_flux_lists_by_default(live):
    live.flux("submit", "--cc=1-1100", "--urgency=0", "--quiet", "true")
    try:
        assert len(live.get("/v1/jobs").json()["jobs"]) > 1100
        assert len(live.get("/v1/jobs?details=true").json()) > 1100
        found = live.get("/v1/jobs/search?search=SCHED&start=5&length=10").json()
        assert (found["recordsFiltered"], found["recordsTotal"] > 1100) == (10, True)
        assert len(live.get("/v1/jobs?details=true&listing=true&limit=7").json()) == 7
    finally:
        live.flux("cancel", "--all", "--quiet")


# -- output


def test_output_is_followed_while_the_job_runs(live, gate):
    jobid = waiting(live, gate)
    with live.http.stream("GET", f"/v1/jobs/{jobid}/output/stream") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "first"
        assert live.info(jobid)["state"] == "RUN"
        assert live.get(f"/v1/jobs/{jobid}/output?wait=false").json() == {"Output": ["first\n"]}
        gate.touch()
        assert list(lines) == ["last"]


def test_a_job_that_waits_is_followed_from_its_start(live, gate):
    first = waiting(live, gate, num_nodes=2, exclusive=True)
    second = live.submit("echo", "second", num_nodes=2, exclusive=True)
    assert "the job waits" in live.get(f"/v1/jobs/{second}/output").json()["Message"]
    with live.http.stream("GET", f"/v1/jobs/{second}/output/stream") as answer:
        gate.touch()
        assert answer.read() == b"second\n" * 2
    assert live.ended(first)["result"] == "COMPLETED"


def test_many_follow_one_job(live, gate):
    jobid = waiting(live, gate)
    with ThreadPoolExecutor(20) as pool:
        followers = [
            pool.submit(live.get, f"/v1/jobs/{jobid}/output{end}") for end in ("/stream", "") for _ in range(10)
        ]
        gate.touch()
        texts = {follower.result().text for follower in followers}
    assert texts == {"first\nlast\n", '{"Output":["first\\n","last\\n"]}'}


def test_a_follower_that_goes_leaves_the_job_alone(live, gate):
    jobid = waiting(live, gate)
    with live.http.stream("GET", f"/v1/jobs/{jobid}/output/stream") as answer:
        assert next(answer.iter_lines()) == "first"
    gate.touch()
    assert live.output(jobid) == ["first\n", "last\n"]


def test_bytes_come_as_they_are(live):
    jobid = live.submit("sh", "-c", r"printf '\377\n\360\237\245\236\n'")
    live.ended(jobid)
    assert live.get(f"/v1/jobs/{jobid}/output/stream").content == b"\xff\n\xf0\x9f\xa5\x9e\n"
    assert live.output(jobid) == ["\ufffd\n", "🥞\n"]


def test_a_program_that_is_not_there_is_told(live):
    jobid = live.submit("/no/such")
    assert live.ended(jobid)["returncode"] == 127
    assert "/no/such: No such file or directory" in "".join(live.output(jobid))


def test_a_job_that_never_ran_says_why(live):
    jobid = live.submit("true", cores_per_task=10_000)
    assert live.ended(jobid)["result"] == "FAILED"
    assert "job.exception type=alloc severity=0" in live.get(f"/v1/jobs/{jobid}/output/stream").text


def test_output_into_a_file_of_the_working_directory(live):
    jobid = live.submit("echo", "kept", workdir=str(live.workdir), option_flags={"output.stdout.path": "kept-{{id}}"})
    live.ended(jobid)
    (file,) = live.workdir.glob("kept-*")
    assert file.read_text() == "kept\n"
    assert file.name in live.get(f"/v1/jobs/{jobid}/output").json()["Message"]


# -- cancel


def test_a_job_is_cancelled_once(live, gate):
    jobid = waiting(live, gate)
    with live.http.stream("GET", f"/v1/jobs/{jobid}/output/stream") as answer:
        assert next(answer.iter_lines()) == "first"
        cancelled = live.post(f"/v1/jobs/{jobid}/cancel")
        assert (cancelled.status_code, cancelled.json()["Message"]) == (200, "Job is requested to cancel.")
    assert live.ended(jobid)["exception"]["type"] == "cancel"
    again = live.post(f"/v1/jobs/{jobid}/cancel")
    assert (again.status_code, "cannot be cancelled" in again.json()["Message"]) == (400, True)
    assert live.post("/v1/jobs/1/cancel").status_code == 400


# -- what is refused


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic " + base64.b64encode(b"fluxuser:wrong").decode()])
def test_a_wrong_token_is_refused(live, header):
    before = len(live.get("/v1/jobs").json()["jobs"])
    answer = client(live.url).post(
        SUBMIT, json={"command": "true"}, headers={"Authorization": header} if header else {}
    )
    assert answer.status_code == 401
    assert "Basic" in answer.headers["www-authenticate"]
    assert len(live.get("/v1/jobs").json()["jobs"]) == before


def test_a_body_of_10_megabytes_is_refused_and_not_kept(live):
    def peak():
        status = dict(line.split(":", 1) for line in Path(f"/proc/{live.pid}/status").read_text().splitlines())
        return int(status["VmHWM"].split()[0]) * 1024

    live.post(SUBMIT, content=b"x" * 1_000_000)
    before = peak()
    answer = live.post(SUBMIT, content=b"x" * 10_000_000)
    assert (answer.status_code, "larger than 1048576 bytes" in answer.text) == (413, True)
    assert peak() - before < 5_000_000


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"workdir": "../elsewhere"}, "must be an absolute path"),
        ({"workdir": "/no/such"}, "there is no directory /no/such"),
        ({"option_flags": {"output.stdout.path": "/etc/motd"}}, "outside of the working directory"),
        ({"option_flags": "output.stderr.path=../../x"}, "outside of the working directory"),
        ({"num_nodes": 3}, "The server only has 2 nodes, you requested 3"),
        ({"gpus_per_task": 1}, "This server does not support gpus"),
    ],
)
def test_a_job_that_cannot_be_is_refused(live, fields, says):
    answer = live.post(SUBMIT, json={"command": "true", **fields})
    assert answer.status_code == 400
    assert says in answer.json()["Errors"][0]


@pytest.mark.parametrize("jobid", ["x", "-1", "f!", "99999999999999999999999", "%2e%2e%2fetc", "1e3", "%00"])
def test_what_is_no_id_is_refused(live, jobid):
    for end in ("", "/output", "/output/stream"):
        assert live.get(f"/v1/jobs/{jobid}{end}").status_code == 400
    assert live.post(f"/v1/jobs/{jobid}/cancel").status_code == 400


@pytest.mark.parametrize("end", ["", "/output", "/output?wait=false", "/output/stream"])
def test_a_job_that_is_none_is_not_found(live, end):
    assert live.get("/v1/jobs/12345" + end).status_code == 404


# -- many


def test_a_hundred_requests_side_by_side_hold_on_to_nothing(live):
    def one(number):
        if number % 2:
            return live.get("/v1/jobs?details=true&limit=10").status_code
        return live.get(f"/v1/jobs/{live.submit('echo', str(number))}/output/stream").text

    def open_files():
        return len(list(Path(f"/proc/{live.pid}/fd").iterdir()))

    with ThreadPoolExecutor(100) as pool:
        before = open_files()
        assert list(pool.map(one, range(100))) == [200 if number % 2 else f"{number}\n" for number in range(100)]
        live.http.close()
    live.http = client(live.url, headers={"Authorization": f"Bearer {TOKEN}"})
    live.get, live.post = live.http.get, live.http.post
    until(lambda: open_files() <= before, lambda: f"{open_files()} files, {before} before")


# -- resources, launchers


def test_nodes_and_resources(live):
    assert live.get("/v1/nodes").json() == {"nodes": [os.uname().nodename]}
    resources = live.get("/v1/resources").json()
    assert set(resources) == {"all", "up", "down", "allocated", "free"}
    assert (resources["all"]["nnodes"], resources["all"]["ncores"]) == (2, 2 * os.cpu_count())


def test_a_launcher_submits_jobs_itself(flux_path, tmp_path):
    program = tmp_path / "nextflow"
    program.write_text('#!/bin/sh\nexec flux run -n2 echo "$@"\n')
    program.chmod(0o755)
    with Live(f"{tmp_path}:{flux_path}") as live:
        answer = live.post(SUBMIT, json={"command": "nextflow pipeline", "is_launcher": True})
        assert answer.json() == {"Message": "Job submit, see jobs table for spawned jobs.", "id": "MANY"}
        (job,) = until(lambda: live.get("/v1/jobs").json()["jobs"])
        assert live.output(job["id"]) == ["pipeline\n", "pipeline\n"]


# -- start and end


def test_without_authentication_it_says_so(flux_path):
    with Live(flux_path, token=None) as live:
        assert client(live.url).get("/v1/jobs").status_code == 200
        assert "authentication is off: whoever reaches port" in live.stderr()


@pytest.mark.parametrize("how", ["stop", "SIGTERM"])
def test_it_ends_when_told_and_leaves_jobs_to_the_broker(flux_path, how):
    with Live(flux_path) as live:
        jobid = live.submit("sh", "-c", "echo first; exec sleep 600")
        with live.http.stream("GET", f"/v1/jobs/{jobid}/output/stream") as answer:
            lines = answer.iter_lines()
            assert next(lines) == "first"
            if how == "stop":
                assert live.post("/v1/service/stop").status_code == 200
            else:
                os.kill(live.pid, signal.SIGTERM)
            with pytest.raises(httpx.RemoteProtocolError):  # it does not pass for the end of the output
                list(lines)
        # the broker cancels what runs when its initial program has ended, and ends itself with that one's code
        assert live.process.wait(PATIENCE) == 0
        until(lambda: not live.leftovers(), lambda: str(live.leftovers()))
        assert "told to end" in live.stderr()
        assert "Traceback" not in live.stderr()


def test_it_ends_when_its_broker_has_been_killed(flux_path):
    with Live(flux_path) as live:
        os.kill(int(live.flux("getattr", "broker.pid")), signal.SIGKILL)
        until(lambda: "the broker has gone" in live.stderr(), live.stderr)
        until(lambda: not Path(f"/proc/{live.pid}").exists())


def test_without_an_instance_it_does_not_start(flux_path, tmp_path):
    env = {"PATH": flux_path, "HOME": "/", "FLUX_URI": "local:///no/such/socket", settings.ENV_REQUIRE_AUTH: "0"}
    words = ["flux", "python", str(deliver(tmp_path / "restful"))]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert "cannot start: Flux does not answer" in done.stderr
    assert "Traceback" not in done.stderr
