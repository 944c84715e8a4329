"""One batch of a producer: the messages that it collects while it is open, and the state of its delivery.

Messages are added in *pieces*: a piece is one message, or a slice of a list of messages. All messages of a piece share
one receipt, so the Python code of this module runs once for each piece, and not once for each message. A batch has no
column for keys, tags, headers or timestamps if none of its messages needs the column.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ledger import batch as batch_format
from ledger.batch import HalfColumn, TimedColumn
from ledger.batch.strings import Strings
from ledger.codec import Codec
from ledger.errors import (
    AuthenticationError,
    BusyError,
    CorruptBatchError,
    DivergedError,
    DuplicateForgottenError,
    HeadersTooLargeError,
    InvalidArgumentError,
    InvalidTopicNameError,
    LedgerError,
    MessageTooLargeError,
    PermissionDeniedError,
    ProducerFencedError,
    RepeatedMessagesError,
    SequenceGapError,
    ThrottledError,
    TooManyHeadersError,
    TransactionEndedError,
    UnknownQueueError,
    UnknownTopicError,
    UnknownTransactionError,
    UnsupportedBatchError,
)
from ledger.timed import WaitingMessages

Headers = Sequence[tuple[str, bytes]]
T = TypeVar("T")

# Stands for a queue or sequence number that is not known.
NONE = -1

# The bytes that each message takes in addition to its value: an offset in the batch, and a reference to the value.
MESSAGE_OVERHEAD_BYTES = 16
# The bytes of a look-up key in addition to the key: an offset and a hash.
LOOK_UP_KEY_BYTES = 12
# The bytes of a delivery time.
DELIVERY_TIME_BYTES = 8

# With one of these errors, the attempt did not append the batch. Any other error leaves doubt, unless the broker says
# `not_appended`: a leader that appended the batch and then lost leadership answers that it is not the leader.
_REFUSED_BEFORE_APPEND = (
    AuthenticationError,
    BusyError,
    CorruptBatchError,
    DivergedError,
    HeadersTooLargeError,
    InvalidArgumentError,
    InvalidTopicNameError,
    MessageTooLargeError,
    PermissionDeniedError,
    ProducerFencedError,
    RepeatedMessagesError,
    SequenceGapError,
    ThrottledError,
    TooManyHeadersError,
    TransactionEndedError,
    UnknownQueueError,
    UnknownTopicError,
    UnknownTransactionError,
    UnsupportedBatchError,
)

# One of these errors of a broker also tells what became of earlier attempts. The broker answers so after it has looked
# for an earlier attempt, or the queue is no more, or the broker refuses every attempt with the same bytes.
_ABOUT_ALL_ATTEMPTS = (
    DuplicateForgottenError,
    InvalidArgumentError,
    InvalidTopicNameError,
    TransactionEndedError,
    UnknownQueueError,
    UnknownTopicError,
    UnknownTransactionError,
)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The answer of a broker that a batch is committed; `base_offset` is the offset of the batch's first message.

    `duplicate` is True if an earlier attempt of the batch was committed.
    """

    base_offset: int
    term: int
    append_time_ms: int
    duplicate: bool


Answer = Acknowledged | LedgerError


def leaves_doubt(error: LedgerError) -> bool:
    """Return True if a batch may be in the log after an attempt that ended with this error."""
    return not (error.not_appended or isinstance(error, _REFUSED_BEFORE_APPEND))


def ends_doubt(error: LedgerError) -> bool:
    """Return True if this answer of a broker tells what became of all attempts to send the batch. A leader that names
    messages has confirmed that it leads, and that the batch is in no log."""
    return bool(error.places) or isinstance(error, _ABOUT_ALL_ATTEMPTS)


def because(error: LedgerError | None) -> str:
    """Return the end of an error message: a text that names `error` as the last error, or "" if `error` is None."""
    return "" if error is None else f"; the last error was: {(error.message or type(error).__name__).rstrip('.')}"


class Receipt(Protocol):
    """An interface: an object that receives the result of a piece (of messages that are sent together). Only one of
    its methods is called, and only once."""

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None: ...

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        """The messages wait for their delivery times. `queue` is their target queue."""

    def failed(self, error: LedgerError) -> None: ...


