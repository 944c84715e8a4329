"""A segment span: what one segment of an open log holds, for whoever wants its file.

    file    | before the log's start |  entries first_index .. last_index  |  blank  |
            0                        start                                 length

Of a file that is made whole before it is used, only the bytes up to `length` are the log. Up to there they
change only where a follower cuts entries that were never committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SegmentSpan:
    path: Path
    # Position of its first byte.
    base: int
    # Where its first entry begins, in the file: behind 0 only where the log itself begins there.
    start: int
    # Bytes of the file up to the end of its last entry.
    length: int
    first_index: int
    last_index: int
    # Of its last entry: two files of that name, length and chain hold the same entries.
    chain: int
    # No entry lies in a later one.
    is_last: bool
