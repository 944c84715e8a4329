"""Small logs for the tests of the store: segments of 1 KiB, bodies that differ from entry to entry, kills at every
byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from store import CleanMark, CommitLog, Disk, EntryDraft, EntryKind, LogSettings, MemoryDisk, PreviousRun
from store.disk.memory_disk import Killed

SEGMENT = 1024
DIRECTORY = Path("/data/log")


def open_log(disk: Disk, directory: Path = DIRECTORY, *, clean: CleanMark | None = None) -> CommitLog:
    return CommitLog.open(disk, directory, LogSettings(segment_bytes=SEGMENT), PreviousRun(clean=clean))


def draft(number: int, size: int = 20) -> EntryDraft:
    """Return a draft with a body of `size` bytes that depends on `number`. No byte of it is zero."""
    body = bytes((number * 31 + i) % 255 + 1 for i in range(size))
    return EntryDraft(EntryKind.BATCH, body, topic_id=3, queue=number % 4, base_offset=number * 10, count=number)


def append(log: CommitLog, *sizes: int, term: int | None = None) -> None:
    """Append entries with bodies of these sizes, in one group write for each segment."""
    drafts = [draft(log.last_index + i, size) for i, size in enumerate(sizes, 1)]
    log.append(drafts, term=term or max(1, log.tail.term), commit=log.last_index, now_ms=1000 + log.last_index)


def content(log: CommitLog) -> list[tuple[int, int, int, bytes]]:
    """Return (index, term, position, body) of all entries, read from the log's files."""
    entries = []
    for index in range(log.first_index, log.last_index + 1):
        header = log.reading.header(index)
        assert (header.index, header.term, header.position) == (index, log.term(index), log.reading.position(index))
        entries.append((index, header.term, header.position, log.reading.body(index)))
    return entries


def each_kill(before: MemoryDisk, act: Callable[[MemoryDisk], object]) -> Iterator[tuple[int, MemoryDisk]]:
    """Yield the disk that is left when `act` is killed at its first byte, at its second byte, and so on to its last
    byte."""
    for written in count():
        disk = before.after_kill()
        disk.kill_after(written)
        try:
            act(disk)
        except Killed:
            yield written, disk.after_kill()
        else:
            return
