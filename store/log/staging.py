"""Staging: the writes to a segment wait in a buffer of this process before they are written to its file.

    0             first                    last                 segment_bytes
    | in the file | in the buffer alone    | blank              |                     _waiting = (first, last)

While a write-out copies the bytes, their range is `_copying`, and later writes begin a new `_waiting`.

An append copies bytes into memory of this process, so an append does not wait for the page cache. The file receives
the bytes later, in large writes, and always before a sync. Views of a staged segment show the bytes of its buffer.
When the log writes to the next segment and the file holds all bytes, the buffer returns to its pool.

Staged bytes are lost if the process is killed, as bytes in the page cache are lost if the machine loses power. After a
kill or a power loss, entries that were cut may be in the log again.

The pool has a limited number of buffers. The pool does not reuse a buffer while a view of it exists.

The log's thread writes, reads and takes buffers. `write_out`, `sync` and `BufferPool.prepare` may run in other threads.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from store.disk import paging
from store.disk.disk import File, Writable
from store.log.entry import WORD

log = logging.getLogger("ledgermq.store.staging")

CHUNK = 1 << 20
Buffer = npt.NDArray[np.uint8]


class BufferPool:
    def __init__(self, size: int, count: int) -> None:
        """Make a pool of at most `count` buffers of `size` bytes. The buffers themselves are made by `prepare`."""
        self._size = size
        self._count = count
        self._made = 0
        # No locks: a loan may end in any thread, in the middle of anything.
        self._clean: deque[Buffer] = deque()
        self._returned: deque[Buffer] = deque()
        self._is_locked = True

    def prepare(self, count: int) -> None:
        """Make `count` blank buffers ready to be taken, or fewer if the pool has no more. The call may take long."""
        while len(self._clean) < count:
            if self._returned:
                memory = self._returned.popleft()
                paging.clear(memory.data)
            elif self._made < self._count:
                memory = self._make()
            else:
                return
            self._clean.append(memory)

    def take(self) -> Buffer | None:
        """Return a blank buffer, or None if no blank buffer is ready."""
        if not self._clean:
            return None
        memory = self._clean.popleft()
        buffer = memory[:]  # the array that represents this loan
        weakref.finalize(buffer, self._returned.append, memory).atexit = False
        return buffer

    def _make(self) -> Buffer:
        memory = np.zeros(self._size, np.uint8)
        self._made += 1
        was_locked, self._is_locked = self._is_locked, paging.lock(memory.data)
        if self._made == 1 or was_locked != self._is_locked:
            state = "locked in memory" if self._is_locked else "not locked in memory (see `ulimit -l`): may be swapped"
            log.info("staging: buffers of %d MiB, at most %d, %s", self._size >> 20, self._count, state)
        return memory


class StagedFile:
    """A `disk.File` that stages the writes to the file of a blank segment."""

    def __init__(self, file: File, buffer: Buffer) -> None:
        self._file = file
        self._lock = threading.Lock()  # guards the four fields below
        self._buffer: Buffer | None = buffer
        self._waiting: tuple[int, int] | None = None
        # The range that `write_out` is copying to the file. Not all bytes of the range are in the file yet.
        self._copying: tuple[int, int] | None = None
        self._is_left = False

    @property
    def size(self) -> int:
        return self._file.size

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes that are in the buffer and not yet in the file."""
        waiting = self._waiting
        return waiting[1] - waiting[0] if waiting else 0

    @property
    def written_bytes(self) -> int:
        """All bytes of the segment before this offset are in the file."""
        with self._lock:
            return min((first for first, _ in filter(None, (self._waiting, self._copying))), default=self.size)

    def write(self, offset: int, *pieces: Writable) -> None:
        end = offset + sum(map(len, pieces))
        assert end <= self.size, "a segment does not grow"
        with self._lock:
            if self._buffer is not None:
                first, last = self._waiting or (offset, end)
                self._waiting = min(first, offset), max(last, end)
                for piece in pieces:
                    self._buffer.data[offset : offset + len(piece)] = piece
                    offset += len(piece)
                return
        self._file.write(offset, *pieces)

    def read(self, offset: int, count: int) -> bytes:
        buffer = self._buffer
        return self._file.read(offset, count) if buffer is None else bytes(buffer.data[offset : offset + count])

    def written(self, first: int, end: int) -> Sequence[range]:
        return self._file.written(first, end) if self._buffer is None else [range(first, end)]

    def view(self) -> memoryview:
        buffer = self._buffer
        return self._file.view() if buffer is None else buffer.data.toreadonly()

    def leave(self) -> None:
        """The log continues in another segment: release the buffer as soon as the file holds all bytes."""
        with self._lock:
            self._is_left = True
            self._let_go()

    def write_out(self) -> None:
        """Write the buffered bytes to the file. When the call returns, all earlier writes are in the file. Only one
        call at a time is allowed. After an error, the bytes that were not written are only in the buffer, until the
        file is closed."""
        with self._lock:
            buffer, copying = self._buffer, self._waiting
            self._copying, self._waiting = copying, None
        if buffer is not None and copying is not None:
            self._copy(buffer.data, *copying)
        with self._lock:
            self._copying = None
            self._let_go()

    def sync(self) -> None:
        self.write_out()
        self._file.sync()

    def close(self) -> None:
        """Close the file. Bytes that are in the buffer and not in the file are lost."""
        with self._lock:
            self._buffer = self._waiting = self._copying = None
        self._file.close()

    def _copy(self, data: memoryview, first: int, last: int) -> None:
        """Write the first word last, as `Segments.write_group` does, so that a kill leaves no entry visible. If the
        first word were written only in part, it would look like an entry of another version."""
        for at in range(first + WORD, last, CHUNK):
            self._file.write(at, data[at : min(at + CHUNK, last)])
        self._file.write(first, data[first : first + WORD])

    def _let_go(self) -> None:
        if self._is_left and self._waiting is None and self._copying is None:
            self._buffer = None
