"""What a span holds, in the order of positions: runs of whole entries, and the gaps between them.

    | entry 5 | entry 6 | entry 7 | ######## | entry 9 | entry 10 |   blank   |
      run: first 5, last 7          gap        run: first 9, last 10  gap: blank

Within a run everything was judged by whoever read it; so of a whole span no more is left to be judged than how its
pieces follow each other, and how the first one follows the span before.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ledger.validation.judging.violation import ViolationKind
from store import Header, LogTail
from store.log import entry
from store.log.entry import EntryFlawError
from store.log.grid import Grid


class GapKind(StrEnum):
    DAMAGE = "damage"
    # Of a version that this program does not know.
    UNKNOWN = "unknown"
    # It begins with a blank word.
    BLANK = "blank"


@dataclass(frozen=True, slots=True)
class EntryRun:
    """Entries without anything between them."""

    first: Header
    last: Header
    # The largest that any of them mentions.
    commit: int
    # The chain that the last one ought to have, where it says another one.
    due_chain: int | None
    # The entry behind the first one, where its chain does not continue the chain that the first one says.
    second: Header | None = None


@dataclass(frozen=True, slots=True)
class EntryGap:
    """It goes on to the next run, or to the end."""

    kind: GapKind
    position: int
    reason: str
    # Of a blank: the first byte behind it, in this span, that is not zero; None where all are.
    junk: int | None = None


Piece = EntryRun | EntryGap


@dataclass(frozen=True, slots=True)
class Break:
    """An entry that does not follow the one before it."""

    kind: ViolationKind
    reason: str
    position: int
    index: int
    end: int
    last_index: int


def break_between(tail: LogTail, header: Header, grid: Grid, due_chain: int | None) -> tuple[Break | None, int | None]:
    """What is wrong where the entry `header` comes right behind `tail`; and the chain that it ought to have, where it
    says another one. `due_chain`: the same of the entry before."""
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
    reason = f"the chain of entry {header.index} does not continue the one before it"
    return Break(ViolationKind.CHAIN_BROKEN, reason, header.position, header.index, header.end, header.index), due
