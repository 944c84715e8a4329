"""Names that callers choose fill neither the node nor the monitoring."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cluster.node.metrics.node_metrics import Meters
from ledger.broker import label_names
from ledger.broker.label_names import OTHERS


def test_the_topics_of_the_metrics_are_bounded_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_names, "MAX_NAMES", 3)
    registry = CollectorRegistry()
    meters = Meters(registry, "test", 1)
    for number in range(100):
        meters.produced(f"topic-{number}", 1, 10, 0.001)
        meters.fetched(f"topic-{number}", 2, 20, 5)
    meters.produced("topic-1", 1, 10, 0.001)
    told = generate_latest(registry).decode()
    assert 'ledgermq_messages_in_total{topic="topic-1"} 2.0' in told
    assert f'ledgermq_messages_in_total{{topic="{OTHERS}"}} 97.0' in told
    assert f'ledgermq_bytes_out_total{{topic="{OTHERS}"}} 1940.0' in told
    assert f'ledgermq_cut_bytes_total{{topic="{OTHERS}"}} 485.0' in told
    assert told.count("ledgermq_messages_in_total{") == 4
