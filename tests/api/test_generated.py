"""The CRD and the table of fields: up to date, and within Kubernetes' rules for structural schemas."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kueue_flux.api import crd, docs
from kueue_flux.api.docs import fields
from kueue_flux.api.generated import generate
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.rules import RULES
from kueue_flux.api.schema import fields_at, structural

VERSION = crd.crd()["spec"]["versions"][0]
SCHEMA = VERSION["schema"]["openAPIV3Schema"]

STRUCTURAL_KEYS = {
    "additionalProperties", "default", "description", "enum", "fieldPath", "format", "items", "maxItems", "maxLength",
    "maxProperties", "maximum", "message", "minItems", "minLength", "minimum", "nullable", "pattern", "properties",
    "required", "rule", "type", "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type",
    "x-kubernetes-validations",
}  # fmt: skip


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], f"{path}[]")


@pytest.mark.parametrize("module", ["kueue_flux.api.crd", "kueue_flux.api.docs"])
def test_the_files_in_the_checkout_are_what_the_models_say(module: str) -> None:
    check = subprocess.run([sys.executable, "-m", module, "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr


def test_check_fails_on_drift_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "sub" / "crd.yaml"
    generate(file, "new", [])
    generate(file, "new", ["--check"])
    with pytest.raises(SystemExit, match=r"crd\.yaml is out of date"):
        generate(file, "newer", ["--check"])
    assert file.read_text() == "new"


def test_the_schema_is_structural() -> None:
    for path, node in nodes(SCHEMA):
        assert set(node) <= STRUCTURAL_KEYS, path
        assert "type" in node or node.get("x-kubernetes-int-or-string"), path
        assert not ("properties" in node and "additionalProperties" in node), path


def test_every_field_of_ours_is_described() -> None:
    bare = [row.path for row in fields(SCHEMA["properties"]["spec"], "spec") if not row.schema.get("description")]
    assert bare == []


def test_yaml_has_no_anchors_and_is_the_crd() -> None:
    text = crd.text()
    assert "&id" not in text
    assert yaml.safe_load(text) == crd.crd()


def test_defaults_that_the_api_server_fills_in() -> None:
    defaults = {
        path: node["default"] for path, node in nodes(SCHEMA["properties"]["spec"], "spec") if "default" in node
    }
    assert {path: value for path, value in defaults.items() if ".services" not in path} == {
        "spec.containers[].image": "ghcr.io/rse-ops/accounting:app-latest",
        "spec.size": 1,
        "spec.tasks": 1,
        "spec.deadlineSeconds": 31500000,
        "spec.flux.container.image": "ghcr.io/converged-computing/flux-view-ubuntu:tag-noble",
        "spec.flux.container.name": "flux-view",
        "spec.flux.container.mountPath": "/mnt/flux",
        "spec.flux.connectTimeout": "5s",
        "spec.flux.logLevel": 6,
        "spec.flux.bursting.leadBroker.port": 8050,
    }


def test_every_rule_is_in_the_crd_with_its_remedy() -> None:
    for rule in RULES:
        validations = crd.node_at(SCHEMA, rule.at)["x-kubernetes-validations"]
        (ours,) = [validation for validation in validations if validation["rule"] == rule.cel]
        assert ours["message"] == f"{rule.message}; {rule.remedy}"


def test_columns_subresources_and_names() -> None:
    columns = VERSION["additionalPrinterColumns"]
    assert [column["name"] for column in columns if "priority" not in column] == [
        "Queue", "Size", "Admitted", "Ready", "Finished", "Age",
    ]  # fmt: skip
    assert [column["name"] for column in columns if column.get("priority") == 1] == ["Position", "Exit", "Message"]
    assert VERSION["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.size",
            "labelSelectorPath": ".status.selector",
        },
    }
    names = crd.crd()["spec"]["names"]
    assert (names["plural"], names["shortNames"], names["categories"]) == ("miniclusters", ["mc"], ["kueue-flux"])


def test_the_table_has_no_empty_cell() -> None:
    rows = [line for line in docs.text().splitlines() if line.startswith("| `")]
    assert len(rows) > 100
    for row in rows:
        assert all(cell.strip() for cell in row.replace("\\|", "").strip("|").split("|")), row


def test_a_refused_field_is_shown_with_its_message() -> None:
    (row,) = [line for line in docs.text().splitlines() if line.startswith("| `spec.flux.bursting.hostlist`")]
    assert "refused with: one Flux instance over several clusters is not supported yet; remove it" in row


def test_a_field_without_effect_is_shown_with_the_reason() -> None:
    (row,) = [line for line in docs.text().splitlines() if line.startswith("| `spec.flux.arch`")]
    assert "accepted, and changes nothing: nothing is downloaded" in row


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ((), "spec"),
        (("spec",), "minSize"),
        (("spec", "containers", 0), "runFlux"),
        (("spec", "containers", 0, "volumes", "data"), "claimName"),
        (("spec", "containers", 0, "resources"), "limits"),
    ],
)
def test_the_names_that_a_part_may_have(location: tuple[str | int, ...], name: str) -> None:
    assert name in fields_at(MiniCluster, location)


def test_what_has_no_fields_has_none() -> None:
    assert fields_at(MiniCluster, ("spec", "size")) == []
    assert fields_at(MiniCluster, ("spec", "size", "nothing")) == []
    assert structural(MiniCluster) is structural(MiniCluster)
