"""Writing: how the bytes of a CommitLog reach its files, and hints to the kernel about the memory that holds the
bytes.

    direct    append ──pwrite──> page cache ──fdatasync──> disk
    mapped    append ──copy────> page cache, by a mapping ──fdatasync──> disk
    staged    append ──copy────> a buffer of this process ──pwrite, later──> page cache ──fdatasync──> disk

The write mode and the hints of a log are chosen once, when the log is opened. The bytes of the log are the same in all
three write modes. `segment_files.py` implements the write modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WriteMode = Literal["direct", "mapped", "staged"]
ReadAhead = Literal["normal", "random", "willneed"]


@dataclass(frozen=True, slots=True)
class Writing:
    mode: WriteMode = "direct"
    # Maximum number of buffers, each as long as a segment. A buffer is made when it is first needed.
    staged_segments: int = 3
    # Whether to touch the pages of the next segment before it is used.
    warm: bool = False
    # Whether to lock the segment in use and the next segment in memory, if the system permits it.
    lock_memory: bool = False
    # The advice to the kernel about how segments will be read.
    read_ahead: ReadAhead = "normal"


DIRECTLY = Writing()
