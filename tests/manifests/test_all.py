"""What holds for every object of a MiniCluster, before admission and after it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.kueue.workload import Admission
from kueue_flux.manifests import after_admission, before_admission
from tests.api import certificates
from tests.builders import minicluster

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


def everything(mc: MiniCluster) -> list[dict]:
    return [*before_admission(mc), *after_admission(mc, Admission("a1", 4), now=NOW)]


def test_what_exists_when() -> None:
    mc = minicluster().build()
    # The Job last: that it is there is the sign that all the rest is.
    assert [m["kind"] for m in before_admission(mc)] == ["Service", "NetworkPolicy", "Job"]
    assert [m["kind"] for m in after_admission(mc, Admission("a1", 4), now=NOW)] == ["ConfigMap", "Secret"]


def test_everything_belongs_to_its_minicluster() -> None:
    for manifest in everything(minicluster("hello", "team").queue("q").view().build()):
        meta = manifest["metadata"]
        assert meta["namespace"] == "team"
        assert meta["labels"]["app.kubernetes.io/managed-by"] == "kueue-flux"
        assert meta["labels"]["flux-framework.org/minicluster"] == "hello"
        assert meta["ownerReferences"] == [
            {
                "apiVersion": "flux-framework.org/v1alpha2",
                "kind": "MiniCluster",
                "name": "hello",
                "uid": "uid-hello",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        assert "finalizers" not in meta


def test_manifests_are_json_and_no_two_share_parts() -> None:
    mc = minicluster().queue("q").view(imageVolume=True).pod(labels={"a": "b"}, nodeSelector={"c": "d"})
    first, second = (before_admission(mc.build()) for _ in range(2))
    assert json.loads(json.dumps(first)) == second


@pytest.mark.parametrize("fields", [{"arch": "arm64"}, {"disableSocket": True}], ids=str)
def test_what_has_no_effect_changes_nothing(fields: dict[str, Any]) -> None:
    mc = minicluster().queue("q").view().sidecar("a", command="b").flux(curveCert=certificates.TEXT)
    assert everything(mc.flux(**fields).build()) == everything(mc.flux(**dict.fromkeys(fields)).build())
