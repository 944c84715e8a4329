"""Small logs for the tests of the store: segments of 1 KiB, bodies that tell entries apart, kills at every byte."""

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
    """With a body of `size` bytes, none of them zero, that depends on `number`."""
    body = bytes((number * 31 + i) % 255 + 1 for i in range(size))
    return EntryDraft(EntryKind.BATCH, body, topic_id=3, queue=number % 4, base_offset=number * 10, count=number)


def append(log: CommitLog, *sizes: int, term: int | None = None) -> None:
    """One group write (for each segment) of entries with bodies of these sizes."""
    drafts = [draft(log.last_index + i, size) for i, size in enumerate(sizes, 1)]
    log.append(drafts, term=term or max(1, log.tail.term), commit=log.last_index, now_ms=1000 + log.last_index)


def content(log: CommitLog) -> list[tuple[int, int, int, bytes]]:
    """(index, term, position, body) of all entries, read through headers and bodies on the disk."""
    entries = []
    for index in range(log.first_index, log.last_index + 1):
        header = log.reading.header(index)
        assert (header.index, header.term, header.position) == (index, log.term(index), log.reading.position(index))
        entries.append((index, header.term, header.position, log.reading.body(index)))
    return entries


def each_kill(before: MemoryDisk, act: Callable[[MemoryDisk], object]) -> Iterator[tuple[int, MemoryDisk]]:
    """What is found on the disk when `act` is killed at its first byte, its second, and so on to its last."""
    for written in count():
        disk = before.after_kill()
        disk.kill_after(written)
        try:
            act(disk)
        except Killed:
            yield written, disk.after_kill()
        else:
            return
