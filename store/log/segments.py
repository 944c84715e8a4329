"""The segments: the files of a CommitLog as one row of bytes, addressed by position.

Segment files are all of one length and named by the 20-digit position of their first byte, so a position
alone says which file and where. They are made whole (allocated, zeros), the next one ahead of need by a helper thread,
and read through one mapping each. A bounded number is open at a time.

A segment comes into being only when all that was written before is flushed, names too, and is used only when it has
its length durably; they are removed one by one, the last first, each durably. So the mere names tell something after a
power loss: where segment s is there, those before s - 1 were whole on the disk, and no name is missing between two.

    0          1          2          3 (made when 2 was begun)
    | flushed  | flushed  | perhaps  | perhaps ...
                          ^ flushed_below

A log that begins later has its first segment where its first byte lies, blank before it; older ones are let go at once
(`drop_before`) and removed when there is time (`remove_dropped`), the oldest first.
The log's thread calls everything but `prepare`, `remove_dropped` and `sync`, which
may run in helper threads at any time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from store.disk.disk import Disk, File, Writable
from store.disk.numbered import name_of, numbers_of
from store.errors import LogDamagedError, OutOfFilesError, StoreError
from store.log.entry import WORD
from store.log.grid import Grid
from store.log.segment_files import SegmentFiles
from store.log.staging import StagedFile
from store.log.writing import DIRECTLY, Writing

MAX_OPEN = 64
# How the name of a file ends that is to take a segment's place: one that is there at a start never did.
FRESH = ".new"
CHUNK = 1 << 20
_ZEROS = bytes(CHUNK)
# Bytes: what is larger is not copied to save a write.
_LARGE = 16 << 10


class Segments:
    def __init__(
        self, disk: Disk, directory: Path, grid: Grid, start: int, writing: Writing, on_loss: Callable[[], None]
    ) -> None:
        """`start`: position of the log's first byte. `on_loss` is called, in any thread, once a sync has failed."""
        self._disk = disk
        self._files = SegmentFiles(disk, writing, grid.segment_bytes)
        self._directory = directory
        self._grid = grid
        # Segments that exist: from the first one to the last one; when there is none, the last one is before the first.
        self._first_base = grid.base(start)
        self._last_base = self._first_base - grid.segment_bytes
        # Files that are there still: from this one on. oldest_base <= first_base
        self._oldest_base = self._first_base
        self._removing = threading.Lock()
        self._making = threading.Lock()
        # Least recently used first. Dirty ones stay open: a file opened again may not hear of a failed write-back.
        self._open: OrderedDict[int, File] = OrderedDict()
        # Made in this run, and never written.
        self._blank: set[int] = set()
        self._lock = threading.Lock()  # guards the five below
        self._dirty: dict[int, File] = {}
        self._dirty_bytes = 0
        self._names_changed = False
        self._syncing: list[File] = []
        self._retired: list[File] = []
        self._one_sync = threading.Lock()
        # Why a sync failed: what a second one would say of the first one's pages cannot be believed.
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
        """The segments that lie in `directory`, which is made if it is missing, but for those that end before `start`
        (with `reset` all), which are removed. Raises `LogDamagedError` if there is a gap between them, or one is not as
        long as it should be."""
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
        """The file that holds the byte at `position`."""
        return self._directory / name_of(self._grid.base(position))

    @property
    def bases(self) -> range:
        """First positions of the segments that exist."""
        step = self._grid.segment_bytes
        return range(self._first_base, self._last_base + step, step)

    @property
    def flushed_below(self) -> int:
        """A position before which everything was flushed once, and has not been written since."""
        return max(self._first_base, self._last_base - self._grid.segment_bytes)

    def has(self, base: int) -> bool:
        return self._first_base <= base <= self._last_base

    # Reading.

    def view(self, base: int) -> memoryview:
        """The whole segment that begins at `base`, read-only; shows later writes too."""
        return self._file(base).view()

    def slice(self, position: int, count: int) -> memoryview:
        """A read-only view of bytes that lie in one segment."""
        at = position % self._grid.segment_bytes
        return self.view(position - at)[at : at + count]

    def read(self, position: int, count: int) -> bytes:
        """A copy of bytes that lie in one segment."""
        return bytes(self.slice(position, count))

    # Writing.

    def write_group(self, position: int, pieces: Sequence[Writable]) -> None:
        """Write entries that lie in one segment, so that a kill at any moment leaves all or none: all with the first
        word blank, and then, by a write of its own, that word. The segment is made if it is missing."""
        base = self._grid.base(position)
        self.ensure(base)
        file = self._file(base)
        first, *others = pieces
        # With the blank word a write that begins and ends with pages touches whole pages only, which costs less.
        file.write(position - base, *_blocks([_ZEROS[:WORD], memoryview(first)[WORD:], *others]))
        file.write(position - base, first[:WORD])
        self._mark_dirty(base, file, sum(map(len, pieces)))

    def overwrite(self, position: int, data: bytes) -> None:
        """Other bytes in the place of those that lie in one segment, which exists."""
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
        """The same bytes in the same place, so that the next sync covers them for certain."""
        for base in self.bases:
            file = self._file(base)
            stop = min(end - base, self._grid.segment_bytes)
            for at in range(max(0, first - base), stop, CHUNK):
                count = min(CHUNK, stop - at)
                file.write(at, file.read(at, count))
                self._mark_dirty(base, file, count)

    def is_blank(self, first: int, end: int) -> bool:
        """Whether there are but zeros between two positions of one segment."""
        return all(data == _ZEROS[: len(data)] for _, data in self._written(first, end))

    def erase(self, first: int, end: int) -> None:
        """Zero what is not zero yet between two positions of one segment."""
        if first == end:
            return
        base = self._grid.base(first)
        file = self._file(base)
        for at, data in self._written(first, end):
            if data != _ZEROS[: len(data)]:
                file.write(at, _ZEROS[: len(data)])
        self._mark_dirty(base, file, end - first)

    def _written(self, first: int, end: int) -> Iterator[tuple[int, bytes]]:
        """What lies between two positions of one segment, each piece with its place in the file; but for what was never
        written. Of a segment that was begun just now, that is nearly all."""
        base = self._grid.base(first)
        file = self._file(base)
        for places in file.written(first - base, end - base):
            for at in places[::CHUNK]:
                yield at, file.read(at, min(CHUNK, places.stop - at))

    def ensure(self, base: int) -> None:
        """Make the segments up to the one at `base`, unless they exist."""
        if self.has(base):
            return  # without the lock: an append must not wait while the segment after its own is being made
        with self._making:
            self._make_up_to(base)

    def prepare(self, next_base: Callable[[], int]) -> None:
        """Make the segment that will be needed next. Which one is asked when nothing can be removed any more."""
        with self._making:
            self._make_up_to(next_base())

    def remove_after(self, base: int) -> None:
        """Remove all segments behind the one at `base`, the last first, durably."""
        with self._making:
            if self._last_base <= base:
                return
            while self._last_base > base:
                self._disk.unlink(self.path(self._last_base))
                self._forget(self._last_base)
                self._last_base -= self._grid.segment_bytes
                self._disk.sync_directory(self._directory)

    def drop_before(self, position: int) -> None:
        """Let go of the segments that end at or before `position`, which is in the log. Views of them stay valid; their
        files stay until `remove_dropped`."""
        with self._making:
            while self._first_base < self._grid.base(position):
                self._forget(self._first_base)
                self._first_base += self._grid.segment_bytes

    @property
    def has_dropped(self) -> bool:
        return self._oldest_base < self._first_base

    def remove_dropped(self) -> None:
        """Remove the files of segments that were let go, the oldest first, durably."""
        with self._removing:
            step = self._grid.segment_bytes
            dropped = range(self._oldest_base, self._first_base, step)
            self._unlink(dropped)
            self._oldest_base = dropped.stop

    def begin_at(self, start: int) -> None:
        """Remove all segments, durably; the first one to come is the one that holds the byte at `start`."""
        self.remove_dropped()
        self.remove_after(self._first_base - self._grid.segment_bytes)
        with self._making:
            self._first_base = self._oldest_base = self._grid.base(start)
            self._last_base = self._first_base - self._grid.segment_bytes

    # Durability.

    @property
    def dirty(self) -> bool:
        return bool(self._dirty) or self._names_changed

    @property
    def dirty_bytes(self) -> int:
        """How much was written since the last sync began; what was written twice counts twice."""
        return self._dirty_bytes

    @property
    def staged_bytes(self) -> int:
        """Of that, how much is in no file yet: a kill of the process takes it."""
        with self._lock:
            return sum(file.waiting_bytes for file in self._dirty.values() if isinstance(file, StagedFile))

    def written_bytes(self, base: int) -> int:
        """All before this place in the segment at `base` is in its file."""
        with self._lock:
            file = self._dirty.get(base)
        return file.written_bytes if isinstance(file, StagedFile) else self._grid.segment_bytes

    def write_out(self) -> None:
        """All that was written before this call is in the files when it returns, and survives a kill."""
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
        """What lies behind `position` may be in the page cache only: the next sync covers it, and all names."""
        for base in self.bases:
            if base + self._grid.segment_bytes > position:
                self._mark_dirty(base, self._file(base), self._grid.segment_bytes)
        with self._lock:
            self._names_changed = True

    def sync(self) -> None:
        """All that was written before this call is on the disk when it returns."""
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
        """A sync has failed, in whatever thread: nothing that it should have covered is believed any more."""
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
        """Of segments that are not used any more."""
        for base in bases:
            self._disk.unlink(self.path(base))
        if bases:
            self._disk.sync_directory(self._directory)

    def _mark_dirty(self, base: int, file: File, count: int) -> None:
        # After the write, never before it: a sync that took the mark in between would leave the write uncovered.
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
            for base in idle[:1]:
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
        """Whether the file has its length. One that a kill or a power loss left half made is removed."""
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
    """The same bytes, the small pieces joined."""
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
