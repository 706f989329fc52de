"""What the fields of a FluxSetup must be to one another; see `rules`, whose form this has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kueue_flux.api import labels, quantity
from kueue_flux.api.base import LABEL_1123
from kueue_flux.api.problems import Problem
from kueue_flux.api.rules import Rule

if TYPE_CHECKING:
    from kueue_flux.api.pod import Toleration
    from kueue_flux.api.setup import FluxSetup, FluxSetupSpec, SetupPreemption

LABEL_LIMIT = 63
RESOURCE = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
"""A resource's name, such as cpu or nvidia.com/gpu."""
_NAME = LABEL_1123.replace("(", "(?:") + r"(?:[.][a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"


def problems_of(setup: FluxSetup) -> Iterator[Problem]:
    """Yield all problems of a FluxSetup whose fields are of the right type."""
    for rule in SETUP_RULES:
        yield from rule.problems(setup)
    for check in (_repeated_names, _bad_labels, _lends_more_than_it_has):
        yield from check(setup)


def _nameless_namespace(setup: FluxSetup) -> list[str]:
    own = len(setup.name) <= LABEL_LIMIT and re.fullmatch(LABEL_1123, setup.name)
    return [] if setup.spec.namespaces or own or not setup.name else ["metadata.name"]


def _both(spec: FluxSetupSpec) -> list[str]:
    return ["quota"] if spec.quota and spec.flavors else []


def _limits_without_cohort(spec: FluxSetupSpec) -> Iterator[str]:
    for index, flavor in enumerate(spec.flavors):
        if not spec.cohort and flavor.borrowing_limit:
            yield f"flavors[{index}].borrowingLimit"
        if not spec.cohort and flavor.lending_limit:
            yield f"flavors[{index}].lendingLimit"


def _borrows_without_reclaiming(preemption: SetupPreemption) -> list[str]:
    borrows = preemption.borrow_within_cohort.policy != "Never"
    return ["borrowWithinCohort.policy"] if borrows and preemption.reclaim_within_cohort == "Never" else []


def _bad_tolerations(tolerations: Sequence[Toleration] | None) -> Iterator[str]:
    for index, toleration in enumerate(tolerations or ()):
        if bool(toleration.value) if toleration.operator == "Exists" else not toleration.key:
            yield f"[{index}]"


def _bad_resources(quotas: Mapping[str, object]) -> Iterator[str]:
    return (name for name in quotas if len(name) > 253 or not re.fullmatch(RESOURCE, name))


def _bad_priorities(priorities: Mapping[str, object]) -> Iterator[str]:
    return (name for name in priorities if len(name) > LABEL_LIMIT or not re.fullmatch(_NAME, name))


def _repeated_names(setup: FluxSetup) -> Iterator[Problem]:
    # The API server says so by the lists' types.
    names = [flavor.name for flavor in setup.spec.flavors]
    lists = [("spec.namespaces[{}]", setup.spec.namespaces), ("spec.flavors[{}].name", names)]
    for where, found in lists:
        for index, name in enumerate(found):
            if name in found[:index]:
                yield Problem(where.format(index), f"{name} stands here twice", "remove one of them")


def _bad_labels(setup: FluxSetup) -> Iterator[Problem]:
    for index, flavor in enumerate(setup.spec.flavors):
        yield from labels.malformed(f"spec.flavors[{index}].nodeLabels", flavor.node_labels or {})


def _lends_more_than_it_has(setup: FluxSetup) -> Iterator[Problem]:
    for index, flavor in enumerate(setup.spec.flavors):
        for resource, lent in flavor.lending_limit.items():
            if resource in flavor.quota and quantity.parse(lent) > quantity.parse(flavor.quota[resource]):
                yield Problem(
                    f"spec.flavors[{index}].lendingLimit.{resource}",
                    f"{lent} is more than the quota, {flavor.quota[resource]}",
                    "lend at most the quota",
                )


def _quota_rules(at: str) -> Rule:
    return Rule(
        at,
        f"self.all(name, size(name) <= 253 && name.matches('^{RESOURCE}$'))",
        _bad_resources,
        "that is no resource's name, such as cpu, memory or nvidia.com/gpu",
        "rename it",
    )


def _filled(field: str) -> str:
    """CEL: the field (text, list or map) is there and not empty."""
    return f"(has({field}) && size({field}) > 0)"


SETUP_RULES = [
    Rule(
        "",
        f"(has(self.spec) && {_filled('self.spec.namespaces')}) || "
        f"(size(self.metadata.name) <= {LABEL_LIMIT} && self.metadata.name.matches('^{LABEL_1123}$'))",
        _nameless_namespace,
        "no namespace can have the FluxSetup's name, and spec.namespaces names none",
        "list spec.namespaces, or rename it: lower-case letters, digits and dashes, at most 63",
    ),
    Rule(
        "spec",
        f"!({_filled('self.quota')} && {_filled('self.flavors')})",
        _both,
        "each flavor has its own quota, so this one would be for none of them",
        "move it into spec.flavors[].quota",
        "quota",
    ),
    Rule(
        "spec",
        f"{_filled('self.cohort')} || !has(self.flavors) || self.flavors.all(flavor, "
        f"!{_filled('flavor.borrowingLimit')} && !{_filled('flavor.lendingLimit')})",
        _limits_without_cohort,
        "without a cohort there is nobody to borrow from or lend to",
        "set spec.cohort, or remove the limit",
        "cohort",
    ),
    Rule(
        "spec.preemption",
        "!(has(self.reclaimWithinCohort) && self.reclaimWithinCohort == 'Never' && has(self.borrowWithinCohort) && "
        "has(self.borrowWithinCohort.policy) && self.borrowWithinCohort.policy != 'Never')",
        _borrows_without_reclaiming,
        "Kueue lets nobody preempt while borrowing who may not reclaim its own",
        "set reclaimWithinCohort to Any or LowerPriority, or borrowWithinCohort.policy to Never",
        "borrowWithinCohort.policy",
    ),
    Rule(
        "spec.priorities",
        f"self.all(name, size(name) <= {LABEL_LIMIT} && name.matches('^{_NAME}$'))",
        _bad_priorities,
        "the name of a priority class has lower-case letters, digits, dashes and dots, at most 63",
        "rename it",
    ),
    *(
        _quota_rules(at)
        for at in (
            "spec.quota",
            "spec.flavors[].quota",
            "spec.flavors[].borrowingLimit",
            "spec.flavors[].lendingLimit",
        )
    ),
    Rule(
        "spec.flavors[].tolerations",
        "self.all(each, has(each.operator) && each.operator == 'Exists' ? !(has(each.value) && each.value != '') : "
        "(has(each.key) && each.key != ''))",
        _bad_tolerations,
        "operator Exists takes no value, any other needs a key",
        "correct the toleration",
    ),
]
