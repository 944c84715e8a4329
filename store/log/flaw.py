"""A flaw: what a reader of a log found wrong with it, where, and how far that goes.

    ... entry 6 | ######## what is wrong ######## | entry 9 | ...
                ^ position, index 7               ^ end

A flaw is told and not raised, so that reading goes on behind it and finds the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from store.errors import DamagedError


class FlawKind(Enum):
    # Bytes that were once whole are not any more, or stand where they do not belong.
    DAMAGE = "damage"
    # Behind the log's last entry, and such as a killed write leaves there: the next start erases it.
    TORN = "torn"
    # Written by a version that this program does not know; perhaps whole.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Flaw:
    kind: FlawKind
    path: Path
    # In the log, for segments; in the file, for all others.
    position: int
    # Of the entry that belongs there; None where that is not known, or the file has no entries.
    index: int | None
    reason: str
    # Where whole entries (or right units of an index) are found again; None: nowhere behind it.
    end: int | None = None
    # Of the last entry that is missing or not whole because of it, where that is known.
    last_index: int | None = None

    @staticmethod
    def of(error: DamagedError) -> Flaw:
        """What is wrong with a file that has no entries."""
        return Flaw(FlawKind.DAMAGE, error.path, error.position, None, error.reason)
