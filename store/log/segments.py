"""The segments present the files of a CommitLog as one sequence of bytes, which are addressed by their position in the
log.

All segment files have the same length, and a file's name is the position of its first byte in 20 digits. The file of
an entry, and the offset in the file, follow from the entry's position alone. A file is allocated in full, with zeros,
before it is used; a helper thread prepares the next file in advance. Each file is read through one mapping. The number
of open files is limited.

A new segment is made only after all earlier writes and names are flushed, and is used only after its length is
durable. Segments are removed one by one, from the last to the first. Each removal is durable before the next. After a
power loss, the file names prove what was flushed. If segment s exists, all segments before s - 1 were flushed
completely, and no earlier segment is missing.

    0          1          2          3 (made when 2 was begun)
    | flushed  | flushed  | perhaps  | perhaps ...
                          ^ flushed_below

If the log begins at a later position, its first segment contains that position and is blank before it. `drop_before`
immediately stops using the segments before the log start. `begin_at` gives up all segments, because a snapshot has
replaced the log. It removes at once only files whose names new segments could need. Later, `remove_dropped` removes
the files of the other dropped segments. The log's thread makes all calls, except that helper threads may call
`prepare`, `remove_dropped` and `sync` at any time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from store.disk.disk import Disk, File, Writable, remove_file
from store.disk.numbered import name_of, numbers_of
from store.errors import LogDamagedError, OutOfFilesError, StoreError
from store.log.entry import WORD
from store.log.grid import Grid
from store.log.segment_files import SegmentFiles
from store.log.staging import StagedFile
from store.log.writing import DIRECTLY, Writing

MAX_OPEN = 64
# The number of segments that `distrust` marks before it flushes them.
_FLUSHED_TOGETHER = MAX_OPEN // 2
# Suffix of a file that is to replace a segment. A file with this suffix at a start never replaced its segment.
FRESH = ".new"
CHUNK = 1 << 20
_ZEROS = bytes(CHUNK)
# Pieces of this many bytes or more are not copied into a joined block.
_LARGE = 16 << 10


class Segments:
    def __init__(
        self, disk: Disk, directory: Path, grid: Grid, start: int, writing: Writing, on_loss: Callable[[], None]
    ) -> None:
        """`start` is the position of the log's first byte. `on_loss` is called, in any thread, after a sync has
        failed."""
        self._disk = disk
        self._files = SegmentFiles(disk, writing, grid.segment_bytes)
        self._directory = directory
        self._grid = grid
        # Bases of the first and the last segment. If no segment exists, the last base lies before the first base.
        self._first_base = grid.base(start)
        self._last_base = self._first_base - grid.segment_bytes
        # Bases of the dropped segments whose files may still exist. All of them are below `_first_base`. Only the log's
        # thread appends bases. A thread that holds `_removing` takes bases out.
        self._dropped: list[int] = []
        self._removing = threading.Lock()
        self._making = threading.Lock()
        # Least recently used first. A file with unflushed writes stays open: a file that is opened again may not learn
        # of a failed write-back.
        self._open: OrderedDict[int, File] = OrderedDict()
        # Bases of segments that were made in this run and were never written.
        self._blank: set[int] = set()
        self._lock = threading.Lock()  # guards the five fields below
        self._dirty: dict[int, File] = {}
        self._dirty_bytes = 0
        self._names_changed = False
        self._syncing: list[File] = []
        self._retired: list[File] = []
        self._one_sync = threading.Lock()
        # Why a sync failed. After a failed sync, a second sync could report success for pages that were lost.
        self.failure: StoreError | None = None
        self._on_loss = on_loss

    @staticmethod
    def adopt(
        disk: Disk,
        directory: Path,
        grid: Grid,
        start: int,
        *,
        reset: bool,
        writing: Writing = DIRECTLY,
        on_loss: Callable[[], None] = lambda: None,
    ) -> Segments:
        """Return the segments in `directory`, which is made if it is missing. Segments that end before `start` are
        removed; with `reset`, all segments are removed. Raise `LogDamagedError` if a segment is missing between two
        segments, or has a wrong length."""
        disk.make_directory(directory)
        disk.sync_directory(directory.parent)
        segments = Segments(disk, directory, grid, start, writing, on_loss)
        names = disk.list(directory)
        for name in names:
            if name.endswith(FRESH):
                disk.unlink(directory / name)
        bases = numbers_of(names)
        dropped = [base for base in bases if reset or base < segments._first_base]
        segments._unlink(dropped)
        for base in bases[len(dropped) :]:
            if base != segments._last_base + grid.segment_bytes:
                reason = f"the segment of {grid.segment_bytes} bytes before it is missing, or segments had another size"
                raise LogDamagedError(segments.path(base), base, reason)
            if segments._is_whole(base, is_last=base == bases[-1]):
                segments._last_base = base
        return segments

    def path(self, position: int) -> Path:
        """Return the path of the file that contains the byte at `position`."""
        return self._directory / name_of(self._grid.base(position))

    @property
    def bases(self) -> range:
        """The positions of the first bytes of all segments."""
        step = self._grid.segment_bytes
        return range(self._first_base, self._last_base + step, step)

    @property
    def flushed_below(self) -> int:
        """The position before which all bytes were flushed and were not written again since."""
        return max(self._first_base, self._last_base - self._grid.segment_bytes)

    def has(self, base: int) -> bool:
        return self._first_base <= base <= self._last_base

    # Reading.

    def view(self, base: int) -> memoryview:
        """Return the whole segment that begins at `base`, read-only. The view also shows later writes."""
        return self._file(base).view()

    def slice(self, position: int, count: int) -> memoryview:
        """Return a read-only view of bytes that lie in one segment."""
        at = position % self._grid.segment_bytes
        return self.view(position - at)[at : at + count]

    def read(self, position: int, count: int) -> bytes:
        """Return a copy of bytes that lie in one segment."""
        return bytes(self.slice(position, count))

    # Writing.

    def write_group(self, position: int, pieces: Sequence[Writable]) -> None:
        """Write entries that lie in one segment, so that a kill at any moment leaves all of them or none. Write all
        bytes with a blank first word, and then write the first word. If the segment is missing, make it first."""
        base = self._grid.base(position)
        self.ensure(base)
        file = self._file(base)
        first, *others = pieces
        # The blank word is part of this write: a write that begins and ends at page boundaries then covers whole pages
        # only, which costs less.
        file.write(position - base, *_blocks([_ZEROS[:WORD], memoryview(first)[WORD:], *others]))
        file.write(position - base, first[:WORD])
        self._mark_dirty(base, file, sum(map(len, pieces)))

    def overwrite(self, position: int, data: bytes) -> None:
        """Write `data` over bytes that lie in one existing segment."""
        base = self._grid.base(position)
        file = self._file(base)
        file.write(position - base, data)
        self._mark_dirty(base, file, len(data))

    def erase_word(self, position: int) -> None:
        base = self._grid.base(position)
        file = self._file(base)
        file.write(position - base, _ZEROS[:WORD])
        self._mark_dirty(base, file, WORD)

    def write_again(self, first: int, end: int) -> None:
        """Write the same bytes again in the same place, so that the next sync certainly covers the bytes."""
        for base in self.bases:
            file = self._file(base)
            stop = min(end - base, self._grid.segment_bytes)
            for at in range(max(0, first - base), stop, CHUNK):
                count = min(CHUNK, stop - at)
                file.write(at, file.read(at, count))
                self._mark_dirty(base, file, count)

    def is_blank(self, first: int, end: int) -> bool:
        """Return whether all bytes between two positions of one segment are zero."""
        return all(data == _ZEROS[: len(data)] for _, data in self._written(first, end))

    def erase(self, first: int, end: int) -> None:
        """Write zeros over the bytes between two positions of one segment, where they are not zero yet."""
        if first == end:
            return
        base = self._grid.base(first)
        file = self._file(base)
        for at, data in self._written(first, end):
            if data != _ZEROS[: len(data)]:
                file.write(at, _ZEROS[: len(data)])
        self._mark_dirty(base, file, end - first)

    def _written(self, first: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes between two positions of one segment, piece by piece, each with its offset in the file.
        Bytes of the file that were never written are skipped. In a new segment nearly all bytes were never written."""
        base = self._grid.base(first)
        file = self._file(base)
        for places in file.written(first - base, end - base):
            for at in places[::CHUNK]:
                yield at, file.read(at, min(CHUNK, places.stop - at))

    def ensure(self, base: int) -> None:
        """Make the missing segments up to the segment at `base`."""
        if self.has(base):
            return  # without the lock: an append must not wait while a later segment is being made
        with self._making:
            self._make_up_to(base)

    def prepare(self, next_base: Callable[[], int]) -> None:
        """Make the next segment. This method calls `next_base` under the lock, so that no segment is removed
        meanwhile."""
        with self._making:
            self._make_up_to(next_base())

    def remove_after(self, base: int) -> None:
        """Remove all segments after the segment at `base`, from the last to the first. Each removal is durable
        before the next."""
        with self._making:
            if self._last_base <= base:
                return
            while self._last_base > base:
                self._disk.unlink(self.path(self._last_base))
                self._forget(self._last_base)
                self._last_base -= self._grid.segment_bytes
                self._disk.sync_directory(self._directory)

    def drop_before(self, position: int) -> None:
        """Stop using the segments that end at or before `position`, which is in the log. Views of the dropped
        segments stay valid, and the files stay until `remove_dropped`."""
        # Without the lock `_making`: a segment is made at the other end, and a slow disk may need long for it.
        while self._first_base < self._grid.base(position):
            dropped = self._first_base
            self._forget(dropped)
            self._first_base += self._grid.segment_bytes
            self._dropped.append(dropped)

    @property
    def has_dropped(self) -> bool:
        return bool(self._dropped)

    def remove_dropped(self) -> None:
        """Remove the files of the segments that were given up, the oldest first, durably. After an error, the next call
        completes the removal."""
        with self._removing:
            dropped = list(self._dropped)
            self._unlink(dropped)
            del self._dropped[: len(dropped)]

    def begin_at(self, start: int, begun: Callable[[], None]) -> None:
        """Give up all segments. The next segment to be made contains the byte at `start`. The caller has durably
        recorded that all present segments are void.

        Files at or after the segment of `start` are removed durably before the call returns. `remove_dropped` or the
        next start removes the earlier files, of which there may be thousands. `begun` is called when no segment is
        left. A call of `prepare` in another thread waits until `begun` has returned."""
        first = self._grid.base(start)
        with self._making:
            for base in self.bases:
                self._forget(base)
                self._dropped.append(base)
            self._last_base = self._first_base - self._grid.segment_bytes
            if any(base >= first for base in list(self._dropped)):  # a copy, because `remove_dropped` may be running
                with self._removing:
                    self._unlink([base for base in self._dropped if base >= first])
                    self._dropped = [base for base in self._dropped if base < first]
            self._first_base, self._last_base = first, first - self._grid.segment_bytes
            begun()

    # Durability.

    @property
    def dirty(self) -> bool:
        return bool(self._dirty) or self._names_changed

    @property
    def dirty_bytes(self) -> int:
        """The number of bytes written since the last sync began. A byte that was written twice counts twice."""
        return self._dirty_bytes

    @property
    def staged_bytes(self) -> int:
        """The number of bytes that wait in buffers and are not in a file yet. The bytes in the buffers are lost if
        the process is killed."""
        with self._lock:
            return sum(file.waiting_bytes for file in self._dirty.values() if isinstance(file, StagedFile))

    def written_bytes(self, base: int) -> int:
        """Number of bytes at the beginning of the segment at `base` that are in its file."""
        file = self._open.get(base)  # not from `_dirty`: a sync empties `_dirty` before it writes anything
        return file.written_bytes if isinstance(file, StagedFile) else self._grid.segment_bytes

    def write_out(self) -> None:
        """Write all staged bytes to the files. When the call returns, all earlier writes survive a kill of the
        process."""
        with self._one_sync:
            with self._lock:
                self._syncing = [file for _, file in sorted(self._dirty.items()) if isinstance(file, StagedFile)]
            try:
                for file in self._syncing:
                    assert isinstance(file, StagedFile)
                    file.write_out()
            except StoreError as error:
                self._lose(error)
                raise
            finally:
                self._close_retired()

    def distrust(self, position: int = 0) -> None:
        """Treat all bytes after `position`, and all file names, as not flushed. The next sync flushes these bytes
        and names. A long log is flushed in between, because a segment with unflushed bytes stays open."""
        distrusted = [base for base in self.bases if base + self._grid.segment_bytes > position]
        for number, base in enumerate(distrusted, 1):
            if number % _FLUSHED_TOGETHER == 0:
                self.sync()
            self._mark_dirty(base, self._file(base), self._grid.segment_bytes)
        with self._lock:
            self._names_changed = True

    def sync(self) -> None:
        """Flush. When the call returns, all earlier writes are on the disk."""
        with self._one_sync:
            if self.failure is not None:
                raise self.failure
            with self._lock:
                self._syncing, self._dirty = [file for _, file in sorted(self._dirty.items())], {}
                self._dirty_bytes = 0
                names_changed, self._names_changed = self._names_changed, False
            try:
                for file in self._syncing:
                    file.sync()
                if names_changed:
                    self._disk.sync_directory(self._directory)
            except OutOfFilesError:  # the directory was not even opened: nothing is lost
                self._names_changed = True
                raise
            except StoreError as error:
                self._lose(error)
                raise
            finally:
                self._close_retired()

    def _lose(self, error: StoreError) -> None:
        """Record that a sync has failed, in any thread. Bytes that the sync should have covered count as not
        flushed."""
        self.failure = error
        with suppress(StoreError):  # the disk may refuse this too
            self._on_loss()

    def close(self) -> None:
        for base in list(self._open):
            self._forget(base)

    def _make_up_to(self, base: int) -> None:
        while self._last_base < base:
            following = self._last_base + self._grid.segment_bytes
            self.sync()  # see `flushed_below`
            file = self._disk.create(self.path(following), self._grid.segment_bytes)
            try:
                file.sync()  # its length: it may stay blank, and no other sync would cover it
            except StoreError as error:
                self._lose(error)
                raise
            finally:
                file.close()
            self._blank.add(following)
            self._last_base = following
            with self._lock:
                self._names_changed = True
            self._files.prepare(self.path(following), len(self._blank))

    def _unlink(self, bases: Sequence[int]) -> None:
        """Remove the files of segments that are not used any more."""
        for base in bases:
            remove_file(self._disk, self.path(base))  # an earlier call, whose sync failed, may have removed it
        if bases:
            self._disk.sync_directory(self._directory)

    def _mark_dirty(self, base: int, file: File, count: int) -> None:
        # Call this after the write: a sync that took the mark before the write would not cover the write.
        with self._lock:
            self._dirty[base] = file
            self._dirty_bytes += count

    def _file(self, base: int) -> File:
        file = self._open.get(base)
        if file is None:
            assert self.has(base), f"no segment at {base}"
            self._make_room()
            file = self._open[base] = self._files.open(self.path(base), is_blank=base in self._blank)
            self._blank.discard(base)
        self._open.move_to_end(base)
        return file

    def _make_room(self) -> None:
        if len(self._open) >= MAX_OPEN:
            with self._lock:
                idle = [base for base, file in self._open.items() if not self._is_busy(base, file)]
            for base in idle[: len(self._open) - MAX_OPEN + 1]:
                self._forget(base)

    def _is_busy(self, base: int, file: File) -> bool:
        return base in self._dirty or file in self._syncing

    def _forget(self, base: int) -> None:
        self._blank.discard(base)
        file = self._open.pop(base, None)
        if file is None:
            return
        with self._lock:
            self._dirty.pop(base, None)
            if file in self._syncing:
                self._retired.append(file)
                return
        file.close()

    def _close_retired(self) -> None:
        with self._lock:
            retired, self._retired, self._syncing = self._retired, [], []
        for file in retired:
            file.close()

    def _is_whole(self, base: int, *, is_last: bool) -> bool:
        """Return whether the file has the length of a segment. A kill or a power loss may leave a blank last file
        that is too short; this file is removed. Raise `LogDamagedError` for any other wrong length."""
        path = self.path(base)
        file = self._disk.open(path)
        try:
            if file.size == self._grid.segment_bytes:
                return True
            if not is_last or file.size > self._grid.segment_bytes or any(file.read(0, file.size)):
                reason = f"the file has {file.size} bytes, and segments of this log {self._grid.segment_bytes}"
                raise LogDamagedError(path, base, reason)
        finally:
            file.close()
        self._disk.unlink(path)
        return False


def _blocks(pieces: Sequence[Writable]) -> list[Writable]:
    """Join small pieces, and return the same bytes in fewer pieces."""
    blocks: list[Writable] = []
    small: list[Writable] = []
    for piece in pieces:
        if len(piece) < _LARGE:
            small.append(piece)
            continue
        if small:
            blocks.append(b"".join(small))
            small = []
        blocks.append(piece)
    return [*blocks, b"".join(small)] if small else blocks
