"""One batch on its way: the messages it collects while open, and what is known of its result.

Messages arrive in *pieces*: one message, or a whole slice of a list. A piece has one receipt, so no code here runs once
per message of a slice. Columns that no message uses are not made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ledger import batch as batch_format
from ledger.codec import Codec
from ledger.errors import (
    BusyError,
    CorruptBatchError,
    InvalidArgumentError,
    InvalidTopicNameError,
    LedgerError,
    MessageTooLargeError,
    SequenceGapError,
    ThrottledError,
    UnknownQueueError,
    UnknownTopicError,
    UnsupportedBatchError,
)

Headers = Sequence[tuple[str, bytes]]
T = TypeVar("T")

# In the place of a number: there is none.
NONE = -1

# Beside the value itself: an offset in the batch, and the reference to it while it waits here.
MESSAGE_OVERHEAD_BYTES = 16

# A batch that was answered with one of these was not appended by that attempt. Every other error leaves doubt: a leader
# that lost its office after it appended the batch answers, say, that it is not the leader.
_REFUSED_BEFORE_APPEND = (
    BusyError,
    CorruptBatchError,
    InvalidArgumentError,
    InvalidTopicNameError,
    MessageTooLargeError,
    SequenceGapError,
    ThrottledError,
    UnknownQueueError,
    UnknownTopicError,
    UnsupportedBatchError,
)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The batch is committed: its first message has `base_offset`. `duplicate`: by an earlier attempt."""

    base_offset: int
    term: int
    append_time_ms: int
    duplicate: bool


Answer = Acknowledged | LedgerError


def leaves_doubt(error: LedgerError) -> bool:
    """Whether a batch that was answered so may be in a log all the same."""
    return not isinstance(error, _REFUSED_BEFORE_APPEND)


def because(error: LedgerError | None) -> str:
    """The end of a sentence on something that failed in the end, where attempts had failed before."""
    return "" if error is None else f"; the last error was: {(error.message or type(error).__name__).rstrip('.')}"


class Receipt(Protocol):
    """Who wants to know what became of a piece. One of the two is called, once."""

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None: ...

    def failed(self, error: LedgerError) -> None: ...


@dataclass(slots=True)
class BatchResult:
    """What is owed after a change: `outcome` to each of `receipts` (in order, with its count of messages) for messages
    of `queue`, and `released` bytes to the producer's buffer.

    A batch that timed out while its fate is unknown is settled twice: first for its receipts, later for its bytes.
    """

    queue: int
    receipts: Sequence[tuple[Receipt, int]]
    outcome: Answer
    released: int
    batch: ProducerBatch
    # Receipts.
    _told: int = field(default=0, init=False)
    # What those stand for.
    _told_messages: int = field(default=0, init=False)

    @property
    def is_delivered(self) -> bool:
        return self._told == len(self.receipts)

    def deliver(self, most: int | None = None) -> int:
        """Tells the next receipts, at most so many; returns how many. One that raises is not told again."""
        outcome = self.outcome
        before = self._told
        for receipt, count in self.receipts[before : None if most is None else before + most]:
            first = self._told_messages
            self._told, self._told_messages = self._told + 1, first + count
            if isinstance(outcome, LedgerError):
                receipt.failed(outcome)
            else:
                receipt.acknowledged(self.queue, outcome.base_offset + first, count, outcome)
        return self._told - before


class Piece:
    """Messages that travel together and share key, tag, headers and timestamp (None: when the batch was opened).

    `bound`: it belongs in one queue, by its key or by choice: its order there is promised. `size`: what it takes of a
    batch and of the buffer, within a few bytes a message.
    """

    __slots__ = ("bound", "headers", "key", "receipt", "size", "tag", "timestamp_ms", "values")

    def __init__(
        self,
        values: list[bytes],
        value_bytes: int,
        receipt: Receipt,
        key: bytes | None = None,
        tag: str | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        *,
        bound: bool = False,
    ) -> None:
        self.values = values
        self.receipt = receipt
        self.key = key
        self.tag = tag
        self.headers = headers
        self.timestamp_ms = timestamp_ms
        self.bound = bound
        each = MESSAGE_OVERHEAD_BYTES + extras_bytes(key, tag, headers)
        self.size = value_bytes + each * len(values)


def extras_bytes(key: bytes | None, tag: str | None, headers: Headers | None) -> int:
    """What a message takes beside its value."""
    size = 0
    if key is not None:
        size += len(key)
    if tag is not None:
        size += len(tag)
    if headers:
        size += sum(len(name) + len(value) + MESSAGE_OVERHEAD_BYTES for name, value in headers)
    return size


