"""A row of units of one length, numbered densely, over files that each hold as many: unit N lies at N × length.

    <directory>/00000000000000000000    units 0 ... units_per_file - 1
    <directory>/00000000000000300000    and so on; files grow as units come

Nothing is searched for, and nothing is flushed for safety's sake: whoever keeps such a row can make it again.
Where the row begins later, it is blank before that in the same file. `marks` say what the files hold at a moment;
`adopt` goes on at such a moment, or finds that the files are not as they were then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import google_crc32c

from store.disk.disk import Disk, File
from store.disk.numbered import name_of, numbers_of
from store.index.file_mark import FileMark

_OPEN_FILES = 2  # the one that grows, and an older one that is read


class UnitFiles:
    """Empty at first, whatever lies in the directory."""

    __slots__ = ("_crc", "_directory", "_disk", "_end", "_files", "_first", "_full", "_unit_bytes", "_units_per_file")

    def __init__(self, disk: Disk, directory: Path, unit_bytes: int, units_per_file: int) -> None:
        self._disk = disk
        self._directory = directory
        self._unit_bytes = unit_bytes
        self._units_per_file = units_per_file
        self._first = 0
        self._end = 0
        self._files: OrderedDict[int, File] = OrderedDict()
        # CRC of each full file, by its first unit.
        self._full: dict[int, int] = {}
        # Of what the file that grows holds, the blank before the first unit included.
        self._crc = 0
        disk.make_directory(directory)

    @property
    def first(self) -> int:
        """Of the first unit, present or to come."""
        return self._first

    @property
    def end(self) -> int:
        """Of the next unit."""
        return self._end

    def begin_at(self, number: int) -> None:
        """The units before `number` are not kept: an empty row goes on there; of one that reaches beyond it, files that
        hold none but those are removed. Where the row begins later already, nothing changes."""
        if number <= self._first:
            return
        assert number <= self._end or self._first == self._end
        kept = self._place(number)[0]
        if kept > self._place(self._first)[0]:  # there may be thousands of rows: few have anything to remove
            for base in self._bases_there():
                if base < kept:
                    self._remove(base)
        self._full = {base: crc for base, crc in self._full.items() if base >= kept}
        if number > self._end:
            self._end = number
            self._crc = google_crc32c.value(bytes((number - kept) * self._unit_bytes))
        self._first = number

    def append(self, units: bytes) -> None:
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
        """The units from `number` on, up to `most` of them, a piece for each file."""
        assert number >= self._first
        last, pieces = min(number + most, self._end), []
        while number < last:
            base, at, room = self._place(number)
            count = min(room, last - number)
            pieces.append(self._file(base).read(at * self._unit_bytes, count * self._unit_bytes))
            number += count
        return pieces

    # -- what the files hold

    def marks(self) -> list[FileMark]:
        """Of all files that hold a unit, as they are now."""
        marks = [
            FileMark(name_of(base), self._units_per_file * self._unit_bytes, crc) for base, crc in self._full.items()
        ]
        base, at, _ = self._place(self._end)
        if self._end > max(base, self._first):
            marks.append(FileMark(name_of(base), at * self._unit_bytes, self._crc))
        return marks

    def adopt(self, first: int, end: int, marks: Mapping[str, FileMark]) -> bool:
        """Hold the units first .. end - 1, as the files did when these marks were made of them. Returns False, and
        holds nothing, where that is not so any more. `marks`: by name; more of them may be there."""
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
        return True

    def _holds(self, base: int, mark: FileMark) -> bool:
        if not self._disk.exists(self._directory / mark.name):
            return False
        file = self._file(base)
        return file.size >= mark.length and google_crc32c.value(file.read(0, mark.length)) == mark.crc

    # -- its files

    def close(self) -> None:
        """Let go of the files. They are opened again when needed."""
        while self._files:
            self._files.popitem()[1].close()

    def wipe(self) -> None:
        """Remove all files, those of earlier runs too, and be empty."""
        for base in self._bases_there():
            self._remove(base)
        self._first = self._end = self._crc = 0
        self._full.clear()

    def _place(self, number: int) -> tuple[int, int, int]:
        """Of a unit: the first one in its file, its place there, and how many fit from there on."""
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
        """Of the files that lie there, used or not."""
        return numbers_of(self._disk.list(self._directory))

    def _remove(self, base: int) -> None:
        if base in self._files:
            self._files.pop(base).close()
        self._disk.unlink(self._directory / name_of(base))
