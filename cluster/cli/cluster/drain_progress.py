"""Says how far the drain of a node is, and how long it still takes."""

from __future__ import annotations

import time
from collections.abc import Callable

from cluster.replica_moves import bytes_left
from ledger.client.placement_records import Placement

# The estimate begins when the drain was watched for this time.
_MEASURED_S = 2.0


class DrainProgress:
    """Turns looks at the placement into sentences. The rate is measured since the first look."""

    def __init__(self, node: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._node = node
        self._now_s = now_s
        self._began: tuple[float, int] | None = None

    def __call__(self, placement: Placement) -> str:
        """Return a sentence about the replicas that the node still has, the bytes that are still to be copied, and the
        time left."""
        shards = placement.shards_on(self._node)
        moves = [move for move in placement.moves if move.source == self._node]
        left = bytes_left(placement, self._node)
        waiting = next((f" It waits: {move.trouble}." for move in moves if move.trouble), "")
        obstacle = "".join(f" {each}." for each in placement.obstacles[:1])
        return (
            f"Node {self._node} still has replicas of {len(shards)} shards; {len(moves)} of them move now, and "
            f"{left / 1e6:,.1f} MB are to be copied{self._time_left(left)}.{waiting}{obstacle}"
        )

    def _time_left(self, left: int) -> str:
        now_s = self._now_s()
        if self._began is None:
            self._began = now_s, left
        began_s, at_first = self._began
        passed_s, copied = now_s - began_s, at_first - left
        if passed_s < _MEASURED_S or copied <= 0 or not left:
            return ""
        return f", which takes about {_spoken(left * passed_s / copied)} more"


def _spoken(seconds: float) -> str:
    """Return a time in words, such as "40 s" or "12 min"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"
