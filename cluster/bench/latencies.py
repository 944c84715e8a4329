"""Collects latencies at low cost and summarizes them with HdrHistogram: from 1 µs to one hour, with three significant
digits.

During the load, adding a latency only appends two numbers to arrays, and numpy counts some thousands of latencies at a
time. HdrHistogram receives the counts at the end of the load, because each of its calls costs microseconds. A latency
begins when the message was *due*. A pause of the load therefore does not hide the latency of messages that had to wait
(coordinated omission).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster.load.failure import LoadError

PERCENTILES = (50.0, 95.0, 99.0, 99.9)
_HIGHEST_US = 3_600_000_000
_DIGITS = 3
# The number of leading bits that HdrHistogram keeps for three digits.
_DIGIT_BITS = 11
_LONGEST_BITS = _HIGHEST_US.bit_length()
# So few latencies that counting them takes half a millisecond, which is no pause.
_GATHERED = 1 << 14


@dataclass(frozen=True, slots=True)
class Summary:
    """The percentiles of a set of latencies, in ms. `percentiles_ms` has the latency at each percentile of
    PERCENTILES, in the same order."""

    count: int
    average_ms: float
    max_ms: float
    percentiles_ms: tuple[float, ...]

    @property
    def p50_ms(self) -> float:
        return self.percentiles_ms[0]

    @property
    def p99_ms(self) -> float:
        return self.percentiles_ms[2]


class Latencies:
    """Collects latencies in bounded memory. The object can be sent to another process."""

    def __init__(self) -> None:
        """Raises LoadError if hdrhistogram is not installed."""
        _histogram_class()
        self._tally = np.zeros((_LONGEST_BITS - _DIGIT_BITS + 1) << _DIGIT_BITS, np.int64)
        self._ns, self._counts = array("q"), array("q")
        self._total_ns = self._most_ns = self._count = 0

    def add(self, ns: int, count: int = 1) -> None:
        """Add the same latency for `count` messages, in ns."""
        self._ns.append(ns)
        self._counts.append(count)
        if len(self._ns) >= _GATHERED:
            self._settle()

    def add_all(self, ns: NDArray[np.int64]) -> None:
        """Add the latencies of several messages, in ns."""
        self._ns.frombytes(np.ascontiguousarray(ns, np.int64).tobytes())
        self._counts.frombytes(np.ones(len(ns), np.int64).tobytes())
        if len(self._ns) >= _GATHERED:
            self._settle()

    def merge(self, other: Latencies) -> None:
        """Add the latencies that another process or another round collected."""
        other._settle()
        self._settle()
        self._tally += other._tally
        self._total_ns += other._total_ns
        self._most_ns = max(self._most_ns, other._most_ns)
        self._count += other._count

    def summary(self) -> Summary | None:
        """Return the summary; return None if no latency was added."""
        self._settle()
        if not self._count:
            return None
        histogram, most_ms = self._histogram(), self._most_ns / 1e6
        cut = (histogram.get_value_at_percentile(each) / 1000 for each in PERCENTILES)
        percentiles = tuple(min(each, most_ms) for each in cut)
        return Summary(self._count, self._total_ns / self._count / 1e6, most_ms, percentiles)

    def _histogram(self) -> Any:
        histogram = _histogram_class()(1, _HIGHEST_US, _DIGITS)
        cells = np.flatnonzero(self._tally)
        for value, count in zip(_value_of(cells).tolist(), self._tally[cells].tolist(), strict=True):
            histogram.record_value(value, count)
        return histogram

    def _settle(self) -> None:
        if not self._ns:
            return
        ns, counts = np.array(self._ns, np.int64), np.array(self._counts, np.int64)
        self._ns, self._counts = array("q"), array("q")
        self._total_ns += int(ns @ counts)
        self._most_ns = max(self._most_ns, int(ns.max()))
        self._count += int(counts.sum())
        np.add.at(self._tally, _cell_of(ns), counts)


def _cell_of(ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each latency, the index of the counter in `_tally` that counts this latency. Latencies that
    HdrHistogram does not distinguish have the same counter. The index of a counter is the number of dropped low bits
    of the latency in µs, followed by the leading bits.
    """
    us = np.clip(ns // 1000, 1, _HIGHEST_US)
    _, bits = np.frexp(us)
    dropped = np.maximum(bits.astype(np.int64) - _DIGIT_BITS, 0)
    return (dropped << _DIGIT_BITS) + (us >> dropped)


def _value_of(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each of these indexes of counters, the latency in µs that the counter counts."""
    leading, dropped = cells & ((1 << _DIGIT_BITS) - 1), cells >> _DIGIT_BITS
    return leading << dropped


def _histogram_class() -> Any:
    try:
        return import_module("hdrh.histogram").HdrHistogram
    except ModuleNotFoundError as error:
        raise LoadError("hdrhistogram is not installed: pip install 'ledgermq[bench]'") from error
