"""The mark of an index's file: how much of it counts, and a checksum of that.

An index is never believed against the log. A checkpoint keeps a mark for each of its files; at the next start
a file that does not agree with its mark is worth nothing, and what lies behind the marked length is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class FileMark:
    # Its path below the directory of its index.
    name: str
    # Bytes that count, from the file's beginning.
    length: int
    # CRC32C of these.
    crc: int

    def inside(self, directory: str) -> FileMark:
        """As seen from above: its path begins with that directory."""
        return replace(self, name=f"{directory}/{self.name}")


def marks_in(directory: str, marks: Iterable[FileMark]) -> list[FileMark]:
    """Those of the files in that directory, as seen from there."""
    above = directory + "/"
    return [replace(mark, name=mark.name.removeprefix(above)) for mark in marks if mark.name.startswith(above)]
