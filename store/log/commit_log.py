"""The CommitLog holds the entries of a shard in order. Raft numbers the entries, and each entry has the same position
on every replica.

A leader makes entries (`append`). A follower copies a range of the leader's entries unchanged (`examine`, `write`), so
leader and follower have the same bytes at the same positions. The log checks its bytes at each start (`recovery`), and
checks received bytes before it writes them. Later reads use a mapping of the file, and do not check the bytes again
(`reading`).

The memory holds only the tail, the table of positions, and the largest commit index that an entry mentions. A failed
append changes neither the memory nor the visible log on the disk (`entry_writes`).

The log may begin after a *snapshot*. In a log that begins after a snapshot, the snapshot's entry and all earlier
entries are gone, and the snapshot contains the state after them. The first entry after the snapshot continues the
index, term, end and chain that the snapshot states.

One thread makes all calls, except that helper threads may call `sync`, `write_out`, `prepare_next` and
`segments.remove_dropped`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from store.directory.clean_mark import CleanMark
from store.disk.disk import Disk
from store.errors import CorruptRangeError, ForkedError, StoreError
from store.log import entry
from store.log.entry import EntryDraft, Header, Readable
from store.log.entry_writes import EntryWrites
from store.log.log_reading import LogReading
from store.log.log_settings import NO_CALLBACKS, NO_PREVIOUS_RUN, LogCallbacks, LogSettings, PreviousRun
from store.log.log_state import LogState
from store.log.received_range import examined
from store.log.recovery import Recovery
from store.log.segments import Segments
from store.log.tail import LogTail
from store.repair.scrub_repair import ScrubRepair
from store.snapshot.snapshot import Snapshot


class CommitLog:
    def __init__(self, directory: Path, settings: LogSettings, segments: Segments, recovered: Recovery) -> None:
        """Use `open`."""
        self._grid = settings.grid
        self._state = LogState(recovered.start_tail, recovered.tail, recovered.positions, recovered.known_commit)
        self._writes = EntryWrites(directory, segments, settings.grid)
        # The segment files. Callers ask them about unflushed bytes and remove dropped files; only the log writes them.
        self.segments = segments
        # Reads the entries.
        self.reading = LogReading(self._state, segments, settings.grid)
        # Index up to which a checkpoint vouched for the entries, so that `open` did not read them. If it is below
        # `first_index`, all entries were read.
        self.unread_up_to = recovered.unread_up_to
        # Whether `open` cut bytes other than blank space, after a power loss.
        self.cut_by_crash = recovered.cut_by_crash

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: Path,
        settings: LogSettings,
        previous: PreviousRun = NO_PREVIOUS_RUN,
        callbacks: LogCallbacks = NO_CALLBACKS,
    ) -> Self:
        """Read and verify the log in `directory`, which is made if it is missing. `previous` says how the last run
        ended and where the log begins.

        Raise `DamagedError` if the log is damaged. A torn end is not damage, so `open` erases the torn bytes."""
        segments = Segments.adopt(
            disk,
            directory,
            settings.grid,
            previous.start_tail.end,
            reset=previous.is_resetting,
            writing=settings.writing,
            on_loss=callbacks.on_loss,
        )
        try:
            recovery = Recovery(
                segments,
                settings.grid,
                previous.start_tail,
                previous.known,
                previous.reads_again,
                callbacks.on_entry,
                callbacks.on_progress,
            )
            if previous.has_crashed:
                recovery.after_crash(callbacks.before_cut)
            elif previous.clean is None or previous.is_resetting:
                recovery.after_kill()
                segments.distrust(previous.known.tail.end if previous.known is not None else 0)
            else:
                recovery.after_stop(previous.clean)
        except BaseException:
            segments.close()
            raise
        return cls(directory, settings, segments, recovery)

    # Where the log begins and ends.

    @property
    def first_index(self) -> int:
        """The index of the first entry that the log holds or will hold."""
        return self._state.start_tail.index + 1

    @property
    def last_index(self) -> int:
        """Index of the last entry. If the log is empty, this is the index of its snapshot, or 0."""
        return self._state.tail.index

    @property
    def start(self) -> int:
        """The position at which the first entry may begin: the end of the snapshot's entry, or 0 if the log begins
        at entry 1."""
        return self._state.start_tail.end

    @property
    def end(self) -> int:
        """Position after the last entry."""
        return self._state.tail.end

    @property
    def start_tail(self) -> LogTail:
        """The tail that the first entry follows: the tail of the snapshot, or EMPTY if the log begins at entry 1."""
        return self._state.start_tail

    @property
    def tail(self) -> LogTail:
        """The index, term, end, chain and append time of the last entry. If the log is empty, this is `start_tail`."""
        return self._state.tail

    @property
    def known_commit(self) -> int:
        """The largest commit index that an entry of the log mentions. Entries up to this index are committed. Later
        entries may be committed too."""
        return self._state.known_commit

    def clean_mark(self) -> CleanMark:
        """Return the clean mark for an orderly stop. The caller writes this mark after the last `append` or
        `write`, and after `sync`."""
        tail = self._state.tail
        return CleanMark(tail.index, tail.end, tail.chain)

    # Growing and cutting.

    def append(self, drafts: Sequence[EntryDraft], *, term: int, commit: int, now_ms: int) -> list[Header]:
        """As the leader, make entries of `drafts`, and append the entries in one group write for each segment. The
        append time of the entries is `now_ms` (Unix time in milliseconds), but never less than the append time of
        the last entry. If the call raises an error, none of the entries is in the log."""
        self._writes.check_health()
        tail = self._state.tail
        assert term >= tail.term
        assert commit <= tail.index
        append_time_ms = max(now_ms, tail.append_time_ms)
        headers: list[Header] = []
        groups: list[tuple[int, list[bytes]]] = []
        end, chain = tail.end, tail.chain
        for index, draft in enumerate(drafts, tail.index + 1):
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
        self._writes.write(groups, tail.end)
        if headers:
            self._state.add(headers)
        return headers

    def examine(self, data: Readable, prev_index: int) -> list[Header]:
        """As a follower, check a received range of entries. The range must follow the entry `prev_index`, which this
        log must hold. Return the headers of the range. `examine` writes nothing.

        Raise `CorruptRangeError` if the range is damaged, `ForkedError` if its chain does not continue this log, and
        `RangeDamagedError` if the entry `prev_index` of this log is damaged."""
        try:
            return examined(data, self.reading.tail_at(prev_index), self._grid)
        except (CorruptRangeError, ForkedError):
            self.reading.whole_tail_at(prev_index)  # raises if it is this log that is damaged there
            raise

    def write(self, data: Readable, headers: list[Header], first: int) -> None:
        """As a follower, write entries of a range that `examine` has checked, in one group write. The written entries
        begin at index `first`, which is the next index of this log, and end at the end of the range.

        Raise `ForkedError` if the entry before `first` differs between this log and the range."""
        self._writes.check_health()
        tail, skipped = self._state.tail, first - headers[0].index
        assert first == tail.index + 1
        assert 0 <= skipped < len(headers)
        if skipped and headers[skipped - 1].chain != tail.chain:
            raise ForkedError(first - 1, tail.chain, headers[skipped - 1].chain)
        position = headers[skipped].position
        assert position == self._grid.place(tail.end, headers[skipped].size)
        self._writes.write([(position, [data[position - headers[0].position :]])], tail.end)
        self._state.add(headers[skipped:])

    def truncate(self, last_index: int) -> None:
        """Keep the entries up to `last_index`, and erase the later entries. A kill at any moment leaves a prefix of the
        log that contains entry `last_index`. Raise `RangeDamagedError`, and change nothing, if this entry is damaged:
        the next entry would not continue the log."""
        self._writes.check_health()
        state, before = self._state, self._state.tail
        assert state.start_tail.index <= last_index <= before.index
        if last_index == before.index:
            return
        # Before the bytes, because `prepare_next` makes the segment after it.
        state.tail = self.reading.whole_tail_at(last_index)
        try:
            self._writes.erase_after(last_index, state.positions, before.end)
        except StoreError:
            state.tail = before
            raise
        state.positions.truncate(last_index)

    def snapshot_at(self, index: int, *, configuration: bytes, state: bytes) -> Snapshot:
        """Return a snapshot for a log that begins after entry `index` of this log. Raise `RangeDamagedError` if this
        entry is damaged: the snapshot would carry the damage to other nodes."""
        tail = self.reading.whole_tail_at(index)
        return Snapshot(tail.index, tail.term, tail.end, tail.chain, tail.append_time_ms, configuration, state)

    def drop_before(self, snapshot: Snapshot) -> None:
        """Make the log begin after `snapshot`, which `SnapshotFile.replace` has made durable. The log stops using
        the segments that lie completely before the snapshot's end. `segments.remove_dropped` or the next start
        removes the files of segments that are no longer used."""
        assert self._state.start_tail.index <= snapshot.index <= self._state.tail.index
        # Compared with the table in memory, because the bytes of the entry may be damaged by now.
        positions, index = self._state.positions, snapshot.index
        assert (positions.term(index), positions.end(index)) == (snapshot.term, snapshot.end), (
            f"the snapshot is of another log than entry {index} here"
        )
        self._state.drop_before(snapshot.tail)
        self.segments.drop_before(snapshot.end)

    def reset(self, snapshot: Snapshot) -> None:
        """Remove all entries, and make the log begin after `snapshot`, which is from another node's log. Before
        `reset`, call `SnapshotFile.begin_reset`, which durably records the decision to reset the log. After
        `reset`, call `SnapshotFile.finish_reset`. `segments.remove_dropped` or the next start removes the files of the
        old log that lie before the new log start."""
        self._writes.check_health()
        self._writes.remove_all(snapshot.end, lambda: self._state.reset(snapshot.tail))

    # The methods of `reading` that the driver uses (`raft.interfaces.Log`).

    def term(self, index: int) -> int:
        return self.reading.term(index)

    def chain(self, index: int) -> int:
        """Return the chain of entry `index`, to compare it with another log. Raise `RangeDamagedError` if the entry is
        damaged."""
        return self.reading.whole_tail_at(index).chain

    def entry(self, index: int) -> tuple[Header, memoryview]:
        return self.reading.entry(index)

    def view_range(self, first: int, last: int) -> memoryview:
        return self.reading.view_range(first, last)

    def begins_segment(self, index: int) -> bool:
        return self.reading.begins_segment(index)

    # Durability.

    def write_out(self) -> None:
        """Write the bytes that wait in buffers of this process to the files."""
        self._writes.check_health()
        self.segments.write_out()

    def sync(self) -> tuple[int, int]:
        """Flush the log. Return (index, term) of the last entry that was written before the call. When `sync`
        returns, the returned entry and all entries before it are durable."""
        self._writes.check_health()
        tail = self._state.tail
        self.segments.sync()
        return tail.index, tail.term

    @property
    def next_is_prepared(self) -> bool:
        """Whether the segment after the last entry's segment exists."""
        return self.segments.has(self._next_segment())

    @property
    def left_in_segment(self) -> int:
        """The bytes from the end of the log to the end of the last entry's segment."""
        return self._next_segment() - self._state.tail.end

    def prepare_next(self) -> None:
        """Make the segment after the last entry's segment in advance, so that no append waits until a segment is
        made."""
        self.segments.prepare(self._next_segment)

    def _next_segment(self) -> int:
        return self._grid.next_base(self._state.tail.end)

    @property
    def scrub_repair(self) -> ScrubRepair:
        """Return an object that overwrites damaged entries. The object is valid only until the log changes, so call
        this method for each step of a repair."""
        state = self._state
        return ScrubRepair(
            self.segments, state.positions, self._grid, state.start_tail, state.tail, self._writes.check_health
        )

    def close(self) -> None:
        """Close the files without a flush. No `sync` may be in progress, and no write may follow."""
        self.segments.close()
        self._writes.close()
