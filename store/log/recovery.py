"""Recovery reads the CommitLog at a start, and distinguishes a torn end of the log from damage.

When the log writes a group of entries, it writes the first word of the group last. After the kill of the process, the
log ends at a zero word, whatever bytes follow that word. A word that is not zero begins an entry that was written
whole, so every flaw in an entry whose first word is not zero is damage, even in the last entry. Recovery reports
damage and never cuts it.

    segment 0                               segment 1
    | entry | entry | entry | blank         | entry | 0 (torn write, or nothing) ...
                              ^ too small for what follows      ^ the log ends here

A zero word ends the entries of its segment. The log continues in the next segment if that segment begins with an entry
that did not fit into the rest of this segment.

After a power loss (`after_crash`), each sector that was not flushed may be missing, or may hold any content that it
had since the last flush. After a power loss, the log ends before the first entry that is blank, torn, or does not
follow the entry before it. Recovery cuts the bytes after this end of the log, because they were not flushed, or cannot
be distinguished from unflushed bytes. A power loss cannot cause three kinds of flaws, so recovery stops with an error
at each of them:

- A flaw is before the position `Segments.flushed_below`. All bytes before this position were flushed. - An entry has
  an unknown version, kind or flags. Another version of this program may have written the entry. If the CRC of the
  entry is right, another version has written it, and this program does not repair the log (`log_repair`).
- A segment between two segments is missing, or a segment file has a wrong length. A blank last segment is no flaw.

A commit index does not prove that this node flushed the committed entries, because a majority without this node may
have stored them. For this reason, the cut may remove entries that this node acknowledged in `async` mode. Recovery
calls `before_cut` before it changes any byte. Recovery durably erases the first word after the last entry of the log,
then the bytes after this word, and only then the log is used. If another power loss interrupts the cut, the next
recovery finds the same log. After a failed sync, the page cache may show bytes as clean that never reached the disk,
so after a crash, recovery writes all bytes that it keeps once more, in the same place.

A log that begins after a snapshot is read from the end of the snapshot. The bytes of the same segment before this end
(older entries, or blank space) are not checked. If the files of the log end before the end of its snapshot, the log is
empty.

The entries up to a checkpoint are the *known* entries: an earlier run read, committed and flushed them. At a start
after a checkpoint, recovery reads only the last of the known entries again, so that damage near the end is found at
once. Known entries were flushed. Known entries were flushed earlier, so every flaw in a known entry is damage.
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
from store.log.tail import LogTail

OnEntry = Callable[[Header, memoryview], None]
OnProgress = Callable[[int, int], None]
_PROGRESS_ENTRIES = 4096


class _TornError(Exception):
    """An entry is not whole or does not follow, at a place where a power loss can be the cause."""


READ_AGAIN_BYTES = 16 << 20
# How much of the known entries is read again, in entries. Together with the limit in bytes it takes a fraction of a
# second.
READ_AGAIN_ENTRIES = 20_000


@dataclass(frozen=True, slots=True)
class KnownEntries:
    """The entries of a log up to `tail`. A checkpoint states that they were whole and flushed."""

    tail: LogTail
    positions: Positions


class Recovery:
    """Reads the log once and finds its end. After the pass `tail`, `positions` and `known_commit` describe the log."""

    def __init__(
        self,
        segments: Segments,
        grid: Grid,
        start_tail: LogTail,
        known: KnownEntries | None = None,
        reads_again: bool = True,
        on_entry: OnEntry | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._segments = segments
        self._grid = grid
        self._on_entry = on_entry
        self._on_progress = on_progress
        self._limit = segments.bases.stop
        self.start_tail = self.tail = start_tail
        self.positions = Positions(start_tail)
        self.known_commit = start_tail.index  # a snapshot contains only committed entries
        self.cut_by_crash = False
        # Index up to which entries are known and were not read.
        self.unread_up_to = start_tail.index
        self._known_tail = start_tail if known is None else known.tail
        # From this position on, a power loss may have caused a flaw.
        self._torn_from = self._limit
        if known is not None:
            self._go_on_from(known, reads_again=reads_again)
        self._start = self.tail.end

    def _go_on_from(self, known: KnownEntries, *, reads_again: bool) -> None:
        """Adopt the known entries. The last known entries are not adopted, so that recovery reads them again. If
        `reads_again` is False, all known entries are adopted. The caller uses this if the log is known to be
        damaged."""
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
            self.tail = LogTail.of(self._verified(known.positions.position(again)))
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
        """Read the log, and compare its end with the mark of the orderly stop. Raise `LogDamagedError` if the end
        of the log differs from the mark."""
        self._read()
        self._compare(clean)

    def after_kill(self) -> None:
        """Read the log, and erase the bytes after the log's end that a killed write left there."""
        self._read()
        self._erase_behind_tail()

    def after_crash(self, before_cut: BeforeCut | None) -> None:
        """Read the log up to the first entry that is not whole, report the end to `before_cut`, and durably cut the
        bytes after the end."""
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
        """Read the entries of one segment from offset `at`. If a segment after the end of the log begins with an
        entry, that entry does not follow the tail and is reported as a flaw."""
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
        """Return the error for a flaw. An entry that another version wrote must not be repaired by this program, so its
        error is not a `LogDamagedError`."""
        is_foreign = isinstance(flaw, UnknownEntryError) and entry.is_sealed(view, cells, at)
        kind = DamagedError if is_foreign else LogDamagedError
        return kind(self._segments.path(base), base + at, str(flaw))

    def _take(self, header: Header, position: int) -> None:
        self.tail.check_place(header, position, self._grid)
        if not self.tail.leads_to(header):
            raise EntryFlawError(f"the chain of entry {header.index} does not continue the one before it")
        if header.index == self._known_tail.index and header.chain != self._known_tail.chain:
            raise EntryFlawError(f"entry {header.index} differs from the entry in the checkpoint")
        self.tail = LogTail.of(header)
        self.positions.add([header])
        self.known_commit = max(self.known_commit, header.commit)

    def _compare(self, clean: CleanMark) -> None:
        found = (self.tail.index, self.tail.end, self.tail.chain)
        if found != (clean.last_index, clean.end, clean.chain):
            reason = (
                f"the log ends with entry {self.tail.index} at {self.tail.end}, but at the orderly stop of the node it "
                f"ended with entry {clean.last_index} at {clean.end}"
            )
            if found[:2] == (clean.last_index, clean.end):
                reason = f"entry {self.tail.index} differs from the last entry at the orderly stop of the node"
            raise LogDamagedError(self._segments.path(self.tail.end), self.tail.end, reason)

    def _erase_behind_tail(self) -> None:
        """Erase all bytes after the tail. Without this, the remaining bytes of a torn write or cut could look like
        entries when the log grows to their position."""
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
