"""Finds the parts of a MiniCluster that a pattern such as `spec.containers[].volumes{}` speaks of.

Rules and refusals are tables that name fields by pattern; this is what applies them to one MiniCluster.
`[]` stands for each item of a list, `{}` for each value of a map.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

_PART = re.compile(r"(\w+)(\[\]|\{\})?")


@dataclass(frozen=True)
class Found:
    """A part of an object.

    Args:
        path: where it stands, e.g. `spec.containers[0].image`.
        value: what it is.
        default: what it would be were it left out; None for the item of a list or map.
    """

    path: str
    value: Any
    default: Any = None


def split(pattern: str) -> list[tuple[str, str]]:
    """Return a pattern's parts: a field's name in YAML, and `[]`, `{}` or nothing."""
    return [(name, each) for name, each in _PART.findall(pattern)]


def find(root: BaseModel, pattern: str) -> Iterator[Found]:
    """Yield each part of `root` that the pattern names.

    Args:
        root: a MiniCluster.
        pattern: e.g. `spec.containers[].volumes{}`; empty for the root itself.

    Raises:
        KeyError: a model has no such field: the pattern is wrong.
    """
    found = [Found("", root)]
    for name, each in split(pattern):
        found = [inner for outer in found for inner in _step(outer, name, each)]
    yield from found


def _step(outer: Found, name: str, each: str) -> Iterator[Found]:
    model = type(outer.value)
    attribute = {field.alias: attribute for attribute, field in model.model_fields.items()}[name]
    value = getattr(outer.value, attribute)
    path = f"{outer.path}.{name}" if outer.path else name
    if each == "[]":
        yield from (Found(f"{path}[{index}]", item) for index, item in enumerate(value))
    elif each == "{}":
        yield from (Found(f"{path}.{key}", item) for key, item in value.items())
    else:
        yield Found(path, value, model.model_fields[attribute].get_default(call_default_factory=True))
