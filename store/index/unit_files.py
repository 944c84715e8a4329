"""Unit files store units of equal length, which are numbered without gaps. Each file has room for the same number of
units.

    <directory>/00000000000000000000    units 0 ... units_per_file - 1
    <directory>/00000000000000300000    and so on; files grow as units are added

The number of a unit determines its file and its place in the file, so no search is needed. Unit files are not flushed,
because the index that uses them can be built again from the log. If the first unit is in the middle of a file, the
file is blank before that unit. `marks` returns a file mark for each file. `adopt` uses the existing files if they
agree with their file marks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import google_crc32c

from store.disk.disk import Disk, File
from store.disk.numbered import name_of, numbers_of
from store.index.file_mark import FileMark

_OPEN_FILES = 2  # the file that grows, and an older file that is read


class UnitFiles:
    """Stores a sequence of units of equal size in files. A new object is empty, even if the directory holds files."""

    __slots__ = (
        "_crc",
        "_directory",
        "_disk",
        "_end",
        "_files",
        "_first",
        "_full",
        "_removed_below",
        "_unit_bytes",
        "_units_per_file",
    )

    def __init__(self, disk: Disk, directory: Path, unit_bytes: int, units_per_file: int) -> None:
        self._disk = disk
        self._directory = directory
        self._unit_bytes = unit_bytes
        self._units_per_file = units_per_file
        self._first = 0
        self._end = 0
        # This object has removed, or has not written, the files before this unit.
        self._removed_below = 0
        self._files: OrderedDict[int, File] = OrderedDict()
        # CRC of each full file, by the number of its first unit.
        self._full: dict[int, int] = {}
        # CRC of the bytes in the growing file, including the blank before the first unit.
        self._crc = 0
        disk.make_directory(directory)

    @property
    def first(self) -> int:
        """The number of the first unit that the files hold or will hold."""
        return self._first

    @property
    def end(self) -> int:
        """Number of the next unit to be added."""
        return self._end

    def begin_at(self, number: int) -> None:
        """Drop the units before `number`, and remove files that hold only dropped units. If the sequence is empty,
        its next unit gets the number `number`. If the sequence begins at or after `number` already, nothing
        changes. After an error the units are dropped, and the next call removes the files that are left."""
        if number > self._first:
            assert number <= self._end or self._first == self._end
            kept = self._place(number)[0]
            self._full = {base: crc for base, crc in self._full.items() if base >= kept}
            if number > self._end:
                self._end = number
                self._crc = google_crc32c.value(bytes((number - kept) * self._unit_bytes))
            self._first = number  # before the files are removed: a failed removal leaves only some of them
        kept = self._place(self._first)[0]
        if kept > self._removed_below:  # there may be thousands of rows: few have anything to remove
            for base in self._bases_there():
                if base < kept:
                    self._remove(base)
            self._removed_below = kept

    def append(self, units: bytes) -> None:
        """Add `units` at the end. After a failed write no unit counts as added, and the caller appends the same
        units again."""
        done, size = 0, self._unit_bytes
        total = len(units) // size
        end, crc, full = self._end, self._crc, {}
        while done < total:
            base, at, room = self._place(end)
            piece = units[done * size : (done + room) * size]
            self._file(base).write(at * size, piece)
            crc = google_crc32c.extend(crc, piece)
            count = min(room, total - done)
            done, end = done + count, end + count
            if count == room:
                full[base], crc = crc, 0
        self._end, self._crc = end, crc  # only now: after a failed write the same units are appended again
        self._full.update(full)

    def read(self, number: int, most: int) -> list[bytes]:
        """Return the units from `number` on, up to `most` units, as one piece for each file."""
        assert number >= self._first
        last, pieces = min(number + most, self._end), []
        while number < last:
            base, at, room = self._place(number)
            count = min(room, last - number)
            pieces.append(self._file(base).read(at * self._unit_bytes, count * self._unit_bytes))
            number += count
        return pieces

    # -- marks of the files

    def marks(self) -> list[FileMark]:
        """Return a file mark for each file that holds a unit at this moment."""
        marks = [
            FileMark(name_of(base), self._units_per_file * self._unit_bytes, crc) for base, crc in self._full.items()
        ]
        base, at, _ = self._place(self._end)
        if self._end > max(base, self._first):
            marks.append(FileMark(name_of(base), at * self._unit_bytes, self._crc))
        return marks

    def adopt(self, first: int, end: int, marks: Mapping[str, FileMark]) -> bool:
        """Adopt the existing files, which hold the units first .. end - 1. If the files differ from `marks`, leave
        this object without units and return False. `marks` maps file names to file marks, and may contain names of
        other files."""
        assert self._first == self._end == 0
        if first == end:
            self.begin_at(first)
            return True
        self._first = self._end = first
        for base in range(self._place(first)[0], end, self._units_per_file):
            units = min(end - base, self._units_per_file)
            mark = marks.get(name_of(base))
            if mark is None or mark.length != units * self._unit_bytes or not self._holds(base, mark):
                self._first = self._end = self._crc = 0
                self._full.clear()
                return False
            self._end = base + units
            if units == self._units_per_file:
                self._full[base], self._crc = mark.crc, 0
            else:
                self._crc = mark.crc
        self._removed_below = self._place(first)[0]
        return True

    def _holds(self, base: int, mark: FileMark) -> bool:
        if not self._disk.exists(self._directory / mark.name):
            return False
        file = self._file(base)
        return file.size >= mark.length and google_crc32c.value(file.read(0, mark.length)) == mark.crc

    # -- its files

    def close(self) -> None:
        """Close the files. The next use of a file opens the file again."""
        while self._files:
            self._files.popitem()[1].close()

    def wipe(self) -> None:
        """Remove all units and all files, also files of earlier runs."""
        for base in self._bases_there():
            self._remove(base)
        self._first = self._end = self._crc = self._removed_below = 0
        self._full.clear()

    def _place(self, number: int) -> tuple[int, int, int]:
        """Return three numbers: the first unit of the file that holds unit `number`, the place of unit `number` in
        this file, and how many units fit in the file from this place on."""
        at = number % self._units_per_file
        return number - at, at, self._units_per_file - at

    def _file(self, base: int) -> File:
        if base not in self._files:
            if len(self._files) == _OPEN_FILES:
                self._files.popitem(last=False)[1].close()
            path = self._directory / name_of(base)
            self._files[base] = self._disk.open(path) if self._disk.exists(path) else self._disk.create(path, 0)
        self._files.move_to_end(base)
        return self._files[base]

    def _bases_there(self) -> list[int]:
        """Return the number of the first unit of each file in the directory, also of files that this object does
        not use."""
        return numbers_of(self._disk.list(self._directory))

    def _remove(self, base: int) -> None:
        if base in self._files:
            self._files.pop(base).close()
        self._disk.unlink(self._directory / name_of(base))
