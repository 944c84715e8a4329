"""A segment span: the entries that one segment of an open log holds, for copying the segment's file.

    file    | before the log's start |  entries first_index .. last_index  |  blank  |
            0                        start                                 length

A segment file is allocated in full before it is used, so only the bytes before `length` belong to the log. The bytes
before `length` change only if a follower cuts entries that were never committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SegmentSpan:
    path: Path
    # Position in the log of the file's first byte.
    base: int
    # Offset in the file of the first entry. It is above 0 only in the segment where the log itself begins.
    start: int
    # Number of bytes of the file up to the end of its last entry.
    length: int
    first_index: int
    last_index: int
    # Chain of the last entry. Two files with the same name, length and chain hold the same entries.
    chain: int
    # True if no later segment holds an entry.
    is_last: bool
