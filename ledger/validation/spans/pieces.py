"""Defines the pieces of a span: runs of whole entries, and the gaps between the runs. In the order of positions, a
span consists of runs of whole entries and of the gaps between the runs.

    | entry 5 | entry 6 | entry 7 | ######## | entry 9 | entry 10 |   blank   |
      run: first 5, last 7          gap        run: first 9, last 10  gap: blank

The reader of a run has already checked the entries inside the run. After the checks inside each run, two checks
remain: each piece must continue the piece before it, and the first piece must continue the previous span.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ledger.validation.judging.violation import ViolationKind
from ledger.validation.naming import Sentence
from store import Header, LogTail
from store.log import entry
from store.log.entry import EntryFlawError
from store.log.grid import Grid


class GapKind(StrEnum):
    DAMAGE = "damage"
    # Entries of a version that this program does not know.
    UNKNOWN = "unknown"
    # The gap begins with a blank word (8 zero bytes).
    BLANK = "blank"


@dataclass(frozen=True, slots=True)
class EntryRun:
    """Whole entries without a gap between them."""

    first: Header
    last: Header
    # The largest commit index that any entry of the run mentions.
    commit: int
    # The correct chain of the last entry, if the entry says another chain; otherwise None.
    due_chain: int | None
    # The second entry, if its chain does not continue the chain in the first entry; otherwise None.
    second: Header | None = None


@dataclass(frozen=True, slots=True)
class EntryGap:
    """A range of bytes that contains no whole entry. A gap ends where the next run begins, or where the span ends."""

    kind: GapKind
    position: int
    reason: str
    # In a BLANK gap: the position of the first later byte of this span that is not zero; None if all are zero.
    junk: int | None = None


Piece = EntryRun | EntryGap


@dataclass(frozen=True, slots=True)
class Break:
    """An entry whose index, term, position or chain does not continue the entry before it."""

    kind: ViolationKind
    reason: Sentence
    position: int
    index: int
    end: int
    last_index: int


def break_between(tail: LogTail, header: Header, grid: Grid, due_chain: int | None) -> tuple[Break | None, int | None]:
    """Check that the entry with this `header` correctly continues the entry that `tail` describes. Return the fault or
    None, and the chain value that the entry must have or None.

    The second value is the correct chain of the entry if the entry states another chain. `due_chain` is the second
    value that this function returned for the previous entry."""
    if header.index > tail.index + 1:
        first, last = tail.index + 1, header.index - 1
        reason = f"entries {first} to {last} are missing: entry {header.index} comes next"
        return Break(ViolationKind.MISSING_ENTRIES, reason, tail.end, first, header.position, last), None
    try:
        tail.check_place(header, header.position, grid)
    except EntryFlawError as error:
        kind = ViolationKind.OUT_OF_PLACE
        if header.index == tail.index + 1 and header.term < tail.term:
            kind = ViolationKind.TERM_FALLS
        return Break(kind, str(error), header.position, header.index, header.end, header.index), None
    due = entry.chained(tail.chain, header.crc)
    if header.chain == due or (due_chain is not None and header.chain == entry.chained(due_chain, header.crc)):
        return None, None
    reason = f"the chain of entry {header.index} does not continue the chain of the entry before it"
    return Break(ViolationKind.CHAIN_BROKEN, reason, header.position, header.index, header.end, header.index), due
