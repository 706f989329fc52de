"""The main job: a command submitted to a queue runs under Flux, as it was typed, and leaves nothing behind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest

from e2e.kit import UNTIL_TOLD, Namespace, as_yaml, manifest
from kueue_flux.devcluster.kubernetes_api import Manifest
from tests.control_plane.kit import condition

OWNED = ("Service", "NetworkPolicy", "Job", "Secret", "ConfigMap", "Pod")


def test_four_brokers_print_their_names_and_nothing_else(namespace: Namespace):
    ran = namespace.submit("hostname", flags=("--name", "hello", "--wait"), size=4)
    assert ran.code == 0, ran.err
    assert sorted(ran.lines) == ["hello-0", "hello-1", "hello-2", "hello-3"]
    assert "succeeded: the command exited with code 0" in ran.err


@pytest.fixture(scope="module")
def life(make_namespace: Callable[..., Namespace]) -> dict[str, dict[str, list[Manifest]]]:
    """What is there, by kind, at each stage of a MiniCluster's life."""
    namespace, seen = make_namespace(), {}

    def look(stage: str) -> None:
        seen[stage] = {kind: [o for o in namespace.all(kind) if _is_part(o)] for kind in ("MiniCluster", *OWNED)}

    namespace.stop_queue("Hold")
    namespace.start("life", *UNTIL_TOLD, size=2)
    namespace.wait_condition("life", "QuotaReserved", "False", "Inadmissible")
    look("waiting")
    namespace.stop_queue(None)
    namespace.wait_running("life")
    namespace.wait_output("life", "begun\nbegun\n")
    look("running")
    namespace.release("life")
    namespace.wait_succeeded("life")
    namespace.wait_condition("life", "Injected", "False", "Withdrawn")
    look("finished")
    assert namespace.kueue_flux("delete", "life").code == 0
    namespace.wait_for("what it owned to go", lambda: not any(namespace.of("life", kind) for kind in OWNED))
    look("deleted")
    return seen


class TestItsLife:
    """One MiniCluster, looked at before it is admitted, while it runs, when it has ended and when it is deleted."""

    def test_it_waits_as_a_suspended_indexed_job_of_the_queue(self, life):
        (job,) = life["waiting"]["Job"]
        spec = job["spec"]
        assert (spec["suspend"], spec["completionMode"], spec["parallelism"]) == (True, "Indexed", 2)
        assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "queue"
        assert not life["waiting"]["Pod"]

    def test_it_has_no_certificate_and_no_configuration_before_admission(self, life):
        assert not life["waiting"]["Secret"]
        assert not life["waiting"]["ConfigMap"]

    def test_it_has_both_while_it_runs(self, life):
        (secret,), (config,) = life["running"]["Secret"], life["running"]["ConfigMap"]
        assert list(secret["data"]) == ["curve.cert"]
        assert {"broker.toml", "R.json", "start.sh"} <= set(config["data"])
        assert len(life["running"]["Pod"]) == 2

    def test_its_conditions_tell_where_it_stands(self, life):
        kinds = ("Accepted", "QuotaReserved", "Admitted", "Injected", "Ready", "Finished")

        def told(stage: str) -> dict[str, tuple[str, str]]:
            (mc,) = life[stage]["MiniCluster"]
            found = {kind: condition(mc, kind) for kind in kinds}
            assert all(c["message"] and c["observedGeneration"] == 1 for c in found.values())
            return {kind: (c["status"], c["reason"]) for kind, c in found.items()}

        assert told("waiting") == {
            "Accepted": ("True", "Accepted"),
            "QuotaReserved": ("False", "Inadmissible"),
            "Admitted": ("False", "Pending"),
            "Injected": ("False", "WaitingForAdmission"),
            "Ready": ("False", "WaitingForAdmission"),
            "Finished": ("False", "Waiting"),
        }
        assert told("running") == {
            "Accepted": ("True", "Accepted"),
            "QuotaReserved": ("True", "QuotaReserved"),
            "Admitted": ("True", "Admitted"),
            "Injected": ("True", "FilesWritten"),
            "Ready": ("True", "BrokersUp"),
            "Finished": ("False", "Running"),
        }
        assert told("finished") == {
            "Accepted": ("True", "Accepted"),
            "QuotaReserved": ("True", "QuotaReserved"),
            "Admitted": ("True", "Admitted"),
            "Injected": ("False", "Withdrawn"),
            "Ready": ("False", "Finished"),
            "Finished": ("True", "Succeeded"),
        }

    def test_its_certificate_and_configuration_go_with_its_end(self, life):
        assert not life["finished"]["Secret"]
        assert not life["finished"]["ConfigMap"]
        assert life["finished"]["Job"], "the Job stays, for whoever wants to look"

    def test_all_that_it_owned_goes_with_it(self, life):
        assert not any(life["deleted"].values())


