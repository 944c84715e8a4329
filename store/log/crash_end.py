"""The end of a log after a power loss: what recovery found there, told before it changes anything.

What is about to be cut may have been acknowledged, so whoever must remember that (as the suspect mark) hears
of it while the bytes are still there; a kill in between finds them again and tells it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CrashEnd:
    # Of the last entry that is whole; 0: none is.
    last_index: int
    end: int
    # What ends the log there; empty where nothing but blank lies behind it. Entries may be missing in both cases.
    reason: str


BeforeCut = Callable[[CrashEnd], None]
