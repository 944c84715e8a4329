"""A violation: one thing that must not be, with its exact place; and the kinds of them.

Whoever finds something says what it is, in which replica, at which index, position, file or offset, so that a person
can go there and a program can count. Both engines give the same ones.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class ViolationKind(StrEnum):
    """In the order in which they are told."""

    DAMAGED_ENTRY = "damaged entry"
    """Bytes that are no whole entry, where one must be."""
    UNKNOWN_ENTRY = "unknown entry"
    """Written by a version that this program does not know."""
    MISSING_ENTRIES = "missing entries"
    MISSING_SEGMENT = "missing segment"
    NOT_BLANK = "not blank"
    """Bytes behind the last entry, where none may be."""
    OUT_OF_PLACE = "out of place"
    """A whole entry that cannot follow the one before it: its index, position, append time or commit."""
    TERM_FALLS = "term falls"
    CHAIN_BROKEN = "chain broken"
    LOG_CUT = "log cut"
    """The log ends elsewhere than a mark or a checkpoint beside it says."""
    DAMAGED_BATCH = "damaged batch"
    """A whole entry whose body is no batch, or another one than its header says."""
    DAMAGED_FILE = "damaged file"
    """A vote, a mark, a snapshot or a file of an index that is missing or cannot be read."""
    REPLICAS_DIFFER = "replicas differ"
    """Two replicas have different entries where one of them has a committed one."""
    COMMIT_NOT_HELD = "commit not held"
    """Called committed, and fewer than a majority of the voters can have it."""
    OFFSET_HOLE = "offset hole"
    """The offsets of a queue do not go on where they ended."""
    SEQUENCE_GAP = "sequence gap"
    SEQUENCE_REPEATED = "sequence repeated"
    EPOCH_FENCED = "epoch fenced"
    """A batch of a producer's epoch behind one of a later epoch."""
    UNKNOWN_QUEUE = "unknown queue"
    """A batch of a topic or queue that the log never made."""
    STATE_DIFFERS = "state differs"
    """Replayed, two replicas come to another state at the same index."""
    STALE_SNAPSHOT = "stale snapshot"
    """A base or checkpoint does not hold the state, or the place, that the log gives for its index."""
    POSITION_WRONG = "position wrong"
    """A position of an entry, for which the checkpoint vouches, is not the one that the log gives."""
    UNIT_WRONG = "unit wrong"
    """A ConsumeQueue unit says something else than the log."""
    UNIT_MISSING = "unit missing"
    UNIT_SURPLUS = "unit surplus"
    KEY_WRONG = "key wrong"
    """An entry of the key index says something else than the log."""
    KEY_MISSING = "key missing"
    KEY_SURPLUS = "key surplus"
    KEY_LINK = "key link"
    """The chains or slots of a file of the key index are not those that its entries give."""
    ACKNOWLEDGED_MISSING = "acknowledged missing"
    ACKNOWLEDGED_ELSEWHERE = "acknowledged elsewhere"
    """An acknowledged message has another offset than the one that was acknowledged."""
    ACKNOWLEDGED_REPEATED = "acknowledged repeated"
    ACKNOWLEDGED_ALTERED = "acknowledged altered"
    """An acknowledged message has another payload."""
    FAILED_PRESENT = "failed present"
    """A message is there whose send surely failed."""


ORDER = {kind: number for number, kind in enumerate(ViolationKind)}


@dataclass(frozen=True, slots=True)
class Violation:
    """None where something does not apply. `position`: in the log, or in the file `path` where that is no segment."""

    kind: ViolationKind
    shard: int
    source: str
    """As it was named on the command line; empty where it is of the whole shard."""
    reason: str
    index: int | None = None
    position: int | None = None
    last_index: int | None = None
    """Of a run of entries."""
    end: int | None = None
    """Where whole entries, or right units, are found again."""
    topic: str | None = None
    """Its name where that is known, else `id N`."""
    queue: int | None = None
    offset: int | None = None
    path: str | None = None

    @property
    def order(self) -> tuple[Any, ...]:
        """By shard, kind, source and place."""
        place = tuple(-1 if each is None else each for each in (self.index, self.position, self.queue, self.offset))
        return self.shard, ORDER[self.kind], self.source, *place, self.path or "", self.reason

    def fields(self) -> dict[str, Any]:
        """As JSON and Parquet have it."""
        return {**asdict(self), "kind": self.kind.value}


TYPES: dict[str, type] = {
    "kind": str, "shard": int, "source": str, "reason": str, "index": int, "position": int, "last_index": int,
    "end": int, "topic": str, "queue": int, "offset": int, "path": str,
}  # fmt: skip
"""Of `fields`, in their order: the columns of a table of violations."""
