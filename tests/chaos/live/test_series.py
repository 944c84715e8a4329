"""Tests the throughput and the latency in steps of time."""

from __future__ import annotations

import numpy as np

from chaos.live.checker.columns import columns_of
from chaos.live.report.series import series
from tests.chaos.live.tell import send


def test_steps() -> None:
    second = 1_000_000_000
    took = [(0, 10), (100, 130), (200, 220), (1_200, 1_204)]  # ms
    sends = [send(n, n, at=(start * 1_000_000, end * 1_000_000)) for n, (start, end) in enumerate(took)]
    lost = send(9, None, "unknown", at=(0, 300 * 1_000_000))
    found = series(columns_of([*sends, lost]), 0, 3 * second, 1.0)
    assert found.at_s.tolist() == [0.5, 1.5, 2.5]
    assert found.per_s.tolist() == [3, 1, 0]
    assert found.p50_ms.tolist()[:2] == [20, 4]
    assert found.max_ms.tolist()[:2] == [30, 4]
    assert np.isnan(found.p99_ms[2])
