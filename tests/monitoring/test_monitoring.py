"""config/monitoring and docs/monitoring.md say of metrics, alerts and log lines what there is, and all of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from kueue_flux.controller import life, metrics
from tests.monitoring.operator import FOLDER, OPERATORS, RULES, prometheus_rule
from tests.monitoring.registry import OF_THE_SCRAPE, Asked, asked, exported

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
DOCS = ROOT / "docs/monitoring.md"
Object = dict[str, Any]

DASHBOARD: Object = json.loads((FOLDER / "grafana-dashboard.json").read_text())
PANELS: list[Object] = DASHBOARD["panels"]
ALERTS: list[Object] = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """Where each PromQL expression stands, and the expression."""
    for rule in ALERTS:
        yield rule["alert"], rule["expr"]
    for panel in PANELS:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()  # type: ignore[union-attr]
            yield variable["name"], f"count by ({label}) ({metric})"


EXPRESSIONS = [pytest.param(expression, id=where) for where, expression in expressions()]


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("no promtool on PATH (Debian: apt-get install --no-install-recommends prometheus)")
    return found


# -- names


def test_how_an_expression_is_read() -> None:
    text = 'max(a{x="b {c}",y=~"d"}) / sum by (le, z) (rate(f_bucket[$__rate_interval])) > 5 and on (i) g unless 1e3'
    assert asked(text) == Asked(
        (("a", frozenset({"x", "y"})), ("f_bucket", frozenset()), ("g", frozenset())), frozenset({"le", "z", "i"})
    )


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_is_asked_for_is_exported(expression: str) -> None:
    known, wanted = exported(), asked(expression)
    assert wanted.selectors
    for name, labels in wanted.selectors:
        assert name in known
        assert labels <= known[name] | OF_THE_SCRAPE, name
    anywhere = frozenset.union(*(known[name] for name, _ in wanted.selectors))
    assert wanted.grouped <= anywhere | OF_THE_SCRAPE


def test_all_of_ours_is_on_the_dashboard() -> None:
    shown = {
        name for panel in PANELS for target in panel.get("targets", ()) for name, _ in asked(target["expr"]).selectors
    }
    ours = {name for name in exported() if name.startswith("kueue_flux_") and not name.endswith(("_sum", "_count"))}
    assert ours <= shown


def values(label: str) -> set[str]:
    """The values of a label that alerts and panels select by."""
    texts = " ".join(expression for _, expression in expressions())
    return {value for found in re.findall(rf'{label}(?:=~|!~|!=|=)"([^"$]*)"', texts) for value in found.split("|")}


@pytest.mark.parametrize(
    ("label", "known"),
    [
        ("stage", set(metrics.STAGES)),
        ("reason", metrics.REFUSALS | metrics.EVICTIONS | life.FAILURES),
        ("again", {"true", "false"}),
        ("result", {"Succeeded", "Failed", "success", "error", "requeue_after"}),
    ],
)
def test_values_that_are_selected_by_exist(label: str, known: set[str]) -> None:
    assert values(label) <= known


# -- alerts


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["alert"]) for rule in ALERTS])
def test_an_alert_says_what_to_do(rule: Object) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert len(rule["annotations"]["description"]) > len(rule["annotations"]["summary"]) > 20
    assert set(rule["annotations"]) == {"summary", "description"}


def test_promtool_accepts_the_rules(promtool: str) -> None:
    checked = subprocess.run([promtool, "check", "rules", str(RULES)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr + checked.stdout


def test_alerts_fire_when_they_should_and_only_then(promtool: str) -> None:
    command = [promtool, "test", "rules", str(HERE / "rules_test.yaml")]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr + checked.stdout


def test_each_alert_is_seen_to_fire() -> None:
    tests = yaml.safe_load((HERE / "rules_test.yaml").read_text())["tests"]
    samples = [s["labels"] for test in tests for case in test["promql_expr_test"] for s in case["exp_samples"]]
    fired = {found[1] for sample in samples if (found := re.search(r'alertname="(\w+)"', sample))}
    assert fired == {rule["alert"] for rule in ALERTS}


def test_the_operators_rules_are_the_same() -> None:
    assert OPERATORS.read_text() == prometheus_rule(), "run: python -m tests.monitoring.operator"
    assert yaml.safe_load(OPERATORS.read_text())["spec"] == yaml.safe_load(RULES.read_text())


def test_the_operator_finds_the_controller() -> None:
    """What the PodMonitor selects is what the Deployment has."""
    monitor = yaml.safe_load((FOLDER / "pod_monitor.yaml").read_text())["spec"]
    template = yaml.safe_load((ROOT / "config/manager/deployment.yaml").read_text())["spec"]["template"]
    (pairs,) = yaml.safe_load((ROOT / "config/default/kustomization.yaml").read_text())["labels"]
    assert monitor["selector"]["matchLabels"].items() <= (template["metadata"]["labels"] | pairs["pairs"]).items()
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert endpoint["port"] in {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    assert endpoint["honorLabels"] is True


def test_kubectl_makes_the_operators_objects() -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl on PATH")
    made = subprocess.run([kubectl, "kustomize", str(FOLDER)], capture_output=True, text=True, check=True).stdout
    objects = [(item["kind"], item["metadata"]["namespace"]) for item in yaml.safe_load_all(made)]
    assert objects == [("PodMonitor", "kueue-flux-system"), ("PrometheusRule", "kueue-flux-system")]


# -- dashboard


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids)
    for panel in PANELS:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for one, other in combinations(PANELS, 2):
        assert not overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(
        one[at] < other[at] + other[size] and other[at] < one[at] + one[size] for at, size in (("x", "w"), ("y", "h"))
    )


@pytest.mark.parametrize("panel", [pytest.param(p, id=p["title"]) for p in PANELS if p["type"] != "row"])
def test_a_panel_says_what_it_shows_and_asks_the_chosen_data_source(panel: Object) -> None:
    assert len(panel["description"]) > 20
    assert panel["targets"]
    refs = [target["refId"] for target in panel["targets"]]
    assert len(set(refs)) == len(refs)
    for part in (panel, *panel["targets"]):
        assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert all(target["expr"].strip() for target in panel["targets"])


def test_variables_that_are_used_exist() -> None:
    text = json.dumps(DASHBOARD)
    used = set(re.findall(r"\$\{?(\w+)", text)) - {"__rate_interval", "__all"}
    assert used == {variable["name"] for variable in DASHBOARD["templating"]["list"]}


def test_promtool_can_read_what_the_dashboard_asks(promtool: str, tmp_path: Path) -> None:
    texts = [
        target["expr"].replace("$__rate_interval", "5m") for panel in PANELS for target in panel.get("targets", ())
    ]
    rules = [{"record": f"r{number}", "expr": text} for number, text in enumerate(texts)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr + checked.stdout


# -- docs


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading of docs/monitoring.md, without its head."""
    section = DOCS.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_each_metric_of_ours_is_documented_with_its_labels() -> None:
    families = {re.sub(r"_(bucket|sum|count)$", "", name): labels - {"le"} for name, labels in exported().items()}
    ours = {name: labels for name, labels in families.items() if name.startswith("kueue_flux_")}
    told = {named(row[0])[0]: frozenset(named(row[1])) for row in rows("Metrics")}
    assert told == ours


def test_metrics_of_the_runtime_that_are_named_exist() -> None:
    names = {name for row in rows("Metrics of the process") for name in named(row[0])}
    assert names
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported()}
    assert names <= families


def test_each_alert_is_documented() -> None:
    told = {named(row[0])[0]: row[1] for row in rows("Alerts")}
    assert told == {rule["alert"]: rule["labels"]["severity"] for rule in ALERTS}


def test_each_line_of_a_life_is_documented() -> None:
    assert [named(row[0])[0] for row in rows("Log")] == list(life.MOMENTS)


@pytest.mark.parametrize(
    ("known", "where"),
    [(metrics.EVICTIONS, "evictions"), (metrics.REFUSALS, "not_accepted"), (life.FAILURES, "failures")],
)
def test_each_reason_is_documented(known: frozenset[str], where: str) -> None:
    (row,) = [row for row in rows("Reasons") if where in row[0]]
    assert {*named(row[1])} == {*map(str, known), life.OTHER}
