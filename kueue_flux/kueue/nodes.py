"""What nodes have for the pods of a ResourceFlavor: labels, taints, allocatable amounts.

Source: Kubernetes, `pkg/apis/core/v1/helper` (which toleration tolerates which taint) and the concept "Taints and
Tolerations". Amounts are exact numbers in the resource's own unit (cores, bytes, pieces).
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from kueue_flux.api import quantity
from kueue_flux.api.pod import Toleration

KEEP_OUT = ("NoSchedule", "NoExecute")
"""Effects of taints that keep pods from a node."""
ALWAYS = ("cpu", "memory")
"""What every pod may ask for, so that a quota always speaks of it."""
_UNCOUNTED = ("pods",)
_UNCOUNTED_PREFIXES = ("attachable-volumes-",)


@dataclass(frozen=True)
class Node:
    """A node.

    Attributes:
        name: Its name.
        labels: Its labels.
        taints: (key, value) of those taints that keep pods out, with the effect.
        cordoned: Whether it takes no new pods.
        allocatable: What pods may use of it, where that is more than nothing; without the number of pods, which no
            MiniCluster asks for.
        count: How many nodes these are: see `pooled`.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]
    cordoned: bool
    allocatable: Mapping[str, Decimal]
    count: int = 1

    def takes(self, labels: Mapping[str, str], tolerations: Sequence[Toleration]) -> bool:
        """Whether pods with this nodeSelector and these tolerations may start here."""
        return (
            not self.cordoned
            and labels.items() <= self.labels.items()
            and all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in self.taints)
        )


def read_node(obj: Mapping[str, Any]) -> Node:
    """Read a node as the API server returns it."""
    spec, meta = obj.get("spec", {}), obj["metadata"]
    found = {name: _amount(amount) for name, amount in obj.get("status", {}).get("allocatable", {}).items()}
    taints = ((taint["key"], taint.get("value", ""), taint["effect"]) for taint in spec.get("taints") or [])
    return Node(
        name=meta["name"],
        labels=meta.get("labels") or {},
        taints=tuple(taint for taint in taints if taint[2] in KEEP_OUT),
        cordoned=bool(spec.get("unschedulable")),
        allocatable={name: amount for name, amount in found.items() if amount and _is_counted(name)},
    )


def pooled(nodes: Iterable[Node], keys: Set[str]) -> list[Node]:
    """Nodes that differ in nothing that matters, each kind of them put together into one that has what all have.

    Args:
        nodes: The nodes.
        keys: The labels that matter.
    """
    kinds: dict[object, list[Node]] = {}
    for node in nodes:
        labels = {key: node.labels[key] for key in keys if key in node.labels}
        kinds.setdefault((frozenset(labels.items()), node.taints, node.cordoned), []).append(node)
    return [
        replace(
            found[0],
            labels={key: value for key, value in found[0].labels.items() if key in keys},
            allocatable=total(found),
            count=len(found),
        )
        for found in kinds.values()
    ]


def total(nodes: Iterable[Node]) -> dict[str, Decimal]:
    """What nodes have together."""
    result: dict[str, Decimal] = {}
    for node in nodes:
        for name, amount in node.allocatable.items():
            result[name] = result.get(name, Decimal(0)) + amount
    return result


@lru_cache(maxsize=4096)  # nodes of one kind have the same amounts
def _amount(value: int | str) -> Decimal:
    return quantity.counted(value)


def _is_counted(resource: str) -> bool:
    return resource not in _UNCOUNTED and not resource.startswith(_UNCOUNTED_PREFIXES)


def _tolerates(toleration: Toleration, taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    if toleration.effect not in ("", effect) or toleration.key not in ("", key):
        return False
    return toleration.operator == "Exists" or (bool(toleration.key) and toleration.value == value)


_BINARY = [(2 ** (10 * power), f"{letter}i") for power, letter in reversed(list(enumerate("KMGTPE", 1)))]


def written(resource: str, amount: Decimal) -> str:
    """An amount as Kubernetes writes it: 500m, 40, 200Gi.

    Args:
        resource: What it is an amount of; memory and storage are in powers of 1024.
        amount: In the resource's own unit; fractions smaller than a thousandth are left out.
    """
    if amount != amount.to_integral_value():
        thousandths = int(amount * 1000)
        return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)
    number = int(amount)
    if number and (resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")):
        for factor, suffix in _BINARY:
            if number % factor == 0:
                return f"{number // factor}{suffix}"
    return str(number)


def rounded(resource: str, amount: Decimal) -> str:
    """An amount for people: as `written`, but memory and storage with one decimal place at most."""
    exact = written(resource, amount)
    if not (resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")) or len(exact) <= 6:
        return exact
    for factor, suffix in _BINARY:
        if amount >= factor:
            return f"{amount / factor:.1f}".removesuffix(".0") + suffix
    return exact
