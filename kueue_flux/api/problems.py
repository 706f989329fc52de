"""What is wrong with an object, told so that its author can mend it.

A problem names the field as it stands in the YAML, says what is wrong and what to do. The controller puts the
problems into the Accepted condition, the command prints them before anything is submitted.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel
from pydantic_core import ErrorDetails

ProblemReason = Literal["InvalidSpec", "UnsupportedField"]


@dataclass(frozen=True)
class Problem:
    """One thing wrong with an object.

    Args:
        field: its path in the YAML, e.g. `spec.containers[0].runFlux`.
        message: what is wrong, without the field's name.
        remedy: what to do about it, as an imperative.
        reason: InvalidSpec (can never work) or UnsupportedField (this version does not act on it).
    """

    field: str
    message: str
    remedy: str
    reason: ProblemReason = "InvalidSpec"

    def __post_init__(self) -> None:
        """Make safe for a terminal what may quote a user's keys and values."""
        object.__setattr__(self, "field", _plain(self.field, 300))
        object.__setattr__(self, "message", _plain(self.message, 1000))

    def __str__(self) -> str:
        return f"{self.field}: {self.message}; {self.remedy}"


class InvalidObject(ValueError):
    """An object cannot be used as it is.

    Args:
        problems: all that is wrong, at least one; those that can never work come first.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sorted(problems, key=lambda problem: problem.reason)
        if not self.problems:
            raise ValueError(f"an {type(self).__name__} needs at least one problem")
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @property
    def reason(self) -> ProblemReason:
        """The reason of the first problem: InvalidSpec if there is any such."""
        return self.problems[0].reason

    @property
    def message(self) -> str:
        """All problems in one line, for a condition's message."""
        return ". ".join(str(problem) for problem in self.problems)


class InvalidMiniCluster(InvalidObject):
    """A MiniCluster cannot be run as it is."""


class InvalidFluxSetup(InvalidObject):
    """A FluxSetup cannot be carried out as it is."""


def unreadable(field: str, error: Exception) -> Problem:
    """Return the problem for what none of the checks expects, and which a check or a parser stumbles over."""
    kind = "it is nested too deeply" if isinstance(error, RecursionError) else f"{type(error).__name__}: {error}"
    return Problem(field or field_path(()), f"cannot be read: {kind}", "simplify or correct it")


def field_path(location: Iterable[str | int]) -> str:
    """Return the path of a field as people write it: `spec.containers[0].environment`."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path or "(the whole object)"


def from_pydantic(error: ErrorDetails, model: type[BaseModel]) -> Problem:
    """Return the problem that one of pydantic's errors stands for.

    Args:
        error: as `ValidationError.errors()` lists it.
        model: what was validated.
    """
    location, kind = error["loc"], error["type"]
    context: dict[str, Any] = error.get("ctx", {})
    field = field_path(location)
    if kind == "missing":
        return Problem(field, "is missing", "set it")
    if kind == "extra_forbidden":
        from kueue_flux.api.schema import fields_at  # slow, and needed only for whoever misspelt a field

        close = difflib.get_close_matches(str(location[-1]), fields_at(model, location[:-1]), n=1)
        return Problem(field, "is not a field", f"did you mean {close[0]}?" if close else "remove it")
    if "remedy" in context:
        return Problem(field, error["msg"], context["remedy"])
    limits = {
        "greater_than_equal": ("must be at least {ge}", "ge"),
        "less_than_equal": ("must be at most {le}", "le"),
        "too_long": ("must have at most {max_length} entries", "max_length"),
        "string_too_long": ("must have at most {max_length} characters", "max_length"),
        "string_too_short": ("must not be empty", "min_length"),
    }
    if kind in limits:
        text, key = limits[kind]
        given = f" (it is {shown(error['input'])})" if kind.endswith("_equal") else ""
        return Problem(field, text.format(**{key: context[key]}) + given, "change it")
    if kind == "literal_error":
        return Problem(field, f"must be one of {context['expected']} (it is {shown(error['input'])})", "choose one")
    if kind in _TYPES:
        return Problem(field, f"must be {_TYPES[kind]} (it is {shown(error['input'])})", "change it")
    return Problem(field, f"{error['msg']} (it is {shown(error['input'])})", "change it")


_LONGEST = 128  # bits of a number that is shown
_TYPES = {
    "int_type": "a whole number",
    "string_type": "text: put it in quotes",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}


def shown(value: Any) -> str:
    """Return a value as an error may quote it: of a text of several lines, which may be a key, no more than the first.

    What lists and mappings hold is not shown.
    """
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a mapping"
    if isinstance(value, int) and value.bit_length() > _LONGEST:
        return "a number that is far too large"  # Python writes none of more than some thousand digits
    first, *more = value.splitlines() if isinstance(value, str) and value else [value]
    text = repr(first if more else value)  # with the line feed that ends it, as of YAML's `|`, which may be the fault
    return text if len(text) <= 60 and not more else text[:57] + "..."


def _plain(text: str, limit: int) -> str:
    """Return a text with its control characters written as Python has them, and not too long."""
    text = text if len(text) <= limit else text[: limit - 3] + "..."
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
