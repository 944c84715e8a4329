"""The receipts of sends: a future for one message, or for a whole `send_many`.

A receipt computes the offsets of its messages from the base offset of the batch.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from ledger.client.producer.producer_batch import Acknowledged, Receipt
from ledger.client.records import NO_OFFSET, RecordMetadata, RecordRange
from ledger.errors import DeliveryTimeoutError, LedgerError
from ledger.timed import WaitingMessages


class SingleReceipt:
    """The receipt of one message, with the future that gets the result. If the future is cancelled, it gets no
    result, but the message is still sent."""

    __slots__ = ("_future", "_topic")

    def __init__(self, topic: str, future: asyncio.Future[RecordMetadata]) -> None:
        self._topic = topic
        self._future = future

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None:
        assert count == 1
        if not self._future.done():
            self._future.set_result(
                RecordMetadata(self._topic, queue, first_offset, answer.append_time_ms, answer.term, answer.duplicate)
            )

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        if not self._future.done():
            self._future.set_result(scheduled_metadata(self._topic, queue, waiting, answer))

    def failed(self, error: LedgerError) -> None:
        if not self._future.done():
            self._future.set_exception(error)


class ManyReceipt:
    """The receipt of one `send_many`, with a receipt for each of its slices."""

    def __init__(self, topic: str, trace: str = "") -> None:
        """`trace` is the context of the span of the send, in W3C's form; "": it has none."""
        self.trace = trace
        self.error: LedgerError | None = None
        self._topic = topic
        self._ranges: list[RecordRange | None] = []
        # For each slice: which messages of the list it has.
        self._indexes: list[Sequence[int]] = []
        self._messages = 0
        self._unsettled = 0
        self._done = asyncio.Event()

    def slice(self, count: int, indexes: Sequence[int] | None = None) -> SliceReceipt:
        """Make and return a receipt for a slice of `count` messages, whose places in the list are `indexes`. None: the
        messages that follow the previous slice."""
        self._ranges.append(None)
        self._indexes.append(range(self._messages, self._messages + count) if indexes is None else indexes)
        self._messages += count
        self._unsettled += 1
        return SliceReceipt(self, len(self._ranges) - 1)

    def give_up(self, error: LedgerError) -> None:
        """Record an error that ends the `send_many`. The first error is kept, but an error that says that messages may
        be in a log replaces other errors. The program must know that messages may be in a log before it sends the
        messages again.
        """
        if self.error is None or (_leaves_unknown(error) and not _leaves_unknown(self.error)):
            self.error = error

    async def result(self) -> list[RecordRange]:
        """Wait until every slice has a result, and return the ranges of all slices in order.

        If an error was recorded, raise the error. The attribute `acknowledged` of the error has the ranges of the
        slices that were acknowledged.
        """
        acknowledged = await self._settled()
        if self.error is None:
            return acknowledged
        error = _own(self.error)
        self._tell(error, acknowledged)
        raise error

    async def tell(self, error: Exception) -> None:
        """Wait until every slice has a result, and add to an error of the program what was acknowledged."""
        self._tell(error, await self._settled())

    async def _settled(self) -> list[RecordRange]:
        """Wait until every slice has a result, and return the ranges of those that were acknowledged."""
        while self._unsettled:
            self._done.clear()
            await self._done.wait()
        return [one for one in self._ranges if one is not None]

    def _tell(self, error: Any, acknowledged: list[RecordRange]) -> None:
        with contextlib.suppress(AttributeError):  # an error of the program may have no room for it
            error.acknowledged = acknowledged
        if self._messages:
            count = sum(one.count for one in acknowledged)
            error.add_note(f"Of the first {self._messages} messages, {count} were acknowledged: see `acknowledged`.")

    def settle(
        self, place: int, queue: int, first_offset: int, count: int, waiting: WaitingMessages | None = None
    ) -> None:
        self._ranges[place] = RecordRange(self._topic, queue, first_offset, count, self._indexes[place], waiting)
        self._one_less()

    def fail(self, error: LedgerError) -> None:
        self.give_up(error)
        self._one_less()

    def _one_less(self) -> None:
        self._unsettled -= 1
        if not self._unsettled:
            self._done.set()


class SliceReceipt:
    """The receipt of one slice of a `send_many`. All messages of a slice are in the same batch."""

    __slots__ = ("_many", "_place")

    def __init__(self, many: ManyReceipt, place: int) -> None:
        self._many = many
        self._place = place

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None:
        self._many.settle(self._place, queue, first_offset, count)

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        self._many.settle(self._place, queue, NO_OFFSET, len(waiting.times_ms), waiting)

    def failed(self, error: LedgerError) -> None:
        self._many.fail(error)


class TimedReceipt:
    """Passes the result of a piece with delivery times on, with the target queue and the handles of its messages.
    Implements Receipt."""

    __slots__ = ("_shard", "_target", "_times_ms", "inner")

    def __init__(self, inner: Receipt, target: tuple[int, int], shard: int, times_ms: list[int]) -> None:
        """`target` is the topic id and the number of the target queue, which is in `shard`."""
        self.inner = inner
        self._target = target
        self._shard = shard
        self._times_ms = times_ms

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None:
        topic_id, target_queue = self._target
        waiting = WaitingMessages(topic_id, self._shard, first_offset, self._times_ms)
        self.inner.scheduled(target_queue, waiting, answer)

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        self.inner.scheduled(queue, waiting, answer)

    def failed(self, error: LedgerError) -> None:
        self.inner.failed(error)


def scheduled_metadata(topic: str, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> RecordMetadata:
    """Return the result of one message that waits for its delivery time."""
    return RecordMetadata(
        topic,
        queue,
        NO_OFFSET,
        answer.append_time_ms,
        answer.term,
        answer.duplicate,
        waiting.deliver_at(0),
        waiting.handle(0),
    )


def _own(error: LedgerError) -> LedgerError:
    """Return a copy of the error. All sends with messages in a failed batch get the same error object, and each
    `send_many` sets its own attributes on its copy."""
    own = type(error).__new__(type(error))
    own.args = error.args
    vars(own).update(vars(error), __notes__=list(getattr(error, "__notes__", ())))
    own.__cause__, own.__traceback__ = error.__cause__, error.__traceback__
    return own


def _leaves_unknown(error: LedgerError) -> bool:
    return isinstance(error, DeliveryTimeoutError) and error.maybe_committed
