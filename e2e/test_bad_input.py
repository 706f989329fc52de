"""Every MiniCluster that cannot run is refused: by the API server where it can tell, else by a condition."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from e2e.kit import Cluster, Namespace
from kueue_flux.devcluster.kubernetes_api import ApiError, Manifest
from tests.api.bad_inputs import INVALID, BadInput
from tests.api.test_unsupported import REFUSED
from tests.control_plane.kit import QUEUE, QUEUE_LABEL, condition

PATH = "/apis/flux-framework.org/v1alpha2/namespaces/{}/miniclusters"
# the API server drops fields that it does not know; it is kubectl that asks it to complain
MISSPELT = [c for c in INVALID if not c.at_apply and ("is not a field" in c.words or "did you mean" in c.words)]
LATER = [case for case in INVALID if not case.at_apply and case not in MISSPELT]


@pytest.mark.parametrize("case", [case for case in INVALID if case.at_apply], ids=lambda case: case.id)
def test_the_api_server_refuses(cluster: Cluster, case: BadInput):
    with pytest.raises(ApiError) as refusal:
        cluster.api.request("POST", PATH.format("default"), case.object, params={"dryRun": "All"})
    assert refusal.value.status in (400, 422), refusal.value
    if refusal.value.reason == "Invalid":
        assert case.path.split("[")[0].split(".")[-1] in refusal.value.message or case.words in refusal.value.message


@pytest.mark.parametrize("case", MISSPELT, ids=lambda case: case.id)
def test_kubectl_complains_of_what_is_misspelt(cluster: Cluster, case: BadInput):
    params = {"dryRun": "All", "fieldValidation": "Strict"}
    with pytest.raises(ApiError, match=re.escape(f'unknown field "{case.path}"')):
        cluster.api.request("POST", PATH.format("default"), case.object, params=params)


@pytest.fixture(scope="module")
def refused(make_namespace: Callable[..., Namespace]) -> Namespace:
    """A namespace with all those that only the controller can refuse."""
    namespace = make_namespace(pods=0)  # should one of them be accepted, it must not run

    def create(obj: Manifest, name: str) -> None:
        labels = {QUEUE_LABEL: QUEUE, **obj["metadata"].get("labels", {})}
        annotations = obj["metadata"].get("annotations", {})
        namespace.create({**obj, "metadata": {"name": name, "labels": labels, "annotations": annotations}})

    for number, case in enumerate(LATER):
        create(case.object, f"later-{number}")
    for number, (obj, _) in enumerate(REFUSED.values()):
        create(obj, f"unsupported-{number}")
    return namespace


@pytest.mark.parametrize("number", range(len(LATER)), ids=[case.id for case in LATER])
def test_the_condition_says_what_is_wrong(refused: Namespace, number: int):
    said = refused.wait_condition(f"later-{number}", "Accepted", "False", "InvalidSpec")
    assert f"{LATER[number].path}: " in said
    assert LATER[number].words in said
    assert not refused.of(f"later-{number}", "Job")


@pytest.mark.parametrize("number", range(len(REFUSED)), ids=REFUSED)
def test_what_is_not_acted_on_is_refused_by_name(refused: Namespace, number: int):
    _, field = list(REFUSED.values())[number]
    said = refused.wait_condition(f"unsupported-{number}", "Accepted", "False", "UnsupportedField")
    assert f"{field}: " in said
    found = condition(refused.minicluster(f"unsupported-{number}"), "Accepted")
    refused.wait_event(f"unsupported-{number}", "UnsupportedField", found["message"])
