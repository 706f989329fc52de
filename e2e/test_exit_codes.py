"""How a command ended is how its MiniCluster ends: the exit code of `--wait`, and the reason in kubectl's table."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e.kit import Namespace, Ran, manifest, rows
from tests.control_plane.kit import condition

ENDS = {
    # name: (command, exit code, what the Finished condition says)
    "fails": (("sh", "-c", "exit 3"), 3, "the command exited with code 3 (CommandFailed)"),
    "unknown": (("/no/such/command",), 127, "the command was not found (CommandNotFound, exit code 127)"),
    "no-program": (("/etc/passwd",), 126, "the command cannot be executed (CommandNotExecutable, exit code 126)"),
    # these two mean something else where a pod ends with them: they must neither be lost nor be tried again
    "killed": (
        ("sh", "-c", "kill -KILL $$"),
        137,
        "the command was ended by signal 9 (CommandSignaled, exit code 137)",
    ),
    "as-if-lost": (("sh", "-c", "exit 113"), 113, "the command exited with code 113 (CommandFailed)"),
}


@pytest.fixture(scope="module")
def ends(make_namespace: Callable[..., Namespace]) -> tuple[Namespace, dict[str, Ran]]:
    """All of them, side by side: the namespace, and what `submit --wait` came to."""
    namespace = make_namespace()

    def run(name: str) -> Ran:
        return namespace.submit(*ENDS[name][0], flags=("--name", name, "--wait"), timeout=180)

    with ThreadPoolExecutor() as pool:
        return namespace, dict(zip(ENDS, pool.map(run, ENDS), strict=True))


@pytest.mark.parametrize("name", ENDS)
class TestFailure:
    def test_submit_exits_as_the_command_did(self, ends, name: str):
        _, ran = ends
        assert ran[name].code == ENDS[name][1], ran[name]

    def test_kubectl_shows_that_it_failed(self, ends, name: str):
        namespace, _ = ends
        (shown,) = rows(namespace.kubectl("get", "minicluster", name, "-o", "wide"))
        assert (shown["FINISHED"], shown["EXIT"]) == ("Failed", str(ENDS[name][1]))
        assert ENDS[name][2] in shown["MESSAGE"]

    def test_the_condition_says_how(self, ends, name: str):
        namespace, _ = ends
        assert ENDS[name][2] in namespace.message(name, "Finished")
        namespace.wait_event(name, "Failed", namespace.message(name, "Finished"))

    def test_it_ran_once(self, ends, name: str):
        namespace, _ = ends
        assert len(namespace.pods(name)) == 1
        assert namespace.get("Job", name)["status"]["failed"] == 1


def test_an_image_that_cannot_be_pulled_is_named(namespace: Namespace):
    image = "localhost/kueue-flux/no-such-image:1"
    namespace.start("unpullable", "hostname", image=image)
    said = namespace.wait_condition("unpullable", "Ready", "False", "ImagePullFailed")
    assert image in said
    namespace.wait_event("unpullable", "ImagePullFailed", image)
    assert "ImagePullFailed" in namespace.kueue_flux("status", "unpullable").out


def test_an_image_without_flux_is_told_apart(namespace: Namespace, image_without_flux: str):
    ran = namespace.submit("hostname", flags=("--name", "bare", "--wait"), image=image_without_flux)
    assert ran.code == 127
    end = condition(namespace.minicluster("bare"), "Finished")
    assert (end["status"], end["reason"]) == ("True", "Failed")
    assert "there is no flux in the container" in end["message"]
    assert "FluxNotFound" in end["message"]


def test_more_than_the_pods_have_is_rejected_with_the_reason(namespace: Namespace):
    container = {"image": namespace.cluster.flux.reference, "command": "hostname"}
    spec = {"containers": [container], "flux": {"container": {"disable": True}, "optionFlags": "--no-such-flag"}}
    namespace.create(manifest("greedy", spec))
    end = condition(namespace.wait_finished("greedy"), "Finished")
    assert end["reason"] == "Failed"
    assert "JobRejected" in end["message"]
