"""The CommitLog: entries in order, numbered by Raft, each at a position that is the same on every replica.

A leader makes entries (`append`). A follower copies a range of the leader's entries unchanged (`examine`, `write`). So
both have the same bytes at the same positions. Bytes are checked where they enter: at the start (`recovery`) and on
receipt. Afterwards they are read through a mapping without another check.

The memory holds only the tail, the table of positions, and the largest commit index that an entry mentions. A failed
append changes neither these nor the visible log on the disk. After a failed sync the log is poisoned: it writes and
trusts nothing any more, because the kernel may have dropped the pages, and a second fsync would report success.

The log may begin after a *snapshot*. Then the snapshot's entry and all earlier entries are gone, and the snapshot
contains the state that they led to. The snapshot's index, term, end and chain take the place of the log's beginning.

One thread makes all calls, with three exceptions: helper threads may call `sync`, `prepare_next` and `remove_dropped`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from store.directory.clean_mark import CleanMark
from store.disk.disk import Disk
from store.errors import (
    DiskFailedError,
    ForkedError,
    OutOfFilesError,
    RangeDamagedError,
    StoreError,
)
from store.log import entry
from store.log.crash_end import BeforeCut
from store.log.entry import HEADER_SIZE, Draft, Header, Readable
from store.log.grid import Grid
from store.log.log_files import SegmentFile
from store.log.positions import Positions
from store.log.received_range import examined
from store.log.recovery import Known, OnEntry, OnProgress, Recovery
from store.log.segment_span import SegmentSpan
from store.log.segments import Segments
from store.log.tail import EMPTY, Tail
from store.log.writing import DIRECTLY, Writing
from store.repair.scrub_repair import ScrubRepair
from store.snapshot.snapshot import Snapshot


class CommitLog:
    def __init__(self, directory: Path, grid: Grid, segments: Segments, start_tail: Tail, recovered: Recovery) -> None:
        """Use `open`."""
        self._directory = directory
        self._grid = grid
        self._segments = segments
        # The last entry before the first one; EMPTY where the log begins at the beginning.
        self._start_tail = start_tail
        self._positions = recovered.positions
        self._tail = recovered.tail
        self._known_commit = recovered.known_commit
        self._cut_by_crash = recovered.cut_by_crash
        self._unread_up_to = recovered.unread_up_to
        # Positions between which the log was found damaged: nothing is read there. Empty while all is well.
        self.damaged: range = range(0)
        # Why nothing may be written any more, but for a failed sync, which the segments know; None while all is well.
        self._failure: StoreError | None = None
        self._is_closed = False

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: Path,
        *,
        segment_bytes: int,
        snapshot: Snapshot | None = None,
        known: Known | None = None,
        reads_again: bool = True,
        reset: bool = False,
        clean: CleanMark | None = None,
        after_crash: bool = False,
        writing: Writing = DIRECTLY,
        on_loss: Callable[[], None] = lambda: None,
        before_cut: BeforeCut | None = None,
        on_entry: OnEntry | None = None,
        on_progress: OnProgress | None = None,
    ) -> Self:
        """Read the log and verify it, giving each entry's header and body to `on_entry`, and (bytes read, bytes in all)
        to `on_progress` now and then. A view given to `on_entry` may be kept. What is `known` (it was read, committed
        and flushed once) is not read again but for its last part; and not even that unless `reads_again`, for a log
        that is to be mended while it is open.

        `base` is where the log begins, as `SnapshotFile` has it. `reset`: a reset to it was begun and not finished,
        so what lies here is void, whatever was said of it, and removed.
        `clean` is the mark of an orderly stop, if there was one; without it nothing counts as durable before `sync`.
        `after_crash`: the machine went down without an orderly stop. The log ends with its first flaw then, where one
        may come of that (see `recovery`), and `before_cut` hears of it before anything is changed. So it was, too, when
        a process that staged its writes ended without one.
        `writing`: by which way what is appended gets into the files. `on_loss` is called, in any thread, once a sync
        has failed: the next start must be one after a crash.
        Raises `DamagedError`; a torn end is no damage."""
        assert clean is None or not after_crash
        grid = Grid(segment_bytes)
        start = snapshot.tail if snapshot is not None else EMPTY
        segments = Segments.adopt(disk, directory, grid, start.end, reset=reset, writing=writing, on_loss=on_loss)
        try:
            recovery = Recovery(segments, grid, start, known, reads_again, on_entry, on_progress)
            if after_crash:
                recovery.after_crash(before_cut)
            elif clean is None or reset:
                recovery.after_kill()
                segments.distrust(known.tail.end if known is not None else 0)
            else:
                recovery.after_stop(clean)
        except BaseException:
            segments.close()
            raise
        return cls(directory, grid, segments, start, recovery)

    # Where the log stands.

    @property
    def first_index(self) -> int:
        """Index of the first entry, present or to come."""
        return self._start_tail.index + 1

    @property
    def last_index(self) -> int:
        """The base's when the log is empty; 0 without a base."""
        return self._tail.index

    @property
    def last_term(self) -> int:
        return self._tail.term

    @property
    def chain(self) -> int:
        return self._tail.chain

    @property
    def start(self) -> int:
        """Position behind the last entry that the log lacks; 0 where it lacks none."""
        return self._start_tail.end

    @property
    def start_tail(self) -> Tail:
        """Of the last entry that the log lacks; EMPTY where it lacks none."""
        return self._start_tail

    @property
    def end(self) -> int:
        """Position behind the last entry."""
        return self._tail.end

    @property
    def last_append_time_ms(self) -> int:
        return self._tail.append_time_ms

    @property
    def known_commit(self) -> int:
        """The largest commit that any entry seen mentioned: surely committed, and perhaps not the last that is."""
        return self._known_commit

    @property
    def unread_up_to(self) -> int:
        """Index up to which entries were not read when it was opened, being known; below `first_index`: all were."""
        return self._unread_up_to

    @property
    def cut_by_crash(self) -> bool:
        """Whether anything but blank was cut when it was opened after a power loss."""
        return self._cut_by_crash

    def clean_mark(self) -> CleanMark:
        """The mark for an orderly stop: to be written once `sync` has returned, when nothing more will be appended."""
        return CleanMark(self._tail.index, self._tail.end, self._tail.chain)

    # Growing and cutting.

    def append(self, drafts: Sequence[Draft], *, term: int, commit: int, now_ms: int) -> list[Header]:
        """As the leader: make entries of `drafts`, with the append time max(now_ms, the last one's). One group write
        for each segment touched; on an error none of them is in the log."""
        self._check_health()
        assert term >= self.last_term
        assert commit <= self.last_index
        append_time_ms = max(now_ms, self.last_append_time_ms)
        headers: list[Header] = []
        groups: list[tuple[int, list[bytes]]] = []
        end, chain = self._tail.end, self._tail.chain
        for index, draft in enumerate(drafts, self.last_index + 1):
            assert self._grid.fits(draft.size), "the largest entry fits in a segment: settings see to that"
            position = self._grid.place(end, draft.size)
            header, pieces = entry.encode(
                draft, index=index, term=term, position=position, commit=commit,
                append_time_ms=append_time_ms, previous_chain=chain,
            )  # fmt: skip
            if not groups or position % self._grid.segment_bytes == 0:
                groups.append((position, []))
            groups[-1][1].extend(pieces)
            headers.append(header)
            end, chain = header.end, header.chain
        self._write_groups(groups, headers)
        return headers

    def examine(self, data: Readable, prev_index: int) -> list[Header]:
        """As a follower: judge a received range that is said to follow entry `prev_index`, which must be here. Returns
        its headers; writes nothing.

        Raises `CorruptRangeError` when it is bad in itself, `ForkedError` when its chain does not continue ours."""
        return examined(data, self.tail_at(prev_index), self._grid)

    def write(self, data: Readable, headers: list[Header], first: int) -> None:
        """As a follower: write the entries from index `first`, the next one, to the end of a range that `examine` has
        passed, in one group write. Raises `ForkedError` when the entry before them is another one here than there."""
        self._check_health()
        skipped = first - headers[0].index
        assert first == self.last_index + 1
        assert 0 <= skipped < len(headers)
        if skipped and headers[skipped - 1].chain != self.chain:
            raise ForkedError(first - 1, self.chain, headers[skipped - 1].chain)
        position = headers[skipped].position
        assert position == self._grid.place(self.end, headers[skipped].size)
        self._write_groups([(position, [data[position - headers[0].position :]])], headers[skipped:])

    def truncate(self, last_index: int) -> None:
        """Keep the entries up to `last_index`, and erase what is cut. A kill at any moment leaves a prefix of the log
        that is no shorter than that."""
        self._check_health()
        assert self._start_tail.index <= last_index <= self.last_index
        if last_index == self.last_index:
            return
        before, self._tail = self._tail, self.tail_at(last_index)  # first: `prepare_next` goes by it
        try:
            self._erase_after(last_index, before.end)
        except StoreError as error:
            self._tail, self._failure = before, error
            raise
        self._positions.truncate(last_index)

    # Where the log begins.

    def snapshot_at(self, index: int, *, configuration: bytes, state: bytes) -> Snapshot:
        """A base for a log that begins behind entry `index`, which is here (or is the base)."""
        tail = self.tail_at(index)
        return Snapshot(tail.index, tail.term, tail.end, tail.chain, tail.append_time_ms, configuration, state)

    def drop_before(self, snapshot: Snapshot) -> None:
        """Begin behind `base`, which `SnapshotFile.replace` has made durable. Whole segments before it are let go, and
        removed by `remove_dropped`, or at the next start."""
        assert self._start_tail.index <= snapshot.index <= self.last_index
        assert self.tail_at(snapshot.index) == snapshot.tail, (
            f"the base is of another log than entry {snapshot.index} here"
        )
        self._positions.drop_before(snapshot.tail)
        self._segments.drop_before(snapshot.end)
        self._start_tail = snapshot.tail
        self._known_commit = max(self._known_commit, snapshot.index)

    def reset(self, snapshot: Snapshot) -> None:
        """Forget everything, and begin behind `base`, of another node's log, as `SnapshotFile.begin_reset` has decided
        durably; `SnapshotFile.finish_reset` comes after this."""
        self._check_health()
        try:
            self._segments.begin_at(snapshot.end)
        except StoreError as error:
            self._failure = error
            raise
        self._start_tail = self._tail = snapshot.tail
        self._positions = Positions(snapshot.tail)
        self._known_commit = snapshot.index

    # Damage, found while it is open.

    def entries_in(self, first: int, end: int) -> range:
        """The indexes of those entries that have a byte between two positions; empty where none has."""
        behind = self._positions.last_ending_by(first) + 1
        last = self._positions.last_ending_by(end)
        last += last < self.last_index and self.position(last + 1) < end
        return range(behind, last + 1)

    @property
    def scrub_repair(self) -> ScrubRepair:
        """Overwrites damaged entries of the log, as the log is at this moment. Ask for it anew for each step."""
        return ScrubRepair(
            self._segments, self._positions, self._grid, self._start_tail, self._tail, self._check_health
        )

    def mark_damaged(self, entries: range) -> None:
        """Nothing is read of these any more until `mark_whole`."""
        self.damaged = range(self.position(entries[0]), self._positions.end(entries[-1]))

    def mark_whole(self) -> None:
        self.damaged = range(0)

    def _checked(self, position: int, size: int) -> int:
        """The position, where those bytes may be read. Raises `RangeDamagedError`."""
        damaged = self.damaged
        if damaged and position < damaged.stop and position + size > damaged.start:
            raise RangeDamagedError(self._segments.path(position), damaged.start, damaged.stop)
        return position

    def segment_files(self, last_index: int) -> list[SegmentFile]:
        """The files that hold the entries up to that one."""
        last = self.position(last_index)
        return [SegmentFile(self._segments.path(base), base) for base in self._segments.bases if base <= last]

    # Reading. Indexes are of entries that are present. All raise `RangeDamagedError` where the log is `damaged`.

    def term(self, index: int) -> int:
        """Of an entry, or of the base; 0 for index 0 where there is none."""
        return self._positions.term(index)

    def term_runs(self, first: int, last: int) -> list[tuple[int, int]]:
        """(first index, term) of each run of equal terms in first..last."""
        return self._positions.runs(first, last)

    def position(self, index: int) -> int:
        return self._positions.position(index)

    def tail_at(self, index: int) -> Tail:
        """Of the log as it would be if it ended with that entry, which may be the base."""
        if index == self.last_index:
            return self._tail
        return self._start_tail if index == self._start_tail.index else Tail.of(self.header(index))

    def position_units(self, first: int, last: int) -> bytes:
        """Of the entries first..last, as `PositionFiles` keeps them."""
        return self._positions.units(first, last).tobytes()

    def begins_segment(self, index: int) -> bool:
        """Whether entry `index` is the first one of a segment."""
        return self.position(index) % self._grid.segment_bytes == 0

    def header(self, index: int) -> Header:
        return self.header_at(self.position(index))

    def header_at(self, position: int) -> Header:
        """Of the entry at `position`, as a ConsumeQueue names it."""
        return entry.parse(memoryview(self._segments.read(self._checked(position, HEADER_SIZE), HEADER_SIZE)), 0)

    def body(self, index: int) -> bytes:
        return self.body_at(self.position(index), self._positions.size(index))

    def body_at(self, position: int, size: int) -> bytes:
        """The body of the entry of `size` bytes at `position`, as a ConsumeQueue names it. Verifies nothing."""
        # By way of the entry: an empty body at the end of a segment would be looked for in the next one.
        return bytes(self._segments.slice(self._checked(position, size), size)[HEADER_SIZE:])

    def entry(self, index: int) -> tuple[Header, memoryview]:
        """Header and body of an entry, the body as a view that stays valid until the log is closed or cut there."""
        size = self._positions.size(index)
        data = self._segments.slice(self._checked(self.position(index), size), size)
        return entry.parse(data, 0), data[HEADER_SIZE:]

    def entry_at(self, position: int, size: int) -> tuple[Header, memoryview]:
        """Like `entry`, of the entry of `size` bytes at `position`, as a ConsumeQueue names it. Verifies nothing."""
        data = self._segments.slice(self._checked(position, size), size)
        return entry.parse(data, 0), data[HEADER_SIZE:]

    def span(self, first: int, last: int) -> int:
        """Bytes that the entries first..last, which lie in one segment, take there."""
        return self._positions.end(last) - self.position(first)

    def reach(self, first: int, max_bytes: int) -> int:
        """The last index such that first..last lies in one segment and in `max_bytes`; at least `first`."""
        position = self.position(first)
        limit = min(position + max_bytes, self._grid.base(position) + self._grid.segment_bytes)
        return max(first, self._positions.last_ending_by(limit))

    def read_range(self, first: int, last: int) -> bytes:
        """The bytes of entries first..last, which lie in one segment: what `examine` takes."""
        return bytes(self.view_range(first, last))

    def view_range(self, first: int, last: int) -> memoryview:
        """The same, not copied: it shows what is written there later, should the log be cut."""
        position = self.position(first)
        assert self._grid.base(position) == self._grid.base(self.position(last)), "a range lies in one segment"
        size = self._positions.end(last) - position
        return self._segments.slice(self._checked(position, size), size)

    def spans(self) -> list[SegmentSpan]:
        """What the files of segments hold, the first one first, as far as entries have come into the files."""
        spans, first = [], self.first_index
        for base in self._segments.bases:
            whole = self._positions.last_ending_by(base + self._grid.segment_bytes)
            last = min(whole, self._positions.last_ending_by(base + self._segments.written_bytes(base)))
            if last >= first:
                span = SegmentSpan(
                    path=self._segments.path(base),
                    base=base,
                    start=max(0, self.start - base),
                    length=self._positions.end(last) - base,
                    first_index=first,
                    last_index=last,
                    chain=self.tail_at(last).chain,
                    is_last=last < whole or last == self.last_index,
                )
                spans.append(span)
                first = last + 1
            if last < whole:
                break
        return spans

    # Durability and room. Callable from helper threads.

    @property
    def dirty(self) -> bool:
        """Whether anything was written since the last sync began."""
        return self._segments.dirty

    @property
    def dirty_bytes(self) -> int:
        """How much was written since the last sync began."""
        return self._segments.dirty_bytes

    @property
    def staged_bytes(self) -> int:
        """Of that, how much waits in buffers of this process, and is lost if it is killed."""
        return self._segments.staged_bytes

    def write_out(self) -> None:
        """What waits in buffers gets into the files."""
        self._check_health()
        self._segments.write_out()

    def sync(self) -> tuple[int, int]:
        """Flush. Returns (index, term) of the last entry written before it began: it and all before it are durable."""
        self._check_health()
        tail = self._tail
        self._segments.sync()
        return tail.index, tail.term

    @property
    def next_is_prepared(self) -> bool:
        return self._segments.has(self._next_base())

    def prepare_next(self) -> None:
        """Make the segment that follows the one in use, so that no append waits for it."""
        self._segments.prepare(self._next_base)

    @property
    def has_dropped(self) -> bool:
        """Whether files that `drop_before` has let go are there still."""
        return self._segments.has_dropped

    def remove_dropped(self) -> None:
        """Remove the files that `drop_before` has let go."""
        self._segments.remove_dropped()

    def close(self) -> None:
        """Let go of the files; flushes nothing. No `sync` may be under way, and nothing may be written any more."""
        self._segments.close()
        self._is_closed = True

    def _next_base(self) -> int:
        return self._grid.tail_base(self._tail.end) + self._grid.segment_bytes

    def _check_health(self) -> None:
        assert not self._is_closed, "what is written behind the clean mark would be taken for damage"
        failure = self._failure or self._segments.failure
        if failure is not None:
            raise DiskFailedError(self._directory, f"an earlier write was lost ({failure})") from failure

    def _write_groups(self, groups: Sequence[tuple[int, Sequence[Readable]]], headers: list[Header]) -> None:
        for number, (position, pieces) in enumerate(groups):
            try:
                self._segments.write_group(position, pieces)
            except OutOfFilesError:  # nothing of this one was written, nor could it be taken back
                self._undo(groups[:number])
                raise
            except StoreError:
                self._undo(groups[: number + 1])
                raise
        if headers:
            self._positions.add(headers)
            self._tail = Tail.of(headers[-1])
            self._known_commit = max(self._known_commit, *(header.commit for header in headers))

    def _undo(self, groups: Sequence[tuple[int, Sequence[Readable]]]) -> None:
        """Take back what a failed write has left, segments made for it included (see `Segments.flushed_below`). If that
        fails too, memory and disk disagree: the log is poisoned."""
        try:
            for position, pieces in reversed(groups):
                if self._segments.has(self._grid.base(position)):
                    self._segments.erase_word(position)
                    self._segments.erase(position, position + sum(map(len, pieces)))
            self._segments.remove_after(self._next_base())
        except StoreError as error:
            self._failure = error

    def _erase_after(self, last_index: int, old_end: int) -> None:
        """Later segments go first, the last one before the others; in the segment that stays, the entries' first words
        backwards from the last, and then their bodies."""
        end = self._positions.end(last_index)
        keep = self._grid.tail_base(end)
        if self._grid.tail_base(old_end) > keep:
            self._segments.remove_after(keep)
        limit = min(old_end, keep + self._grid.segment_bytes)
        for index in range(self._positions.last_ending_by(limit), last_index, -1):
            self._segments.erase_word(self._positions.position(index))
        self._segments.erase(end, limit)
