"""The rule files of deploy/prometheus: their form, what they name, and promtool's tests."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from cluster.node.metrics.catalogue import METRICS
from cluster.node.metrics.definition import MetricKind
from tests.cluster.monitoring import test_alerts, test_peer_alerts
from tests.cluster.monitoring.prometheus import (
    FACTOR,
    ROOT,
    RULE_FILES,
    RULES,
    alerts,
    needs_prometheus,
    rule_groups,
    scaled,
    shorter,
)

HEADINGS = re.findall(r"(?m)^#+ (.*)$", (ROOT / "docs/OPERATING.md").read_text(encoding="utf-8"))


def expressions() -> Iterator[tuple[str, str]]:
    for file in RULE_FILES:
        for group in rule_groups(file):
            yield from ((rule.get("alert") or rule["record"], rule["expr"]) for rule in group["rules"])


def known_names() -> set[str]:
    """Return every name of a series that the nodes, Prometheus or the recording rules make."""
    names = {rule["record"] for group in rule_groups("recording_rules.yml") for rule in group["rules"]} | {"up"}
    for metric in METRICS:
        suffixes = ("_bucket", "_sum", "_count") if metric.kind is MetricKind.HISTOGRAM else ("",)
        names |= {metric.name + suffix for suffix in suffixes}
    return names


def test_each_alert_fires_in_a_test() -> None:
    tests = {**test_alerts.FIRED, **test_peer_alerts.FIRED}
    fired = [f"Ledgermq{name}" for names in tests.values() for name in names]
    assert len(fired) == len(set(fired))
    assert set(fired) == set(alerts())


@pytest.mark.parametrize("name", sorted(alerts()))
def test_each_alert_says_what_to_do(name: str) -> None:
    rule = alerts()[name]
    assert rule["labels"] == {"severity": rule["labels"]["severity"]}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert all(text.endswith(".") for key, text in rule["annotations"].items() if key != "runbook")
    assert name in HEADINGS
    assert rule["annotations"]["runbook"] == f"docs/OPERATING.md#{name.lower()}"


def test_each_section_is_about_an_alert() -> None:
    assert {heading for heading in HEADINGS if heading.startswith("Ledgermq")} == set(alerts())


@pytest.mark.parametrize(("name", "expression"), [*expressions()], ids=lambda text: text.split("(")[0])
def test_each_expression_names_series_that_exist(name: str, expression: str) -> None:
    named = set(re.findall(r"\b(?:ledgermq[a-z0-9_:]+|up)\b(?!\.)", expression))
    assert named
    assert named <= known_names()


def test_durations_are_scaled_and_nothing_else_is() -> None:
    rule = {
        "alert": "A",
        "expr": "rate(x_5m[15m]) > 5 and y offset 1h > 14 * 86400",
        "for": "2m",
        "labels": {"a": "5m"},
    }
    (group,) = scaled([{"name": "g", "rules": [rule]}], 60)
    assert group["rules"] == [
        {**rule, "expr": "rate(x_5m[15000ms]) > 5 and y offset 60000ms > 14 * 86400", "for": "2000ms"}
    ]
    assert shorter("15s", FACTOR) == "250ms"
    with pytest.raises(AssertionError):
        shorter("1s", 7)


@pytest.mark.real
def test_promtool_finds_nothing_wrong_and_its_tests_pass() -> None:
    needs_prometheus()
    for arguments in (
        ["check", "rules", *RULE_FILES],
        ["check", "config", "prometheus.yml"],
        ["test", "rules", "alerts_test.yml"],
    ):
        done = subprocess.run(["promtool", *arguments], cwd=RULES, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
