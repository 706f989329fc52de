from typing import Any

import pytest

from kueue_flux.controller.accepted import MADE_FROM, annotation, is_changed, specification
from kueue_flux.runtime.resource import Object

SPEC = {"size": 2, "containers": [{"image": "i"}], "ttlSecondsAfterFinished": 5}


def minicluster(generation: int = 1, **spec: Any) -> Object:
    return {"metadata": {"name": "mc", "generation": generation}, "spec": {**SPEC, **spec}}


def job(made_from: str | None) -> Object:
    return {"metadata": {"annotations": {MADE_FROM: made_from}} if made_from is not None else {}}


MADE = annotation(minicluster())


@pytest.mark.parametrize(
    ("now", "changed", "counts"),
    [
        (minicluster(), False, SPEC),
        (minicluster(2), False, SPEC),  # a label of the past, or an edit that was undone
        (minicluster(2, size=3), True, SPEC),
        (minicluster(2, ttlSecondsAfterFinished=9), False, {**SPEC, "ttlSecondsAfterFinished": 9}),
        (minicluster(2, size=3, ttlSecondsAfterFinished=9), True, {**SPEC, "ttlSecondsAfterFinished": 9}),
        (minicluster(1, tasks=1), False, SPEC),  # a newer CRD's default
    ],
)
def test_what_counts_is_what_the_job_was_made_from(now: Object, changed: bool, counts: dict[str, Any]):
    assert is_changed(now, job(MADE)) is changed
    assert specification(now, job(MADE)) == counts


def test_a_time_to_live_can_be_taken_back():
    now = minicluster(2)
    del now["spec"]["ttlSecondsAfterFinished"]
    assert "ttlSecondsAfterFinished" not in specification(now, job(MADE))


@pytest.mark.parametrize("text", [None, "", "{", "[]", "3", '{"spec": {}}', '{"generation": 1, "spec": []}', "1/abc"])
def test_without_a_readable_annotation_the_minicluster_itself_counts(text: str | None):
    now = minicluster(2, size=3)
    assert specification(now, job(text)) == now["spec"]
    assert is_changed(now, job(text)) is False


def test_without_a_job_the_minicluster_itself_counts():
    assert specification(minicluster(2, size=3), None)["size"] == 3
