"""What the metrics of a node are called, how many there can be, and in which format a scrape gets them."""

from __future__ import annotations

import re
from pathlib import Path

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from cluster.node.metrics.catalogue import METRICS, PROCESS
from cluster.node.metrics.definition import CODES, MetricKind
from cluster.node.metrics.document import document
from cluster.node.metrics.exposition import OPENMETRICS, TEXT, exposition, prefers_openmetrics
from cluster.node.metrics.node_metrics import Meters
from cluster.node.metrics.rocketmq_metrics import REFUSED
from ledger.broker.label_names import MAX_NAMES, OTHERS, bounded_totals
from ledger.rocketmq.v2 import admin_pb2, definition_pb2, service_pb2
from ledger.v1 import error_pb2

ROOT = Path(__file__).resolve().parents[3]

# What Prometheus 2.42 and 3.5 send.
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs/METRICS.md").read_text(encoding="utf-8") == document(), "run `make metrics-page`"


def test_names_follow_the_rules_of_prometheus() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names)) > 80
    for metric in METRICS:
        assert re.fullmatch(r"(ledgermq|process)_[a-z][a-z_]*[a-z]", metric.name)
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER), metric.name
        assert not re.search(r"_(ms|millis|micros|kb|mb|percent|count|sum|bucket|created)(_|$)", metric.name)
        assert metric.text.endswith("."), metric.name
        if metric.kind is MetricKind.HISTOGRAM:
            assert metric.unit == "seconds"


def test_every_metric_has_a_bound() -> None:
    for metric in METRICS:
        assert bool(metric.labels) == (metric.bound.most > 1) or metric.name == "ledgermq_node_info", metric.name
    assert sum(metric.most_series for metric in METRICS) < 100_000


def test_the_codes_are_as_few_as_the_bounds_say() -> None:
    assert len(error_pb2.Code.values()) < CODES.most
    services = [*service_pb2.DESCRIPTOR.services_by_name.values(), *admin_pb2.DESCRIPTOR.services_by_name.values()]
    methods = sum(len(service.methods) for service in services)
    assert methods * len(definition_pb2.Code.values()) < REFUSED.bound.most


def test_names_beyond_the_bound_are_added_up() -> None:
    totals = {f"group-{number:05}": 1 for number in range(MAX_NAMES + 3)}
    bounded = dict(bounded_totals(totals))
    assert len(bounded) == MAX_NAMES + 1
    assert bounded[OTHERS] == 3
    assert dict(bounded_totals({"a": 2})) == {"a": 2}


def test_the_library_of_prometheus_reports_what_the_page_says() -> None:
    families = {family.name: family for family in prometheus_client.ProcessCollector(registry=None).collect()}
    assert {metric.name.removesuffix("_total"): metric.kind.value for metric in PROCESS} == {
        name: family.type for name, family in families.items()
    }


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        (PROMETHEUS_2, True),
        (PROMETHEUS_3, True),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", True),
        ("", False),
        ("*/*", False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", False),
        ("text/plain;version=0.0.4", False),
        ("application/openmetrics-text;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.5", False),
        ("application/openmetrics-text;version=0.0.1", False),
        ("application/openmetrics-text;version=2.0.0", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;version=x;q=nan", False),
        ("application/openmetrics-text;version=1.0.0;q=high", False),
        (";;;,,,=;=", False),
        ("a," * 10_000 + "application/openmetrics-text", False),
    ],
)
def test_the_format_is_the_one_that_the_caller_prefers(accept: str, openmetrics: bool) -> None:
    assert prefers_openmetrics(accept) is openmetrics


def test_both_formats_have_the_same_series_and_none_of_creation() -> None:
    registry = CollectorRegistry()
    meters = Meters(registry, "dev", 1)
    meters.produced('a "strange" \\ topic\n', 3, 100, 0.002)
    text, text_type = exposition(registry, "")
    openmetrics, openmetrics_type = exposition(registry, PROMETHEUS_2)
    assert (text_type, openmetrics_type) == (TEXT, OPENMETRICS)
    assert text_type == "text/plain; version=0.0.4; charset=utf-8"
    assert openmetrics_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    series = [
        {(sample.name, tuple(sorted(sample.labels.items()))) for family in families for sample in family.samples}
        for families in (
            text_families(text.decode()),
            openmetrics_families(openmetrics.decode()),  # type: ignore[no-untyped-call]
        )
    ]
    assert series[0] == series[1]
    assert ("ledgermq_messages_in_total", (("topic", 'a "strange" \\ topic\n'),)) in series[0]
    assert not [name for name, _ in series[0] if name.endswith("_created")]


def test_nothing_changes_for_other_metrics_of_the_process() -> None:
    """A user's program can embed a node. Its own counters keep what they have."""
    registry = CollectorRegistry()
    theirs = prometheus_client.Counter("theirs", "A counter of the user's program.", registry=registry)
    exposition(CollectorRegistry(), "")
    theirs.inc()
    assert b"theirs_created" in prometheus_client.generate_latest(registry)
