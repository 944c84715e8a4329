"""The segment files of a log, as their directory lists them, for those who only read them.

Names and lengths tell the grid without the log being opened: 20 digits say where a segment begins, and the
length that most of them have is the length of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from store.disk.disk import File, ReadOnlyDisk, view_file
from store.disk.numbered import name_of, numbers_of


@dataclass(frozen=True, slots=True)
class SegmentFile:
    path: Path
    # Position of its first byte.
    base: int

    def view(self, disk: ReadOnlyDisk) -> memoryview:
        """The whole file, read-only; valid while anyone holds it."""
        return view_file(disk, self.path)


def segment_files(disk: ReadOnlyDisk, directory: Path) -> list[SegmentFile]:
    """Those of one log, by position; files of other names are none."""
    return [SegmentFile(directory / name_of(base), base) for base in numbers_of(disk.list(directory))]


def usual_length(disk: ReadOnlyDisk, segments: Sequence[SegmentFile]) -> int:
    """The length that most of them have; of several such, the largest. 0 where there are no files."""
    lengths = Counter(_length(disk.open(segment.path)) for segment in segments)
    return max(lengths, key=lambda length: (lengths[length], length), default=0)


def _length(file: File) -> int:
    try:
        return file.size
    finally:
        file.close()
