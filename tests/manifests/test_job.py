"""The suspended Job: what it is for any MiniCluster, and what labels, annotations and limits add to it."""

from typing import Any

import pytest

from kueue_flux.manifests.job import job
from tests.builders import MiniClusterBuilder, minicluster

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
MAX_EXEC = "kueue.x-k8s.io/max-exec-time-seconds"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
EQUAL = "kueue.x-k8s.io/job-completions-equal-parallelism"
SPARED = [2, 113, 128, 137, 143]
OURS = {"app.kubernetes.io/managed-by": "kueue-flux", "flux-framework.org/minicluster": "hello"}


def build(mc: MiniClusterBuilder) -> dict[str, Any]:
    return job(mc.build())


def test_the_whole_job() -> None:
    built = build(minicluster().queue("q").size(4))
    template = built["spec"].pop("template")
    assert built == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "hello",
            "namespace": "team",
            "labels": {QUEUE: "q", **OURS},
            "ownerReferences": [
                {
                    "apiVersion": "flux-framework.org/v1alpha2",
                    "kind": "MiniCluster",
                    "name": "hello",
                    "uid": "uid-hello",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "suspend": True,
            "completionMode": "Indexed",
            "parallelism": 4,
            "completions": 4,
            "backoffLimit": 12,
            "activeDeadlineSeconds": 31500000,
            "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    {
                        "action": "FailJob",
                        "onExitCodes": {"containerName": "flux", "operator": "NotIn", "values": SPARED},
                    },
                ]
            },
        },
    }
    assert template["spec"]["restartPolicy"] == "Never"  # a podFailurePolicy takes nothing else


@pytest.mark.parametrize(
    ("mc", "labels"),
    [
        (minicluster(), {}),
        (minicluster().queue("q"), {QUEUE: "q"}),
        (minicluster().spec(jobLabels={QUEUE: "q"}), {QUEUE: "q"}),
        (minicluster().queue("q").spec(jobLabels={QUEUE: "q"}), {QUEUE: "q"}),
        (minicluster().queue("q").label(PRIORITY, "high"), {QUEUE: "q", PRIORITY: "high"}),
        (minicluster().spec(jobLabels={QUEUE: "q", PRIORITY: "high"}), {QUEUE: "q", PRIORITY: "high"}),
        (minicluster().queue("q").label(MAX_EXEC, "3600"), {QUEUE: "q", MAX_EXEC: "3600"}),
        (minicluster().spec(jobLabels={"team": "hpc"}), {"team": "hpc"}),
        (minicluster().label("team", "hpc"), {}),  # the MiniCluster's own labels stay its own
        (minicluster().label(QUEUE, ""), {}),
    ],
)
def test_labels(mc: MiniClusterBuilder, labels: dict[str, str]) -> None:
    assert build(mc)["metadata"]["labels"] == {**OURS, **labels}


@pytest.mark.parametrize(
    ("mc", "partial"),
    [
        (minicluster().queue("q").size(4).spec(minSize=2), "2"),
        (minicluster().queue("q").size(4).spec(minSize=1), "1"),
        (minicluster().spec(jobLabels={QUEUE: "q"}, minSize=3), "3"),
        (minicluster().queue("q").size(4), None),
        (minicluster().queue("q").size(4).spec(minSize=0), None),
        (minicluster().queue("q").size(4).spec(minSize=4), None),
        (minicluster().size(4).spec(minSize=2), "2"),  # Kueue may give it the default queue
    ],
)
def test_partial_admission_takes_two_annotations_or_none(mc: MiniClusterBuilder, partial: str | None) -> None:
    expected = {MIN_PARALLELISM: partial, EQUAL: "true"} if partial else None
    assert build(mc)["metadata"].get("annotations") == expected


@pytest.mark.parametrize(
    ("mc", "limit"),
    [
        (minicluster().size(1), 3),
        (minicluster().size(64), 192),
        (minicluster().spec(backoffLimit=7), 7),
        (minicluster().spec(backoffLimit=0), 0),
        (minicluster().spec(backoffLimit=None), 12),
    ],
)
def test_backoff_limit(mc: MiniClusterBuilder, limit: int) -> None:
    assert build(mc)["spec"]["backoffLimit"] == limit


def test_deadline() -> None:
    assert build(minicluster().spec(deadlineSeconds=60))["spec"]["activeDeadlineSeconds"] == 60


def test_the_failure_policy_names_the_container_as_the_user_does() -> None:
    built = build(minicluster().container(name="app"))
    (container,) = built["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "app"
    assert built["spec"]["podFailurePolicy"]["rules"][1]["onExitCodes"]["containerName"] == "app"


@pytest.mark.parametrize(
    ("container", "copying"),
    [({"disable": True}, []), ({"imageVolume": True}, []), ({}, ["flux-view"]), ({"name": "view"}, ["view"])],
)
def test_a_view_that_cannot_be_copied_is_not_tried_again(container: dict[str, Any], copying: list[str]) -> None:
    rules = build(minicluster().spec(flux={"container": container}))["spec"]["podFailurePolicy"]["rules"][2:]
    assert [rule["action"] for rule in rules] == ["FailJob" for _ in copying]
    exits = [{"containerName": name, "operator": "NotIn", "values": [2, 128, 137, 143]} for name in copying]
    assert [rule["onExitCodes"] for rule in rules] == exits


@pytest.mark.parametrize(("complete", "spared"), [(False, SPARED), (True, [2, 128, 137, 143])])
def test_where_lost_workers_have_completed_a_lost_instance_cannot_run_again(complete: bool, spared: list[int]) -> None:
    (_, rule) = build(minicluster().flux(completeWorkers=complete))["spec"]["podFailurePolicy"]["rules"]
    assert rule["onExitCodes"]["values"] == spared
