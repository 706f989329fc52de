"""The table of all fields, docs/minicluster.md: `python -m kueue_flux.api.docs` writes it, `--check` compares.

What is acted on and what is refused comes from the same tables that the checks use, so the page cannot promise
what the program does not do. Which tests hold it to that is said by docs/tested.yaml.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kueue_flux.api.base import INT32_MAX
from kueue_flux.api.generated import generate
from kueue_flux.api.minicluster import API_VERSION, MiniCluster
from kueue_flux.api.schema import Schema, structural
from kueue_flux.api.unsupported import NO_EFFECT, REFUSALS, Refusal

FILE = Path(__file__).parents[2] / "docs" / "minicluster.md"
TESTED = FILE.with_name("tested.yaml")

_HEAD = f"""<!-- Generated from kueue_flux/api by `python -m kueue_flux.api.docs`; do not edit. -->
# MiniCluster, field by field

`{API_VERSION}`. All fields of the Flux Operator's MiniCluster of that version are
known here, so its YAML can be submitted unchanged. A field that this version does not act on is refused as soon as
it is set to something other than its default: the condition `Accepted` becomes `False` with the reason
`UnsupportedField`, and its message says what to do instead. What can never work (`size: 0`, two containers that run
Flux ...) is refused by the API server, or by `Accepted=False` with the reason `InvalidSpec`. Misspelt fields:
`kubectl` refuses them; where its validation is turned off, the API server drops them.

The queue, the priority class and the longest run time are labels of the MiniCluster (`metadata.labels`), as
everywhere in Kueue: `kueue.x-k8s.io/queue-name`, `kueue.x-k8s.io/priority-class` and
`kueue.x-k8s.io/max-exec-time-seconds`.

`metadata.name` becomes the pods' host names, `<name>-<index>`: lower-case letters, digits and dashes, a letter
first, and short enough that the longest of them has at most 63 characters.
"""

_SPECIAL = {"spec.containers[].command": "acted on; empty runs the [RESTful API](restful.md)"}
_OPAQUE = ("resources", "securityContext")  # Kubernetes' own types; its documentation describes them
_TYPES = {"string": "text", "integer": "whole number", "boolean": "true or false"}
_UNSET = {"string": "empty", "boolean": "false", "object": "empty", "array": "empty"}


@dataclass(frozen=True)
class FieldRow:
    """A field as the tables show it: where it stands, what it holds, whether it must be set."""

    path: str
    schema: Schema
    required: bool


def fields(schema: Schema, path: str) -> Iterator[FieldRow]:
    """Yield each field below a part of the schema.

    Args:
        schema: of that part.
        path: its pattern, e.g. `spec.containers[]`.
    """
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        row = FieldRow(here, field, name in schema.get("required", ()))
        if name in _OPAQUE or here == "spec.services":  # services: containers once more
            yield row
            continue
        inner, suffix = field, ""
        if field.get("type") == "array":
            inner, suffix = field["items"], "[]"
        elif "additionalProperties" in field:
            inner, suffix = field["additionalProperties"], "{}"
        if "properties" in inner:
            if suffix:
                yield row
            yield from fields(inner, here + suffix)
        else:
            yield row


def refusal_of(path: str) -> Refusal | None:
    """Return the row of the table of refusals that a field falls under, None if it is acted on."""
    for refusal in REFUSALS:
        whole = refusal.field if not refusal.unless else None  # a partial refusal does not speak of what is below it
        if path == refusal.field or (whole and path.startswith((f"{whole}.", f"{whole}[", f"{whole}{{"))):
            return refusal
    return None


def tested() -> dict[str, list[str]]:
    """Return the tests that would fail were a field ignored, as pytest calls them, by the field's path."""
    found: dict[str, Any] = yaml.safe_load(TESTED.read_text(encoding="utf-8"))
    return {path: list(tests) for path, tests in found["tests"].items()}


def text() -> str:
    """Return the page.

    Raises:
        LookupError: docs/tested.yaml names no test of a field.
    """
    schema, tests = structural(MiniCluster)["properties"], tested()
    spec = [
        f"| `{row.path}` | {type_of(row.schema)} | {default_of(row)} | {_what(row)} | {_fate(row.path)} "
        f"| {_tests(row.path, tests)} |"
        for row in fields(schema["spec"], "spec")
    ]
    status = [
        f"| `{row.path}` | {type_of(row.schema)} | {_what(row)} | {_tests(row.path, tests)} |"
        for row in fields(schema["status"], "status")
    ]
    return "\n".join(
        [
            _HEAD,
            "## Spec",
            "",
            "`[]` stands for each item of a list, `{}` for each value of a map. The tests named would fail were",
            "the field ignored, or refused in other words; those in `e2e` run on a real cluster, others need none.",
            "",
            "| Field | Type | Default | What it says | In this version | Test |",
            "|---|---|---|---|---|---|",
            *spec,
            "",
            "## Status",
            "",
            "| Field | Type | What it says | Test |",
            "|---|---|---|---|",
            *status,
            "",
        ]
    )


def _fate(path: str) -> str:
    if path in _SPECIAL:
        return cell(_SPECIAL[path])
    if path in NO_EFFECT:
        return cell(f"accepted, and changes nothing: {NO_EFFECT[path]}")
    refusal = refusal_of(path)
    if path == "spec.containers":  # the table of refusals speaks of single containers
        refusal = refusal_of("spec.containers[]")
    if refusal is None:
        return "acted on"
    unless = f"acted on where {refusal.unless}, else " if refusal.unless else ""
    return cell(f"{unless}refused with: {refusal.message}; {refusal.remedy}")


def _tests(path: str, tests: Mapping[str, list[str]]) -> str:
    if not tests.get(path):
        raise LookupError(f"{TESTED.name} names no test of {path}: add one that fails if the field is ignored")
    return cell("; ".join(_link(test) for test in tests[path]))


def _link(test: str) -> str:
    file, _, name = test.partition("::")
    return f"[{file.removeprefix('tests/').removesuffix('.py')}](../{file}): {name.replace('::', '.')}"


def type_of(field: Schema) -> str:
    """Return what a field holds, in words."""
    if "enum" in field:
        return cell("one of " + ", ".join(json.dumps(value) for value in field["enum"] if value != ""))
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if field.get("format") == "date-time":
        return "time"
    if field.get("type") == "array":
        return f"list of {type_of(field['items'])}"
    if "additionalProperties" in field:
        return f"map of {type_of(field['additionalProperties'])}"
    kind = field.get("type", "object")
    if kind == "integer" and "minimum" in field:
        most = field.get("maximum", INT32_MAX)
        return f"{_TYPES[kind]}, {field['minimum']} " + ("or more" if most == INT32_MAX else f"to {most}")
    return _TYPES.get(kind, "object")


def default_of(row: FieldRow) -> str:
    """Return what a field is where it is left out."""
    if row.required:
        return "required"
    default = row.schema.get("default")
    if default or (default == 0 and default is not False):
        return f"`{default}`"
    return _UNSET.get(row.schema.get("type", "string"), "unset")


def _what(row: FieldRow) -> str:
    return cell(row.schema.get("description", ""))


def cell(words: str) -> str:
    """Return a text as it may stand in a table."""
    return words.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    from kueue_flux.api import setup_docs

    generate(FILE, text())
    generate(setup_docs.FILE, setup_docs.text())
