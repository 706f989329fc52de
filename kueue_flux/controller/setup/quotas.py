"""How much each flavor of a FluxSetup gives of each resource: what was said, or else what the nodes have."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from kueue_flux.api import quantity
from kueue_flux.api.pod import Toleration
from kueue_flux.api.setup import FluxSetup, SetupFlavor
from kueue_flux.controller.setup.findings import Finding, Level
from kueue_flux.kueue.nodes import ALWAYS, Node, total, written
from kueue_flux.kueue.queues import Cell, ClusterQueueView
from kueue_flux.manifests.setup import flavor_quotas

Amounts = Mapping[str, Decimal]
SHARED_FREELY = ("ephemeral-storage",)
"""What hardly anybody asks for, so that nobody is warned where it is given to several."""
SHOWN = 5
"""How many other FluxSetups a message names."""


@dataclass(frozen=True)
class Definition:
    """Which nodes a ResourceFlavor stands for.

    Attributes:
        labels: That they have.
        tolerations: Of their taints.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()

    def nodes(self, nodes: Iterable[Node]) -> list[Node]:
        """Those of the nodes."""
        return [node for node in nodes if node.takes(self.labels, self.tolerations)]


@dataclass(frozen=True)
class Quotas:
    """What a ClusterQueue is to give.

    Attributes:
        flavors: As they stand in the ClusterQueue, all with the same resources.
        nominal: Quota of each (flavor, resource).
        by_default: The (flavor, resource) whose quota is what the nodes have.
        held: Flavors that are no longer named by the FluxSetup, and may be in use still.
    """

    flavors: Sequence[dict[str, Any]]
    nominal: Mapping[Cell, Decimal]
    by_default: frozenset[Cell]
    held: tuple[str, ...] = ()


def quotas(
    setup: FluxSetup,
    definitions: Mapping[str, Definition],
    nodes: Sequence[Node],
    queue: ClusterQueueView | None,
    *,
    seen: bool = False,
) -> Quotas:
    """Work out what a FluxSetup's ClusterQueue is to give.

    Args:
        setup: The FluxSetup.
        definitions: Of each of its flavors.
        nodes: All nodes.
        queue: The ClusterQueue as it is: what is used of it stays in it, with a quota of 0 if need be.
        seen: Kueue has taken note of the ClusterQueue as it is.
    """
    shares = _shares(definitions, nodes)
    used = {cell for cell, usage in (queue.reserved if queue else {}).items() if usage.total > 0}
    named = {flavor.name for flavor in setup.flavors}
    held = tuple(sorted(({flavor for flavor, _ in used} | _unsettled(queue, seen=seen)) - named))
    resources = _resources(setup, shares, {resource for _, resource in used})
    nominal: dict[Cell, Decimal] = {}
    by_default = set()
    flavors = []
    for flavor in setup.flavors:
        given, has = _parsed(flavor.quota), shares.get(flavor.name, {})
        for resource in resources:
            nominal[flavor.name, resource] = given.get(resource, has.get(resource, Decimal(0)))
            if resource not in given:
                by_default.add((flavor.name, resource))
        flavors.append(_flavor(flavor, resources, nominal))
    for name in held:
        zero = dict.fromkeys(resources, "0")
        nominal |= {(name, resource): Decimal(0) for resource in resources}
        flavors.append(flavor_quotas(name, zero, zero if setup.spec.cohort else {}, {}))
    return Quotas(flavors, nominal, frozenset(by_default), held)


def _unsettled(queue: ClusterQueueView | None, *, seen: bool) -> set[str]:
    """The flavors that may be in use though the status does not say so, which is a second or more behind.

    Nothing new gets any of one without quota: once Kueue has taken note of that, the status tells all.
    """
    if queue is None:
        return set()
    borrows = bool(queue.cohort)
    return {
        flavor
        for (flavor, _), quota in queue.quotas.items()
        if not seen or quota.nominal or (borrows and quota.borrowing_limit != 0)
    }


def _shares(definitions: Mapping[str, Definition], nodes: Iterable[Node]) -> dict[str, Amounts]:
    """What the nodes of each flavor have. A node of several counts for the one that names the most labels."""
    shares: dict[str, list[Node]] = {name: [] for name in definitions}
    for node in nodes:
        fitting = [name for name, each in definitions.items() if node.takes(each.labels, each.tolerations)]
        if fitting:
            shares[max(fitting, key=lambda name: len(definitions[name].labels))].append(node)
    return {name: total(found) for name, found in shares.items()}


