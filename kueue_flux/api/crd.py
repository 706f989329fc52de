"""The CustomResourceDefinition, generated from the models: `python -m kueue_flux.api.crd` writes it to crds/.

The models are the one definition; with `--check` this fails when the file in crds/ is no longer what they say.
Unknown fields: the API server drops them (kubectl refuses them first, by its strict default), and so does this
CRD nowhere ask to keep them; `MiniCluster.from_object` names them.
Format: https://kubernetes.io/docs/reference/kubernetes-api/extend-resources/custom-resource-definition-v1/
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from kueue_flux.api import paths
from kueue_flux.api.generated import generate
from kueue_flux.api.minicluster import GROUP, KIND, PLURAL, VERSION, MiniCluster
from kueue_flux.api.rules import RULES
from kueue_flux.api.schema import Schema, structural

FILE = Path(__file__).parents[2] / "crds" / f"{GROUP}_{PLURAL}.yaml"

_FINISHED = '.status.conditions[?(@.type=="Finished")]'
COLUMNS: list[tuple[str, str, str, int]] = [
    # name, type, where, priority (1: only with -o wide)
    ("Queue", "string", ".status.queue", 0),
    ("Size", "integer", ".spec.size", 0),
    ("Admitted", "integer", ".status.admission.size", 0),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
    ("Finished", "string", f"{_FINISHED}.reason", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Position", "integer", ".status.queuePosition", 1),
    ("Exit", "integer", ".status.exitCode", 1),
    ("Message", "string", f"{_FINISHED}.message", 1),
]


def crd() -> dict[str, Any]:
    """Return the CRD of MiniClusters."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["mc"],
                "categories": ["kueue-flux"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _schema()},
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": where, **({"priority": 1} if priority else {})}
                        for name, kind, where, priority in COLUMNS
                    ],
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.size",
                            "statusReplicasPath": ".status.size",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                }
            ],
        },
    }


def _schema() -> Schema:
    schema = copy.deepcopy(structural(MiniCluster))
    _drop_empty_defaults(schema)
    properties = schema["properties"]
    properties["apiVersion"] = {"type": "string", "description": f"{GROUP}/{VERSION}"}
    properties["kind"] = {"type": "string", "description": KIND}
    properties["metadata"] = {"type": "object"}
    for rule in RULES:
        node = node_at(schema, rule.at)
        validation = {"rule": rule.cel, "message": f"{rule.message}; {rule.remedy}"}
        if rule.field:
            validation["fieldPath"] = f".{rule.field}"
        node.setdefault("x-kubernetes-validations", []).append(validation)
    return schema


def node_at(schema: Schema, pattern: str) -> Schema:
    """Return the schema of the part that a pattern names.

    Args:
        schema: of a MiniCluster.
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


def text() -> str:
    """Return the file's text."""
    header = "# Generated from kueue_flux/api by `python -m kueue_flux.api.crd`; do not edit.\n"
    return header + yaml.dump(crd(), Dumper=_WithoutAliases, sort_keys=False, width=110)


if __name__ == "__main__":
    generate(FILE, text())