@dataclass(slots=True)
class BatchResult:
    """The result of a batch, which must be passed to the receipts of the batch.

        queue     the queue of the batch
        receipts  the receipts in order, each with its number of messages
        outcome   the acknowledgement or the error
        released  the bytes to release in the producer's buffer
        batch     the batch
        is_repeat True: the messages were left out of the batch, because messages with their ids were sent before. The
                  outcome is that of the earlier messages, and `queue` has those

    A batch that times out while its result is unknown gets two `BatchResult` objects. The first `BatchResult` has the
    receipts. The second, which comes when the result is known, releases the bytes of the batch in the buffer.
    """

    queue: int
    receipts: Sequence[tuple[Receipt, int]]
    outcome: Answer
    released: int
    batch: ProducerBatch
    is_repeat: bool = False
    # How many receipts have got the result.
    _told: int = field(default=0, init=False)
    # The number of messages of these receipts.
    _told_messages: int = field(default=0, init=False)

    @property
    def is_delivered(self) -> bool:
        return self._told == len(self.receipts)

    def deliver(self, most: int | None = None) -> int:
        """Pass the result to the receipts that have no result yet, but to no more than `most` of them (None: to all of
        them). Return the number of receipts that got the result.

        If a receipt raises an exception, it does not get the result a second time.
        """
        outcome, queue = self.outcome, self.queue
        before = told = self._told
        messages = self._told_messages
        try:
            for receipt, count in self.receipts[before : None if most is None else before + most]:
                first, told, messages = messages, told + 1, messages + count
                if isinstance(outcome, LedgerError):
                    receipt.failed(outcome)
                else:
                    receipt.acknowledged(queue, outcome.base_offset + first, count, outcome)
        finally:
            self._told, self._told_messages = told, messages
        return told - before


@dataclass(frozen=True, slots=True)
class PieceColumns:
    """What the messages of a piece do not share: an item for each message, or None if no message has one."""

    keys: list[bytes | None] | None = None
    tags: list[str | None] | None = None
    headers: list[Headers] | None = None
    timestamps_ms: list[int | None] | None = None
    delivery_times_ms: list[int] | None = None
    look_up_keys: list[tuple[bytes, ...]] | None = None


class Piece:
    """Messages that are sent together to one queue. The messages share key, tag, headers, timestamp, delivery time and
    look-up keys, or `columns` has those of each message.

    Fields:

        deliver_at_ms the delivery time, in ms since 1970; None: the messages do not wait
        timestamp_ms  None: the messages get the time at which their batch was opened
        bound         True: the key or the program chose the queue, so the order in that queue is guaranteed
        size          the bytes that the piece takes in a batch and in the buffer, exact to a few bytes per message
    """

    __slots__ = (
        "bound",
        "columns",
        "count",
        "deliver_at_ms",
        "half",
        "headers",
        "key",
        "look_up_keys",
        "message_id",
        "receipt",
        "size",
        "tag",
        "timestamp_ms",
        "trace",
        "values",
    )

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
        deliver_at_ms: int | None = None,
        look_up_keys: tuple[bytes, ...] = (),
        bound: bool = False,
        columns: PieceColumns | None = None,
    ) -> None:
        self.values = values
        self.count = len(values)
        self.receipt = receipt
        self.columns = columns
        self.key = key
        self.tag = tag
        self.headers = headers
        self.timestamp_ms = timestamp_ms
        self.deliver_at_ms = deliver_at_ms
        self.look_up_keys = look_up_keys
        self.bound = bound
        # The hash of the message id, if the piece is one message with an id.
        self.message_id: bytes | None = None
        # What a half batch says about its transaction; None: the messages are of no transaction.
        self.half: HalfColumn | None = None
        # The context of the span of its send, in W3C's form; "": it has none.
        self.trace = ""
        self.size = value_bytes + MESSAGE_OVERHEAD_BYTES * len(values)
        if key is not None or tag is not None or headers or look_up_keys:
            self.size += extras_bytes(key, tag, headers, look_up_keys) * len(values)
        if deliver_at_ms is not None or (columns is not None and columns.delivery_times_ms is not None):
            self.size += DELIVERY_TIME_BYTES * len(values)

    def name(self, message_id: bytes) -> None:
        """Give the message of the piece an id, by its hash. Call it before the piece is sent."""
        assert self.count == 1
        self.message_id = message_id
        self.size += len(message_id)

    def add_headers(self, headers: Headers) -> None:
        """Add headers to the message of the piece, unless it has headers with these names. Call it before the piece is
        sent."""
        assert self.count == 1
        given = self.headers or ()
        names = {name for name, _ in given}
        more = [(name, value) for name, value in headers if name not in names]
        self.headers = (*given, *more)
        self.size += extras_bytes(None, None, more)

    @property
    def waits(self) -> bool:
        """True if the messages have delivery times."""
        return self.deliver_at_ms is not None or (
            self.columns is not None and self.columns.delivery_times_ms is not None
        )

    def delivery_times_ms(self) -> list[int]:
        """Return the delivery time of each message. Call `delivery_times_ms` only if the messages have one."""
        if self.columns is not None and self.columns.delivery_times_ms is not None:
            return self.columns.delivery_times_ms
        assert self.deliver_at_ms is not None
        return [self.deliver_at_ms] * self.count


