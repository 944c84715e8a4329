"""The tail: index, term, end, chain and append time of a log's last entry. All five values are needed to check the
next entry.

Recovery and followers use the same few comparisons to decide whether an entry follows the tail. A tail is immutable, so
another thread may read the log's current tail at any time.
"""

from __future__ import annotations

from dataclasses import dataclass

from store.log.entry import EntryFlawError, Header, chained
from store.log.grid import Grid


@dataclass(frozen=True, slots=True)
class LogTail:
    index: int
    term: int
    end: int
    chain: int
    append_time_ms: int

    @staticmethod
    def of(header: Header) -> LogTail:
        return LogTail(header.index, header.term, header.end, header.chain, header.append_time_ms)

    def check_place(self, header: Header, position: int, grid: Grid) -> None:
        """Raise `EntryFlawError` unless an entry with this header, at `position`, may follow this tail.
        `check_place` does not check the chain; `leads_to` does."""
        if header.position != position:
            raise EntryFlawError(f"the entry says that it stands at position {header.position}")
        if header.index != self.index + 1:
            raise EntryFlawError(f"index {header.index} follows index {self.index}")
        if not grid.fits(header.size):
            raise EntryFlawError(f"an entry of {header.size} bytes does not fit in a segment")
        if position != (expected := grid.place(self.end, header.size)):
            raise EntryFlawError(f"entry {header.index} belongs at position {expected}")
        if header.term < self.term:
            raise EntryFlawError(f"term {header.term} follows the higher term {self.term}")
        if header.append_time_ms < self.append_time_ms:
            raise EntryFlawError(f"append time {header.append_time_ms} follows the later {self.append_time_ms}")
        if header.commit > self.index:
            raise EntryFlawError(f"entry {header.index} claims that {header.commit} was committed before it")

    def leads_to(self, header: Header) -> bool:
        """Return whether the entry's chain continues the chain of this tail."""
        return chained(self.chain, header.crc) == header.chain


EMPTY = LogTail(index=0, term=0, end=0, chain=0, append_time_ms=0)
