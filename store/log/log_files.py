"""Lists the segment files in a log's directory, for readers that do not open the log.

Readers that do not open the log learn the segment length from the files themselves. A file name of 20 digits is the
position of the file's first byte. The most frequent file length is the length of a segment.
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
    # Position in the log of the first byte of the file.
    base: int

    def view(self, disk: ReadOnlyDisk) -> memoryview:
        """Return the whole file as a read-only view. The view stays valid as long as a reference to it exists."""
        return view_file(disk, self.path)


def segment_files(disk: ReadOnlyDisk, directory: Path) -> list[SegmentFile]:
    """Return the segment files of one log, ordered by position. Files whose name is not a number of 20 digits are
    left out."""
    return [SegmentFile(directory / name_of(base), base) for base in numbers_of(disk.list(directory))]


def usual_length(disk: ReadOnlyDisk, segments: Sequence[SegmentFile]) -> int:
    """Return the most frequent length of the files `segments` in bytes. If several lengths are equally frequent,
    return the largest. Return 0 if there are no files."""
    lengths = Counter(_length(disk.open(segment.path)) for segment in segments)
    return max(lengths, key=lambda length: (lengths[length], length), default=0)


def _length(file: File) -> int:
    try:
        return file.size
    finally:
        file.close()