class TablePiece(Piece):
    """Messages of a table: columns in place of lists. A batch has one such piece and no other."""

    __slots__ = ("key_hashes", "key_strings", "value_strings")

    def __init__(
        self, values: Strings, keys: Strings | None, key_hashes: NDArray[np.uint64] | None, receipt: Receipt
    ) -> None:
        size = int(values.offsets[-1] - values.offsets[0])
        size += 0 if keys is None else int(keys.offsets[-1] - keys.offsets[0])
        super().__init__([], size, receipt)
        self.value_strings = values
        self.key_strings = keys
        self.key_hashes = key_hashes
        self.count = len(values)
        self.size += MESSAGE_OVERHEAD_BYTES * self.count


def extras_bytes(
    key: bytes | None, tag: str | None, headers: Headers | None, look_up_keys: tuple[bytes, ...] = ()
) -> int:
    """Return how many bytes the key, the tag, the headers and the look-up keys of one message take in a batch."""
    size = 0
    if key is not None:
        size += len(key)
    if tag is not None:
        size += len(tag)
    if headers:
        size += sum(len(name) + len(value) + MESSAGE_OVERHEAD_BYTES for name, value in headers)
    if look_up_keys:
        size += sum(map(len, look_up_keys)) + LOOK_UP_KEY_BYTES * len(look_up_keys)
    return size


