"""Measures, around each fault, the longest time in which no write was acknowledged.

Users notice the time without acknowledged writes when a leader fails. The interruption lasts longer than the election
of the new leader. The module is pure: it does no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.live.checker.columns import OK, HistoryColumns, Numbers

# A gap that begins within this time after the end of a fault still belongs to the fault.
AFTERMATH_NS = 5_000_000_000


@dataclass(frozen=True, slots=True)
class WriteGap:
    """A write gap lasts from one acknowledgement to the next. The times of a write gap are in ns of the histories'
    clock."""

    start: int
    end: int

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9


def acknowledged_at(columns: HistoryColumns) -> Numbers:
    """Return the times of all acknowledgements in increasing order."""
    sends = columns.sends
    return np.unique(sends.end[sends.outcome == OK])


def longest_gap(times: Numbers, start: int, end: int) -> WriteGap:
    """Return the longest time without an acknowledgement that overlaps [start, end]. If nothing is acknowledged after
    `start`, the gap lasts to `end`.
    """
    first = int(np.searchsorted(times, start, side="right")) - 1
    last = int(np.searchsorted(times, end, side="left"))
    begin = start if first < 0 else int(times[first])
    inside = [begin, *times[max(first + 1, 0) : last].tolist()]
    inside.append(int(times[last]) if last < len(times) else end)
    lengths = np.diff(inside)
    at = int(lengths.argmax())
    return WriteGap(int(inside[at]), int(inside[at + 1]))
