"""All that can be wrong with a MiniCluster whose fields are of the right type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kueue_flux.api.checks import CHECKS
from kueue_flux.api.problems import Problem
from kueue_flux.api.rules import RULES
from kueue_flux.api.unsupported import REFUSALS

if TYPE_CHECKING:
    from kueue_flux.api.minicluster import MiniCluster


def problems_of(mc: MiniCluster) -> list[Problem]:
    """Return all problems of a MiniCluster; none means that it can be run."""
    invalid = [problem for rule in RULES for problem in rule.problems(mc)]
    unsupported = [problem for refusal in REFUSALS for problem in refusal.problems(mc)]
    checked = [problem for check in CHECKS for problem in check(mc)]
    return _outermost([*invalid, *checked, *unsupported])


def _outermost(problems: list[Problem]) -> list[Problem]:
    """Leave out what is unsupported inside of what is unsupported as a whole."""
    refused = tuple(f"{problem.field}." for problem in problems if problem.reason == "UnsupportedField")
    return [p for p in problems if p.reason == "InvalidSpec" or not p.field.startswith(refused)]
