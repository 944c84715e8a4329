"""Compares the histories of clients with the log: the log must contain every acknowledged message, and must not
contain a message whose send failed.

    history   producer 9f3c.. epoch 0 sequence 12, topic t, queue 0: ok at offset 41, CRC cb33..
    log       producer 9f3c.. epoch 0 sequence 12, topic t, queue 0:    at offset 41, CRC cb33..     exactly once

A message is identified by its queue, producer, epoch and sequence. Sent messages and messages of the log are sorted by
a hash of their queue, producer, epoch and sequence, and then joined. Messages with the same hash are in the same
share, so several machines can judge shares.

A producer may use the sequence of a refused message again for another message. A failed send counts as present only if
the log has its payload, and no other send of that sequence had the same payload. A history names topics by name. If a
topic was deleted and created again, the same sequence may be in both topics. If the same sequence is in both topics,
payload and offset decide to which send a message belongs.

A message with a delivery time is looked for in the topic `%TIMED`, where its offset is its identity. Whether it was
delivered, and only once, is judged from the log alone (replay/timed_record.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt
import xxhash

from ledger.batch import Batch, BatchHeader, Codec
from ledger.batch.check import check_header
from ledger.errors import LedgerError
from ledger.history import Operation, OperationOutcome, Schedule, Send
from ledger.timed import TIMED_TOPIC
from ledger.validation.judging.bound import MAX_TOLD
from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.report.report import first_of_each_kind
from ledger.validation.sources.replica import LogReplica
from ledger.validation.spans.batches import Facts, body_of
from ledger.validation.spans.block import SpanBlock
from store.log.entry import HEADER_SIZE

# A message: that was sent, or that is in a log. `topic`: xxh3 of its name. `key`: of all that it is known by. `outcome`
# of what was sent, `in_tail`, `index` and `shard` of what is there.
MESSAGE = np.dtype(
    [
        ("key", "<u8"), ("topic", "<u8"), ("producer_id", "<u8"), ("sequence", "<u8"), ("offset", "<i8"),
        ("index", "<u8"), ("queue", "<u4"), ("epoch", "<u4"), ("crc", "<u4"), ("shard", "<u4"),
        ("replica", "<u4"), ("outcome", "u1"), ("in_tail", "u1"),
    ]
)  # fmt: skip
Messages = npt.NDArray[np.void]
OK, FAIL, UNKNOWN = 0, 1, 2
_OUTCOMES = {OperationOutcome.OK: OK, OperationOutcome.FAIL: FAIL, OperationOutcome.UNKNOWN: UNKNOWN}
_NO_OFFSET = -1
_AT_ONCE = 65_536
_ODD = tuple(
    np.uint64(number)
    for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5, 0xFF51AFD7ED558CCD)
)
# Violations, before a book looks which are the first ones of each kind.
_MAX_HELD = 16 * MAX_TOLD


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
class SentMessages:
    """The messages that clients sent according to a history, and the names of their topics by hash."""

    messages: Messages
    topics: dict[int, str] = field(default_factory=dict)


def sent_in(history: Iterable[Operation]) -> Iterable[SentMessages]:
    """Yield the sent messages of a history in parts. Messages that never left the client are left out."""
    rows: list[tuple[int, ...]] = []
    topics: dict[int, str] = {}
    for operation in history:
        if not isinstance(operation, (Send, Schedule)) or operation.sequence < 0 or not operation.producer:
            continue
        topic = operation.topic if isinstance(operation, Send) else TIMED_TOPIC
        name = topic_hash(topic)
        topics[name] = topic
        rows += _rows_of(operation, name)
        if len(rows) >= _AT_ONCE:
            yield SentMessages(_with_keys(np.array(rows, MESSAGE)), topics)
            rows, topics = [], {}
    yield SentMessages(_with_keys(np.array(rows, MESSAGE)), topics)


def _rows_of(send: Send | Schedule, topic: int) -> list[tuple[int, ...]]:
    """Return a row for each message. A message with a delivery time is in `%TIMED`, and its identity is its offset."""
    producer, outcome = int(send.producer, 16), _OUTCOMES[send.outcome]
    queue, offset_or_none = (send.queue, send.offset) if isinstance(send, Send) else (send.waits_in, send.identity)
    first = _NO_OFFSET if offset_or_none is None else offset_or_none
    return [
        (0, topic, producer, send.sequence + at, offset, 0, queue, send.epoch, crc, 0, 0, outcome, 0)
        for at, crc in enumerate(send.crcs)
        for offset in (first + at if first >= 0 else _NO_OFFSET,)
    ]


# -- what is there


def messages_in(
    block: SpanBlock, facts: Facts, topics: Mapping[int, int], replica: LogReplica, committed: int
) -> Messages:
    """Return the messages of a block. `topics` maps topic ids to hashes of topic names; messages of other topics are
    left out. Messages in entries after the index `committed` are marked as part of the tail.
    """
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


def _payload_crcs(block: SpanBlock, fact: np.void) -> list[int]:
    """Return the CRC of each message of a batch; zeros if the batch cannot be decoded."""
    count, at = int(fact["count"]), int(fact["at"]) + HEADER_SIZE
    if fact["codec"] != Codec.NONE:
        try:
            return [google_crc32c.value(value) for value in Batch(body_of(block, fact), check_crc=False).values()]
        except LedgerError:
            return [0] * count
    data = block.data
    try:
        header = BatchHeader.parse(memoryview(data)[at : at + int(fact["size"]) - HEADER_SIZE])
        check_header(header, header.size)
    except LedgerError:
        return [0] * count
    payload = at + header.payload_position
    start = payload + (4 * (count + 1) + 7 & -8)
    edges = np.frombuffer(data, "<i4", count + 1, payload).tolist()
    return [google_crc32c.value(data[start + first : start + end]) for first, end in pairwise(edges)]


# -- one against the other


class KnownQueue(NamedTuple):
    """A queue that the logs contain: its shard and its first kept offset."""

    shard: int
    # The first offset that is surely kept.
    begin: int


@dataclass(slots=True)
class Book:
    """One share of the sent messages, which are looked up in the log. The book searches the log for the messages of
    its share. A share has all messages with the same key."""

    sent: Messages
    topics: dict[int, str]
    # After `finish`: the first violations of each kind.
    violations: list[Violation] = field(default_factory=list)
    # How many are not in `violations`, by kind.
    left_out: Counter[str] = field(default_factory=Counter)
    # How often each message was found, by replica.
    found: dict[int, npt.NDArray[np.int64]] = field(default_factory=dict)
    # Whether each message was found at an index that is known to be committed.
    is_committed: npt.NDArray[np.bool_] = field(init=False)
    # The shard in which each message was found; -1: none.
    shards: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.sent = self.sent[np.argsort(self.sent["key"], kind="stable")]
        self.is_committed = np.zeros(len(self.sent), np.bool_)
        self.shards = np.full(len(self.sent), -1, np.int64)

    @staticmethod
    def of(parts: Iterable[SentMessages]) -> Book:
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
        """For each message, the largest number of times that any one replica contains the message."""
        times = np.zeros(len(self.sent), np.int64)
        for found in self.found.values():
            np.maximum(times, found, out=times)
        return times

    @property
    def in_tail(self) -> int:
        """The number of acknowledged messages found only after the index that is known to be committed."""
        return int(((self.sent["outcome"] == OK) & (self.times > 0) & ~self.is_committed).sum())

    def take(self, there: Messages) -> None:
        """Compare the messages of the log in `there` with the sent messages."""
        low = np.searchsorted(self.sent["key"], there["key"], "left")
        high = np.searchsorted(self.sent["key"], there["key"], "right")
        one = np.flatnonzero(high - low == 1)
        self._take_single(there[one], low[one])
        for row in np.flatnonzero(high - low > 1).tolist():
            self._take_several(there[row : row + 1], np.arange(low[row], high[row]))

    def finish(self, queues: Mapping[tuple[int, int], KnownQueue], all_kept: bool) -> int:
        """Add violations for acknowledged messages that are missing or repeated.

        `queues` maps the hash of a topic and the number of a queue to the known queue. If `all_kept` is False,
        retention may have removed whole topics. Returns the number of acknowledged messages that retention has
        removed.
        """
        ok, times = self.sent["outcome"] == OK, self.times
        for row in np.flatnonzero(ok & (times > 1)).tolist():
            count = int(times[row])
            reason, shard = f"the log has it {count} times", int(self.shards[row])
            self._tell(ViolationKind.ACKNOWLEDGED_REPEATED, self.sent[row], None, reason, shard)
        dropped = 0
        for row in np.flatnonzero(ok & (times == 0)).tolist():
            send = self.sent[row]
            queue = queues.get((int(send["topic"]), int(send["queue"])))
            if send["offset"] < queue.begin if queue is not None else not all_kept:
                dropped += 1
                continue
            shard = queue.shard if queue is not None else -1
            reason = "it was acknowledged, and the logs do not have it"
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
            reason = f"it was acknowledged at offset {sent[at]['offset']}, and the log has it at {there[at]['offset']}"
            self._tell(ViolationKind.ACKNOWLEDGED_ELSEWHERE, sent[at], there[at], reason)
        for at in np.flatnonzero(failed & same).tolist():
            self._failed(there[at], sent[at])

    def _take_several(self, there: Messages, rows: npt.NDArray[np.int64]) -> None:
        """Compare a message with several sends that have the same sequence. Several sends can have the same
        sequence if earlier sends were refused, or if they went to different topics with the same name."""
        sent = self.sent[rows]
        same = sent["crc"] == there[0]["crc"]
        ok = sent["outcome"] == OK
        if ok.any():
            row = self._nearest(there[0], rows[ok], same[ok])
            self._take_single(there, np.array([row]))
        elif not (same & (sent["outcome"] == UNKNOWN)).any() and (same & (sent["outcome"] == FAIL)).any():
            self._failed(there[0], sent[int(np.flatnonzero(same)[0])])

    def _nearest(self, there: np.void, rows: npt.NDArray[np.int64], same: npt.NDArray[np.bool_]) -> int:
        """Return the acknowledged send to which a message belongs. The payloads must be equal. A send with the same
        offset is preferred, and then the send that was found least often."""
        found = self.found.get(int(there["replica"]))
        times = found[rows] if found is not None else np.zeros(len(rows), np.int64)
        elsewhere = self.sent["offset"][rows] != there["offset"]
        return int(rows[np.lexsort((times, elsewhere, ~same))[0]])

    def _altered(self, there: np.void, send: np.void) -> None:
        reason = (
            f"its payload in the log has CRC {int(there['crc']):08x}, and CRC {int(send['crc']):08x} was acknowledged"
        )
        self._tell(ViolationKind.ACKNOWLEDGED_ALTERED, send, there, reason)

    def _failed(self, there: np.void, send: np.void) -> None:
        self._tell(
            ViolationKind.FAILED_PRESENT,
            send,
            there,
            f"its send failed, but the log has it at offset {there['offset']}",
        )

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
        """Keep the first violations of each kind, and only count further violations."""
        kept = first_of_each_kind(self.violations, MAX_TOLD)
        self.left_out += Counter(each.kind.value for each in self.violations)
        self.left_out -= Counter(each.kind.value for each in kept)
        self.violations = kept


def shares(messages: Messages, count: int) -> list[Messages]:
    """Divide the messages into this number of shares. Messages with the same key are in the same share."""
    share = (messages["key"] >> np.uint64(40)) % np.uint64(count)
    return [messages[share == number] for number in range(count)]
