"""FluxSetups: what may be said in one, and that the CRD and the page of fields say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kueue_flux.api import crd, setup_docs
from kueue_flux.api.docs import fields
from kueue_flux.api.problems import InvalidFluxSetup
from kueue_flux.api.schema import structural
from kueue_flux.api.setup import FluxSetup
from kueue_flux.api.setup_rules import SETUP_RULES
from tests.api.test_generated import STRUCTURAL_KEYS, nodes

CRD = crd.crd(crd.FLUX_SETUP)
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def setup(name: str = "physics", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **({"spec": spec} if spec else {})}


def test_a_name_is_enough() -> None:
    found = FluxSetup.from_object(setup())
    assert found.namespaces == ["physics"]
    assert found.spec.queue == "default"
    assert [(flavor.name, flavor.quota, flavor.node_labels) for flavor in found.flavors] == [
        ("default-flavor", {}, None)
    ]
    assert found.to_object() == {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "FluxSetup",
        "metadata": {"name": "physics"},
    }


def test_a_quota_without_flavors_is_that_of_all_nodes() -> None:
    found = FluxSetup.from_object(setup(quota={"cpu": "40", "memory": "200Gi"}))
    assert [(flavor.name, flavor.quota) for flavor in found.flavors] == [
        ("default-flavor", {"cpu": "40", "memory": "200Gi"})
    ]


FLAVOR = {"name": "spot"}
BAD: list[tuple[dict[str, Any], str]] = [
    (setup("a.b"), "metadata.name: no namespace can have the FluxSetup's name"),
    (setup("a" * 64), "metadata.name: no namespace can have"),
    (setup(quota={"cpu": 1}, flavors=[FLAVOR]), "spec.quota: each flavor has its own quota"),
    (setup(flavors=[{**FLAVOR, "borrowingLimit": {"cpu": 1}}]), "spec.flavors[0].borrowingLimit: without a cohort"),
    (setup(flavors=[{**FLAVOR, "lendingLimit": {"cpu": 1}}]), "spec.flavors[0].lendingLimit: without a cohort"),
    (
        setup(cohort="c", flavors=[{**FLAVOR, "quota": {"cpu": "500m"}, "lendingLimit": {"cpu": 1}}]),
        "spec.flavors[0].lendingLimit.cpu: 1 is more than the quota, 500m; lend at most the quota",
    ),
    (setup(flavors=[FLAVOR, FLAVOR]), "spec.flavors[1].name: spot stands here twice"),
    (setup(namespaces=["a", "a"]), "spec.namespaces[1]: a stands here twice"),
    (setup(namespaces=["A"]), "spec.namespaces[0]: 'A' is not a namespace's name"),
    (setup(queue="A b"), "spec.queue: 'A b' is not"),
    (setup(quota={"cpu": "-1"}), "spec.quota.cpu: '-1' is not a quantity"),
    (setup(quota={"a b": 1}), "spec.quota.a b: that is no resource's name"),
    (setup(flavors=[{**FLAVOR, "quota": {"/x": 1}}]), "spec.flavors[0].quota./x: that is no resource's name"),
    (setup(flavors=[{**FLAVOR, "nodeLabels": {"a b": "c"}}]), "spec.flavors[0].nodeLabels.a b: is not a key"),
    (
        setup(flavors=[{**FLAVOR, "tolerations": [{"operator": "Exists", "value": "x"}]}]),
        "spec.flavors[0].tolerations[0]: operator Exists takes no value",
    ),
    (setup(flavors=[{**FLAVOR, "tolerations": [{}]}]), "spec.flavors[0].tolerations[0]: operator Exists takes no"),
    (setup(priorities={"High": 1}), "spec.priorities.High: the name of a priority class"),
    (setup(priorities={"high": 2**31}), "spec.priorities.high: must be at most"),
    (setup(preemption={"withinClusterQueue": "Any"}), "spec.preemption.withinClusterQueue: must be one of"),
    (
        setup(preemption={"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}),
        "spec.preemption.borrowWithinCohort.policy: Kueue lets nobody preempt while borrowing",
    ),
    (setup(queueingStrategy="FIFO"), "spec.queueingStrategy: must be one of"),
    (setup(namespace="a"), "spec.namespace: is not a field; did you mean namespaces?"),
    ({"metadata": {"name": "a"}, "spec": "x"}, "spec: must be a mapping"),
]


@pytest.mark.parametrize(("obj", "says"), BAD, ids=[says for _, says in BAD])
def test_what_cannot_be_is_named_with_its_field(obj: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidFluxSetup) as refused:
        FluxSetup.from_object(obj)
    assert any(str(problem).startswith(says) for problem in refused.value.problems), refused.value.message


def test_what_may_be_said() -> None:
    found = FluxSetup.from_object(
        setup(
            "a.b",
            namespaces=["a", "b"],
            queue="batch",
            cohort="science",
            flavors=[
                {
                    "name": "spot",
                    "nodeLabels": {"pool": "spot"},
                    "tolerations": [{"key": "spot", "operator": "Exists"}, {"operator": "Exists"}],
                    "quota": {"cpu": 40, "nvidia.com/gpu": 8},
                    "borrowingLimit": {"cpu": "8"},
                    "lendingLimit": {"memory": "1Gi", "cpu": 40},
                }
            ],
            queueingStrategy="StrictFIFO",
            preemption={"borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": -1}},
            priorities={"high": 1000, "low.er": -(2**31)},
        )
    )
    assert found.spec.preemption.within_cluster_queue == "LowerPriority"
    assert found.spec.preemption.reclaim_within_cohort == "Any"
    assert found.namespaces == ["a", "b"]


def test_the_crd_is_structural_and_cluster_scoped() -> None:
    for path, node in nodes(SCHEMA):
        assert set(node) <= STRUCTURAL_KEYS, path
    assert CRD["spec"]["scope"] == "Cluster"
    names = CRD["spec"]["names"]
    assert (names["plural"], names["shortNames"], names["categories"]) == ("fluxsetups", ["fs"], ["kueue-flux"])
    assert "required" not in SCHEMA, "three lines do"


def test_every_rule_is_in_the_crd() -> None:
    found = {each["rule"] for _, node in nodes(SCHEMA) for each in node.get("x-kubernetes-validations", [])}
    assert found == {rule.cel for rule in SETUP_RULES}


def test_columns_show_fields_that_there_are() -> None:
    known = {row.path for part in ("spec", "status") for row in fields(SCHEMA["properties"][part], part)}
    for column in CRD["spec"]["versions"][0]["additionalPrinterColumns"]:
        path = column["jsonPath"].removeprefix(".").partition("[?")[0]
        assert path in known | {"metadata.creationTimestamp"}, column


def test_the_page_is_up_to_date_and_has_every_field() -> None:
    page = Path(setup_docs.FILE).read_text(encoding="utf-8")
    assert page == setup_docs.text()
    schema = structural(FluxSetup)["properties"]
    for part in ("spec", "status"):
        for row in fields(schema[part], part):
            assert f"| `{row.path}` |" in page, row.path


EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "setup").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_valid(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert f"kubectl apply -f examples/setup/{path.name}" in text
    for document in yaml.safe_load_all(text):
        FluxSetup.from_object(document)


def test_there_are_examples() -> None:
    assert [path.name for path in EXAMPLES] == ["fluxsetup.yaml", "two-groups.yaml"]
