"""Says by how much the clocks of the nodes may have been wrong in a run. The module is pure: it does no I/O.

A message is due when the clocks of a majority of the nodes have passed its delivery time. While fewer clocks are wrong,
no message may be early. While a majority may be wrong, messages may be early by any time:

    clock of node 1 wrong     ├──────────┤ fault, and the time until the node has read its right clock
    clock of node 2 wrong             ├──────────┤
    no delivery is judged             ├──┤

A leader dates an entry by its own clock, and never more than 5 s from the clocks of a majority. So in a run with wrong
clocks, a delivery may be dated 5 s before its delivery time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

# The largest error of a delivery's time, in ms, if all clocks are right: clocks are read in ms.
RIGHT_MS = 20
# What a leader with a wrong clock may date an entry wrong.
_WRONG_DATE_MS = 5_000
# A node may use its wrong clock so long after the fault has ended.
_AFTERMATH_NS = 2_500_000_000


@dataclass(frozen=True, slots=True)
class ClockFaultSpan:
    """A time in which the clocks of these nodes were wrong, in ns of the histories' clock."""

    nodes: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ClockDoubt:
    """`date_error_ms` is by how much the date of an entry may be too early. `windows` has the times in which the clocks
    of a majority may have been wrong, in ns of the histories' clock, in order and apart from each other."""

    date_error_ms: int = RIGHT_MS
    windows: tuple[tuple[int, int], ...] = ()


def clock_doubt(wrong: Iterable[ClockFaultSpan], nodes: int) -> ClockDoubt:
    """Return what may be wrong in a run with this number of nodes."""
    edges: list[tuple[int, int, tuple[int, ...]]] = []
    for one in wrong:
        edges += [(one.start, 1, one.nodes), (one.end + _AFTERMATH_NS, -1, one.nodes)]
    wrong_now, windows, begin = Counter[int](), list[tuple[int, int]](), None
    for at, step, of in sorted(edges):
        wrong_now.update(dict.fromkeys(of, step))
        is_majority = 2 * sum(count > 0 for count in wrong_now.values()) > nodes
        if is_majority and begin is None:
            begin = at
        elif not is_majority and begin is not None:
            windows.append((begin, at))
            begin = None
    return ClockDoubt(RIGHT_MS + (_WRONG_DATE_MS if edges else 0), tuple(windows))