@dataclass(slots=True, eq=False)
class ProducerBatch:
    """A batch of 1 to 65,535 messages for one queue, with the state of its delivery.

        open --close--> waiting --number--> numbered <--> in flight --> settled
                           ^─────── move ──────┘  to another queue, where the batch gets a number of that queue

    A numbered batch has its encoded bytes in `data`, and every attempt sends the same bytes. When a batch receives its
    number, it is encoded, and its lists of messages are emptied.
    """

    base_timestamp_ms: int
    linger_until: float
    deadline: float
    values: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] | None = None
    tags: list[str | None] | None = None
    headers: list[Headers] | None = None
    timestamps_ms: list[int] | None = None
    look_up_keys: list[tuple[bytes, ...]] | None = None
    # The hashes of the message ids, in order (a dict, because a set has no order); None: the messages have no ids.
    ids: dict[bytes, None] | None = None
    # The messages of a table. The batch has no others then.
    table: TablePiece | None = None
    # The topic id and the number of the queue to which the messages are delivered at their delivery times; None: the
    # messages do not wait.
    target: tuple[int, int] | None = None
    delivery_times_ms: list[int] = field(default_factory=list)
    # The transaction of the messages; None: they are of none.
    half: HalfColumn | None = None
    receipts: list[tuple[Receipt, int]] = field(default_factory=list)
    # The context of the span of the first message that has one, in W3C's form.
    trace: str = ""
    count: int = 0
    size: int = 0
    data: bytes | None = None
    numbered: bool = False
    epoch: int = 0
    # NONE while the batch has no number.
    first_sequence: int = NONE
    in_flight: bool = False
    # At least one message of the batch must stay in this queue.
    bound: bool = False
    # Counts the batches of the sequencer, in the order in which they were opened.
    ordinal: int = 0
    # Failed attempts, without those that failed because an earlier batch was missing.
    failures: int = 0
    # An attempt may have appended the batch to a log.
    doubtful: bool = False
    # The receipts have got a timeout. The batch keeps its place until its result is known.
    expired: bool = False
    # No log has, or will have, the sequence number before that of this batch, so the batch needs a new number.
    behind_hole: bool = False

    @property
    def is_plain(self) -> bool:
        """True if the messages have only values and keys: all other columns of the batch are missing."""
        has_columns = self.tags or self.headers or self.timestamps_ms or self.look_up_keys or self.ids
        return not has_columns and self.table is None and self.target is None and self.half is None

    @property
    def encoded(self) -> bytes:
        assert self.data is not None
        return self.data

    def add(self, piece: Piece) -> None:
        before, more = self.count, piece.count
        if isinstance(piece, TablePiece):
            assert not before
            self.table = piece
        elif piece.columns is not None:
            self._add_columns(piece.columns, before, more)
        else:
            self._add_shared(piece, before, more)
        if self.target is not None:
            self.delivery_times_ms.extend(piece.delivery_times_ms())
        if piece.half is not None:
            assert not before, "each piece of a transaction is a batch"
            self.half = piece.half
        if piece.message_id is not None:
            self.ids = {} if self.ids is None else self.ids
            self.ids[piece.message_id] = None
        self.values.extend(piece.values)
        self.receipts.append((piece.receipt, more))
        self.bound = self.bound or piece.bound
        self.trace = self.trace or piece.trace
        self.count += more
        self.size += piece.size

    def join(self, value: bytes, key: bytes | None, size: int, receipt: Receipt) -> None:
        """Do what `add` does with a piece of one message with a value and perhaps a key, which chose the queue. The
        batch must be plain."""
        if self.keys is not None:
            self.keys.append(key)
        elif key is not None:
            self.keys = [*[None] * self.count, key]
        self.bound = self.bound or key is not None
        self.values.append(value)
        self.receipts.append((receipt, 1))
        self.count += 1
        self.size += size

    def _add_shared(self, piece: Piece, before: int, more: int) -> None:
        if piece.key is not None or self.keys is not None:
            self.keys = _grown(self.keys, None, before, [piece.key] * more)
        if piece.tag is not None or self.tags is not None:
            self.tags = _grown(self.tags, None, before, [piece.tag] * more)
        if piece.headers or self.headers is not None:
            self.headers = _grown(self.headers, (), before, [piece.headers or ()] * more)
        if piece.timestamp_ms is not None or self.timestamps_ms is not None:
            base = self.base_timestamp_ms
            timestamp = base if piece.timestamp_ms is None else piece.timestamp_ms
            self.timestamps_ms = _grown(self.timestamps_ms, base, before, [timestamp] * more)
        if piece.look_up_keys or self.look_up_keys is not None:
            self.look_up_keys = _grown(self.look_up_keys, (), before, [piece.look_up_keys] * more)

    def _add_columns(self, columns: PieceColumns, before: int, more: int) -> None:
        if columns.keys is not None or self.keys is not None:
            self.keys = _grown(self.keys, None, before, columns.keys or [None] * more)
        if columns.tags is not None or self.tags is not None:
            self.tags = _grown(self.tags, None, before, columns.tags or [None] * more)
        if columns.headers is not None or self.headers is not None:
            self.headers = _grown(self.headers, (), before, columns.headers or [()] * more)
        if columns.timestamps_ms is not None or self.timestamps_ms is not None:
            base = self.base_timestamp_ms
            own = columns.timestamps_ms or [None] * more
            given = [base if one is None else one for one in own]
            self.timestamps_ms = _grown(self.timestamps_ms, base, before, given)
        if columns.look_up_keys is not None or self.look_up_keys is not None:
            self.look_up_keys = _grown(self.look_up_keys, (), before, columns.look_up_keys or [()] * more)

    def number(
        self, topic_id: int, queue: int, producer_id: int, epoch: int, first_sequence: int, codec: Codec
    ) -> None:
        """Give the batch its sequence number, and encode the batch."""
        assert not self.numbered
        self.numbered = True
        self.epoch, self.first_sequence = epoch, first_sequence
        if self.data is not None:  # the batch had a number in another queue
            self.data = batch_format.readdress(self.data, queue=queue, epoch=epoch, first_sequence=first_sequence)
            return
        if self.table is not None:
            self.data = batch_format.encode_strings(
                self.table.value_strings,
                self.table.key_strings,
                self.table.key_hashes,
                topic_id=topic_id,
                queue=queue,
                producer_id=producer_id,
                epoch=epoch,
                first_sequence=first_sequence,
                base_timestamp_ms=self.base_timestamp_ms,
                codec=codec,
            )
            self.table = None
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
            look_up_keys=self.look_up_keys,
            timed=None
            if self.target is None
            else TimedColumn(*self.target, np.array(self.delivery_times_ms, np.int64)),
            half=self.half,
            ids=None if self.ids is None else list(self.ids),
            codec=codec,
        )
        self.values, self.delivery_times_ms = [], []
        self.keys = self.tags = self.headers = self.timestamps_ms = self.look_up_keys = None

    def takes_id_of(self, piece: Piece) -> bool:
        """Return True if the piece can be in this batch because of its message id: either all messages of a batch have
        ids or none has, and no two have the same."""
        if self.ids is None or piece.message_id is None:
            return not self.count or (self.ids is None and piece.message_id is None)
        return piece.message_id not in self.ids

    def leave_out(self, places: Collection[int]) -> list[tuple[int, Receipt]]:
        """Remove the messages at these places from a numbered batch whose messages have ids. Return their places and
        receipts; a batch that has timed out has no receipts any more. The batch then needs a new number. If the places
        are those of all messages, only the receipts are removed."""
        kept = [place for place in range(self.count) if place not in places]
        receipts, self.receipts = self.receipts, []
        if receipts:
            self.receipts = [receipts[place] for place in kept]
        if kept:
            self.data = batch_format.rest_of(self.encoded, kept)
            self.count = len(kept)
        return [(place, receipts[place][0]) for place in places] if receipts else []

    def leave_out_pieces(self, places: Collection[int]) -> list[tuple[Receipt, int]]:
        """Remove the pieces with a message at one of these places from a numbered batch. Return their receipts, each
        with its number of messages. The batch then needs a new number. If no piece would be left, or none has such a
        place, remove nothing and return []."""
        wanted = frozenset(places)
        left_out, receipts, kept, first = [], [], list[int](), 0
        for receipt, count in self.receipts:
            of_piece = range(first, first + count)
            if wanted.isdisjoint(of_piece):
                receipts.append((receipt, count))
                kept.extend(of_piece)
            else:
                left_out.append((receipt, count))
            first += count
        if not kept or not left_out:
            return []
        self.receipts = receipts
        self.data = batch_format.rest_of(self.encoded, kept)
        self.count = len(kept)
        return left_out

    def renumber(self, queue: int, epoch: int, first_sequence: int) -> None:
        """Give the batch another epoch and sequence number. The batch must not be in a log: with a second number it
        would be stored twice."""
        assert not self.in_flight
        self.data = batch_format.readdress(self.encoded, queue=queue, epoch=epoch, first_sequence=first_sequence)
        self.epoch, self.first_sequence = epoch, first_sequence
        self.doubtful = self.behind_hole = False

    def move(self) -> None:
        """Remove the number of a batch that moves to another queue. The batch must not be in a log."""
        assert not self.in_flight
        assert not self.doubtful
        assert not self.bound
        self.numbered = self.behind_hole = False
        self.first_sequence = NONE

    def results(self, queue: int, outcome: Answer, released: int) -> BatchResult:
        """Return the result of the batch. The receipts are removed from the batch, so that each receipt gets a
        result only once."""
        receipts, self.receipts = self.receipts, []
        return BatchResult(queue, receipts, outcome, released, self)


def _grown(column: list[T] | None, blank: T, before: int, more: Sequence[T]) -> list[T]:
    column = [blank] * before if column is None else column
    column.extend(more)
    return column
