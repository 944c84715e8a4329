"""Describes the end of a log after a power loss. Recovery finds the end of the log before it changes any byte.

Recovery will cut the bytes after this end, and the cut bytes may hold entries that this node acknowledged. For this
reason, recovery reports the end to its caller before it cuts the log. If entries may be missing, the caller marks the
node as a suspect. If the process is killed before the cut, the next recovery finds the same bytes and reports the same
end again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CrashEnd:
    # Index of the last whole entry; 0 if no entry is whole.
    last_index: int
    end: int
    # Why the log ends there. Empty if only blank space follows. Entries may be missing in both cases.
    reason: str


BeforeCut = Callable[[CrashEnd], None]
