"""Writing: by which way the bytes of a CommitLog get into its files, and what is asked of the memory on that way.

    direct    append ──pwrite──> page cache ──fdatasync──> disk
    mapped    append ──copy────> page cache, by a mapping ──fdatasync──> disk
    staged    append ──copy────> a buffer of this process ──pwrite, later──> page cache ──fdatasync──> disk

Three values and some hints, chosen once for a log; the log itself is the same by all three ways.
The ways are carried out by `segment_files.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WriteMode = Literal["direct", "mapped", "staged"]
ReadAhead = Literal["normal", "random", "willneed"]


@dataclass(frozen=True, slots=True)
class Writing:
    mode: WriteMode = "direct"
    # Buffers of a segment's size, at most; they are made when they are first needed.
    staged_segments: int = 3
    # Touch the pages of the next segment before it is used.
    warm: bool = False
    # Keep the segment in use, and the next one, in memory, where the system permits it.
    lock_memory: bool = False
    # What the system is told of how segments will be read.
    read_ahead: ReadAhead = "normal"


DIRECTLY = Writing()
