"""The CustomResourceDefinitions, generated from the models: `python -m kueue_flux.api.crd` writes them to crds/.

The models are the one definition; with `--check` this fails when a file in crds/ is no longer what they say.
Unknown fields: the API server drops them (kubectl refuses them first, by its strict default), and so do these
CRDs nowhere ask to keep them; `MiniCluster.from_object` names them.
Format: https://kubernetes.io/docs/reference/kubernetes-api/extend-resources/custom-resource-definition-v1/
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from kueue_flux.api import paths, setup
from kueue_flux.api.generated import generate
from kueue_flux.api.minicluster import GROUP, KIND, PLURAL, VERSION, MiniCluster
from kueue_flux.api.rules import RULES, Rule
from kueue_flux.api.schema import Schema, structural
from kueue_flux.api.setup import FluxSetup
from kueue_flux.api.setup_rules import SETUP_RULES

FOLDER = Path(__file__).parents[2] / "crds"

Column = tuple[str, str, str, int]
"""A column that kubectl prints: name, type, where, priority (1: only with -o wide)."""

_FINISHED = '.status.conditions[?(@.type=="Finished")]'
_READY = '.status.conditions[?(@.type=="Ready")]'
COLUMNS: list[Column] = [
    ("Queue", "string", ".status.queue", 0),
    ("Size", "integer", ".spec.size", 0),
    ("Admitted", "integer", ".status.admission.size", 0),
    ("Ready", "string", f"{_READY}.status", 0),
    ("Finished", "string", f"{_FINISHED}.reason", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Position", "integer", ".status.queuePosition", 1),
    ("Exit", "integer", ".status.exitCode", 1),
    ("Message", "string", f"{_FINISHED}.message", 1),
]
SETUP_COLUMNS: list[Column] = [
    ("Used", "string", ".status.usage", 0),
    ("Waiting", "integer", ".status.waiting", 0),
    ("Admitted", "integer", ".status.admitted", 0),
    ("Running", "integer", ".status.running", 0),
    ("Finished", "integer", ".status.finished", 0),
    ("Ready", "string", f"{_READY}.status", 0),
    ("Reason", "string", f"{_READY}.reason", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Cohort", "string", ".spec.cohort", 1),
    ("Namespaces", "string", ".status.namespaces", 1),
    ("Message", "string", f"{_READY}.message", 1),
]
_SCALE = {
    "scale": {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    }
}


@dataclass(frozen=True)
class Definition:
    """What a CRD is made from.

    Args:
        model: of the object.
        kind: its kind.
        plural: the kind's name in URLs.
        short: what one may type for it.
        scope: "Namespaced" or "Cluster".
        rules: what its fields must be to one another.
        columns: what kubectl prints.
        subresources: beside the status.
    """

    model: type[BaseModel]
    kind: str
    plural: str
    short: str
    scope: str
    rules: Sequence[Rule]
    columns: Sequence[Column]
    subresources: Mapping[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """Where the CRD stands."""
        return FOLDER / f"{GROUP}_{self.plural}.yaml"


MINICLUSTER = Definition(MiniCluster, KIND, PLURAL, "mc", "Namespaced", RULES, COLUMNS, _SCALE)
FLUX_SETUP = Definition(FluxSetup, setup.KIND, setup.PLURAL, "fs", "Cluster", SETUP_RULES, SETUP_COLUMNS)
DEFINITIONS = (MINICLUSTER, FLUX_SETUP)


def crd(of: Definition = MINICLUSTER) -> dict[str, Any]:
    """Return a CRD."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{of.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": of.scope,
            "names": {
                "kind": of.kind,
                "listKind": f"{of.kind}List",
                "plural": of.plural,
                "singular": of.kind.lower(),
                "shortNames": [of.short],
                "categories": ["kueue-flux"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _schema(of)},
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": where, **({"priority": 1} if priority else {})}
                        for name, kind, where, priority in of.columns
                    ],
                    "subresources": {"status": {}, **of.subresources},
                }
            ],
        },
    }


def _schema(of: Definition) -> Schema:
    schema = copy.deepcopy(structural(of.model))
    _drop_empty_defaults(schema)
    properties = schema["properties"]
    properties["apiVersion"] = {"type": "string", "description": f"{GROUP}/{VERSION}"}
    properties["kind"] = {"type": "string", "description": of.kind}
    properties["metadata"] = {"type": "object"}
    for rule in of.rules:
        node = node_at(schema, rule.at)
        validation = {"rule": rule.cel, "message": f"{rule.message}; {rule.remedy}"}
        if rule.field:
            validation["fieldPath"] = f".{rule.field}"
        node.setdefault("x-kubernetes-validations", []).append(validation)
    return schema


def node_at(schema: Schema, pattern: str) -> Schema:
    """Return the schema of the part that a pattern names.

    Args:
        schema: of the whole object.
        pattern: as for `paths.find`.
    """
    for name, each in paths.split(pattern):
        schema = schema["properties"][name]
        if each:
            schema = schema["items" if each == "[]" else "additionalProperties"]
    return schema


def _drop_empty_defaults(schema: Schema) -> None:
    """Leave out defaults that say no more than that the field is unset: they would fill up every object."""
    if not schema.get("default"):
        schema.pop("default", None)
    children = list(schema.get("properties", {}).values())
    children += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    for child in children:
        _drop_empty_defaults(child)


class _WithoutAliases(yaml.SafeDumper):
    """Types that stand in several places are written out in each; anchors would puzzle readers and some tools."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def text(of: Definition = MINICLUSTER) -> str:
    """Return a file's text."""
    header = "# Generated from kueue_flux/api by `python -m kueue_flux.api.crd`; do not edit.\n"
    return header + yaml.dump(crd(of), Dumper=_WithoutAliases, sort_keys=False, width=110)


if __name__ == "__main__":
    for each in DEFINITIONS:
        generate(each.file, text(each))
