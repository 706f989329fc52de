"""A Kueue that waits only so long for pods, and shares fairly, on a control plane of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kueue_flux.devcluster import kwok
from kueue_flux.devcluster.control_plane import Cluster
from tests.control_plane import clusters
from tests.control_plane.adapter import Adapter
from tests.control_plane.kit import Namespace, condition
from tests.control_plane.miniclusters import (
    PATIENCE,
    events,
    expect,
    minicluster,
    running,
    secret,
    secret_key,
    status,
    succeed,
    withdrawn,
)
from tests.control_plane.queues import set_queue, unique

SETTINGS = {
    "waitForPodsReady": {
        "timeout": "12s",
        "blockAdmission": False,
        "requeuingStrategy": {
            "timestamp": "Eviction",
            "backoffBaseSeconds": 4,
            "backoffMaxSeconds": 4,
            "backoffLimitCount": 1,
        },
    },
    "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A control plane whose Kueue has little patience."""
    with clusters.running("times", SETTINGS) as found:
        yield found


@pytest.fixture(scope="module", autouse=True)
def adapter(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adapter]:
    found = Adapter(cluster, tmp_path_factory.mktemp("adapter"))
    found.start()
    yield found
    found.close()


def test_what_does_not_get_ready_is_tried_again_and_then_left_to_its_user(namespace: Namespace):
    namespace.create(minicluster(annotations={kwok.READY_AFTER: "1h"}))
    expect(namespace, "Injected=True")
    first = secret_key(namespace)
    withdrawn(namespace)
    expect(namespace, "Admitted=False/PodsReadyTimeout")
    waiting = expect(namespace, "QuotaReserved=False")
    assert "osition" not in condition(waiting, "QuotaReserved")["message"], "it is not in the queue now"
    namespace.wait_for("the second admission", lambda: status(namespace)["admissions"] == 2, timeout=PATIENCE)
    assert secret_key(namespace) != first
    given_up = expect(namespace, "QuotaReserved=False/Deactivated", says="kubectl delete workload")
    assert "maximum number of re-queuing" in condition(given_up, "QuotaReserved")["message"]
    withdrawn(namespace)
    assert sum("Evicted" in line and "PodsReadyTimeout" in line for line in events(namespace)) >= 1

    namespace.delete("MiniCluster", "mc")
    namespace.wait_for("it to be gone", lambda: namespace.get("Job", "mc") is None, timeout=PATIENCE)
    assert secret(namespace) is None


def test_the_one_who_has_most_gives_way_to_the_one_who_has_nothing(make_namespace: Callable[..., Namespace]):
    greedy, modest, idle = (make_namespace(cpu=0) for _ in range(3))
    cohort = unique("cohort")
    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    for team, cpu in ((greedy, 0), (modest, 0), (idle, 4)):
        set_queue(team, cpu, cohortName=cohort, preemption=preemption)
    for name in ("one", "two"):
        greedy.create(minicluster(name))
        running(greedy, name)
    keys = {name: secret_key(greedy, name) for name in ("one", "two")}
    modest.create(minicluster())
    running(modest)
    lost = greedy.wait_for(
        "one of them to give way",
        lambda: [
            name for name in keys if any("Evicted" in line and "Fair Sharing" in line for line in events(greedy, name))
        ],
        timeout=PATIENCE,
    )
    assert len(lost) == 1
    (loser,), (winner,) = lost, keys.keys() - set(lost)
    expect(greedy, "Admitted=False/Preempted", loser, says="Fair Sharing")
    assert secret(greedy, loser) is None
    assert secret_key(greedy, winner) == keys[winner]
    succeed(modest)
    running(greedy, loser)
    assert secret_key(greedy, loser) != keys[loser]
