"""The drawing of a replica's log: two bars that show how far the log is written, flushed, committed and applied.

    whole log                         its end, enlarged
    |▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓|         |███████████▓▓▓▓▓▒▒▒▒░░░   |
    start                 end          applied  committed flushed written

The replicas of a shard have the same scales, so that bars below each other can be compared. The log is long and its
end moves by little, so the second bar shows only the last bytes: from before the place that the slowest replica has
applied to the end of the longest log.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.console.picture import SeenShard
from ledger.client.records import ShardStatus

WIDTH = 1000.0
# The least number of bytes that the enlarged bar shows.
LEAST_WINDOW_BYTES = 64 << 10
# The part of the enlarged bar that lies before the slowest replica.
_MARGIN = 0.2
# From the first that is drawn to the last, which covers the others. Each part ends at its position.
PARTS = ("written", "flushed", "committed", "applied")


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar: what it shows, and its place from 0 to `WIDTH`."""

    name: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class LogBars:
    """The two bars of one replica."""

    whole: tuple[BarPart, ...]
    end: tuple[BarPart, ...]
    # The first byte of the enlarged bar, and how many bytes it shows.
    window_start: int
    window_bytes: int


def bars_of(shard: SeenShard) -> dict[int, LogBars]:
    """Return the bars of the shard's replicas by node."""
    statuses = [replica.status for replica in shard.replicas]
    slowest = min((_least(status) for status in statuses), default=0)
    reach = max(LEAST_WINDOW_BYTES, round((shard.end - slowest) * (1 + _MARGIN)))
    window_start = max(0, shard.end - reach)
    whole = max(1, shard.end - shard.start)
    return {
        replica.node: LogBars(
            _parts(replica.status, shard.start, whole),
            _parts(replica.status, window_start, max(1, shard.end - window_start)),
            window_start,
            shard.end - window_start,
        )
        for replica in shard.replicas
    }


def _least(status: ShardStatus) -> int:
    return min(status.applied_position, status.commit_position, status.end_position)


def _parts(status: ShardStatus, first: int, span: int) -> tuple[BarPart, ...]:
    ends = {
        "written": status.end_position,
        "flushed": min(status.flushed_position, status.end_position),
        "committed": min(status.commit_position, status.end_position),
        "applied": min(status.applied_position, status.end_position),
    }
    start = _place(status.start_position, first, span)
    return tuple(BarPart(name, start, round(max(0.0, _place(ends[name], first, span) - start), 1)) for name in PARTS)


def _place(position: int, first: int, span: int) -> float:
    return round(min(1.0, max(0.0, (position - first) / span)) * WIDTH, 1)
