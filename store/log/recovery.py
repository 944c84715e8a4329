"""Recovery: reading a whole CommitLog at start, and telling a torn end from damage.

A group of entries becomes visible with its very first word, which is written last. So after a process kill
the log ends at a zero word, whatever lies behind it. A word that is not zero begins an entry that was written whole:
anything wrong with it is damage, also at the very end, and is reported, never cut.

    segment 0                               segment 1
    | entry | entry | entry | blank         | entry | 0 (torn write, or nothing) ...
                              ^ too small for what follows      ^ the log ends here

A zero word ends the segment's entries. The log goes on in the next one if that begins with an entry that did not fit.

After a power loss (`after_crash`) any sector that was not flushed may be missing, or be there as it was at any moment
since the last flush. So the first entry that is blank, torn, or does not follow ends the log; what lies behind it was
never flushed, or is not to be told from that, and is cut. Refused as ever are flaws that no power loss makes:

- before `Segments.flushed_below`, where everything had been flushed;
- an entry of a version, kind or flags that this program does not know: another one wrote it, and may read it. Where its
  CRC is right, it surely was so, and such a log is not for this program to repair (`log_repair`), as others are;
- a missing name between two segments, or a wrong length but for a blank last one.

What an entry says of commit is no evidence: a majority without this node may have held those entries. So the cut may
take what this node has acknowledged in `async` mode, and `before_cut` tells its caller before anything is changed. The
end of the log becomes blank durably before the rest is erased, and all of it before the log is used: a further power
loss in the middle finds the same log. What is kept is written again in its place, since this is also how a log is
opened after a failed sync: the page cache may show then, as clean, what never reached the disk.

A log with a base is read from there on. What lies before it in the same segment (older entries, or blank) is not looked
at; where the log was cut off before its base, nothing follows the base, and the log is empty there.

What is *known* (a checkpoint vouches for it: read, committed and flushed once) is not read again but for its last part,
so that damage at the end is found at once; and since it was flushed, whatever is wrong with it is damage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from store.directory.clean_mark import CleanMark
from store.errors import DamagedError, LogDamagedError
from store.log import entry
from store.log.crash_end import BeforeCut, CrashEnd
from store.log.entry import HEADER_SIZE, WORD, Cells, EntryFlawError, Header, UnknownEntryError
from store.log.grid import Grid
from store.log.positions import Positions
from store.log.segments import Segments
from store.log.tail import Tail

OnEntry = Callable[[Header, memoryview], None]
OnProgress = Callable[[int, int], None]
_PROGRESS_ENTRIES = 4096


class _TornError(Exception):
    """An entry is not whole, or not the one that follows, where a power loss may have done that."""


READ_AGAIN_BYTES = 16 << 20
# Of what is known, so much is read again: a fraction of a second.
READ_AGAIN_ENTRIES = 20_000


@dataclass(frozen=True, slots=True)
class Known:
    """Of a log: the entries up to `tail`, as they were read once."""

    tail: Tail
    positions: Positions


class Recovery:
    """One pass over the log. Afterwards `tail`, `positions` and `known_commit` describe it."""

    def __init__(
        self,
        segments: Segments,
        grid: Grid,
        start_tail: Tail,
        known: Known | None = None,
        reads_again: bool = True,
        on_entry: OnEntry | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._segments = segments
        self._grid = grid
        self._on_entry = on_entry
        self._on_progress = on_progress
        self._limit = segments.bases.stop
        self.tail = start_tail
        self.positions = Positions(start_tail)
        self.known_commit = start_tail.index  # a base is made of what is committed
        self.cut_by_crash = False
        # Index up to which entries were not read, being known.
        self.unread_up_to = start_tail.index
        self._known_tail = start_tail if known is None else known.tail
        # Where a flaw may come of a power loss: from here on.
        self._torn_from = self._limit
        if known is not None:
            self._go_on_from(known, reads_again=reads_again)
        self._start = self.tail.end

    def _go_on_from(self, known: Known, *, reads_again: bool) -> None:
        """Takes up what is known but for its last part, which is read again, unless it is known to be damaged."""
        first, last = self.tail.index, known.tail.index
        if known.tail.end > self._limit:
            raise LogDamagedError(self._segments.path(known.tail.end - 1), self._limit, "the segment is missing")
        if not reads_again:
            self.tail, self.positions = known.tail, known.positions
            self.known_commit = self.unread_up_to = last
            return
        again = max(known.positions.last_ending_by(known.tail.end - READ_AGAIN_BYTES), last - READ_AGAIN_ENTRIES, first)
        known.positions.truncate(again)
        if again > first:
            self.tail = Tail.of(self._verified(known.positions.position(again)))
        self.positions = known.positions
        self.known_commit, self.unread_up_to = last, again

    def _verified(self, position: int) -> Header:
        base = self._grid.base(position)
        view = self._segments.view(base)
        try:
            return entry.verified(view, np.frombuffer(view, np.uint8), position - base)
        except EntryFlawError as flaw:
            raise LogDamagedError(self._segments.path(base), position, str(flaw)) from flaw

    def after_stop(self, clean: CleanMark) -> None:
        """Read everything, and compare it with the mark of the orderly stop."""
        self._read()
        self._compare(clean)

    def after_kill(self) -> None:
        """Read everything, and erase what a killed write left behind the end."""
        self._read()
        self._erase_behind_tail()

    def after_crash(self, before_cut: BeforeCut | None) -> None:
        """Read up to the first entry that is not whole, tell where that is, and cut what lies behind it, durably."""
        self._torn_from = max(self._segments.flushed_below, self._known_tail.end)
        reason = ""
        try:
            self._read()
        except _TornError as torn:
            reason = str(torn)
        if not reason and not self._is_blank_behind_tail():
            reason = "there are bytes behind the last entry"
        self.cut_by_crash = bool(reason)
        if before_cut is not None:
            before_cut(CrashEnd(self.tail.index, self.tail.end, reason))
        self._cut_behind_tail()

    def _read(self) -> None:
        for base in self._segments.bases:
            if base + self._grid.segment_bytes > self._start:
                self._read_segment(base, max(0, self._start - base))
        self._report_progress(self._limit)
        if self.tail.index < self._known_tail.index:
            reason = f"the log ends with entry {self.tail.index}, but entry {self._known_tail.index} was flushed"
            raise LogDamagedError(self._segments.path(self.tail.end), self.tail.end, reason)

    def _read_segment(self, base: int, at: int) -> None:
        """Take up the entries of one segment, from offset `at` on. Behind the end of the log it only makes sure that
        there are none: a later segment's entry would not follow the tail, and be reported."""
        view = self._segments.view(base)
        cells = np.frombuffer(view, np.uint8)
        while at + WORD <= len(view) and not entry.is_blank(view, at):
            try:
                header = entry.verified(view, cells, at)
                self._take(header, base + at)
            except EntryFlawError as flaw:
                if base + at >= self._torn_from and not isinstance(flaw, UnknownEntryError):
                    raise _TornError(f"at position {base + at}: {flaw}") from flaw
                raise self._damage(flaw, base, view, cells, at) from flaw
            if self._on_entry is not None:
                self._on_entry(header, view[at + HEADER_SIZE : at + header.size])
            at = header.end - base
            if header.index % _PROGRESS_ENTRIES == 0:
                self._report_progress(header.end)

    def _damage(self, flaw: EntryFlawError, base: int, view: memoryview, cells: Cells, at: int) -> DamagedError:
        """What another version wrote is not ours to repair."""
        is_foreign = isinstance(flaw, UnknownEntryError) and entry.is_sealed(view, cells, at)
        kind = DamagedError if is_foreign else LogDamagedError
        return kind(self._segments.path(base), base + at, str(flaw))

    def _take(self, header: Header, position: int) -> None:
        self.tail.check_place(header, position, self._grid)
        if not self.tail.leads_to(header):
            raise EntryFlawError(f"the chain of entry {header.index} does not continue the one before it")
        if header.index == self._known_tail.index and header.chain != self._known_tail.chain:
            raise EntryFlawError(f"entry {header.index} is not the one that was here before")
        self.tail = Tail.of(header)
        self.positions.add([header])
        self.known_commit = max(self.known_commit, header.commit)

    def _compare(self, clean: CleanMark) -> None:
        found = (self.tail.index, self.tail.end, self.tail.chain)
        if found != (clean.last_index, clean.end, clean.chain):
            reason = (
                f"the log ends with entry {self.tail.index} at {self.tail.end}, but when the node was stopped in order "
                f"it ended with entry {clean.last_index} at {clean.end}"
            )
            if found[:2] == (clean.last_index, clean.end):
                reason = f"entry {self.tail.index} is not the one that was last when the node was stopped in order"
            raise LogDamagedError(self._segments.path(self.tail.end), self.tail.end, reason)

    def _erase_behind_tail(self) -> None:
        """Nothing that a torn write or a torn truncation left may come to light when the log grows over it again."""
        base = self._grid.tail_base(self.tail.end)
        self._segments.remove_after(base)
        if self._segments.has(base):
            self._segments.erase(self.tail.end, base + self._grid.segment_bytes)

    def _is_blank_behind_tail(self) -> bool:
        end, step = self.tail.end, self._grid.segment_bytes
        rest = [(max(end, base), base + step) for base in self._segments.bases if base + step > end]
        return all(self._segments.is_blank(first, last) for first, last in rest)

    def _cut_behind_tail(self) -> None:
        base = self._grid.tail_base(self.tail.end)
        self._segments.remove_after(base)
        if self._segments.has(base) and self.tail.end < base + self._grid.segment_bytes:
            self._segments.erase_word(self.tail.end)
        self._segments.sync()
        self._erase_behind_tail()
        self._segments.write_again(self._torn_from, self.tail.end)
        self._segments.distrust()
        self._segments.sync()

    def _report_progress(self, position: int) -> None:
        if self._on_progress is not None:
            self._on_progress(position - self._start, self._limit - self._start)
