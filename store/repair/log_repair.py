"""The repair of a log that cannot be opened: what is damaged is taken from another replica, never guessed.

    ours    | entry 6 | ## 7 ## | entry 8 | ...
    theirs  | entry 6 | entry 7 | entry 8 | ...     asked for what follows our entry 6
                        ^ taken   ^ the same bytes as ours: from here on our log goes on

An entry is taken for one of two reasons. Behind it comes one that lies in our own file, byte for byte: the
chain says then that all before it is what was there. Or it is committed, so that no other can ever stand there.

What was not found again in that way may have been acknowledged by this node. Hence the mark (`repair_mark`), before
anything is written; and the rule for what lies behind a flaw: it is cut off only where it is nothing whole, or of a
branch that can never be committed, because a committed entry contradicts it. Where nothing whole lies behind, there is
nothing to be found again, and the rest comes as to any follower that lags.

Segment files that are missing, or of a wrong length, are made anew when there is an entry of the chain to go into them;
so a wrong `segment_bytes` changes nothing. Raises `StoreError` where the disk fails; a failed repair leaves the log no
worse.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path

from store.directory.clean_mark import CleanMark
from store.disk.disk import Disk, File
from store.disk.numbered import name_of
from store.log import entry
from store.log.entry import ALIGNMENT, Header, UnknownEntryError
from store.log.grid import Grid
from store.log.log_files import SegmentFile, segment_files
from store.log.received_range import whole_entries
from store.log.segment_view import SegmentView
from store.log.segments import FRESH
from store.log.tail import Tail
from store.repair.whole_prefix import OnEntry, WholePrefix

_CHUNK = 1 << 20
_ZEROS = bytes(_CHUNK)


class Taken(Enum):
    # Of what the other has, nothing could be taken.
    NOTHING = 0
    # Something was, and more may be: to be asked for behind the new tail.
    MORE = 1
    # Our own bytes go on from here: the log can be opened again.
    ALL = 2


class LogRepair:
    def __init__(
        self,
        disk: Disk,
        directory: Path,
        *,
        segment_bytes: int,
        start: Tail,
        clean: CleanMark | None,
        least: int,
        begins: Callable[[bool], object],
        found_again: Callable[[], object],
        on_entry: OnEntry | None = None,
    ) -> None:
        """Reads what is whole, giving each entry to `on_entry`. `start`: what the first entry follows. `clean`: the
        mark of the orderly stop, if there was one. `least`: index of the last entry that a checkpoint vouches for: it
        was committed, so somebody has it. `begins` makes the repair mark durable, before anything is written;
        True: what lies behind the tail is given up. `found_again` takes it away: nothing is lost."""
        self._disk = disk
        self._directory = directory
        self._grid = Grid(segment_bytes)
        self._goal = (clean.last_index, clean.end, clean.chain) if clean is not None else None
        self._least = least
        self._begins = begins
        self._found_again = found_again
        self.prefix = WholePrefix(disk, directory, segment_bytes, start, on_entry)
        self._behind: Header | None = None
        # Where nothing was found nothing comes: what is written lies before.
        self._is_searched = False

    @property
    def tail(self) -> Tail:
        """Of the last entry before the flaw: what is asked for follows it."""
        return self.prefix.tail

    def committed_tail(self) -> Tail:
        """Of the last entry before the flaw that is surely committed, so that every other replica has it."""
        return self.prefix.tail_at(self.prefix.known_commit)

    # -- taking

    def take(self, data: bytes, commit: int) -> Taken:
        """Of what another replica has behind our tail, all that may be taken is written, durably. `commit`: up to where
        the other knows its log to be committed."""
        headers, count, is_found = whole_entries(data, self.tail, self._grid), 0, False
        for number, header in enumerate(headers, 1):
            is_found = self._leads_home(header) or self._is_ours(header, data, headers[0].position)
            if is_found or header.index <= commit:
                count = number
            if is_found:
                break
        if count == 0:
            return Taken.NOTHING
        taken = headers[:count]
        self._begins(False)
        if not is_found and any(self._contradicts(header) for header in taken):
            self.cut()
        if self._grid.base(taken[0].position) != self._grid.tail_base(self.tail.end):
            self._end_segment()
        self._write(data[: taken[-1].end - taken[0].position], taken[0].position)
        self.prefix.extend(taken)
        if is_found:
            self._found_again()
        return Taken.ALL if is_found else Taken.MORE

    def align(self, common: Tail, data: bytes, commit: int) -> Tail | None:
        """Our tail is not in the other's log, but `common` is in both: goes on along `data`, which follows it there.
        Returns the last place that is the same in both. Where an entry that is committed there contradicts ours, ours
        are cut off: then that is our tail. None: an entry differs, and nobody knows yet which one will stay."""
        headers = whole_entries(data, common, self._grid)
        for header in headers:
            if self._is_ours(header, data, headers[0].position):
                common = Tail.of(header)
            elif header.index <= commit:
                self.prefix.shorten(common)
                self.cut()
                break
            else:
                return None
        return common

    def _is_ours(self, header: Header, data: bytes, start: int) -> bool:
        """Whether the same bytes lie in our file at that place."""
        path = self._path(header.position)
        if not self._disk.exists(path):
            return False
        file = self._disk.open(path)
        try:
            found = file.read(header.position % self._grid.segment_bytes, header.end - header.position)
        finally:
            file.close()
        return found == data[header.position - start : header.end - start]

    def _leads_home(self, header: Header) -> bool:
        """Whether our own next entry continues that one's chain; or the log ended with it when the node was stopped in
        order."""
        first, tail = self.first_behind(), Tail.of(header)
        follows = first is not None and first.index == header.index + 1 and tail.leads_to(first)
        return follows or (tail.index, tail.end, tail.chain) == self._goal

    def _contradicts(self, header: Header) -> bool:
        """Whether ours of that index, or one behind it that lies in its place, is whole, and another one: then what
        follows ours can never be committed."""
        first = self.first_behind()
        if first is None or first.index < header.index:
            return False
        return first.crc != header.crc if first.index == header.index else first.position < header.end

    # -- cutting

    @property
    def may_end(self) -> bool:
        """Whether the log can end with our tail, as a torn one does, where another replica has that tail: nothing whole
        lies behind, and neither a checkpoint nor an orderly stop knows of more."""
        was_longer = self._goal is not None and self.tail.index < self._goal[0]
        return not (was_longer or self._must_go_on) and self.first_behind() is None

    def may_cut(self, commit: int) -> bool:
        """Whether nothing is lost but what nobody can read, if the log ends with our tail. The other, which knows its
        log to be committed up to `commit`, has our tail too, and nothing behind it that could be taken."""
        if self._must_go_on:
            return False
        first = self.first_behind()
        if first is None:
            return True
        return self.tail.index <= commit and first.index == self.tail.index + 1 and not self._leads_on(first)

    @property
    def _must_go_on(self) -> bool:
        """What comes next was committed; or perhaps another version can read it."""
        return self.tail.index < self._least or isinstance(self.prefix.flaw, UnknownEntryError)

    def last_behind(self) -> Header | None:
        """The last whole entry behind the flaw."""
        for segment in reversed(self._segments_behind()):
            header, last = self._next_in(segment, self.tail.end), None
            while header is not None:
                last, header = header, self._next_in(segment, header.end)
            if last is not None:
                return last
        return None

    def cut(self) -> None:
        """The log ends with our tail, durably; the mark says so first."""
        self._begins(True)
        end, keep = self.tail.end, self._grid.tail_base(self.tail.end)
        for segment in reversed(segment_files(self._disk, self._directory)):
            if segment.base > keep or end == 0:
                self._disk.unlink(segment.path)
                self._disk.sync_directory(self._directory)
        if end and self._disk.exists(self._path(keep)):
            self._end_segment()
        self._behind, self.prefix.flaw = None, None

    def _end_segment(self) -> None:
        """Behind our tail, its segment is blank, and the file has its length."""
        end, size = self.tail.end, self._grid.segment_bytes
        if end == 0:
            return
        base = self._grid.tail_base(end)
        file = self._whole_file(base)
        try:
            for first in range(end - base, size, _CHUNK):
                count = min(_CHUNK, size - first)
                if file.read(first, count) != _ZEROS[:count]:
                    file.write(first, _ZEROS[:count])
            file.sync()
        finally:
            file.close()

    def _leads_on(self, first: Header) -> bool:
        """Whether that entry continues our tail, or the one behind it does and only its own chain is wrong."""
        due = entry.chained(self.tail.chain, first.crc)
        following = self._next_in(SegmentFile(self._path(first.position), self._grid.base(first.position)), first.end)
        if first.chain == due or following is None or following.index != first.index + 1:
            return first.chain == due
        return following.chain == entry.chained(due, following.crc)

    # -- what lies behind the flaw

    def first_behind(self) -> Header | None:
        """The first whole entry behind our tail, as far as its own bytes say."""
        found = self._behind
        is_passed = found is not None and (found.position < self.tail.end or found.index <= self.tail.index)
        if is_passed or not self._is_searched:
            segments = self._segments_behind()
            found = self._behind = next(filter(None, (self._next_in(each, self.tail.end) for each in segments)), None)
            self._is_searched = True
        return found

    def _segments_behind(self) -> list[SegmentFile]:
        end, size = self.tail.end, self._grid.segment_bytes
        return [each for each in segment_files(self._disk, self._directory) if each.base + size > end]

    def _next_in(self, segment: SegmentFile, position: int) -> Header | None:
        data, at = SegmentView.of(segment, self._disk), max(0, position - segment.base)
        while (header := data.next_whole(at)) is not None and header.index <= self.tail.index:
            at = header.position - segment.base + ALIGNMENT
        return header

    # -- files

    def _path(self, position: int) -> Path:
        return self._directory / name_of(self._grid.base(position))

    def _write(self, data: bytes, position: int) -> None:
        file = self._whole_file(position)
        try:
            file.write(position % self._grid.segment_bytes, data)
            file.sync()
        finally:
            file.close()

    def _whole_file(self, position: int) -> File:
        """The file that holds the byte at `position`: it has its length, durably."""
        path, size = self._path(position), self._grid.segment_bytes
        if not self._disk.exists(path):
            return self._created(path)
        file = self._disk.open(path)
        if file.size == size:
            return file
        try:
            content = file.read(0, size)
        finally:
            file.close()
        fresh = path.with_name(path.name + FRESH)
        if self._disk.exists(fresh):
            self._disk.unlink(fresh)
        file = self._created(fresh)
        file.write(0, content)
        file.sync()
        self._disk.rename(fresh, path)
        self._disk.sync_directory(self._directory)
        return file

    def _created(self, path: Path) -> File:
        self._disk.make_directory(self._directory)
        file = self._disk.create(path, self._grid.segment_bytes)
        file.sync()
        self._disk.sync_directory(self._directory)
        return file