@dataclass(slots=True, eq=False)
class ProducerBatch:
    """1..65,535 messages of one queue.

        open --close--> waiting --number--> numbered <--> in flight --> settled
                           ^─────── move ──────┘  to another queue, where it gets a number of that one

    Once numbered it has `data`, its encoded bytes, which every attempt repeats; the gathered lists are gone then.
    """

    base_timestamp_ms: int
    linger_until: float
    deadline: float
    values: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] | None = None
    tags: list[str | None] | None = None
    headers: list[Headers] | None = None
    timestamps_ms: list[int] | None = None
    receipts: list[tuple[Receipt, int]] = field(default_factory=list)
    count: int = 0
    size: int = 0
    data: bytes | None = None
    numbered: bool = False
    epoch: int = 0
    # NONE while it has no number.
    first_sequence: int = NONE
    in_flight: bool = False
    # Some message of it belongs in this queue.
    bound: bool = False
    # How often it was sent in vain, and not for want of what goes before it.
    failures: int = 0
    # Some attempt may have put it into a log.
    doubtful: bool = False
    # Its receipts have been told that it timed out; it stays in line until its fate is known.
    expired: bool = False
    # The number before its own is in no log and will not be: it goes out again only under another number.
    behind_hole: bool = False

    @property
    def encoded(self) -> bytes:
        assert self.data is not None
        return self.data

    def add(self, piece: Piece) -> None:
        before, more = self.count, len(piece.values)
        if piece.key is not None or self.keys is not None:
            self.keys = _grown(self.keys, None, before, piece.key, more)
        if piece.tag is not None or self.tags is not None:
            self.tags = _grown(self.tags, None, before, piece.tag, more)
        if piece.headers or self.headers is not None:
            self.headers = _grown(self.headers, (), before, piece.headers or (), more)
        if piece.timestamp_ms is not None or self.timestamps_ms is not None:
            base = self.base_timestamp_ms
            timestamp = base if piece.timestamp_ms is None else piece.timestamp_ms
            self.timestamps_ms = _grown(self.timestamps_ms, base, before, timestamp, more)
        self.values.extend(piece.values)
        self.receipts.append((piece.receipt, more))
        self.bound = self.bound or piece.bound
        self.count += more
        self.size += piece.size

    def number(
        self, topic_id: int, queue: int, producer_id: int, epoch: int, first_sequence: int, codec: Codec
    ) -> None:
        """Give it its place in the producer's sequence, and its bytes."""
        assert not self.numbered
        self.numbered = True
        self.epoch, self.first_sequence = epoch, first_sequence
        if self.data is not None:  # it had a number in another queue
            self.data = batch_format.readdress(self.data, queue=queue, epoch=epoch, first_sequence=first_sequence)
            return
        self.data = batch_format.encode(
            self.values,
            topic_id=topic_id,
            queue=queue,
            producer_id=producer_id,
            epoch=epoch,
            first_sequence=first_sequence,
            base_timestamp_ms=self.base_timestamp_ms,
            keys=self.keys,
            tags=self.tags,
            headers=self.headers,
            timestamps_ms=self.timestamps_ms,
            codec=codec,
        )
        self.values = []
        self.keys = self.tags = self.headers = self.timestamps_ms = None

    def renumber(self, queue: int, epoch: int, first_sequence: int) -> None:
        """Give it another place. Only for a batch that is in no log: the same messages under two numbers are two."""
        assert not self.in_flight
        self.data = batch_format.readdress(self.encoded, queue=queue, epoch=epoch, first_sequence=first_sequence)
        self.epoch, self.first_sequence = epoch, first_sequence
        self.doubtful = self.behind_hole = False

    def move(self) -> None:
        """It leaves its queue for another one, where it waits for a number. Only for a batch that is in no log."""
        assert not self.in_flight
        assert not self.doubtful
        assert not self.bound
        self.numbered = self.behind_hole = False
        self.first_sequence = NONE

    def results(self, queue: int, outcome: Answer, released: int) -> BatchResult:
        """What is owed for it; its receipts are told once."""
        receipts, self.receipts = self.receipts, []
        return BatchResult(queue, receipts, outcome, released, self)


def _grown(column: list[T] | None, blank: T, before: int, value: T, more: int) -> list[T]:
    column = [blank] * before if column is None else column
    column.extend([value] * more)
    return column
