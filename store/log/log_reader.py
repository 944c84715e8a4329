"""The log reader reads a log that is not open. The log may be damaged. The log reader writes nothing.

    | entry | entry | #### | entry |  blank   | entry | blank
      found   found   flaw   found              found   (the log ends)

Recovery refuses a log at its first flaw. The log reader instead reports each flaw, and continues at the next whole
entry that `segment_view` finds. The log reader uses the same comparisons as recovery to check that an entry follows
the entry before it.

A blank word ends the entries of its segment. Bytes after a blank word count as damage in three cases: a later segment
begins with an entry, the last stop was orderly, or a later entry says that the entry that is missing at the blank word
was committed. Bytes after a blank word count as torn if a killed write, or a write in progress, can have left them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from store.disk.disk import ReadOnlyDisk
from store.disk.numbered import name_of
from store.log import entry
from store.log.entry import ALIGNMENT, HEADER_SIZE, WORD, EntryFlawError, Header, UnknownEntryError
from store.log.flaw import Flaw, FlawKind
from store.log.grid import Grid
from store.log.log_files import SegmentFile
from store.log.segment_view import SegmentView
from store.log.tail import LogTail


@dataclass(frozen=True, slots=True)
class FoundEntry:
    """A whole entry that the log reader found. `body` stays valid as long as a reference to it exists."""

    path: Path
    header: Header
    body: memoryview


class LogReader:
    """One pass over the segments of a log, in the order of their positions. The segments may still grow during the
    pass."""

    def __init__(
        self,
        disk: ReadOnlyDisk,
        segments: Sequence[SegmentFile],
        *,
        segment_bytes: int,
        start: LogTail | None,
        orderly: bool = False,
    ) -> None:
        """`start` is the tail that the first entry follows: `EMPTY` for the first entry of all, or the tail of a
        snapshot. If `start` is None, this tail is unknown, for example for a single segment. Entries before the end
        of `start` are skipped. `orderly` is True after an orderly stop of the node. In this case, bytes after the
        last entry are a flaw."""
        self._disk = disk
        self._segments = segments
        self._grid = Grid(segment_bytes)
        self._start = start
        self._orderly = orderly
        # The tail that the next entry must follow; None if it is unknown, which is possible only before the first
        # entry.
        self._tail = start
        # True after a flaw: entries are missing between the tail and the next whole entry.
        self._lost = False
        # The chain that the tail should have, if the tail states a different chain.
        self._due_chain: int | None = None
        # Position up to which the reader has read, for a progress bar.
        self.position = segments[0].base if segments else 0
        # The largest commit index that any entry found so far mentions.
        self.known_commit = start.index if start is not None else 0

    @property
    def tail(self) -> LogTail | None:
        """The tail after the last entry found so far, or `start` if no entry was found yet."""
        return self._tail

    def __iter__(self) -> Iterator[FoundEntry | Flaw]:
        expected = self._segments[0].base if self._segments else 0
        if self._start is not None and self._segments and expected > (due := self._grid.base(self._start.end)):
            yield self._missing(self._segments[0], due)
        for number, segment in enumerate(self._segments):
            if segment.base != expected:
                yield self._missing(segment, expected)
            data = SegmentView.of(segment, self._disk)
            yield from self._read_segment(number, data)
            self._lost |= len(data.view) < self._grid.segment_bytes
            expected = segment.base + self._grid.segment_bytes
            self.position = expected

    def _missing(self, following: SegmentFile, due: int) -> Flaw:
        """Return the flaw for the missing segments from position `due` up to the segment `following`."""
        index, self._lost = self._due_index, True
        path = following.path.with_name(name_of(due))
        step = self._grid.segment_bytes
        if due % step or following.base % step:
            reason = f"segments of {step} bytes do not begin at {following.base}: had they another size?"
        else:
            reason = f"the segments from {due} to {following.base} are missing"
        return Flaw(FlawKind.DAMAGE, path, due, index, reason, following.base if following.base > due else None)

    @property
    def _due_index(self) -> int | None:
        """The index of the next expected entry, or None if the index is unknown."""
        return None if self._tail is None or self._lost else self._tail.index + 1

    # -- one segment

    def _read_segment(self, number: int, data: SegmentView) -> Iterator[FoundEntry | Flaw]:
        segment, view = data.segment, data.view
        yield from self._check_length(number, data)
        at = 0 if self._start is None else max(0, self._start.end - segment.base)
        while at + WORD <= len(view):
            self.position = segment.base + at
            there = self._look(number, data, at)
            if isinstance(there, Header):
                flaw = self._take(segment, there)
                if flaw is not None:
                    yield flaw
                yield FoundEntry(segment.path, there, view[at + HEADER_SIZE : at + there.size])
            elif there is not None:
                yield there
            if there is None or there.end is None or (isinstance(there, Flaw) and there.kind is FlawKind.TORN):
                return
            at = there.end - segment.base

    def _look(self, number: int, data: SegmentView, at: int) -> Header | Flaw | None:
        """Return the header, or the flaw, at offset `at` of the segment. Return None if only blank space follows
        from this offset to the end of the segment."""
        if entry.is_blank(data.view, at):
            return self._judge_blank(number, data, at)
        try:
            return data.whole(at)
        except EntryFlawError as error:
            return self._broken(data, at, error)

    def _check_length(self, number: int, data: SegmentView) -> Iterator[Flaw]:
        length, due = len(data.view), self._grid.segment_bytes
        if length != due:
            blank_last = number == len(self._segments) - 1 and length < due and data.first_byte(0) is None
            kind = FlawKind.TORN if blank_last and not self._orderly else FlawKind.DAMAGE
            reason = f"the file has {length} bytes, and segments of this log {due}"
            yield Flaw(kind, data.segment.path, data.segment.base + min(length, due), None, reason)

    def _broken(self, data: SegmentView, at: int, error: EntryFlawError) -> Flaw:
        """Return the flaw for an entry that begins at this offset and is not whole."""
        following = data.next_whole(at + ALIGNMENT)
        kind = FlawKind.DAMAGE
        if isinstance(error, UnknownEntryError) and (following is None or entry.is_sealed(data.view, data.cells, at)):
            kind = FlawKind.UNKNOWN
        flaw = self._gap(kind, data, at, str(error), following)
        self._lost = True
        return flaw

    def _gap(self, kind: FlawKind, data: SegmentView, at: int, reason: str, following: Header | None) -> Flaw:
        """Return a flaw that extends from offset `at` to the entry `following`."""
        index = self._due_index
        place = (kind, data.segment.path, data.segment.base + at, index, reason)
        if following is None:
            return Flaw(*place)
        last = following.index - 1 if index is not None and following.index > index else None
        return Flaw(*place, following.position, last)

    # -- blank space

    def _judge_blank(self, number: int, data: SegmentView, at: int) -> Flaw | None:
        """Decide whether a blank word, at an offset where an entry might begin, is the end of the log or a flaw.
        Return None if all bytes after the blank word are zero. If a byte after the blank word is not zero, return a
        flaw."""
        if (first := data.first_byte(at)) is None:
            return None
        there_was_more = self._orderly or self._goes_on_behind(number)
        following = data.next_whole(at + ALIGNMENT)
        if following is None:
            kind = FlawKind.DAMAGE if there_was_more else FlawKind.TORN
            reason = "bytes lie behind the last entry, where all should be blank"
            return self._gap(kind, data, first, reason, None)
        last, commit = self._read_behind(data, following)
        due = self._due_index
        reason = f"entries {following.index} to {last} lie behind a blank word"
        if due is not None and commit >= due:
            reason += f", and say that entry {commit} was committed"
        elif due is not None and not there_was_more:
            return self._gap(FlawKind.TORN, data, at, f"{reason}, as a killed write leaves them", following)
        flaw = self._gap(FlawKind.DAMAGE, data, at, reason, following)
        self._lost = True
        return flaw

    def _read_behind(self, data: SegmentView, header: Header) -> tuple[int, int]:
        """Read the entries from `header` to the next blank word or flaw. Return the index of the last entry that
        was read, and the largest commit index that the read entries mention."""
        last, commit = header.index, header.commit
        while (at := header.end - data.segment.base) + HEADER_SIZE <= len(data.view):
            try:
                header = data.whole(at)
            except EntryFlawError:
                break
            last, commit = header.index, max(commit, header.commit)
        return last, commit

    def _goes_on_behind(self, number: int) -> bool:
        """Return whether a segment after this segment begins with an entry."""
        for segment in self._segments[number + 1 :]:
            try:
                SegmentView.of(segment, self._disk).whole(0)
                return True
            except EntryFlawError:
                continue
        return False

    # -- an entry that is whole in itself

    def _take(self, segment: SegmentFile, header: Header) -> Flaw | None:
        """Compare a whole entry with the tail, and make it the new tail. Return a flaw if the entry does not follow
        the tail."""
        tail, flaw = self._tail, None
        if tail is not None:
            flaw = self._after_loss(segment, header, tail) if self._lost else self._follow(segment, header, tail)
        self._tail = LogTail.of(header)
        self._lost = False
        self.known_commit = max(self.known_commit, header.commit)
        return flaw

    def _follow(self, segment: SegmentFile, header: Header, tail: LogTail) -> Flaw | None:
        due_chain, self._due_chain = self._due_chain, None
        if header.index > tail.index + 1:
            return self._hole(segment, header, tail)
        try:
            tail.check_place(header, header.position, self._grid)
            right = entry.chained(tail.chain, header.crc)
            if header.chain != right and (due_chain is None or header.chain != entry.chained(due_chain, header.crc)):
                self._due_chain = right
                raise EntryFlawError(f"the chain of entry {header.index} does not continue the one before it")
        except EntryFlawError as error:
            return self._misplaced(segment, header, str(error))
        return None

    def _after_loss(self, segment: SegmentFile, header: Header, tail: LogTail) -> Flaw | None:
        """Check an entry that follows a flaw. The entries between the tail and this entry are unknown, but indexes
        must rise and terms must not fall."""
        self._due_chain = None
        if header.index <= tail.index:
            return self._misplaced(segment, header, f"index {header.index} follows index {tail.index}")
        if header.term < tail.term:
            return self._misplaced(segment, header, f"term {header.term} follows the higher term {tail.term}")
        return None

    def _hole(self, segment: SegmentFile, header: Header, tail: LogTail) -> Flaw:
        """Return the flaw for a gap in the indexes: entries between the tail and this entry are missing, although
        no damaged bytes lie in between."""
        first, last = tail.index + 1, header.index - 1
        path = segment.path if tail.end >= segment.base else self._path_of(tail.end)
        reason = f"entries {first} to {last} are missing: entry {header.index} comes next"
        return Flaw(FlawKind.DAMAGE, path, tail.end, first, reason, header.position, last)

    def _misplaced(self, segment: SegmentFile, header: Header, reason: str) -> Flaw:
        return Flaw(FlawKind.DAMAGE, segment.path, header.position, header.index, reason, header.end, header.index)

    def _path_of(self, position: int) -> Path:
        return self._segments[0].path.with_name(name_of(self._grid.base(position)))
