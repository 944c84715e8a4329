"""Writes the table of the timed index to disk, so that a checkpoint needs a single mark for all buckets.

A draft of a checkpoint takes the changed rows in the event loop. The rows are written on a helper thread, while the
event loop changes the table. If the writing fails, the next draft has the same rows again, and the same names of files
to remove.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import google_crc32c

from store.disk.disk import Disk, remove_file
from store.disk.numbered import is_number, name_of
from store.index.bucket_table import ROW_BYTES, BucketTable
from store.index.file_mark import FileMark

SUFFIX = ".table"
# A new file begins if the file has so many rows more than twice the number of buckets.
_SLACK_ROWS = 1024
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class TimedDraft:
    """The part of a checkpoint that describes the timed index at one moment."""

    # Rows to write.
    rows: bytes
    # The number of the last change of the table that the rows have.
    changes: int
    # Whether the rows are all rows, for a new file.
    is_whole: bool
    # Number of wipes of the index before this draft.
    wipes: int
    # Names of the files that the last checkpoint needs, and this checkpoint does not need.
    dropped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Written:
    """The file of the table, as far as it is written."""

    wipes: int = -1
    number: int = -1
    mark: FileMark | None = None
    changes: int = 0


class TimedJournal:
    def __init__(self, disk: Disk, directory: Path, table: BucketTable) -> None:
        self._disk = disk
        self._directory = directory
        self._table = table
        # Replaced as a whole by `write`, so that the event loop can read it at any time.
        self._written = _Written()
        # Number of the next file. No number is used twice.
        self._next_number = 0
        # Names of the files that only older checkpoints need. A dict, because `remove` runs on another thread than
        # `drop`: each change is a single operation.
        self._dropped: dict[str, None] = {}
        # Names of earlier files of the table, which only older checkpoints need.
        self._old: tuple[str, ...] = ()
        self._wipes = 0

    def drop(self, names: Iterable[str]) -> None:
        """Note files that the index no longer needs."""
        self._dropped.update(dict.fromkeys(names))

    def draft(self) -> TimedDraft:
        """Return what `write` must write for a checkpoint of this moment. It does no I/O."""
        table, written = self._table, self._written
        is_current = written.wipes == self._wipes and written.mark is not None
        if is_current:
            table.forget_changes(written.changes)
        rows = table.changed_rows()
        length = (written.mark.length if written.mark else 0) + len(rows)
        is_whole = not is_current or length // ROW_BYTES > 2 * len(table) + _SLACK_ROWS
        if is_whole:
            rows = table.all_rows() if table.next_generation else b""
        return TimedDraft(rows, table.changes, is_whole, self._wipes, tuple(self._dropped))

    def write(self, draft: TimedDraft) -> list[FileMark]:
        """Write the rows of the draft, and return the marks that the checkpoint must have. An index that was never
        used has no mark."""
        written = self._written
        if draft.is_whole and not draft.rows:
            return []
        if draft.is_whole:
            number = self._next_number
            self._next_number += 1
            mark = FileMark(name_of(number) + SUFFIX, 0, 0)
        else:
            assert written.mark is not None
            number, mark = written.number, written.mark
        if draft.rows:
            mark = self._appended(mark, draft.rows)
        if draft.is_whole and written.mark is not None:
            self._old = (*self._old, written.mark.name)
        self._written = _Written(draft.wipes, number, mark, draft.changes)
        return [mark]

    def remove(self, draft: TimedDraft) -> None:
        """Remove the files that no checkpoint needs any more. Call it after the checkpoint of `draft` is durable. If
        the disk fails, the next call removes the files that are left."""
        for name in draft.dropped:
            self._remove(name)
            self._dropped.pop(name, None)
        for name in self._old:
            self._remove(name)
        self._old = ()

    def _remove(self, name: str) -> None:
        remove_file(self._disk, self._directory / name)

    def adopt(self, mark: FileMark) -> bool:
        """Load the table from the file. Return False if the file differs from the mark."""
        number = mark.name.removesuffix(SUFFIX)
        path = self._directory / mark.name
        if not is_number(number) or mark.length % ROW_BYTES or not self._disk.exists(path):
            return False
        data = bytearray()
        file = self._disk.open(path)
        try:
            if file.size < mark.length:
                return False
            for at in range(0, mark.length, _CHUNK_BYTES):
                data += file.read(at, min(_CHUNK_BYTES, mark.length - at))
        finally:
            file.close()
        if google_crc32c.value(bytes(data)) != mark.crc or not self._table.load(bytes(data)):
            return False
        self._next_number = int(number) + 1
        self._written = _Written(self._wipes, int(number), mark, self._table.changes)
        return True

    def wipe(self, table: BucketTable) -> None:
        """Begin again with an empty table. A `write` that runs at the same time has no effect on the next draft."""
        self._wipes += 1
        self._table = table
        self._dropped.clear()

    def _appended(self, mark: FileMark, rows: bytes) -> FileMark:
        path = self._directory / mark.name
        if not mark.length and self._disk.exists(path):
            self._disk.unlink(path)
        file = self._disk.open(path) if self._disk.exists(path) else self._disk.create(path, 0)
        try:
            file.write(mark.length, rows)
        finally:
            file.close()
        return FileMark(mark.name, mark.length + len(rows), google_crc32c.extend(mark.crc, rows))
