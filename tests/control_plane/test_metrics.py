"""What is counted and what is logged of a MiniCluster on real Kueue, and that a restart repeats none of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.control_plane.adapter import Adapter
from tests.control_plane.kit import QUEUE, Namespace
from tests.control_plane.miniclusters import expect, get, minicluster, running, succeed

COMMAND = "launch --password hunter2"


def lines(log: Path, who: str) -> list[dict[str, Any]]:
    """What `grep` finds of one MiniCluster, each line as JSON."""
    return [json.loads(line) for line in log.read_text().splitlines() if f'"minicluster": "{who}"' in line]


def counted(adapter: Adapter, namespace: Namespace, name: str, **labels: str) -> float:
    """The sum of the samples with this name, of the namespace's queue, with these further labels."""
    wanted = {"namespace": namespace.name, "queue": QUEUE, **labels}.items()
    families = text_string_to_metric_families(adapter.metrics())
    samples = (sample for family in families for sample in family.samples if sample.name == f"kueue_flux_{name}")
    return sum(sample.value for sample in samples if wanted <= sample.labels.items())


@pytest.fixture
def finished(adapter: Adapter, namespace: Namespace) -> Namespace:
    """A namespace in which one MiniCluster was admitted, evicted, admitted again, and has succeeded."""
    namespace.create(minicluster(command=COMMAND))
    running(namespace)
    namespace.stop_queue("HoldAndDrain")
    expect(namespace, "Admitted=False")
    namespace.wait_for("its pods to go", lambda: not namespace.pods("mc"))
    namespace.stop_queue(None)
    running(namespace)
    succeed(namespace)
    expect(namespace, "Injected=False/Withdrawn")
    return namespace


def test_one_key_finds_the_whole_life(adapter: Adapter, finished: Namespace) -> None:
    who, uid = f"{finished.name}/mc", get(finished)["metadata"]["uid"]
    finished.delete("MiniCluster", "mc")
    finished.wait_for("the last line", lambda: lines(adapter.log, who)[-1]["event"] == "deleted")
    told = lines(adapter.log, who)
    assert {line["uid"] for line in told} == {uid}
    life = [line for line in told if line["event"] != "status not written"]  # where Kueue was faster than we
    assert [line["event"] for line in life] == [
        "created",
        *("admitted", "injected", "brokers up", "evicted"),
        *("admitted", "injected", "brokers up", "finished"),
        "deleted",
    ]
    _, admitted, injected, up, evicted, again, *_, end, _ = life
    assert (admitted["size"], admitted["queue"], admitted["cluster_queue"]) == (2, QUEUE, finished.name)
    assert (injected["brokers"], up["brokers"]) == (2, 2)
    assert evicted["reason"] == "ClusterQueueStopped"
    assert (admitted["again"], again["again"]) == (False, True)
    assert (end["result"], end["exit_code"]) == ("Succeeded", 0)
    assert all(line["seconds"] >= 0 for line in life[1:-1])
    assert "hunter2" not in adapter.log.read_text()
    print(*map(json.dumps, told), sep="\n")


def test_each_transition_is_counted_once_also_after_a_restart(adapter: Adapter, finished: Namespace) -> None:
    once = {
        "injections_total": 2,
        "injection_seconds_count": 2,
        "boot_seconds_count": 2,
        "admission_wait_seconds_count": 2,
        "evictions_total": 1,
        "finished_total": 1,
        "failures_total": 0,
    }
    assert {name: counted(adapter, finished, name) for name in once} == once
    assert counted(adapter, finished, "evictions_total", reason="ClusterQueueStopped") == 1
    assert counted(adapter, finished, "finished_total", result="Succeeded") == 1
    assert counted(adapter, finished, "miniclusters", stage="finished") == 1
    adapter.restart()
    finished.wait_for("the new process", lambda: counted(adapter, finished, "miniclusters", stage="finished") == 1)
    finished.create(minicluster("other"))
    running(finished, "other")  # so it has long looked at the first one
    again = {name: counted(adapter, finished, name) for name in once}
    assert again == dict.fromkeys(once, 0) | {
        "injections_total": 1,
        "injection_seconds_count": 1,
        "boot_seconds_count": 1,
        "admission_wait_seconds_count": 1,
    }
