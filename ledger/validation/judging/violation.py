"""Defines a violation: one fault of a replica, with the exact place of the fault. The module also defines the kinds
of violations."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class ViolationKind(StrEnum):
    """The kinds of violations. A report lists them in this order, the worst first: lost messages, replicas that
    disagree, damage of a log, files beside it, indexes.
    """

    # -- What clients were told.

    ACKNOWLEDGED_MISSING = "acknowledged missing"
    # An acknowledged message has a different payload in the log.
    ACKNOWLEDGED_ALTERED = "acknowledged altered"
    # An acknowledged message has a different offset in the log.
    ACKNOWLEDGED_ELSEWHERE = "acknowledged elsewhere"
    ACKNOWLEDGED_REPEATED = "acknowledged repeated"
    # A message is in the log although its send failed for certain.
    FAILED_PRESENT = "failed present"
    # A batch delivers a waiting message that does not wait, or it delivers or copies a waiting message with another
    # delivery time, queue, or contents.
    WRONG_DELIVERY = "wrong delivery"
    # A waiting message was passed over: it was not delivered at its time.
    DELIVERY_MISSING = "delivery missing"
    # A batch with the messages of a transaction differs from the half batch that waited.
    DECISION_ALTERED = "decision altered"
    # A message is in a topic twice with the same message id, within the time for which ids are remembered.
    MESSAGE_REPEATED = "message repeated"
    # An entry leases a message of a shared group that another lease holds, or that is settled.
    LEASED_TWICE = "leased twice"
    # The state has other leases, attempts or settled messages of a shared group than follow from the log.
    LEASES_DIFFER = "leases differ"

    # -- Replicas that disagree.

    # Two replicas have different entries at an index that is committed in one of them.
    REPLICAS_DIFFER = "replicas differ"
    # Two replicas have different entries of one term at one index, of which at most one is by the leader of the term.
    FORKED_TERM = "forked term"
    # An entry is called committed, and fewer than a majority of the voters can hold it.
    COMMIT_NOT_HELD = "commit not held"
    # The replayed states of two replicas differ at the same index.
    STATE_DIFFERS = "state differs"

    # -- Damage of a log.

    MISSING_SEGMENT = "missing segment"
    MISSING_ENTRIES = "missing entries"
    # The log ends before the entry that its clean mark or its checkpoint names.
    LOG_CUT = "log cut"
    # Bytes that are not a whole entry, at a place where an entry must be.
    DAMAGED_ENTRY = "damaged entry"
    # An entry of a version that this program does not know.
    UNKNOWN_ENTRY = "unknown entry"
    # A whole entry whose body is not the batch that its header describes.
    DAMAGED_BATCH = "damaged batch"
    # Bytes after the last entry that are not zero, although nothing may follow.
    NOT_BLANK = "not blank"
    # A whole entry that cannot follow the one before it: its index, position, append time or commit.
    OUT_OF_PLACE = "out of place"
    TERM_FALLS = "term falls"
    CHAIN_BROKEN = "chain broken"
    # The offsets of a queue do not continue without a hole.
    OFFSET_HOLE = "offset hole"
    SEQUENCE_GAP = "sequence gap"
    SEQUENCE_REPEATED = "sequence repeated"
    # A batch of a producer after a batch of a later epoch of this producer.
    EPOCH_FENCED = "epoch fenced"
    # A batch of a topic or queue that no entry of the log creates.
    UNKNOWN_QUEUE = "unknown queue"

    # -- Small files beside a log.

    # A vote file, clean mark, snapshot or index file is missing or cannot be read.
    DAMAGED_FILE = "damaged file"
    # The clean mark does not name the last entry of the log, and no entry is missing.
    CLEAN_MARK_WRONG = "clean mark wrong"
    # A snapshot or checkpoint does not have the state or the position that the log gives for its index.
    STALE_SNAPSHOT = "stale snapshot"

    # -- Indexes.

    # The position index says a wrong position for an entry before the checkpoint.
    POSITION_WRONG = "position wrong"
    # A ConsumeQueue unit does not agree with the log.
    UNIT_WRONG = "unit wrong"
    UNIT_MISSING = "unit missing"
    UNIT_SURPLUS = "unit surplus"
    # An entry of the key index does not agree with the log.
    KEY_WRONG = "key wrong"
    KEY_MISSING = "key missing"
    KEY_SURPLUS = "key surplus"
    # The chains or slots in a file of the key index do not agree with its entries.
    KEY_LINK = "key link"


ORDER = {kind: number for number, kind in enumerate(ViolationKind)}


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise: its kind, its place and the reason. One fault of a replica. Fields that do not apply are
    None. `position` is a position in the log, or in the file `path` if this file is not a segment.
    """

    kind: ViolationKind
    shard: int
    # The source as the user gave it; empty if the violation concerns the whole shard.
    source: str
    reason: str
    index: int | None = None
    position: int | None = None
    # The last index, if the violation concerns several entries.
    last_index: int | None = None
    # The position from which entries or units are right again.
    end: int | None = None
    # The name of the topic if it is known, else `id N`.
    topic: str | None = None
    queue: int | None = None
    offset: int | None = None
    path: str | None = None
    # The last offset of the queue, if the violation concerns several messages of it.
    last_offset: int | None = None
    # The messages that were in lost entries, in words, as another replica has them; None: no replica has the entries.
    contents: str | None = None

    @property
    def order(self) -> tuple[Any, ...]:
        """Return the key by which a report sorts violations: kind (the worst first), shard, source and place. A
        violation that names its entry stands before those that only have a position."""
        place = tuple(-1 if each is None else each for each in (self.index, self.position, self.queue, self.offset))
        return ORDER[self.kind], self.shard, self.source, self.index is None, *place, self.path or "", self.reason

    def fields(self) -> dict[str, Any]:
        """Return the fields of the violation, with the names and types that JSON and Parquet use."""
        return {**asdict(self), "kind": self.kind.value}


# The columns of a table of violations, in the order of `fields`, with their types.
TYPES: dict[str, type] = {
    "kind": str, "shard": int, "source": str, "reason": str, "index": int, "position": int, "last_index": int,
    "end": int, "topic": str, "queue": int, "offset": int, "path": str,
    "last_offset": int, "contents": str,
}  # fmt: skip
