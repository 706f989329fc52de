"""The status of a FluxSetup: a pure function of what was planned and found."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from kueue_flux.api.conditions import ConditionStatus, ConditionType, set_condition
from kueue_flux.api.setup import FluxSetup
from kueue_flux.controller.setup.facts import Facts
from kueue_flux.controller.setup.findings import Finding, Level
from kueue_flux.controller.setup.plan import Plan
from kueue_flux.kueue.nodes import rounded, written
from kueue_flux.kueue.queues import ClusterQueueView, Usage
from kueue_flux.runtime.resource import Object

_NUMBERS = re.compile(r"[0-9]+(\.[0-9]+)?([munkKMGTPE]i?)?\b")
SHOWN = 5
"""How many namespaces a message names."""


def derive(
    facts: Facts,
    found: Plan,
    counts: Mapping[str, int],
    old: Mapping[str, Any],
    now: datetime,
) -> dict[str, Any]:
    """Derive the whole status.

    Args:
        facts: What is known.
        found: What was planned, and what there is to say; problems of writing are among its findings.
        counts: MiniClusters by stage.
        old: The former status.
        now: The time to stamp on conditions that change.
    """
    generation = facts.setup.metadata.generation
    findings = sorted(found.findings, key=lambda each: each.level)
    refused = [each for each in findings if each.level is Level.REFUSED]
    worse = [each for each in findings if each.level is not Level.WARNING]
    conditions = list(old.get("conditions") or [])
    accepted = (not refused, refused or [Finding(Level.WARNING, "Accepted", "the specification is valid")])
    ready = (not worse, findings or [Finding(Level.WARNING, "Ready", _made(facts.setup, found))])
    for kind, (holds, said) in ((ConditionType.ACCEPTED, accepted), (ConditionType.READY, ready)):
        message = ". ".join(dict.fromkeys(each.message for each in said))
        status: ConditionStatus = "True" if holds else "False"
        conditions = set_condition(conditions, kind, status, said[0].reason, message, generation, now)
    queue = facts.queue
    status_: dict[str, Any] = {
        "observedGeneration": generation,
        "namespaces": list(found.namespaces),
        **counts,
        "usage": summary(queue),
        "used": used(queue),
        "conditions": conditions,
    }
    return status_


def _made(setup: FluxSetup, found: Plan) -> str:
    names, more = found.namespaces[:SHOWN], len(found.namespaces) - SHOWN
    where = ", ".join(names) + (f" and {more} more" if more > 0 else "")
    return f"ClusterQueue {setup.name}, with LocalQueue {setup.spec.queue} in {where}"


def refusal(obj: Object, reason: str, message: str, now: datetime) -> dict[str, Any]:
    """The status of a FluxSetup that cannot be read: the former one, and why not."""
    old, generation = obj.get("status") or {}, obj["metadata"].get("generation", 0)
    conditions = list(old.get("conditions") or [])
    for kind in (ConditionType.ACCEPTED, ConditionType.READY):
        conditions = set_condition(conditions, kind, "False", reason, message, generation, now)
    return {**old, "observedGeneration": generation, "conditions": conditions}


def used(queue: ClusterQueueView | None) -> list[dict[str, str]]:
    """What is used of each flavor and resource, in the ClusterQueue's order."""
    if queue is None:
        return []
    rows = []
    for (flavor, resource), quota in queue.quotas.items():
        usage = queue.reserved.get((flavor, resource), Usage(Decimal(0)))
        amounts = {"quota": quota.nominal, "used": usage.total, "borrowed": usage.borrowed}
        texts = {key: written(resource, amount) for key, amount in amounts.items()}
        rows.append({"flavor": flavor, "resource": resource, **texts})
    return rows


def summary(queue: ClusterQueueView | None) -> str:
    """What is used over all flavors, in short: `cpu 8/40, memory 16Gi/200Gi`."""
    if queue is None:
        return ""
    quota: dict[str, Decimal] = {}
    for (_, resource), each in queue.quotas.items():
        quota[resource] = quota.get(resource, Decimal(0)) + each.nominal
    taken = dict.fromkeys(quota, Decimal(0))
    for (_, resource), usage in queue.reserved.items():
        if resource in taken:
            taken[resource] += usage.total
    shown = [name for name in quota if name != "ephemeral-storage" or taken[name]]
    return ", ".join(f"{name} {rounded(name, taken[name])}/{rounded(name, quota[name])}" for name in shown)


def news(findings: Sequence[Finding], old: Mapping[str, Any]) -> list[Finding]:
    """The findings that the former status did not speak of, whatever the numbers in them were."""
    said = _NUMBERS.sub("", " ".join(each.get("message", "") for each in old.get("conditions") or []))
    return [each for each in findings if _NUMBERS.sub("", each.message) not in said]
