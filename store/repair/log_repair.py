"""Startup repair of a log that cannot be opened: damaged entries are taken from another replica.

    own log   | entry 6 | ## 7 ## | entry 8 | ...
    other     | entry 6 | entry 7 | entry 8 | ...     the entries after entry 6 are requested
                          ^ taken   ^ the same bytes as in the own log: it is whole from here on

The repair takes an entry from another replica for one of two reasons. The first reason: a later entry of the other
replica is also in this log's own file, byte for byte. In this case the chain proves that the entries before the later
entry are the lost entries. The second reason: the entry is committed. No other entry can have the index of a committed
entry.

Until the repair finds original entries of this log after the repaired entries, the log may lack entries that this node
acknowledged. For this reason, the repair mark (`repair_mark`) is written before any other byte. The repair cuts bytes
after a flaw in two cases only. Either the bytes contain no whole entry, or a committed entry of the other replica
contradicts the entries in the bytes, so the entries in the bytes can never be committed. If no whole entry follows the
flaw, the leader sends the rest of the log, as to any follower that lags.

If a segment file is missing or has a wrong length, the repair makes it again when it writes a valid entry into this
segment. A wrong setting of `segment_bytes` changes no file, because segments without a valid entry are not made. All
methods raise `StoreError` if the disk fails. A failed repair does not make the damage worse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from store.directory.clean_mark import CleanMark
from store.disk.disk import Disk, File, remove_file
from store.disk.numbered import name_of
from store.log import entry
from store.log.entry import ALIGNMENT, Header, UnknownEntryError
from store.log.grid import Grid
from store.log.log_files import SegmentFile, segment_files
from store.log.received_range import whole_entries
from store.log.segment_view import SegmentView
from store.log.segments import FRESH
from store.log.tail import LogTail
from store.repair.whole_prefix import OnEntry, WholePrefix

_CHUNK = 1 << 20
_ZEROS = bytes(_CHUNK)


class Taken(Enum):
    # No entry of the other replica could be taken.
    NOTHING = 0
    # Entries were taken. Request the entries after the new tail next.
    MORE = 1
    # This log's own entries follow: the log can be opened again.
    ALL = 2


@dataclass(frozen=True, slots=True)
class LogToRepair:
    """A damaged log before its repair, and the facts that are known about the log."""

    directory: Path
    segment_bytes: int
    # The tail that the first entry of the log follows.
    start_tail: LogTail
    # The mark of the last stop, if it was orderly.
    clean: CleanMark | None = None
    # Index of the last entry that a checkpoint vouches for; 0 if there is no checkpoint. This entry was committed, so a
    # majority of the voters has it.
    known_index: int = 0

    def __post_init__(self) -> None:
        Grid(self.segment_bytes)  # refuses a wrong length
        assert self.known_index >= 0

    @property
    def stopped_end(self) -> tuple[int, int, int] | None:
        """The last index, end and chain of the log at its orderly stop, or None if the stop was not orderly."""
        clean = self.clean
        return (clean.last_index, clean.end, clean.chain) if clean is not None else None


@dataclass(frozen=True, slots=True)
class RepairCallbacks:
    # Makes the repair mark durable; called before any byte is written. The argument says whether the bytes after the
    # tail are given up.
    on_begin: Callable[[bool], object]
    # Removes the repair mark; called when the log's own entries follow again, so that no entry is lost.
    on_found_again: Callable[[], object]
    # Called with header and body of each entry of the whole prefix.
    on_entry: OnEntry | None = None


class LogRepair:
    def __init__(self, disk: Disk, log: LogToRepair, callbacks: RepairCallbacks) -> None:
        """Read the whole prefix of the damaged log."""
        self._disk = disk
        self._directory = log.directory
        self._grid = Grid(log.segment_bytes)
        self._goal = log.stopped_end
        self._known_index = log.known_index
        self._on_begin = callbacks.on_begin
        self._on_found_again = callbacks.on_found_again
        self.prefix = WholePrefix(disk, log.directory, log.segment_bytes, log.start_tail, callbacks.on_entry)
        self._behind: Header | None = None
        # Whether `first_behind` has searched. A search without a result is not repeated: the repair writes only entries
        # of the prefix.
        self._is_searched = False

    @property
    def tail(self) -> LogTail:
        """The tail of the last entry before the flaw. The repair requests entries that follow this tail."""
        return self.prefix.tail

    def committed_tail(self) -> LogTail:
        """Return the tail of the last entry before the flaw that is known to be committed."""
        return self.prefix.tail_at(self.prefix.known_commit)

    # -- taking

    def take(self, data: bytes, commit: int) -> Taken:
        """Durably write all entries of `data` that are proved to be lost entries or are committed. `data` holds
        entries of another replica that follow this log's tail. `commit` is the commit index that the other replica
        knows."""
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
        self._on_begin(False)
        if not is_found and any(self._contradicts(header) for header in taken):
            self.cut()
        if self._grid.base(taken[0].position) != self._grid.tail_base(self.tail.end):
            self._end_segment()
        self._write(data[: taken[-1].end - taken[0].position], taken[0].position)
        self.prefix.extend(taken)
        if is_found:
            self._on_found_again()
        return Taken.ALL if is_found else Taken.MORE

    def align(self, common: LogTail, data: bytes, commit: int) -> LogTail | None:
        """Find the place where this log and the other replica's log diverge. The other replica lacks this log's
        tail, but this log and the other replica's log both contain `common`; `data` holds the other replica's
        entries after `common`. Return the last tail that is equal in the two logs. If a committed entry of the
        other replica contradicts this log's entry, cut this log after the returned tail. If an entry differs, and
        it is unknown whether this log's entry or the other replica's entry will be committed, return None."""
        headers = whole_entries(data, common, self._grid)
        for header in headers:
            if self._is_ours(header, data, headers[0].position):
                common = LogTail.of(header)
            elif header.index <= commit:
                self.prefix.shorten(common)
                self.cut()
                break
            else:
                return None
        return common

    def _is_ours(self, header: Header, data: bytes, start: int) -> bool:
        """Return whether this log's file has the same bytes at the entry's position."""
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
        """Return whether this log's own next entry continues the chain of the given entry, or this log ended with
        the given entry at the orderly stop."""
        first, tail = self.first_behind(), LogTail.of(header)
        follows = first is not None and first.index == header.index + 1 and tail.leads_to(first)
        return follows or (tail.index, tail.end, tail.chain) == self._goal

    def _contradicts(self, header: Header) -> bool:
        """Return whether this log has a different whole entry with the same index, or a later entry at the same
        position. If so, the entries of this log from there on can never be committed."""
        first = self.first_behind()
        if first is None or first.index < header.index:
            return False
        return first.crc != header.crc if first.index == header.index else first.position < header.end

    # -- cutting

    @property
    def may_end(self) -> bool:
        """Return True if the log can end with this tail because of a torn write. This is so if no whole entry
        follows, and neither a checkpoint nor an orderly stop has recorded a later entry."""
        was_longer = self._goal is not None and self.tail.index < self._goal[0]
        return not (was_longer or self._must_go_on) and self.first_behind() is None

    def may_cut(self, commit: int) -> bool:
        """Return True if the log can end with this tail without the loss of a readable entry that is possibly
        committed. The other replica must have this tail, must have committed up to `commit`, and must have no entry
        after the tail that the repair could take."""
        if self._must_go_on:
            return False
        first = self.first_behind()
        if first is None:
            return True
        return self.tail.index <= commit and first.index == self.tail.index + 1 and not self._leads_on(first)

    @property
    def _must_go_on(self) -> bool:
        """Whether the log must continue after the tail, because the next entry was committed, or because another
        version may be able to read the next entry."""
        return self.tail.index < self._known_index or isinstance(self.prefix.flaw, UnknownEntryError)

    def last_behind(self) -> Header | None:
        """Return the last whole entry after the flaw, or None."""
        for segment in reversed(self._segments_behind()):
            header, last = self._next_in(segment, self.tail.end), None
            while header is not None:
                last, header = header, self._next_in(segment, header.end)
            if last is not None:
                return last
        return None

    def cut(self) -> None:
        """Durably cut the log after this tail. Before the cut, the repair mark records that the entries after the
        tail are given up."""
        self._on_begin(True)
        end, keep = self.tail.end, self._grid.tail_base(self.tail.end)
        for segment in reversed(segment_files(self._disk, self._directory)):
            if segment.base > keep or end == 0:
                self._disk.unlink(segment.path)
                self._disk.sync_directory(self._directory)
        if end and self._disk.exists(self._path(keep)):
            self._end_segment()
        self._behind, self.prefix.flaw = None, None

    def _end_segment(self) -> None:
        """Make the tail's segment blank after the tail, and give the file its full length."""
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
        """Return whether the given entry continues this tail. An entry whose own chain field alone is wrong counts
        too: then the entry after it continues the right chain."""
        due = entry.chained(self.tail.chain, first.crc)
        following = self._next_in(SegmentFile(self._path(first.position), self._grid.base(first.position)), first.end)
        if first.chain == due or following is None or following.index != first.index + 1:
            return first.chain == due
        return following.chain == entry.chained(due, following.crc)

    # -- the entries after the flaw

    def first_behind(self) -> Header | None:
        """Return the first whole entry after this tail, or None. Only the entry's own bytes are checked."""
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
        """Open the file that contains the byte at `position`. If the file does not have the length of a segment,
        make it again, durably."""
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
        remove_file(self._disk, fresh)
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
