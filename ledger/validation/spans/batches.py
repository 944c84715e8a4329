"""Returns the batches in a run of entries as columns. The columns are the fields of the batch headers and of the entry
headers.

The producer wrote the batch header, and the leader wrote the entry header. Fields that both headers have must be equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ledger.batch import HEADER_BYTES
from ledger.batch.header import KEYS, LOOK_UP_KEYS, MAGIC, ROW, TAGS, VERSION
from ledger.limits import MAX_LOOK_UP_KEYS
from ledger.validation.judging.violation import ViolationKind
from ledger.validation.naming import Sentence, TopicText
from ledger.validation.spans.block import SpanBlock
from ledger.validation.spans.entries import Entries
from ledger.validation.spans.pieces import Break
from ledger.words import counted
from store import EntryKind
from store.log.entry import ALIGNMENT, HEADER_SIZE, padded

# What is known of a batch in the log, without its messages. `at`: where its entry begins in its block.
FACT = np.dtype(
    [
        ("index", "<u8"), ("term", "<u8"), ("position", "<u8"), ("append_time_ms", "<i8"), ("base_offset", "<i8"),
        ("producer_id", "<u8"), ("first_sequence", "<u8"), ("topic_id", "<u4"), ("queue", "<u4"), ("count", "<u4"),
        ("epoch", "<u4"), ("size", "<u4"), ("columns", "<u4"), ("codec", "<u4"), ("at", "<i8"),
    ]
)  # fmt: skip
Facts = npt.NDArray[np.void]
_FROM_ENTRY = ("index", "term", "position", "append_time_ms", "base_offset", "topic_id", "queue", "count", "size")
_FROM_BATCH = ("producer_id", "first_sequence", "epoch", "columns", "codec")
_WORDS = HEADER_BYTES // ALIGNMENT


def batches_of(block: SpanBlock, entries: Entries) -> tuple[Facts, list[Break]]:
    """Return the facts of the intact batches, and a `Break` for each batch entry whose body is no intact batch."""
    is_batch = entries.rows["kind"] == EntryKind.BATCH
    large = entries.rows["size"] >= HEADER_SIZE + HEADER_BYTES
    chosen = np.flatnonzero(is_batch & large)
    rows, at = entries.rows[chosen], entries.at[chosen]
    gathered = block.words[((at + HEADER_SIZE) // ALIGNMENT)[:, None] + np.arange(_WORDS)]
    said = gathered.view(ROW)[:, 0]
    right = (said["magic"] == MAGIC) & (said["version"] == VERSION) & (said["crc"] == entries.batch_crcs[chosen])
    right &= said["size"].astype(np.int64) + HEADER_SIZE == rows["size"]
    for name in ("topic_id", "queue", "count"):
        right &= said[name] == rows[name]
    broken = [_broken(entries, at, "its body is too short for a batch") for at in _where(is_batch & ~large)]
    for number in _where(~right):
        which = int(chosen[number])
        broken.append(_broken(entries, which, _reason(said[number], rows[number], int(entries.batch_crcs[which]))))
    facts = np.empty(int(right.sum()), FACT)
    for name in _FROM_ENTRY:
        facts[name] = rows[name][right]
    for name in _FROM_BATCH:
        facts[name] = said[name][right]
    facts["at"] = at[right]
    return facts, broken


def _where(flags: npt.NDArray[np.bool_]) -> list[int]:
    return [int(at) for at in np.flatnonzero(flags)]


def _broken(entries: Entries, number: int, reason: Sentence) -> Break:
    header = entries.header(number)
    return Break(ViolationKind.DAMAGED_BATCH, reason, header.position, header.index, header.end, header.index)


def _reason(said: np.void, entry: np.void, crc: int) -> Sentence:
    if said["magic"] != MAGIC:
        return f"its body is no batch: it begins with {int(said['magic']):#010x}"
    if said["version"] != VERSION:
        return f"its batch has version {said['version']}, and this program knows {VERSION}"
    if said["size"] + HEADER_SIZE != entry["size"]:
        return f"the header of its batch says {said['size']} bytes, and the batch has {entry['size'] - HEADER_SIZE}"
    if said["crc"] != crc:
        return f"the CRC of its batch is {crc:#010x}, and the header of the batch says {int(said['crc']):#010x}"
    of_batch, of_entry = (
        (int(each["topic_id"]), f", queue {each['queue']}, {counted(int(each['count']), 'message')}")
        for each in (said, entry)
    )
    return TopicText(("its batch is of ", *of_batch, "; its header says ", *of_entry))


@dataclass(frozen=True, slots=True)
class Hashes:
    """Hashes of the messages of some batches, in the order of the batches and of their messages."""

    # Which of the batches each hash is in.
    of: npt.NDArray[np.int64]
    values: npt.NDArray[np.uint64]


def tag_hashes(block: SpanBlock, facts: Facts) -> Hashes:
    """Return the tag hash of each message; 0 for a message without a tag."""
    return _hashes(block, facts, (facts["columns"] & TAGS) != 0, np.zeros(len(facts), np.int64))


def key_hashes(block: SpanBlock, facts: Facts) -> Hashes:
    """Return the key hash of each message; 0 for a message without a key. In the bytes of a batch, key hashes
    follow tag hashes."""
    behind = np.where((facts["columns"] & TAGS) != 0, facts["count"].astype(np.int64), 0)
    return _hashes(block, facts, (facts["columns"] & KEYS) != 0, behind)


def look_up_hashes(block: SpanBlock, facts: Facts) -> Hashes:
    """Return the hash of each look-up key."""
    counts = look_up_hash_counts(block, facts)
    of = np.repeat(np.arange(len(facts)), counts)
    first = (facts["at"] + HEADER_SIZE + _message_hashes_end(facts)) // ALIGNMENT + 1
    within = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    return Hashes(of, block.words[np.repeat(first, counts) + within])


def hashes_end(block: SpanBlock, facts: Facts) -> npt.NDArray[np.int64]:
    """Return for each batch the position of the first byte after its hash columns, counted from the batch's first
    byte."""
    counts = look_up_hash_counts(block, facts)
    there = (facts["columns"] & LOOK_UP_KEYS) != 0
    return np.asarray(_message_hashes_end(facts) + there * ALIGNMENT * (1 + counts))


def look_up_hash_counts(block: SpanBlock, facts: Facts) -> npt.NDArray[np.int64]:
    """Return how many hashes of look-up keys each batch has. A number that is not possible counts as 0."""
    end = _message_hashes_end(facts)
    room = (facts["size"].astype(np.int64) - HEADER_SIZE - end) // ALIGNMENT - 1
    there = ((facts["columns"] & LOOK_UP_KEYS) != 0) & (room > 0)
    if not there.any():
        return np.zeros(len(facts), np.int64)
    stated = block.words[np.where(there, (facts["at"] + HEADER_SIZE + end) // ALIGNMENT, 0)]
    most = np.minimum(np.maximum(room, 0), MAX_LOOK_UP_KEYS * facts["count"].astype(np.int64))
    return np.where(there & (stated <= most.astype(np.uint64)), stated, 0).astype(np.int64)


def _message_hashes_end(facts: Facts) -> npt.NDArray[np.int64]:
    """Return for each batch the position of the first byte after the columns with one hash for each message."""
    columns = (facts["columns"] & TAGS != 0).astype(np.int64) + (facts["columns"] & KEYS != 0)
    return np.asarray(HEADER_BYTES + ALIGNMENT * columns * facts["count"].astype(np.int64))


def _hashes(block: SpanBlock, facts: Facts, there: npt.NDArray[np.bool_], behind: npt.NDArray[np.int64]) -> Hashes:
    counts = facts["count"].astype(np.int64)
    of = np.repeat(np.arange(len(facts)), counts)
    if not there.any():
        return Hashes(of, np.zeros(len(of), np.uint64))
    first = (facts["at"] + HEADER_SIZE + HEADER_BYTES) // ALIGNMENT + behind
    within = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = np.repeat(first, counts) + within
    inside = np.repeat(there & ((behind + counts) * ALIGNMENT + HEADER_SIZE + HEADER_BYTES <= facts["size"]), counts)
    return Hashes(of, np.where(inside, block.words[np.where(inside, places, 0)], 0))


def body_of(block: SpanBlock, fact: np.void) -> bytes:
    """Return the bytes of the batch, without the header of its entry."""
    at, size = int(fact["at"]), int(fact["size"])
    assert padded(size) <= len(block.data) - at
    return block.data[at + HEADER_SIZE : at + size]
