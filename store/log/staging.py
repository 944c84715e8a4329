"""Staging: a segment whose writes wait in a buffer of this process until they are written to its file.

    0             first                    last                 segment_bytes
    | in the file | in the buffer alone    | blank              |                     _waiting = (first, last)

An append is a copy into memory that is there, so it waits for no page cache;
the file gets the bytes later, in large writes, and always before a sync. Views show the buffer. Once the log has gone
on to another segment and all of this one is in the file, the buffer goes back to its pool, and the file goes on alone.

What waits is lost with the process, as what waits in the page cache is lost with the machine; and as there, what was
cut may come back.

The pool has a bounded number of buffers. One that a reader still looks at is not given out again: the array that stands
for a loan lives as long as any view of it does.

The log's thread writes, reads and takes buffers; `write_out`, `sync` and `BufferPool.prepare` may run beside it.
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
        """Of `count` buffers of `size` bytes; none is made before `prepare`."""
        self._size = size
        self._count = count
        self._made = 0
        # No locks: a loan may end in any thread, in the middle of anything.
        self._clean: deque[Buffer] = deque()
        self._returned: deque[Buffer] = deque()
        self._is_locked = True

    def prepare(self, count: int) -> None:
        """Have so many blank buffers ready to be taken, as far as there are any. Takes its time."""
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
        """A blank buffer; None where no blank one is ready."""
        if not self._clean:
            return None
        memory = self._clean.popleft()
        buffer = memory[:]  # what stands for this loan
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
    """Implements `disk.File`, over the file of a blank segment."""

    def __init__(self, file: File, buffer: Buffer) -> None:
        self._file = file
        self._lock = threading.Lock()  # guards the four below
        self._buffer: Buffer | None = buffer
        self._waiting: tuple[int, int] | None = None
        self._is_left = False
        self._is_writing_out = False

    @property
    def size(self) -> int:
        return self._file.size

    @property
    def waiting_bytes(self) -> int:
        """In the buffer, and not yet in the file."""
        waiting = self._waiting
        return waiting[1] - waiting[0] if waiting else 0

    @property
    def written_bytes(self) -> int:
        """All before this place in the segment is in the file."""
        waiting = self._waiting
        return waiting[0] if waiting else self.size

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
        """The log goes on elsewhere: the buffer is not needed once all of it is in the file."""
        with self._lock:
            self._is_left = True
            self._let_go()

    def write_out(self) -> None:
        """All that was written before this call is in the file when it returns. One call at a time. After an error the
        buffer alone has what was written, for as long as the file is open."""
        with self._lock:
            buffer, waiting, self._waiting = self._buffer, self._waiting, None
            self._is_writing_out = True
        if buffer is not None and waiting is not None:
            self._copy(buffer.data, *waiting)
        with self._lock:
            self._is_writing_out = False
            self._let_go()

    def sync(self) -> None:
        self.write_out()
        self._file.sync()

    def close(self) -> None:
        """What waits is given up."""
        with self._lock:
            self._buffer = self._waiting = None
        self._file.close()

    def _copy(self, data: memoryview, first: int, last: int) -> None:
        """The word that makes what follows an entry comes last, as in `Segments.write_group`: a kill leaves none of it
        to be seen. In the midst of it, half a word might be left, which no flaw but that of another version has."""
        for at in range(first + WORD, last, CHUNK):
            self._file.write(at, data[at : min(at + CHUNK, last)])
        self._file.write(first, data[first : first + WORD])

    def _let_go(self) -> None:
        if self._is_left and self._waiting is None and not self._is_writing_out:
            self._buffer = None
