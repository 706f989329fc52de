from typing import Any

import pytest

from kueue_flux.controller.accepted import MADE_FROM, annotation, is_changed, specification
from kueue_flux.runtime.resource import Object
from tests.api.certificates import SECRET, TEXT

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


def with_certificate(text: str | None, generation: int = 2, **flux: Any) -> Object:
    return minicluster(generation, flux={**flux, **({} if text is None else {"curveCert": text})})


CERTIFIED = annotation(with_certificate(TEXT, 1, logLevel=3))


def test_the_job_is_not_told_the_certificate():
    assert SECRET not in CERTIFIED
    assert "curveCert" in CERTIFIED


@pytest.mark.parametrize(
    ("now", "changed", "certificate"),
    [
        (with_certificate(TEXT, logLevel=3), False, TEXT),
        (with_certificate(TEXT, logLevel=4), True, TEXT),
        (with_certificate("no certificate", logLevel=3), True, None),  # the first one is lost, and a new one is made
        (with_certificate(None, logLevel=3), True, None),
        (minicluster(2, flux=None), True, None),
    ],
)
def test_a_certificate_is_found_again_as_long_as_it_is_the_same(now: Object, changed: bool, certificate: str | None):
    assert is_changed(now, job(CERTIFIED)) is changed
    kept = specification(now, job(CERTIFIED))["flux"]
    assert (kept["logLevel"], kept.get("curveCert")) == (3, certificate)


def test_a_certificate_that_is_added_later_does_not_count():
    assert specification(with_certificate(TEXT), job(MADE)) == SPEC
    assert is_changed(with_certificate(TEXT), job(MADE))


def test_the_annotation_is_no_longer_than_it_must_be():
    text = annotation(minicluster(3, jobLabels={"ü": "\n"}))
    assert text.startswith('{"generation":3,"spec":{"containers":[{"image":"i"}],"jobLabels":{"ü":"\\n"},')
    assert specification(minicluster(3), job(text))["jobLabels"] == {"ü": "\n"}
