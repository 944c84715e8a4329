"""Which offsets of a queue of the target have which offsets of the source. No I/O.

Both offsets rise together. A piece of the map says: from an offset of the source on, the offsets of the target are
larger or smaller by one number, until the next piece. There is one piece for each gap in the source, and for each place
at which another producer wrote to the target.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

MOST_PIECES = 1_000


class MapPiece(NamedTuple):
    """The messages of the source from `source` to before `source_end` have the offsets of the target from `target`
    on."""

    source: int
    source_end: int
    target: int


class OffsetMap:
    """The offsets of the messages that this process has copied or seen, in order. Old pieces are dropped."""

    def __init__(self) -> None:
        self._pieces: list[MapPiece] = []

    @property
    def last(self) -> MapPiece | None:
        return self._pieces[-1] if self._pieces else None

    def add(self, source: int, count: int, target: int) -> None:
        """Add messages behind those that the map has. Messages that it has already are ignored."""
        last = self.last
        if last is not None and source < last.source_end:
            return
        if last is not None and source == last.source_end and target == last.target + last.source_end - last.source:
            self._pieces[-1] = last._replace(source_end=source + count)
            return
        self._pieces.append(MapPiece(source, source + count, target))
        del self._pieces[:-MOST_PIECES]

    def target_of(self, source: int) -> int | None:
        """Return the offset at the target at which a reader continues who has all messages of the source before
        `source`. Return None if the map begins later, or ends before."""
        place = bisect_right(self._pieces, source, key=lambda piece: piece.source) - 1
        if place < 0:
            return None
        piece = self._pieces[place]
        if source <= piece.source_end:
            return piece.target + source - piece.source
        # The source had no such message any more: the reader continues at the next one that was copied.
        return self._pieces[place + 1].target if place + 1 < len(self._pieces) else None
