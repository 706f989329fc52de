"""`kueue-flux setup`: a FluxSetup from what the nodes have, with questions and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import typer
import yaml

from kueue_flux.api.setup import FluxSetup
from kueue_flux.cli import setup
from kueue_flux.kueue.nodes import read_node
from tests.cli.conftest import Invoke
from tests.client.server import Server, failure, listing
from tests.controller.setups import node

NODES = "/api/v1/nodes"
SETUPS = "/apis/flux-framework.org/v1alpha2/fluxsetups"
MISSING = failure(404, 'fluxsetups.flux-framework.org "default" not found', name="default", kind="fluxsetups")
POOL = "cloud.google.com/gke-nodepool"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TWO_KINDS = [
    node("a", labels={POOL: "CPU_pool"}),
    node("b", labels={POOL: "gpu"}, taints=[TAINT], allocatable={"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "4"}),
]
CONTROL_PLANE = node("c", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])


def answers(monkeypatch: pytest.MonkeyPatch, *given: str, confirm: bool = True) -> list[str]:
    """Sit at a terminal and answer so; returns what was asked."""
    asked: list[str] = []
    left = list(given)

    def prompt(question: str, *, default: str, err: bool) -> str:
        assert err, "stdout is for the result"
        asked.append(question)
        return left.pop(0) if left else default

    def confirmed(question: str, *, default: bool, err: bool) -> bool:
        asked.append(question)
        return confirm

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(typer, "prompt", prompt)
    monkeypatch.setattr(typer, "confirm", confirmed)
    return asked


@pytest.fixture
def cluster(server: Server) -> Callable[..., Server]:
    def with_nodes(*nodes: dict[str, Any]) -> Server:
        server.on("GET", NODES, listing(*nodes))
        server.on("GET", f"{SETUPS}/default", MISSING)
        server.on("POST", SETUPS, listing())
        return server

    return with_nodes


async def test_three_lines_from_nodes_of_one_kind(invoke: Invoke, cluster: Callable[..., Server]) -> None:
    server = cluster(node("a"), node("b"), CONTROL_PLANE)
    ended = await invoke("setup", "--from-nodes")
    assert (ended.code, ended.out) == (0, "FluxSetup default created\n")
    assert "all nodes: cpu 32, memory 128Gi" in ended.err
    (body,) = [body for body in server.bodies if body]
    assert body == {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "FluxSetup",
        "metadata": {"name": "default"},
    }


async def test_kinds_of_nodes_become_flavors(invoke: Invoke, cluster: Callable[..., Server]) -> None:
    server = cluster(*TWO_KINDS)
    ended = await invoke("setup", "physics", "--for", "a", "--for", "b", "--cohort", "c", "--yes", "--dry-run")
    assert ended.code == 0
    assert yaml.safe_load(ended.out) == {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "FluxSetup",
        "metadata": {"name": "physics"},
        "spec": {
            "namespaces": ["a", "b"],
            "flavors": [
                {"name": "cpu-pool", "nodeLabels": {POOL: "CPU_pool"}},
                {
                    "name": "gpu",
                    "nodeLabels": {POOL: "gpu"},
                    "tolerations": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
                },
            ],
            "cohort": "c",
        },
    }
    assert "nodes with cloud.google.com/gke-nodepool=gpu: cpu 8, memory 32Gi, nvidia.com/gpu 4" in ended.err
    assert not [method for method, path, _ in server.requests if method == "POST"]
    FluxSetup.from_object(yaml.safe_load(ended.out))


async def test_questions(invoke: Invoke, cluster: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, "default", "a, b", "4", "lots", "8Gi", "science")
    server = cluster(node("a"))
    ended = await invoke("setup")
    assert ended.code == 0, ended.err
    assert [question.partition(",")[0] for question in asked] == [
        "Name of the FluxSetup",
        "Namespaces that may use it",
        "Quota of cpu",
        "Quota of memory",
        "Quota of memory",
        "Cohort to share what is unused with",
        "Create it?",
    ]
    assert "'lots' is not a quantity" in ended.err
    (body,) = [body for body in server.bodies if body]
    assert body["spec"] == {"namespaces": ["a", "b"], "quota": {"cpu": "4", "memory": "8Gi"}, "cohort": "science"}


async def test_questions_about_flavors(
    invoke: Invoke, cluster: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answers(monkeypatch, "default", "default", "all", "16Gi")
    cluster(*TWO_KINDS)
    ended = await invoke("setup", "-o", "json")
    assert "Make a flavor of each of these 2 kinds of nodes?" in asked
    assert "Quota of nvidia.com/gpu of gpu, all for what its nodes have" in asked
    spec = yaml.safe_load(ended.out)["spec"]
    assert [flavor.get("quota") for flavor in spec["flavors"]] == [{"memory": "16Gi"}, None]


async def test_nobody_is_made_to_create_it(
    invoke: Invoke, cluster: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, confirm=False)
    server = cluster(node("a"))
    ended = await invoke("setup")
    assert ended.code == 1
    assert not [body for body in server.bodies if body]


async def test_without_a_terminal_it_says_how(invoke: Invoke, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    ended = await invoke("setup")
    assert ended.code == 2
    assert "add --from-nodes" in " ".join(ended.err.replace("│", " ").split())
    assert server.requests == []


async def test_one_that_is_there_is_not_touched(invoke: Invoke, server: Server) -> None:
    server.on("GET", NODES, listing(node("a")))
    server.on("GET", f"{SETUPS}/default", listing())
    ended = await invoke("setup", "-y")
    assert ended.code == 1
    assert "FluxSetup default is there already" in ended.err
    assert "kubectl edit fluxsetup default" in ended.err


async def test_whoever_may_not_list_nodes_is_told(invoke: Invoke, server: Server) -> None:
    server.on("GET", NODES, failure(403, 'nodes is forbidden: User "x" cannot list resource "nodes"'))
    ended = await invoke("setup", "-y")
    assert ended.code == 1
    assert 'what the nodes have cannot be seen: nodes is forbidden: User "x"' in ended.err
    assert "write a FluxSetup by hand" in ended.err


async def test_a_name_that_is_none(invoke: Invoke, server: Server) -> None:
    ended = await invoke("setup", "a/b", "-y")
    assert ended.code == 2
    assert "NAME: 'a/b' is no name" in ended.err
    assert server.requests == []


async def test_what_cannot_be_is_not_sent(invoke: Invoke, cluster: Callable[..., Server]) -> None:
    server = cluster(node("a"))
    ended = await invoke("setup", "-y", "--for", "No_Namespace")
    assert ended.code == 2
    assert "spec.namespaces[0]" in ended.err
    assert not [body for body in server.bodies if body]


async def test_what_nodes_say_does_not_steer_the_terminal(invoke: Invoke, cluster: Callable[..., Server]) -> None:
    cluster(node("a", labels={POOL: "x\x1b[2J"}), node("b", labels={POOL: "y"}))
    ended = await invoke("setup", "-y", "--dry-run")
    assert "\x1b" not in ended.out + ended.err


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ([], []),
        ([node("a", labels={POOL: "x"})], []),
        ([node("a", labels={POOL: "x"}), node("b")], []),
        ([node("a", labels={"nvidia.com/gpu.product": "A100"}), node("b", labels={"nvidia.com/gpu.product": "H100"})],
         ["a100", "h100"]),
        ([node(str(n), labels={POOL: f"p{n}"}) for n in range(17)], []),
        ([node(value, labels={POOL: value}) for value in ("a_1", "A_1", "a-1", "b")], ["a-1", "a-1-2", "a-1-3", "b"]),
        ([node("a", taints=[TAINT])], ["tainted-nodes"]),
        ([node("a", taints=[TAINT]), node("b")], []),
    ],
    ids=["no nodes", "one kind", "not all have it", "gpu", "too many kinds", "one name", "all tainted", "some tainted"],
)  # fmt: skip
def test_kinds(nodes: list[dict[str, Any]], names: list[str]) -> None:
    flavors = setup.kinds(setup.usable([read_node(each) for each in nodes]))
    assert [flavor["name"] for flavor in flavors] == names
    if names:
        FluxSetup.from_object({"metadata": {"name": "a"}, "spec": {"flavors": flavors}})


def test_nodes_that_are_not_for_jobs() -> None:
    sick = node("s", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}])
    nodes = [read_node(each) for each in (CONTROL_PLANE, sick, node("u", unschedulable=True), node("a"))]
    assert [each.name for each in setup.usable(nodes)] == ["a"]
