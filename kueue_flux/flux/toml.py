"""Writes TOML, which Python's library only reads: as much of it as a configuration needs."""

import re
from collections.abc import Mapping
from datetime import date, time
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def dumps(tables: Mapping[str, Any]) -> str:
    """Write a document.

    Args:
        tables: What `tomllib.loads` returns. What is not a table comes first; tables within tables, and those in lists,
            are written inline.

    Raises:
        TypeError: A value is of a type that TOML does not have.

    Source: TOML 1.0, https://toml.io/en/v1.0.0
    """
    keys = [f"{_key(name)} = {_value(value)}" for name, value in tables.items() if not isinstance(value, Mapping)]
    sections = ["\n".join(keys)] if keys else []
    for name, table in tables.items():
        if isinstance(table, Mapping):
            entries = (f"{_key(key)} = {_block(value)}" for key, value in table.items())
            sections.append("\n".join([f"[{_key(name)}]", *entries]))
    return "\n\n".join(sections) + "\n"


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _quote(name)


def _block(value: Any) -> str:
    """A value of a table: a list of tables has a line for each."""
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return "[\n" + "".join(f"    {_value(item)},\n" for item in value) + "]"
    return _value(value)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _quote(value)
        case int() | float():
            return repr(value)
        case date() | time():  # a datetime is a date
            return value.isoformat()
        case Mapping():
            return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(_value, value)) + "]"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _quote(text: str) -> str:
    """A basic string: quotes, backslashes and control characters escaped."""
    escaped = "".join(f"\\{c}" if c in '"\\' else f"\\u{ord(c):04x}" if c < " " or c == "\x7f" else c for c in text)
    return f'"{escaped}"'
