"""How long nobody could write: gaps between acknowledgements, around each fault.

What a user feels of a failover is the longest time in which no write was acknowledged; so that is measured, and not
how fast somebody was elected. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.live.checker.columns import OK, Columns, Numbers

# What comes so soon after a fault was healed belongs to it.
AFTERMATH_NS = 5_000_000_000


@dataclass(frozen=True, slots=True)
class Gap:
    """From one acknowledgement to the next, in ns of the histories' clock."""

    start: int
    end: int

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9


def acknowledged_at(columns: Columns) -> Numbers:
    """The instants of all acknowledgements, rising."""
    sends = columns.sends
    return np.unique(sends.end[sends.outcome == OK])


def longest_gap(times: Numbers, start: int, end: int) -> Gap:
    """Of those that touch [start, end]. Where nothing is acknowledged any more, it lasts to the end."""
    first = int(np.searchsorted(times, start, side="right")) - 1
    last = int(np.searchsorted(times, end, side="left"))
    begin = start if first < 0 else int(times[first])
    inside = [begin, *times[max(first + 1, 0) : last].tolist()]
    inside.append(int(times[last]) if last < len(times) else end)
    lengths = np.diff(inside)
    at = int(lengths.argmax())
    return Gap(int(inside[at]), int(inside[at + 1]))
