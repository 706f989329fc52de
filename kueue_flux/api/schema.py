"""JSON schema of the models, in the form that Kubernetes can read.

Kubernetes' structural schemas know no `$ref`, no alternatives with null and no titles; a CRD has each type written
out where it stands. The CRD, the field tables and the hints for misspelt fields are all made from this.
Rules: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]


@cache
def structural(model: type[BaseModel]) -> Schema:
    """Return a model's schema with every type written out and every default told (the caller must not change it).

    Raises:
        ValueError: the model has what a structural schema cannot say.
    """
    schema = model.model_json_schema(by_alias=True)
    result = _structural(schema, schema.get("$defs", {}))
    if not isinstance(result, dict):
        raise ValueError(f"{model.__name__} has no schema")
    return result


def fields_at(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """Return the names of the fields that a part of an object may have.

    Args:
        model: the type of the whole object.
        location: the way to that part: names of fields, keys of maps, positions in lists.
    """
    node = structural(model)
    for part in location:
        inner = node.get("properties", {}).get(part) or node.get("items") or node.get("additionalProperties")
        if inner is None:
            return []
        node = inner
    return list(node.get("properties", {}))


def _structural(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    if reference := schema.get("$ref"):
        target = definitions[reference.removeprefix("#/$defs/")]
        # what stands beside the reference, such as the field's own description, wins
        return _structural({**target, **{key: schema[key] for key in schema if key != "$ref"}}, definitions)
    if alternatives := schema.get("anyOf"):
        values = [alternative for alternative in alternatives if alternative != {"type": "null"}]
        if len(values) != 1:
            raise ValueError(f"a structural schema has no alternatives: {schema}")
        return _structural({**values[0], **{key: schema[key] for key in schema if key != "anyOf"}}, definitions)
    result = {key: value for key, value in schema.items() if key not in ("$defs", "title", "const")}
    if result.get("additionalProperties") is False:
        del result["additionalProperties"]  # unknown fields: the API server prunes them, or warns
    if "additionalProperties" in result:
        result["additionalProperties"] = _structural(result["additionalProperties"], definitions)
    if "items" in result:
        result["items"] = _structural(result["items"], definitions)
    if "properties" in result:
        result["properties"] = {name: _structural(value, definitions) for name, value in result["properties"].items()}
    return result
