"""The file mark: how many bytes of an index file are valid, and a checksum of the valid bytes.

If an index and the log disagree, the log is right. A checkpoint holds a file mark for each index file. The next start
does not use a file that differs from its file mark, and ignores the bytes after the marked length.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class FileMark:
    # Path of the file below the directory of its index.
    name: str
    # Number of valid bytes, from the beginning of the file.
    length: int
    # CRC32C of the valid bytes.
    crc: int

    def inside(self, directory: str) -> FileMark:
        """Return a file mark whose path begins with `directory`."""
        return replace(self, name=f"{directory}/{self.name}")


def marks_in(directory: str, marks: Iterable[FileMark]) -> list[FileMark]:
    """Return the marks of the files in `directory`, with paths relative to `directory`."""
    above = directory + "/"
    return [replace(mark, name=mark.name.removeprefix(above)) for mark in marks if mark.name.startswith(above)]
