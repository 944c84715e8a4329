"""Describes a flaw: one damaged place that a reader of a log found, with its begin and end.

    ... entry 6 | #### damaged bytes #### | entry 9 | ...
                ^ position, index 7       ^ end

A reader returns a flaw instead of raising an error, so the reader can continue after a flaw and find the next flaw.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from store.errors import DamagedError


class FlawKind(Enum):
    # Bytes that were whole once are wrong now, or lie where they do not belong.
    DAMAGE = "damage"
    # Bytes after the last entry, as a killed write leaves them. The next start erases them.
    TORN = "torn"
    # The entry was written by a version that this program does not know. The entry may be whole.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Flaw:
    kind: FlawKind
    path: Path
    # For a segment, the position in the log. For all other files, the offset in the file.
    position: int
    # Index of the entry that belongs there; None if the index is unknown or the file has no entries.
    index: int | None
    reason: str
    # Where the next whole entry (or the next right unit of an index) begins; None if none was found after the flaw.
    end: int | None = None
    # Index of the last entry that is missing or damaged because of this flaw; None if unknown.
    last_index: int | None = None

    @staticmethod
    def of(error: DamagedError) -> Flaw:
        """Return the flaw of a damaged file that has no entries."""
        return Flaw(FlawKind.DAMAGE, error.path, error.position, None, error.reason)
