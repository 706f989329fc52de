"""All that can be wrong with a MiniCluster whose fields are of the right type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kueue_flux.api.checks import CHECKS, Check
from kueue_flux.api.problems import Problem, unreadable
from kueue_flux.api.rules import RULES
from kueue_flux.api.unsupported import REFUSALS

if TYPE_CHECKING:
    from kueue_flux.api.minicluster import MiniCluster


def problems_of(mc: MiniCluster) -> list[Problem]:
    """Return all problems of a MiniCluster; none means that it can be run."""
    invalid = [problem for rule in RULES for problem in _found(rule.problems, mc, rule.at)]
    unsupported = [problem for refusal in REFUSALS for problem in _found(refusal.problems, mc, refusal.field)]
    checked = [problem for check, field in CHECKS.items() for problem in _found(check, mc, field)]
    return _outermost([*invalid, *checked, *unsupported])


def _found(check: Check, mc: MiniCluster, field: str) -> list[Problem]:
    """Return what a check finds; one that stumbles over what a user wrote has found something too."""
    try:
        return list(check(mc))
    except Exception as error:
        return [unreadable(field, error)]


def _outermost(problems: list[Problem]) -> list[Problem]:
    """Leave out what is unsupported inside of what is unsupported as a whole."""
    refused = tuple(f"{problem.field}." for problem in problems if problem.reason == "UnsupportedField")
    return [p for p in problems if p.reason == "InvalidSpec" or not p.field.startswith(refused)]