def _resources(setup: FluxSetup, shares: Mapping[str, Amounts], used: Iterable[str]) -> list[str]:
    """All that the ClusterQueue must speak of: a request for anything else would never be admitted."""
    found = {resource for share in shares.values() for resource in share} | set(used)
    for flavor in setup.flavors:
        found |= {*flavor.quota, *flavor.borrowing_limit, *flavor.lending_limit}
    return [*ALWAYS, *sorted(found.difference(ALWAYS))]


def _flavor(flavor: SetupFlavor, resources: Iterable[str], nominal: Mapping[Cell, Decimal]) -> dict[str, Any]:
    quota = {resource: nominal[flavor.name, resource] for resource in resources}
    borrowing = _parsed(flavor.borrowing_limit)
    # Kueue refuses to lend more than there is, and what there is may change with the nodes
    lending = {name: min(amount, quota[name]) for name, amount in _parsed(flavor.lending_limit).items()}
    return flavor_quotas(flavor.name, *(_written(amounts) for amounts in (quota, borrowing, lending)))


def _parsed(amounts: Mapping[str, int | str]) -> dict[str, Decimal]:
    return {name: quantity.parse(amount) for name, amount in amounts.items()}


def _written(amounts: Amounts) -> dict[str, str]:
    return {name: written(name, amount) for name, amount in amounts.items()}


def about_nodes(
    setup: FluxSetup, definitions: Mapping[str, Definition], nodes: Sequence[Node], others: Iterable[FluxSetup]
) -> Iterator[Finding]:
    """Yield what is to be said of quotas and nodes."""
    for flavor in setup.flavors:
        found = definitions[flavor.name].nodes(nodes)
        if not found:
            yield _without_nodes(flavor, _why_none(definitions[flavor.name], nodes))
        elif excess := list(_excess(flavor, total(found))):
            yield Finding(
                Level.WARNING,
                "QuotaExceedsNodes",
                f"flavor {flavor.name}: {'; '.join(excess)}: what is admitted beyond that waits for nodes; lower "
                "the quota, unless nodes are added when they are needed",
            )
        yield from _given_twice(flavor, total(found), others)


def _excess(flavor: SetupFlavor, has: Amounts) -> Iterator[str]:
    for name, amount in _parsed(flavor.quota).items():
        there = has.get(name, Decimal(0))
        if amount > there and name != "pods":
            yield f"the quota of {name} is {written(name, amount)}, and its nodes have {written(name, there)}"


def _why_none(definition: Definition, nodes: Iterable[Node]) -> str:
    labels = ", ".join(f"{key}={value}" for key, value in definition.labels.items())
    found = [node for node in nodes if definition.labels.items() <= node.labels.items()]
    if not found:
        return f"no node has the labels {labels}" if labels else "there is no node"
    taints = sorted({f"{key}={value}:{effect}" for node in found for key, value, effect in node.taints})
    tainted = f", with taints that its tolerations do not cover ({', '.join(taints[:3])})" if taints else ", cordoned"
    return f"none of its {sum(node.count for node in found)} nodes takes pods{tainted}"


def _without_nodes(flavor: SetupFlavor, which: str) -> Finding:
    if flavor.quota:
        missing = [name for name in ALWAYS if name not in flavor.quota]
        but = f"; until then there is no quota of {' and '.join(missing)}, of which spec says nothing" * bool(missing)
        return Finding(
            Level.WARNING,
            "FlavorWithoutNodes",
            f"flavor {flavor.name}: {which}: what is admitted waits for one{but}",
        )
    return Finding(
        Level.NOT_READY,
        "FlavorWithoutNodes",
        f"flavor {flavor.name}: {which}, so its quota is 0: set its quota, correct its nodeLabels and tolerations, or "
        "add nodes",
    )


def _given_twice(flavor: SetupFlavor, has: Amounts, others: Iterable[FluxSetup]) -> Iterator[Finding]:
    mine = _by_default(flavor, has)
    both: dict[str, set[str]] = {}  # by the name of the other
    for other in others:
        for theirs in other.flavors:
            if theirs.name == flavor.name and (shared := mine & _by_default(theirs, has)):
                both[other.name] = shared
    if both:
        what, names = sorted(set().union(*both.values())), sorted(both)
        shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        yield Finding(
            Level.WARNING,
            "NodesGivenTwice",
            f"flavor {flavor.name}: this FluxSetup and {shown} {'both' if len(names) == 1 else 'each'} have all "
            f"{', '.join(what)} of its nodes for a quota, because none of them says how much: set the quota of each",
        )


def _by_default(flavor: SetupFlavor, has: Amounts) -> set[str]:
    return {name for name in has if name not in flavor.quota and name not in SHARED_FREELY}
