"""What the controller's registry exports, and what a PromQL expression asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from prometheus_client import Histogram
from prometheus_client.metrics import MetricWrapperBase

import kueue_flux.controller.metrics  # noqa: F401  (registers its metrics)
import kueue_flux.runtime.metrics as runtime

# What Prometheus itself adds to each series, as far as it is used here.
OF_THE_SCRAPE = frozenset({"instance", "job", "pod"})
KEYWORDS = frozenset({"and", "or", "unless", "bool", "offset", "by", "on", "without", "ignoring", "group_left"})


@dataclass(frozen=True)
class Asked:
    """Metrics that an expression names, each with the labels by which it selects; and the labels it groups by."""

    selectors: tuple[tuple[str, frozenset[str]], ...]
    grouped: frozenset[str]


def exported() -> dict[str, frozenset[str]]:
    """Each sample name that the registry can export, with its labels."""
    found: dict[str, frozenset[str]] = {}
    for collector in runtime.REGISTRY._collector_to_names:
        if isinstance(collector, MetricWrapperBase):
            labels = frozenset(collector._labelnames)
            if isinstance(collector, Histogram):
                found |= {f"{collector._name}_{end}": labels for end in ("sum", "count")}
                found[f"{collector._name}_bucket"] = labels | {"le"}
            else:
                total = "_total" if collector._type == "counter" else ""
                found[collector._name + total] = labels
        else:
            for family in collector.collect():
                labels = frozenset(getattr(family, "_labelnames", ()))
                found |= {sample.name: frozenset(sample.labels) for sample in family.samples} or {family.name: labels}
    return found


def asked(expression: str) -> Asked:
    """Read an expression: a name that is followed by no parenthesis and is no keyword is a metric."""
    text = re.sub(r"\[[^\]]*\]", "", expression)
    grouped: set[str] = set()

    def group(match: re.Match[str]) -> str:
        grouped.update(re.findall(r"\w+", match[1]))
        return " "

    text = re.sub(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", group, text)
    selectors = []
    for name, selector in re.findall(
        r"(?<![\w$\"])([a-zA-Z_:][\w:]*)\b(?!\s*\()\s*(\{[^}]*\})?", _without_strings(text)
    ):
        if name not in KEYWORDS:
            selectors.append((name, frozenset(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))))
    return Asked(tuple(selectors), frozenset(grouped))


def _without_strings(text: str) -> str:
    return re.sub(r'"[^"]*"', '""', text)
