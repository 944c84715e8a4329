"""The state of an open log in memory: the entries that the log holds, its tail, and the largest commit index that its
entries mention.

`CommitLog` and `LogReading` share one `LogState` object. Only `CommitLog` changes this object, in the log's thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from store.log.entry import Header
from store.log.positions import Positions
from store.log.tail import LogTail


class LogState:
    __slots__ = ("known_commit", "positions", "start_tail", "tail")

    def __init__(self, start_tail: LogTail, tail: LogTail, positions: Positions, known_commit: int) -> None:
        # The last entry before the first entry of the log; EMPTY if the log begins at entry 1.
        self.start_tail = start_tail
        # The last entry; start_tail.index <= tail.index == positions.last_index. Other threads may read it at any time.
        self.tail = tail
        self.positions = positions
        # The largest commit index that any entry mentioned: it is committed, but later entries may be, too.
        self.known_commit = known_commit

    def add(self, headers: Sequence[Header]) -> None:
        """Add entries after the last entry. At least one entry must be given."""
        self.positions.add(headers)
        self.tail = LogTail.of(headers[-1])
        self.known_commit = max(self.known_commit, *(header.commit for header in headers))

    def drop_before(self, start_tail: LogTail) -> None:
        """Drop all entries up to the entry that `start_tail` describes, so that the log begins after this entry."""
        self.positions.drop_before(start_tail)
        self.start_tail = start_tail
        self.known_commit = max(self.known_commit, start_tail.index)

    def reset(self, start_tail: LogTail) -> None:
        """Drop all entries. The next entry follows `start_tail`."""
        self.start_tail = self.tail = start_tail
        self.positions = Positions(start_tail)
        self.known_commit = start_tail.index
