"""Segment files: opens the files of a CommitLog's segments, and prepares the next file. Only this module chooses
between the ways of writing (`writing.py`). Writes to a blank segment may be staged: they wait in a buffer of this
process before they go to the file. Two kinds of segment are written directly: a segment that holds entries already,
because its buffer would first have to be filled from the file, and a blank segment for which no buffer is free. The
log's thread calls `open`. While another thread runs `open`, a helper thread may call `prepare`.
"""

from __future__ import annotations

import logging
from collections import deque
from pathlib import Path

from store.disk import paging
from store.disk.disk import Disk, File
from store.log.staging import BufferPool, StagedFile
from store.log.writing import Writing

log = logging.getLogger("ledgermq.store.segments")

# Number of segments that are kept in memory: the segment in use and the next segment.
_LOCKED = 2


class SegmentFiles:
    def __init__(self, disk: Disk, writing: Writing, segment_bytes: int) -> None:
        self._disk = disk
        self._writing = writing
        self._pool = BufferPool(segment_bytes, writing.staged_segments)
        # The file that was staged last.
        self._staged: StagedFile | None = None
        # Views of separate mappings. A lock holds the pages in the page cache, through whichever mapping they are used.
        self._locked: deque[memoryview] = deque(maxlen=_LOCKED)
        self._may_lock = True

    def prepare(self, path: Path, blank: int) -> None:
        """Prepare the blank segment at `path`, so that writes to it need no new space or memory. `blank` is the
        number of blank segments, including this segment. This call may take a long time."""
        if self._writing.mode == "staged":
            self._pool.prepare(blank)
        if not (self._writing.warm or self._writing.lock_memory):
            return
        is_mapped = self._writing.mode == "mapped"
        file = self._disk.open_mapped(path) if is_mapped else self._disk.open(path)
        try:
            if self._writing.warm:
                paging.touch(file.view(), to_write=is_mapped)
            if self._writing.lock_memory:
                self._lock(path, file.view())
        finally:
            file.close()

    def open(self, path: Path, *, is_blank: bool) -> File:
        """Open the segment at `path`. `is_blank` means that the segment was never written and is the next segment of
        the log."""
        file = self._disk.open_mapped(path) if self._writing.mode == "mapped" else self._disk.open(path)
        if self._writing.read_ahead != "normal":
            paging.advise(file.view(), self._writing.read_ahead)
        return self._stage(path, file) if is_blank and self._writing.mode == "staged" else file

    def _stage(self, path: Path, file: File) -> File:
        if self._staged is not None:
            self._staged.leave()
            self._staged = None
        buffer = self._pool.take()
        if buffer is None:
            log.warning("%s is written directly: all buffers are in use (see `staged_segments`)", path)
            return file
        self._staged = StagedFile(file, buffer)
        return self._staged

    def _lock(self, path: Path, view: memoryview) -> None:
        if paging.lock(view):
            self._locked.append(view)
        elif self._may_lock:
            self._may_lock = False
            log.warning("%s cannot be locked in memory: the system does not permit it (see `ulimit -l`)", path)
