"""Latencies: the summary equals the added values to three digits, however the values were added."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram

from cluster.bench import latencies
from cluster.bench.latencies import PERCENTILES, Latencies
from cluster.load.failure import LoadError

MS = 1_000_000


def test_nothing_has_no_summary() -> None:
    assert Latencies().summary() is None


def test_percentiles_are_those_of_the_values() -> None:
    ns = np.random.default_rng(1).lognormal(14, 1.5, 50_000).astype(np.int64)
    gathered = Latencies()
    for each in ns[:1000].tolist():
        gathered.add(each)
    gathered.add_all(ns[1000:])
    found = gathered.summary()
    assert found is not None
    assert found.count == len(ns)
    assert found.average_ms == pytest.approx(ns.mean() / MS)
    assert found.max_ms == ns.max() / MS
    exact = np.percentile(ns, PERCENTILES, method="inverted_cdf") / MS
    assert found.percentiles_ms == pytest.approx(exact.tolist(), rel=1e-2)


def test_a_call_counts_for_each_of_its_messages() -> None:
    gathered = Latencies()
    gathered.add(1 * MS, 98)
    gathered.add(100 * MS, 2)
    found = gathered.summary()
    assert found is not None
    assert found.count == 100
    assert found.average_ms == pytest.approx((98 + 200) / 100)
    assert found.p50_ms == pytest.approx(1, rel=2e-3)
    assert found.p99_ms == pytest.approx(100, rel=2e-3)


def test_what_other_processes_gathered_adds_up() -> None:
    one, other, all_of_it = Latencies(), Latencies(), Latencies()
    for number in range(1, 2001):
        (one if number % 3 else other).add(number * 10_000)
        all_of_it.add(number * 10_000)
    merged = Latencies()
    for each in (one, other):
        merged.merge(pickle.loads(pickle.dumps(each)))
    assert merged.summary() == all_of_it.summary()


def test_what_was_gathered_is_counted_often() -> None:
    """Counting some millions of latencies at once would be a pause of the load."""
    gathered = Latencies()
    for number in range(1, 40_001):
        gathered.add(number * MS)
        assert len(gathered._ns) < 20_000
    found = gathered.summary()
    assert found is not None
    assert found.count == 40_000
    assert found.max_ms == 40_000


def test_values_are_told_apart_as_hdrhistogram_does() -> None:
    hour_us = 3_600_000_000
    edges = [us for bits in range(1, 32) for us in ((1 << bits) - 1, 1 << bits, (1 << bits) + 1) if us <= hour_us]
    histogram = HdrHistogram(1, hour_us, 3)
    for us in (*edges, hour_us - 1, hour_us):
        told = latencies._value_of(latencies._cell_of(np.array([us * 1000])))
        assert told.tolist() == [histogram.get_lowest_equivalent_value(us)]


def test_what_is_out_of_range_counts_as_the_nearest() -> None:
    gathered = Latencies()
    for ns in (-5, 0, 999, 1 << 62):
        gathered.add(ns)
    found = gathered.summary()
    assert found is not None
    assert found.count == 4
    assert found.percentiles_ms[0] == pytest.approx(0.001)
    assert found.percentiles_ms[-1] == pytest.approx(3_600_000, rel=2e-3)


def test_without_hdrhistogram_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdrh.histogram", None)
    with pytest.raises(LoadError, match=r"pip install 'ledgermq\[bench\]'"):
        Latencies()
