"""Measures the pauses: the times in which no write was acknowledged, and says which fault each pause belongs to.

Users notice a pause when a leader fails. The pause lasts longer than the election of the new leader. The module is
pure: it does no I/O.

    acknowledgements   | | | | |                                | | | | | |
    faults                      A ───────      B ────
    pause                     [────────────────────────────────]      belongs to A: A struck when the pause began

Every pause belongs to one fault, or to none. A pause belongs to the fault that had struck last when the pause began.
The last acknowledgement before a fault is a little older than the fault itself, so a fault that strikes soon after the
beginning of a pause (within the usual time between two acknowledgements) counts as the fault that struck.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaos.live.checker.cells import OK, Numbers
from chaos.live.checker.columns import HistoryColumns

# A pause that begins within this time after the end of a fault still belongs to the fault.
AFTERMATH_NS = 5_000_000_000
# The usual time between two acknowledgements: this share of these times is not longer.
_USUAL_SHARE = 0.99
_LEAST_USUAL_NS = 50_000_000
_MOST_USUAL_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class WritePause:
    """A pause lasts from one acknowledgement to the next. The times of a pause are in ns of the histories' clock."""

    start: int
    end: int

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9


def acknowledged_at(columns: HistoryColumns) -> Numbers:
    """Return the times of all acknowledgements in increasing order."""
    sends = columns.sends
    return np.unique(sends.end[sends.outcome == OK])


def longest_pause(times: Numbers, began: int, ended: int) -> WritePause:
    """Return the longest pause of a load that lasted from `began` to `ended`. If nothing was acknowledged, the pause
    is the whole load.
    """
    edges = _edges(times, began, ended)
    at = int(np.diff(edges).argmax())
    return WritePause(int(edges[at]), int(edges[at + 1]))


def pauses_of_faults(
    times: Numbers, faults: Sequence[tuple[int, int]], began: int, ended: int
) -> list[WritePause | None]:
    """Return, for each fault, the longest pause that belongs to the fault.

    `faults` has the start and the end of each fault in the order of their starts. The result has None for a fault that
    struck and ended during the pause of an earlier fault.
    """
    edges = _edges(times, began, ended)
    lengths = np.diff(edges)
    owners = _owners(edges, faults)
    longest: list[WritePause | None] = []
    for number in range(len(faults)):
        own = np.flatnonzero(owners == number)
        at = int(own[lengths[own].argmax()]) if len(own) else None
        longest.append(None if at is None else WritePause(int(edges[at]), int(edges[at + 1])))
    return longest


def _edges(times: Numbers, began: int, ended: int) -> Numbers:
    """Return the beginning of the load, the acknowledgements after it, and the end of the load. A message that was
    acknowledged after the end of the load was sent before, so the last pause lasts up to it.
    """
    inside = times[times > began]
    last = [ended] if not len(inside) or inside[-1] < ended else []
    return np.concatenate(([began], inside, last)).astype(np.int64)


def _owners(edges: Numbers, faults: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Return, for each pause between two edges, the number of its fault; -1 if the pause belongs to no fault."""
    starts = np.array([start for start, _ in faults], np.int64)
    ends = np.array([end for _, end in faults], np.int64)
    if not len(starts):
        return np.full(len(edges) - 1, -1, np.int64)
    usual = _usual(np.diff(edges))
    begins, finishes = edges[:-1], edges[1:]
    # The last fault that struck before the pause began, or soon after it, but before the pause was over.
    owners = np.searchsorted(starts, np.minimum(begins + usual, finishes - 1), side="right") - 1
    over = begins > np.where(owners >= 0, ends[owners] + AFTERMATH_NS, 0)
    # Such a fault is over: the first fault that strikes during the pause may have prolonged it.
    following = owners + 1
    strikes = (following < len(starts)) & (starts[np.minimum(following, len(starts) - 1)] < finishes)
    unowned = (owners < 0) | over
    owners[unowned & strikes] = following[unowned & strikes]
    owners[unowned & ~strikes] = -1
    return owners


def _usual(lengths: Numbers) -> int:
    return int(np.clip(np.quantile(lengths, _USUAL_SHARE), _LEAST_USUAL_NS, _MOST_USUAL_NS))
