"""The controller is killed at any moment: what it was about to do is done by the next one, and done once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from e2e.kit import CONTROLLER, Cluster, Namespace
from tests.control_plane.kit import is_true

RUNS = 10
KILLS_A_RUN = 2
WITHIN_SECONDS = 4  # of each other, or of the submission
COMMAND = ("sh", "-c", "hostname; sleep 5")  # longer than the two kills take together with what comes before it


def kill_controller(cluster: Cluster) -> None:
    """SIGKILL, and a fresh pod at once, where a kubelet would wait longer from kill to kill to start the same again."""
    for pod in cluster.controllers():
        if pod["status"].get("containerStatuses", [{}])[0].get("state", {}).get("running"):
            cluster.kill(pod)
        where = ("-n", CONTROLLER[0], "delete", "--ignore-not-found")
        cluster.kubectl(*where, "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
        # its successor would wait until the Lease has run out, and meanwhile there would be nobody to kill
        cluster.kubectl(*where, "lease", "kueue-flux")


class TestKilledTwentyTimes:
    @pytest.fixture(scope="class")
    @classmethod
    def runs(cls, make_namespace: Callable[..., Namespace]) -> Namespace:
        """Ten runs, two kills in each. The quota is that of two runs, so some of them wait for admission."""
        namespace = make_namespace(pods=4)
        cluster, seed = namespace.cluster, random.randrange(10**6)
        print(f"random moments of seed {seed}")
        moments, killed = random.Random(seed), 0
        for number in range(RUNS):
            namespace.start(f"run-{number}", *COMMAND, size=2)
            for _ in range(KILLS_A_RUN):
                time.sleep(moments.uniform(0, WITHIN_SECONDS))
                assert not is_true(namespace.minicluster(f"run-{number}"), "Finished"), "the moment comes too late"
                kill_controller(cluster)
                killed += 1
        assert killed == RUNS * KILLS_A_RUN
        for number in range(RUNS):
            namespace.wait_finished(f"run-{number}", timeout=180)
        return namespace

    @pytest.mark.parametrize("number", range(RUNS))
    def test_it_ends_well(self, runs: Namespace, number: int):
        ended = runs.wait_succeeded(f"run-{number}")
        assert ended["status"]["exitCode"] == 0
        runs.wait_for("its files to go", lambda: not runs.files(f"run-{number}"))

    @pytest.mark.parametrize("number", range(RUNS))
    def test_it_ran_once(self, runs: Namespace, number: int):
        name = f"run-{number}"
        assert sorted(runs.kueue_flux("logs", name).lines) == [f"{name}-0", f"{name}-1"]
        assert len(runs.pods(name)) == 2, "no pod was replaced"
        assert runs.minicluster(name)["status"]["admissions"] == 1
        created = [
            e
            for e in runs.all("Event")
            if e.get("regarding", {}).get("name") == name and e["reason"] == "SuccessfulCreate"
        ]
        assert len(created) == 2, "nor was one that has been deleted since"


def test_after_a_kill_the_lease_runs_out_and_the_work_goes_on(namespace: Namespace):
    """As it is without help: the kubelet starts the container again, which waits for the Lease."""
    (pod,) = namespace.cluster.controllers()
    namespace.cluster.kill(pod)
    namespace.start("orphan", "hostname")
    assert namespace.wait_succeeded("orphan", timeout=90)["status"]["admissions"] == 1
    (after,) = namespace.cluster.controllers()
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    restarts = [p["status"]["containerStatuses"][0]["restartCount"] for p in (pod, after)]
    assert restarts[1] == restarts[0] + 1
