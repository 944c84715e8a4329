"""What clients were told, against what is in the log.

    history   producer 9f3c.. epoch 0 sequence 12, topic t, queue 0: ok at offset 41, CRC cb33..
    log       producer 9f3c.. epoch 0 sequence 12, topic t, queue 0:    at offset 41, CRC cb33..     exactly once

A message is known by its producer, epoch and sequence in its queue, which nobody rewrites; so both sides are sorted
by one hash of these and laid over each other. Whatever shares its hash is in one place, so any part of the messages
can be judged by itself, wherever.

A number that was refused may be given again, to another message; so a failed send counts as present only where its
payload is, and no other send of that number had the same. And a history knows topics by name: where one was deleted and
made anew, a number is there once in each, and which of the sends that is is told by payload and offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt
import xxhash

from ledger.batch import HEADER_BYTES, Batch, Codec
from ledger.batch.header import KEYS, TAGS
from ledger.errors import LedgerError
from ledger.history import Operation, OperationOutcome, Send
from ledger.validation.judging.bound import MAX_TOLD
from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.replay.batches import Facts, body_of
from ledger.validation.replay.block import Block
from ledger.validation.report.report import first_of_each_kind
from ledger.validation.sources.replica import LogReplica
from store.log.entry import HEADER_SIZE

MESSAGE = np.dtype(
    [
        ("key", "<u8"), ("topic", "<u8"), ("producer_id", "<u8"), ("sequence", "<u8"), ("offset", "<i8"),
        ("index", "<u8"), ("queue", "<u4"), ("epoch", "<u4"), ("crc", "<u4"), ("shard", "<u4"),
        ("replica", "<u4"), ("outcome", "u1"), ("in_tail", "u1"),
    ]
)  # fmt: skip
"""A message: that was sent, or that is in a log. `topic`: xxh3 of its name. `key`: of all that it is known by.
`outcome` of what was sent, `in_tail`, `index` and `shard` of what is there."""
Messages = npt.NDArray[np.void]
OK, FAIL, UNKNOWN = 0, 1, 2
_OUTCOMES = {OperationOutcome.OK: OK, OperationOutcome.FAIL: FAIL, OperationOutcome.UNKNOWN: UNKNOWN}
_NO_OFFSET = -1
_AT_ONCE = 65_536
_ODD = tuple(
    np.uint64(number)
    for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5, 0xFF51AFD7ED558CCD)
)
_MAX_HELD = 16 * MAX_TOLD
"""Violations, before a book looks which are the first ones of each kind."""


def topic_hash(name: str) -> int:
    return xxhash.xxh3_64_intdigest(name.encode())


def _with_keys(messages: Messages) -> Messages:
    key = messages["topic"] * _ODD[0]
    key ^= messages["producer_id"] * _ODD[1]
    key += messages["sequence"] * _ODD[2]
    key ^= ((messages["queue"].astype(np.uint64) << np.uint64(32)) | messages["epoch"]) * _ODD[3]
    key ^= key >> np.uint64(31)
    key *= _ODD[4]
    key ^= key >> np.uint64(29)
    messages["key"] = key
    return messages


# -- what was sent


@dataclass(slots=True)
class Sent:
    """Messages of a history, and the names of their topics by hash."""

    messages: Messages
    topics: dict[int, str] = field(default_factory=dict)


def sent_in(history: Iterable[Operation]) -> Iterable[Sent]:
    """So many at a time; those that never left their process are left out."""
    rows: list[tuple[int, ...]] = []
    topics: dict[int, str] = {}
    for operation in history:
        if not isinstance(operation, Send) or operation.sequence < 0 or not operation.producer:
            continue
        name = topic_hash(operation.topic)
        topics[name] = operation.topic
        rows += _rows_of(operation, name)
        if len(rows) >= _AT_ONCE:
            yield Sent(_with_keys(np.array(rows, MESSAGE)), topics)
            rows, topics = [], {}
    yield Sent(_with_keys(np.array(rows, MESSAGE)), topics)


def _rows_of(send: Send, topic: int) -> list[tuple[int, ...]]:
    producer, outcome = int(send.producer, 16), _OUTCOMES[send.outcome]
    first = _NO_OFFSET if send.offset is None else send.offset
    return [
        (0, topic, producer, send.sequence + at, offset, 0, send.queue, send.epoch, crc, 0, 0, outcome, 0)
        for at, crc in enumerate(send.crcs)
        for offset in (first + at if first >= 0 else _NO_OFFSET,)
    ]


# -- what is there


def messages_in(block: Block, facts: Facts, topics: Mapping[int, int], replica: LogReplica, committed: int) -> Messages:
    """Those of the topics (hashes of names by id). What lies behind entry `committed` is in the tail."""
    wanted = np.isin(facts["topic_id"], np.array(list(topics), np.uint32))
    facts = facts[wanted]
    counts = facts["count"].astype(np.int64)
    within = (np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)).astype(np.uint64)
    found = np.zeros(len(within), MESSAGE)
    found["topic"] = np.repeat(np.array([topics[int(each)] for each in facts["topic_id"]], np.uint64), counts)
    for name in ("producer_id", "index", "queue", "epoch"):
        found[name] = np.repeat(facts[name], counts)
    found["sequence"] = np.repeat(facts["first_sequence"], counts) + within
    found["offset"] = np.repeat(facts["base_offset"], counts) + within.astype(np.int64)
    found["shard"], found["replica"], found["in_tail"] = replica.shard, replica.number, found["index"] > committed
    found["crc"] = np.array([crc for fact in facts for crc in _payload_crcs(block, fact)], np.uint32)
    return _with_keys(found)


def _payload_crcs(block: Block, fact: np.void) -> list[int]:
    """Of each message of a batch; 0 where it cannot be decoded."""
    count, columns = int(fact["count"]), int(fact["columns"])
    if fact["codec"] != Codec.NONE:
        try:
            return [google_crc32c.value(value) for value in Batch(body_of(block, fact), check_crc=False).values()]
        except LedgerError:
            return [0] * count
    hash_columns = (columns & TAGS != 0) + (columns & KEYS != 0)
    payload = int(fact["at"]) + HEADER_SIZE + HEADER_BYTES + 8 * count * hash_columns
    start = payload + (4 * (count + 1) + 7 & -8)
    edges = np.frombuffer(block.data, "<i4", count + 1, payload).tolist()
    data = block.data
    return [google_crc32c.value(data[start + edges[at] : start + edges[at + 1]]) for at in range(count)]


# -- one against the other


class KnownQueue(NamedTuple):
    """A queue that the logs have."""

    shard: int
    begin: int
    """The first offset that is surely kept."""


@dataclass(slots=True)
class Book:
    """Messages that were sent, to be found in the log. Any share of all messages that has every message of a key."""

    sent: Messages
    topics: dict[int, str]
    violations: list[Violation] = field(default_factory=list)
    """The first ones of each kind, once the book is finished."""
    left_out: Counter[str] = field(default_factory=Counter)
    """How many are not in `violations`, by kind."""
    found: dict[int, npt.NDArray[np.int64]] = field(default_factory=dict)
    """By replica: how often each was found."""
    is_committed: npt.NDArray[np.bool_] = field(init=False)
    """Whether each was found where it is surely committed."""
    shards: npt.NDArray[np.int64] = field(init=False)
    """Where each was found; -1: nowhere."""

    def __post_init__(self) -> None:
        self.sent = self.sent[np.argsort(self.sent["key"], kind="stable")]
        self.is_committed = np.zeros(len(self.sent), np.bool_)
        self.shards = np.full(len(self.sent), -1, np.int64)

    @staticmethod
    def of(parts: Iterable[Sent]) -> Book:
        messages, topics = [np.empty(0, MESSAGE)], {}
        for part in parts:
            messages.append(part.messages)
            topics.update(part.topics)
        return Book(np.concatenate(messages), topics)

    @property
    def acknowledged(self) -> int:
        return int((self.sent["outcome"] == OK).sum())

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """How often each was found in the replica that has it most often: replicas have the same."""
        times = np.zeros(len(self.sent), np.int64)
        for found in self.found.values():
            np.maximum(times, found, out=times)
        return times

    @property
    def in_tail(self) -> int:
        """How many acknowledged ones were found only behind what is surely committed."""
        return int(((self.sent["outcome"] == OK) & (self.times > 0) & ~self.is_committed).sum())

    def take(self, there: Messages) -> None:
        """Messages that are in the log."""
        low = np.searchsorted(self.sent["key"], there["key"], "left")
        high = np.searchsorted(self.sent["key"], there["key"], "right")
        one = np.flatnonzero(high - low == 1)
        self._take_single(there[one], low[one])
        for row in np.flatnonzero(high - low > 1).tolist():
            self._take_several(there[row : row + 1], np.arange(low[row], high[row]))

    def finish(self, queues: Mapping[tuple[int, int], KnownQueue], all_kept: bool) -> int:
        """What was acknowledged and not found. `queues`: by topic (hash) and queue; not `all_kept`: topics may be gone
        with what the logs do not keep. Returns how many messages are kept no longer."""
        ok, times = self.sent["outcome"] == OK, self.times
        for row in np.flatnonzero(ok & (times > 1)).tolist():
            count = int(times[row])
            reason, shard = f"it is there {count} times", int(self.shards[row])
            self._tell(ViolationKind.ACKNOWLEDGED_REPEATED, self.sent[row], None, reason, shard)
        dropped = 0
        for row in np.flatnonzero(ok & (times == 0)).tolist():
            send = self.sent[row]
            queue = queues.get((int(send["topic"]), int(send["queue"])))
            if send["offset"] < queue.begin if queue is not None else not all_kept:
                dropped += 1
                continue
            shard = queue.shard if queue is not None else -1
            reason = "it is in no log that is committed"
            self._tell(ViolationKind.ACKNOWLEDGED_MISSING, send, None, reason, shard)
        self._leave_out()
        return dropped

    def _take_single(self, there: Messages, rows: npt.NDArray[np.int64]) -> None:
        sent = self.sent[rows]
        ok, failed = sent["outcome"] == OK, sent["outcome"] == FAIL
        for replica in np.unique(there["replica"]).tolist():
            counts = self.found.setdefault(replica, np.zeros(len(self.sent), np.int64))
            counts += np.bincount(rows[ok & (there["replica"] == replica)], minlength=len(self.sent))
        self.shards[rows] = there["shard"]
        self.is_committed[rows[there["in_tail"] == 0]] = True
        same = there["crc"] == sent["crc"]
        for at in np.flatnonzero(ok & ~same).tolist():
            self._altered(there[at], sent[at])
        for at in np.flatnonzero(ok & (there["offset"] != sent["offset"])).tolist():
            reason = f"it was acknowledged at offset {sent[at]['offset']}, and is at {there[at]['offset']}"
            self._tell(ViolationKind.ACKNOWLEDGED_ELSEWHERE, sent[at], there[at], reason)
        for at in np.flatnonzero(failed & same).tolist():
            self._failed(there[at], sent[at])

    def _take_several(self, there: Messages, rows: npt.NDArray[np.int64]) -> None:
        """Several sends of one number: all but one of them were refused, or they went to several topics of one name,
        where the producer counts anew."""
        sent = self.sent[rows]
        same = sent["crc"] == there[0]["crc"]
        ok = sent["outcome"] == OK
        if ok.any():
            row = self._nearest(there[0], rows[ok], same[ok])
            self._take_single(there, np.array([row]))
        elif not (same & (sent["outcome"] == UNKNOWN)).any() and (same & (sent["outcome"] == FAIL)).any():
            self._failed(there[0], sent[int(np.flatnonzero(same)[0])])

    def _nearest(self, there: np.void, rows: npt.NDArray[np.int64], same: npt.NDArray[np.bool_]) -> int:
        """Which of these acknowledged sends the message is: what is like it best, and was found least often."""
        found = self.found.get(int(there["replica"]))
        times = found[rows] if found is not None else np.zeros(len(rows), np.int64)
        elsewhere = self.sent["offset"][rows] != there["offset"]
        return int(rows[np.lexsort((times, elsewhere, ~same))[0]])

    def _altered(self, there: np.void, send: np.void) -> None:
        reason = f"its payload has CRC {int(there['crc']):08x}, and {int(send['crc']):08x} was acknowledged"
        self._tell(ViolationKind.ACKNOWLEDGED_ALTERED, send, there, reason)

    def _failed(self, there: np.void, send: np.void) -> None:
        self._tell(ViolationKind.FAILED_PRESENT, send, there, f"its send surely failed, and it is at {there['offset']}")

    def _tell(self, kind: ViolationKind, send: np.void, there: np.void | None, reason: str, shard: int = -1) -> None:
        name = f"{int(send['producer_id']):016x}/{send['epoch']}/{send['sequence']}"
        place = there if there is not None else send
        self.violations.append(
            Violation(
                kind,
                int(there["shard"]) if there is not None else shard,
                "",
                f"message {name}: {reason}",
                index=int(there["index"]) if there is not None else None,
                topic=self.topics.get(int(send["topic"])),
                queue=int(send["queue"]),
                offset=int(place["offset"]),
            )
        )
        if len(self.violations) >= _MAX_HELD:
            self._leave_out()

    def _leave_out(self) -> None:
        """All but the first ones of each kind: which these are does not depend on the order of messages."""
        kept = first_of_each_kind(self.violations, MAX_TOLD)
        self.left_out += Counter(each.kind.value for each in self.violations)
        self.left_out -= Counter(each.kind.value for each in kept)
        self.violations = kept


def shares(messages: Messages, count: int) -> list[Messages]:
    """The same messages in so many parts: those of one key are in one."""
    share = (messages["key"] >> np.uint64(40)) % np.uint64(count)
    return [messages[share == number] for number in range(count)]
