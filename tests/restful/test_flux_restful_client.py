"""flux-restful-api's own Python client, as PyPI has it, against the server on real Flux."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.restful.conftest import TOKEN
from tests.restful.live import PATIENCE, Live

package = pytest.importorskip("flux_restful_client", reason="flux-restful-client is not installed (pip install .[dev])")

pytestmark = [pytest.mark.real_flux, pytest.mark.flaky(reruns=1)]

MAIN = "from flux_restful_client.client import run_flux_restful_client as main; main()"


@pytest.fixture(scope="module")
def live(flux_path):
    with Live(flux_path) as running:
        yield running


@pytest.fixture
def fresh(flux_path):
    """An instance that has run nothing yet, and may be stopped."""
    with Live(flux_path) as running:
        yield running


@pytest.fixture
def env(fresh):
    """What a user of the client exports."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(fresh.workdir),
        "FLUX_RESTFUL_HOST": fresh.url,
        "FLUX_USER": "fluxuser",
        "FLUX_TOKEN": TOKEN,
        "FLUX_SECRET_KEY": TOKEN,
        "NO_PROXY": "*",
    }


@pytest.fixture
def connect(live, monkeypatch):
    """Makes clients."""
    from flux_restful_client.main import get_client

    monkeypatch.setenv("NO_PROXY", "*")
    found = {"host": live.url, "user": "fluxuser", "token": TOKEN, "secret_key": TOKEN, "attempts": 0}
    return lambda **fields: get_client(**{**found, **fields})


def test_its_own_tests_pass(env):
    tests = Path(package.__file__).parent / "tests" / "test_api.py"
    words = ["-m", "pytest", "-p", "no:cacheprovider", "-q", "--rootdir", str(tests.parent), str(tests)]
    done = subprocess.run([sys.executable, *words], env=env, capture_output=True, text=True, timeout=4 * PATIENCE)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^6 passed", done.stdout, re.MULTILINE), done.stdout


def test_submit_info_output_and_search(live, connect):
    client = connect()
    # the first request of each client is refused: it then asks for a token, and puts the options into the body
    submitted = client.submit(
        ["sh", "-c", "'echo $COLOUR $PWD'"],
        num_tasks=2,
        cores_per_task=1,
        num_nodes=2,
        exclusive=True,
        workdir=str(live.workdir),
        envars={"COLOUR": "blue"},
        option_flags={"verbose": "1"},
        is_launcher=False,
    )
    again = client.submit("sh -c 'echo $COLOUR'", envars={"COLOUR": "red"}, workdir=None)
    live.ended(submitted["id"])
    live.ended(again["id"])
    assert client.output(submitted["id"])["Output"].count(f"blue {live.workdir}\n") == 2
    assert client.output(again["id"]) == {"Output": ["red\n"]}
    assert client.jobs(again["id"])["result"] == "COMPLETED"
    assert client.jobs(submitted["id"])["nnodes"] == 2
    assert {job["id"] for job in client.jobs()["jobs"]} >= {submitted["id"], again["id"]}
    assert set(client.jobs(detail=True)) >= {str(submitted["id"]), str(again["id"])}
    assert client.search(query="nobody", start=0, length=5)["data"] == []
    assert [job["id"] for job in client.search(query=again["f58"])["data"]] == [again["id"]]
    assert client.list_nodes() == {"nodes": [os.uname().nodename]}


def test_a_job_that_is_none(connect, capsys):
    assert connect().jobs(12345) is None
    assert "There is no job for that identifier." in capsys.readouterr().out


def test_user_name_and_token_in_every_request(live, connect):
    client = connect(secret_key=None)
    client.set_basic_auth("fluxuser", TOKEN)
    jobid = client.submit("echo basic")["id"]
    live.ended(jobid)
    assert client.output(jobid) == {"Output": ["basic\n"]}


@pytest.mark.parametrize("wrong", [{"token": "wrong"}, {"secret_key": "wrong"}])
def test_a_wrong_token_is_refused(live, connect, wrong):
    before = live.get("/v1/jobs").json()
    # what the client makes of it is an error of its own: httpx has no `reason`
    with pytest.raises(AttributeError, match="reason"):
        connect(**wrong).submit("true")
    assert live.get("/v1/jobs").json() == before


def test_the_command_line(fresh, env):
    def cli(*words):
        done = subprocess.run(
            [sys.executable, "-c", MAIN, *words], env=env, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    submitted = json.loads(cli("submit", "--num_tasks", "2", "--env", "COLOUR=blue", "printenv", "COLOUR"))
    fresh.ended(submitted["id"])
    jobid = str(submitted["id"])
    assert cli("logs", jobid).split() == ["blue", "blue"]
    assert json.loads(cli("info", jobid))["ntasks"] == 2
    assert json.loads(cli("list-jobs")) == {"jobs": [{"id": submitted["id"]}]}
    assert "cannot be cancelled" in json.loads(cli("cancel", jobid))["Message"]
    assert json.loads(cli("stop-service"))["Message"]
    assert fresh.process.wait(PATIENCE) == 0


def test_the_client_cannot_stream_itself(live, connect):
    # httpx's stream() is a context manager, which the client takes for an answer: it fails before it asks. What it
    # would ask for is there.
    client = connect()
    jobid = client.submit("echo streamed")["id"]
    with pytest.raises(AttributeError, match="status_code"):
        list(client.stream_output(jobid))
    with httpx.stream("GET", f"{live.url}/v1/jobs/{jobid}/output/stream", headers=client.headers, timeout=60) as answer:
        assert list(answer.iter_lines()) == ["streamed"]
