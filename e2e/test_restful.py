"""The RESTful API of a MiniCluster without a command, on real Flux: reached by its Service, until it is stopped."""

from __future__ import annotations

import base64
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.kit import KUEUE_FLUX, Namespace, as_yaml, example
from kueue_flux.client import MiniClusters

pytestmark = [pytest.mark.real_flux, pytest.mark.extended]

NAME = "restful"


@dataclass
class Server:
    """A MiniCluster's server as a client reaches it."""

    namespace: Namespace
    url: str
    token: str

    def ask(self, method: str, path: str, token: str | None = None, **query: str) -> tuple[int, Any]:
        """The status and the body of an answer; JSON where it is."""
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        url = f"{self.url}{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers), timeout=60) as got:
                status, text = got.status, got.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def submit(self, **query: str) -> str:
        """Submit a job; returns its id."""
        status, answer = self.ask("POST", "/v1/jobs/submit", **query)
        assert status == 200, answer
        return str(answer["id"])


@pytest.fixture(scope="module")
def server(make_namespace: Callable[..., Namespace]) -> Iterator[Server]:
    """The example, reached by its Service."""
    namespace = make_namespace()
    text = as_yaml(example("restful/minicluster.yaml", namespace.cluster.flux.reference))
    ran = namespace.kueue_flux("submit", "-", stdin=text)
    assert (ran.code, ran.lines) == (0, [NAME]), ran.err
    assert namespace.kueue_flux("wait", NAME, "--for", "ready").code == 0
    token = base64.b64decode(namespace.get("Secret", f"{NAME}-restful")["data"]["token"]).decode()
    words = ("--namespace", namespace.name, "port-forward", f"service/{NAME}-restful", ":5000")
    with namespace.cluster.started(namespace.cluster.kubectl_program, *words) as forward:
        found = namespace.wait_for("the port", lambda: re.search(r"127\.0\.0\.1:(\d+)", forward.out.read_text()))
        yield Server(namespace, f"http://127.0.0.1:{found[1]}", token)


def test_submit_and_follow(server: Server):
    job = server.submit(command="hostname", num_nodes="2", num_tasks="2")
    status, output = server.ask("GET", f"/v1/jobs/{job}/output/stream")
    assert (status, sorted(output.split())) == (200, [f"{NAME}-0", f"{NAME}-1"])


def test_list_and_cancel(server: Server):
    job = server.submit(command="sleep 600")
    status, listed = server.ask("GET", "/v1/jobs")
    assert status == 200
    assert job in json.dumps(listed)
    assert server.ask("POST", f"/v1/jobs/{job}/cancel")[0] == 200
    server.namespace.wait_for(
        "the job to end", lambda: "CANCELED" in json.dumps(server.ask("GET", f"/v1/jobs/{job}")[1]).upper()
    )


def test_it_is_forwarded_to_this_machine(server: Server):
    words = (KUEUE_FLUX, "port-forward", "--namespace", server.namespace.name, NAME, "0", "--show-token")
    with server.namespace.cluster.started(*words) as forward:
        forward.wait_says("^C ends the forwarding")
        url, token = forward.out.read_text().split()
        forwarded = Server(server.namespace, url, token)
        job = forwarded.submit(command="echo forwarded")
        assert forwarded.ask("GET", f"/v1/jobs/{job}/output/stream") == (200, "forwarded\n")
        assert token == server.token


def test_a_script_has_a_session(server: Server):
    cluster = server.namespace.cluster
    with (
        MiniClusters(namespace=server.namespace.name, kubeconfig=str(cluster.kubeconfig)) as miniclusters,
        miniclusters.restful(NAME) as api,
    ):
        answer = api.session.post("/v1/jobs/submit", json={"command": ["echo", "a script"]})
        job = answer.raise_for_status().json()["f58"]
        assert api.session.get(f"/v1/jobs/{job}/output/stream").text == "a script\n"


@pytest.mark.parametrize("token", ["wrong", ""])
def test_without_the_token_it_says_nothing(server: Server, token: str):
    assert server.ask("GET", "/v1/jobs", token=token)[0] == 401


def test_the_token_is_in_the_secret_only(server: Server):
    names = [pod["metadata"]["name"] for pod in server.namespace.pods(NAME)]
    logs = "".join(server.namespace.kubectl("logs", name) for name in names)
    told = json.dumps(
        [*server.namespace.all("ConfigMap"), *server.namespace.all("Event"), *server.namespace.all("Pod")]
    )
    assert server.token not in logs + told + json.dumps(server.namespace.minicluster(NAME))


def test_it_ends_when_it_is_stopped(server: Server):
    """After the tests above."""
    assert server.ask("POST", "/v1/service/stop")[0] == 200
    assert server.namespace.wait_succeeded(NAME)["status"]["exitCode"] == 0
    server.namespace.wait_for("the token to go", lambda: server.namespace.get("Secret", f"{NAME}-restful") is None)