def _is_part(obj: Manifest) -> bool:
    name = "flux-framework.org/minicluster"
    return obj["kind"] == "MiniCluster" or name in obj["metadata"].get("labels", {})


@pytest.mark.real_flux
def test_unless_it_is_quiet_flux_tells_how_it_comes_up_and_goes_down(namespace: Namespace):
    ran = namespace.submit("hostname", flags=("--name", "hello", "--verbose", "--wait"), size=2)
    assert ran.code == 0, ran.err
    assert "hello-0 is rank 0 of 2" in ran.out
    for transition in ("init->quorum", "quorum->run", "run->cleanup"):
        assert transition in ran.out
    assert {"hello-0", "hello-1"} <= set(ran.lines)


def test_the_command_gets_its_words_as_they_were_typed(namespace: Namespace):
    words = [
        "two words",
        "it's",
        '"quoted"',
        "$HOME",
        "$$",
        "$(id)",
        "$(HOSTNAME)",
        "`id`",
        "a\nb",
        "é ß 漢",
        "-n",
        "--",
    ]
    words += ["*", "\\", "", "; exit 9", "#"]
    program = "import json, sys; print(json.dumps(sys.argv[1:]))"
    ran = namespace.submit("python3", "-c", program, *words)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out) == words


def test_the_command_gets_its_directory_environment_and_secrets(namespace: Namespace):
    namespace.kubectl("create", "secret", "generic", "login", "--from-literal=password=it's $ECRET")
    program = "import os; print(os.getcwd(), os.environ['PLAIN'], os.environ['PASSWORD'], sep='\\n')"
    container = {
        "image": namespace.cluster.flux.reference,
        "command": f'python3 -c "{program}"',
        "workingDir": "/usr/share",
        "environment": {"PLAIN": 'a "b" $HOME $(id) ü'},
        "secrets": {"PASSWORD": {"name": "login", "key": "password"}},
    }
    spec = {
        "containers": [container],
        "flux": {"container": {"disable": True}},
        "logging": {"quiet": True},
    }
    ran = namespace.kueue_flux("submit", "-", "--wait", stdin=as_yaml(manifest("settings", spec)))
    assert ran.code == 0, ran.err
    assert ran.lines == ["/usr/share", 'a "b" $HOME $(id) ü', "it's $ECRET"]


@pytest.mark.parametrize(
    ("size", "tasks", "on_each"),
    [(4, 2, [1, 1]), (2, 8, [4, 4])],
    ids=["fewer-than-nodes", "several-a-node"],
)
def test_as_many_tasks_run_as_were_asked_for(namespace: Namespace, size: int, tasks: int, on_each: list[int]):
    ran = namespace.submit("hostname", flags=("--name", "tasks", "--tasks", str(tasks), "--wait"), size=size)
    assert ran.code == 0, ran.err
    assert sorted(Counter(ran.lines).values()) == on_each, ran.out
    assert set(ran.lines) <= {f"tasks-{rank}" for rank in range(size)}


@pytest.mark.real_flux
def test_flags_reach_flux_run(namespace: Namespace):
    container = {"image": namespace.cluster.flux.reference, "command": "sh -c 'echo $FLAVOUR'"}
    spec = {
        "size": 2,
        "tasks": 2,
        "containers": [container],
        "flux": {"container": {"disable": True}, "optionFlags": "--label-io --env='FLAVOUR=salt and vinegar'"},
        "logging": {"quiet": True},
    }
    ran = namespace.kueue_flux("submit", "-", "--wait", stdin=as_yaml(manifest("flags", spec)))
    assert ran.code == 0, ran.err
    assert sorted(ran.lines) == ["0: salt and vinegar", "1: salt and vinegar"]
