"""Makes config/monitoring/prometheus_rule.yaml: the rule file as the Prometheus Operator takes it."""

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "config/monitoring"
RULES = FOLDER / "prometheus-rules.yaml"
OPERATORS = FOLDER / "prometheus_rule.yaml"
HEAD = """\
# Made from prometheus-rules.yaml: python -m tests.monitoring.operator
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: kueue-flux
spec:
"""


def prometheus_rule() -> str:
    """The text of the PrometheusRule: the rule file's groups, indented, without its comments."""
    lines = [line for line in RULES.read_text().splitlines() if not line.startswith("#")]
    return HEAD + "".join(f"  {line}\n" if line else "\n" for line in lines)


if __name__ == "__main__":
    OPERATORS.write_text(prometheus_rule())
