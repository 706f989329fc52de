"""The parameters of operations: how each is read, from a query or from JSON, and how OpenAPI describes it.

A query says everything in words, JSON has types of its own; both are taken for the same field, because
flux-restful-client puts a submission's options into the query, and after it had to authenticate into the body.
"""

from __future__ import annotations

import ast
import json
import shlex
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping

from .answers import invalid

LARGEST = 2**31 - 1
TRUE, FALSE = ("true", "1", "on", "yes", "t", "y"), ("false", "0", "off", "no", "f", "n")

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Field:
    """One parameter.

    Args:
        name: Its name.
        read: Makes its value of what was given (a str from a query, any type from JSON); raises ValueError with
            what is wrong and what to write instead.
        schema: Its type as a JSON schema.
        description: What it does.
        aliases: Other names by which clients give it.
    """

    name: str
    read: Callable[[Any], Any]
    schema: Schema
    description: str
    aliases: tuple[str, ...] = field(default=())


def read_fields(fields: Iterable[Field], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Read the values of all fields that were given; null and, but for the command, empty text are as good as absent.

    Args:
        fields: What may be given.
        given: Names and values as they came.
        where: `query` or `body`, for messages.

    Raises:
        Problem: 422 that names the field which does not exist, was given twice or has a value it cannot have.
    """
    known = {name: each for each in fields for name in (each.name, *each.aliases)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            names = ", ".join(sorted({each.name for each in known.values()})) or "none"
            raise invalid(where, name, f"there is no such option here; there are: {names}")
        if value is None or value == "":
            continue
        target = known[name]
        if target.name in values:
            raise invalid(where, name, f"given twice, as {target.name} too: give it once")
        try:
            values[target.name] = target.read(value)
        except ValueError as error:
            raise invalid(where, name, str(error)) from None
    return values


def text(value: Any) -> str:
    """Text that Flux can keep: UTF-8 without NUL."""
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {_type(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("is no text in UTF-8: it has half of a surrogate pair") from None
    if "\0" in value:
        raise ValueError("must not contain NUL characters")
    return value


def whole(minimum: int) -> Callable[[Any], int]:
    """Whole numbers from a minimum on."""

    def read(value: Any) -> int:
        problem = f"must be a whole number from {minimum} to {LARGEST}"
        try:
            if isinstance(value, bool) or not isinstance(value, (int, float, str)) or len(str(value)) > 20:
                raise ValueError
            number = float(value)  # 2.0 is a whole number too
            if number != int(number) or not minimum <= number <= LARGEST:
                raise ValueError
        except (ValueError, OverflowError):
            raise ValueError(problem) from None
        return int(number)

    return read


def flag(value: Any) -> bool:
    """A boolean, or a word for one."""
    word = str(value).lower()
    if not isinstance(value, (bool, int, str)) or word not in TRUE + FALSE:
        raise ValueError("must be true or false")
    return word in TRUE


def words(value: Any) -> list[str]:
    """The words of a command: a list as it is, text as a shell would split it. No shell ever sees them."""
    if isinstance(value, list):
        given = [str(word) if isinstance(word, (int, float)) and not isinstance(word, bool) else word for word in value]
    else:
        try:
            given = shlex.split(text(value))
        except ValueError as error:
            hint = "close the quote" if "quotation" in str(error) else "write it as a list of words"
            raise ValueError(f"cannot be split into words ({error}): {hint}") from None
    found = [text(word) for word in given]
    if not found or not found[0]:
        raise ValueError("names no program to run")
    return found


def environment(value: Any) -> dict[str, str]:
    """Environment variables: an object, or one written as JSON or (flux-restful-client) as a Python dictionary."""
    if isinstance(value, str):
        value = _mapping(value)
    if not isinstance(value, dict):
        raise ValueError('must be names and values: {"NAME": "value"}')
    for name, setting in value.items():
        if not isinstance(name, str) or not name or "=" in name:
            raise ValueError(f"{name!r} cannot be the name of a variable")
        if not isinstance(setting, str):
            raise ValueError(f"the value of {name} must be text, not {_type(setting)}: put it in quotes")
        text(name), text(setting)
    return value


def options(value: Any) -> dict[str, Any]:
    """Job shell options: an object, or `name=value,name=value`; a name alone is switched on, as for `flux run -o`."""
    if isinstance(value, str):
        return dict(option(pair) for pair in text(value).split(",") if pair.strip())
    if not isinstance(value, dict):
        raise ValueError("must be names and values, as an object or as name=value,name=value")
    for name, setting in value.items():
        text(name)
        if not isinstance(setting, (str, int, float)):
            raise ValueError(f"the value of {name} must be text or a number, not {_type(setting)}")
        if isinstance(setting, str):
            text(setting)
    return {name: _scalar(given) if isinstance(given, str) else given for name, given in value.items()}


def option(pair: str) -> tuple[str, Any]:
    """One option, `name=value` or `name`."""
    name, equals, given = pair.partition("=")
    return name.strip(), _scalar(given) if equals else 1


def _scalar(word: str) -> Any:
    """A number where a word is one, as `flux run -o` reads it."""
    try:
        found = json.loads(word)
    except (ValueError, RecursionError):
        return word
    return found if isinstance(found, (int, float)) else word


def _mapping(written: str) -> Any:
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(written)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _type(value: Any) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "null")
