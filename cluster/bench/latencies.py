"""Latencies, gathered cheaply and summed up as an HdrHistogram: 1 µs to an hour, to three digits.

The one idea: while load runs, a latency is two numbers appended to arrays; into the histogram, whose every call costs
microseconds, it goes later, together with all that are equal to three digits. Latencies are counted from when a message
was *due*, so a pause of the load's own does not hide what it kept waiting (coordinated omission).

It must not know what took so long.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster.bench.failure import BenchError

PERCENTILES = (50.0, 95.0, 99.0, 99.9)
_HIGHEST_US = 3_600_000_000
_DIGITS = 3
_DIGIT_BITS = 11
"""As many leading bits as HdrHistogram keeps for three digits."""
_GATHERED = 1 << 22


@dataclass(frozen=True, slots=True)
class Summary:
    """In ms. `percentiles` are those of PERCENTILES, in their order."""

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
    """Memory is bounded: beyond some millions, what was gathered goes into the histogram at once."""

    def __init__(self) -> None:
        """Raises BenchError where hdrhistogram is not installed."""
        self._histogram = _histogram_class()(1, _HIGHEST_US, _DIGITS)
        self._ns, self._counts = array("q"), array("q")
        self._total_ns = self._most_ns = self._count = 0

    def add(self, ns: int, count: int = 1) -> None:
        """So many messages took `ns`."""
        self._ns.append(ns)
        self._counts.append(count)
        if len(self._ns) >= _GATHERED:
            self._settle()

    def add_all(self, ns: NDArray[np.int64]) -> None:
        """One message each."""
        self._ns.frombytes(np.ascontiguousarray(ns, np.int64).tobytes())
        self._counts.frombytes(np.ones(len(ns), np.int64).tobytes())
        if len(self._ns) >= _GATHERED:
            self._settle()

    def merge(self, other: Latencies) -> None:
        """Those of another process, or of another round."""
        other._settle()
        self._settle()
        self._histogram.add(other._histogram)
        self._total_ns += other._total_ns
        self._most_ns = max(self._most_ns, other._most_ns)
        self._count += other._count

    def summary(self) -> Summary | None:
        """None where nothing was added."""
        self._settle()
        if not self._count:
            return None
        most_ms = self._most_ns / 1e6
        cut = (self._histogram.get_value_at_percentile(each) / 1000 for each in PERCENTILES)
        percentiles = tuple(min(each, most_ms) for each in cut)
        return Summary(self._count, self._total_ns / self._count / 1e6, most_ms, percentiles)

    def __getstate__(self) -> tuple[bytes, int, int, int]:
        """For the way between processes."""
        self._settle()
        return self._histogram.encode(), self._total_ns, self._most_ns, self._count

    def __setstate__(self, state: tuple[bytes, int, int, int]) -> None:
        encoded, self._total_ns, self._most_ns, self._count = state
        self._histogram = _histogram_class().decode(encoded)
        self._ns, self._counts = array("q"), array("q")

    def _settle(self) -> None:
        if not self._ns:
            return
        ns, counts = np.array(self._ns, np.int64), np.array(self._counts, np.int64)
        self._ns, self._counts = array("q"), array("q")
        self._total_ns += int(ns @ counts)
        self._most_ns = max(self._most_ns, int(ns.max()))
        self._count += int(counts.sum())
        values, place = np.unique(_to_three_digits(ns), return_inverse=True)
        sums = np.zeros(len(values), np.int64)
        np.add.at(sums, place, counts)
        for value, count in zip(values.tolist(), sums.tolist(), strict=True):
            self._histogram.record_value(value, count)


def _to_three_digits(ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """As µs that HdrHistogram does not tell apart from the full value."""
    us = np.clip(ns // 1000, 1, _HIGHEST_US)
    _, bits = np.frexp(us)
    dropped = np.maximum(bits.astype(np.int64) - _DIGIT_BITS, 0)
    shortened: NDArray[np.int64] = (us >> dropped) << dropped
    return shortened


def _histogram_class() -> Any:
    try:
        return import_module("hdrh.histogram").HdrHistogram
    except ModuleNotFoundError as error:
        raise BenchError("hdrhistogram is not installed: pip install 'ledgermq[bench]'") from error
