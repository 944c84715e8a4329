"""Computes throughput and latency over time: it cuts the columns of a history into equal steps. The module is pure:
it does no I/O."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaos.live.checker.cells import OK
from chaos.live.checker.columns import HistoryColumns

Figures = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LoadSeries:
    """Each column has one value for each time step. `at_s` is the middle of the step, in seconds since the load began.
    Latencies are in ms; a latency is NaN if no message was acknowledged in the step. A message counts in the step in
    which it was acknowledged.
    """

    at_s: Figures
    per_s: Figures
    p50_ms: Figures
    p99_ms: Figures
    max_ms: Figures


def series(columns: HistoryColumns, began: int, ended: int, step_s: float) -> LoadSeries:
    """Return the series of the messages that were acknowledged between two times, in ns of the histories' clock."""
    sends = columns.sends
    rows = (sends.outcome == OK) & (sends.end >= began) & (sends.end < ended)
    steps = max(1, int(np.ceil((ended - began) / 1e9 / step_s)))
    step = ((sends.end[rows] - began) / 1e9 / step_s).astype(np.int64)
    latency_ms = (sends.end[rows] - sends.start[rows]) / 1e6
    order = np.lexsort((latency_ms, step))
    step, latency_ms = step[order], latency_ms[order]
    edges = np.searchsorted(step, np.arange(steps + 1))
    counts = np.diff(edges)
    return LoadSeries(
        at_s=np.asarray((np.arange(steps) + 0.5) * step_s, np.float64),
        per_s=counts / step_s,
        p50_ms=_quantile(latency_ms, edges, 0.5),
        p99_ms=_quantile(latency_ms, edges, 0.99),
        max_ms=_quantile(latency_ms, edges, 1.0),
    )


def _quantile(sorted_ms: Figures, edges: NDArray[np.int64], share: float) -> Figures:
    """Return, for each step, the latency that this share of its messages does not exceed."""
    counts = np.diff(edges)
    at = edges[:-1] + np.maximum(np.ceil(counts * share).astype(np.int64) - 1, 0)
    values = np.full(len(counts), np.nan)
    values[counts > 0] = sorted_ms[at[counts > 0]]
    return values
