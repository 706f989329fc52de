"""The controller is killed at any moment: what it was about to do is done by the next one, and done once."""

from __future__ import annotations

import random
import shlex
import time
from collections.abc import Callable

import pytest

from e2e.kit import CONTROLLER, LEASE, UNTIL_TOLD, Cluster, Namespace, manifest
from kueue_flux.devcluster.kubernetes_api import Manifest

RUNS = 10
KILLS_A_RUN = 2
WITHIN_SECONDS = 2  # after the controller has begun to work: what it does for a run takes less, where nobody kills it


class TestKilledTwentyTimes:
    @pytest.fixture(scope="class")
    @classmethod
    def runs(cls, make_namespace: Callable[..., Namespace]) -> Namespace:
        """Ten runs, at least two kills in the life of each. The quota is that of two, so the others wait for theirs."""
        namespace, held = make_namespace(pods=4), []
        for number in range(RUNS):
            held.append(f"run-{number}")
            namespace.create(manifest(held[-1], spec_of_a_run(namespace.cluster)))
            for _ in range(KILLS_A_RUN):
                kill_leader(namespace.cluster, random.uniform(0, WITHIN_SECONDS))
            held = release(namespace, held)
        for name in held:
            namespace.wait_for(f"{name} to run", lambda n=name: not release(namespace, [n]), timeout=90)
        for number in range(RUNS):
            namespace.wait_finished(f"run-{number}")
        return namespace

    @pytest.mark.parametrize("number", range(RUNS))
    def test_it_ends_well(self, runs: Namespace, number: int):
        ended = runs.wait_succeeded(f"run-{number}")
        assert ended["status"]["exitCode"] == 0
        runs.wait_for("its files to go", lambda: not runs.files(f"run-{number}"))

    @pytest.mark.parametrize("number", range(RUNS))
    def test_it_ran_once(self, runs: Namespace, number: int):
        name = f"run-{number}"
        assert runs.minicluster(name)["status"]["admissions"] == 1
        assert sorted(runs.log(runs.lead(name)).splitlines()) == ["begun", "begun", "told", "told"]
        assert len(runs.pods_made(name)) == 2, "no pod was replaced"


def spec_of_a_run(cluster: Cluster) -> Manifest:
    """Two brokers and a command that waits for `release`."""
    container = {"image": cluster.flux.reference, "command": shlex.join(UNTIL_TOLD)}
    return {
        "size": 2,
        "tasks": 2,
        "containers": [container],
        "flux": {"container": {"disable": True}},
        "logging": {"quiet": True},
    }


def kill_leader(cluster: Cluster, moment: float) -> None:
    """SIGKILL for the controller that works, so many seconds from now, and another one at once.

    A kubelet would wait longer from kill to kill to start the same pod's again; so there is a fresh pod each time.
    """
    controller = cluster.leader()
    with cluster.aimed_at(controller) as shoot:
        time.sleep(moment)
        shoot()
        # before the kubelet starts the container again, which would take the Lease and be ended with its pod
        cluster.remove(controller)
    # its successor would wait until the Lease has run out, and meanwhile there would be nobody to kill
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    cluster.api.delete({**lease, "metadata": {"name": LEASE, "namespace": CONTROLLER[0]}})


def release(namespace: Namespace, names: list[str]) -> list[str]:
    """Let those of the runs end whose pods all run, and return the others."""
    running = [name for name in names if [pod["status"]["phase"] for pod in namespace.pods(name)] == ["Running"] * 2]
    for name in running:
        namespace.release(name)
    return [name for name in names if name not in running]


def test_after_a_kill_the_lease_runs_out_and_the_work_goes_on(namespace: Namespace):
    """As it is without help: the kubelet starts the container again, which waits for the Lease."""
    before = namespace.cluster.leader()
    namespace.cluster.kill(before)
    namespace.start("orphan", "hostname")
    assert namespace.wait_succeeded("orphan")["status"]["admissions"] == 1
    after = namespace.cluster.leader()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    restarts = [pod["status"]["containerStatuses"][0]["restartCount"] for pod in (before, after)]
    assert restarts[1] == restarts[0] + 1
