"""Sends many messages in one call: it cuts them into slices, each of which is a batch or a part of a batch.

Values that share key, tag and queue are cut as they come. Other messages are first sorted by their queues, in blocks,
so that the messages of one queue keep their order. The slices of the queues take turns, so that all shards have work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.producer.arguments import check_extras, checked_key, checked_look_up_keys, checked_queue, checked_tag
from ledger.client.producer.delivery import MAX_BATCH_MESSAGES, DeliverySettings
from ledger.client.producer.outgoing import ANY_QUEUE, OutgoingColumns, columns_of
from ledger.client.producer.producer_batch import DELIVERY_TIME_BYTES, Piece, extras_bytes
from ledger.client.producer.queue_selection import QueueSelection
from ledger.client.producer.receipts import ManyReceipt
from ledger.client.producer.slices import blocks, by_queue, checked_lengths, cuts, in_turns
from ledger.client.producer.table import BLOCK_ROWS, Table, TableRows
from ledger.client.records import RecordRange
from ledger.errors import LedgerError
from ledger.topics import validate_topic_name

# After this many slices the event loop gets a turn, so that the first slices are sent while the rest is cut.
_SLICES_A_TURN = 8

# How many messages are sorted by their queues at a time. Enough to fill batches of several queues, and few enough that
# the first batches are sent soon.
_SORTED_MESSAGES = 32_768


@dataclass(frozen=True, slots=True)
class Shared:
    """The arguments of one call that apply to all its messages."""

    topic: str
    key: bytes | None
    tag: str | None
    queue: int | None
    # In ms since 1970; None: messages do not wait, unless they have delivery times of their own.
    deliver_at_ms: int | None
    look_up_keys: tuple[bytes, ...]


class ManySender:
    """Sends many messages for one producer.

    Arguments:

        timed_selection          places messages with delivery times, as `queue_selection` places the others
        enter(piece, place)      waits until the buffer has room for the piece, and calls `place`
        recorded(topic, piece)   passes a piece to the history, and returns it
        as_lists                 True: send the rows of a table as lists, because the history or a function of the user
                                 looks at each message
        selects                  True: a function of the user chooses the queue of each message
    """

    def __init__(
        self,
        client: ClusterClient,
        queue_selection: QueueSelection,
        timed_selection: QueueSelection,
        delivery: DeliverySettings,
        *,
        enter: Callable[[Piece, Callable[[], None]], Awaitable[None]],
        recorded: Callable[[str, Piece], Piece],
        selects: bool,
        as_lists: bool,
    ) -> None:
        self._client = client
        self._queue_selection = queue_selection
        self._timed_selection = timed_selection
        self._delivery = delivery
        self._enter = enter
        self._recorded = recorded
        self._selects = selects
        self._as_lists = as_lists

    async def send(
        self,
        topic: str,
        messages: Iterable[Any],
        *,
        key: bytes | str | None,
        tag: str | None,
        queue: int | None,
        deliver_at_ms: int | None = None,
        look_up_keys: Iterable[bytes | str] | None = None,
        trace: str = "",
    ) -> list[RecordRange]:
        """Do what AsyncProducer.send_many does. `trace` is the context of the span of the send, in W3C's form."""
        receipt = ManyReceipt(topic, trace)
        try:
            self._client.check_open()
            validate_topic_name(topic)
            more_keys = checked_look_up_keys(look_up_keys)
            if queue is not None:
                queue = checked_queue(queue)
            shared = Shared(topic, checked_key(key), checked_tag(tag), queue, deliver_at_ms, more_keys)
            check_extras(shared.key, shared.tag, None, more_keys)
            await self._queue_selection.resolve(topic)
            first = 0
            for block in blocks(messages):
                await self._send_block(block, first, shared, receipt)
                first += len(block)
                if receipt.error is not None:
                    break
        except LedgerError as error:
            receipt.give_up(error)
        except Exception as error:  # the iterable of the program raised it
            await receipt.tell(error)
            raise
        return await receipt.result()

    async def send_table(
        self, topic: str, table: Table, *, value: str, key: str | None, queue: int | None
    ) -> list[RecordRange]:
        """Do what AsyncProducer.send_table does."""
        self._client.check_open()
        validate_topic_name(topic)
        queue = None if queue is None else checked_queue(queue)
        await self._queue_selection.resolve(topic)
        rows = TableRows(table, value, key, self._client.routes.table.max_message_bytes)
        if self._as_lists:
            return await self.send(topic, rows.pairs(), key=None, tag=None, queue=queue)
        receipt = ManyReceipt(topic)
        try:
            for start in range(0, len(rows), BLOCK_ROWS):
                await self._queue_selection.resolve(topic)
                queues = self._queue_selection.queues(topic)
                slices = rows.slices(start, queue, queues, self._delivery.batch_bytes)
                for number, some in enumerate(slices, 1):
                    piece = some.piece(receipt.slice(len(some.rows), some.rows))
                    await self._place(topic, piece, some.queue, receipt, number, close=True)
                    if receipt.error is not None:
                        break
                if receipt.error is not None:
                    break
        except LedgerError as error:
            receipt.give_up(error)
        return await receipt.result()

    async def _send_block(self, block: list[Any], first: int, shared: Shared, receipt: ManyReceipt) -> None:
        """Check and send messages. `first` is the number of messages of the call before this block."""
        most = self._client.routes.table.max_message_bytes
        if set(map(type, block)) == {bytes}:
            await self._send_values(block, checked_lengths(block, most), shared, receipt)
            return
        columns = columns_of(
            block,
            most,
            key=shared.key,
            tag=shared.tag,
            queue=shared.queue,
            deliver_at_ms=shared.deliver_at_ms,
            look_up_keys=shared.look_up_keys,
            now_ms=self._client.environment.now_ms(),
        )
        for start in range(0, len(block), _SORTED_MESSAGES):
            places = np.arange(start, min(start + _SORTED_MESSAGES, len(block)))
            waiting = columns.waiting(places)
            for selection, some in (
                (self._queue_selection, places[~waiting]),
                (self._timed_selection, places[waiting]),
            ):
                if not len(some):
                    continue
                if self._selects:
                    await self._send_one_by_one(columns, some, first, shared.topic, receipt)
                else:
                    await self._send_sorted(selection, columns, some, first, shared.topic, receipt)
                if receipt.error is not None:
                    return

    # -- values that share everything else

    async def _send_values(
        self, values: list[bytes], lengths: NDArray[np.int64], shared: Shared, receipt: ManyReceipt
    ) -> None:
        """Cut a list of values into slices, and give each slice to a sequencer.

        Each slice fills a batch, except the last slice, whose batch stays open for further messages. If a queue
        selector of the user chooses the queues, each message is a slice of its own.
        """
        each = extras_bytes(shared.key, shared.tag, None, shared.look_up_keys)
        if shared.deliver_at_ms is not None:
            each += DELIVERY_TIME_BYTES
        one_by_one = self._selects and shared.queue is None
        most = 1 if one_by_one else MAX_BATCH_MESSAGES
        slices = cuts(lengths, max_bytes=self._delivery.batch_bytes, max_count=most, each=each)
        for number, (start, stop, size) in enumerate(slices, 1):
            own = receipt.slice(stop - start)
            piece = Piece(
                values[start:stop],
                size,
                own,
                shared.key,
                shared.tag,
                deliver_at_ms=shared.deliver_at_ms,
                look_up_keys=shared.look_up_keys,
            )
            close = stop < len(values) and not one_by_one
            await self._place(shared.topic, piece, shared.queue, receipt, number, close=close)
            if receipt.error is not None:
                return

    # -- messages with their own keys, tags, headers or queues

    async def _send_sorted(
        self,
        selection: QueueSelection,
        columns: OutgoingColumns,
        places: NDArray[np.int64],
        first: int,
        topic: str,
        receipt: ManyReceipt,
    ) -> None:
        await selection.resolve(topic)  # the topic may have more queues than before the last block
        queues = columns.queues_of(places, selection.queues(topic))
        slices = in_turns(
            [
                self._slices_of_queue(columns, places[of_queue], int(queues[of_queue[0]]))
                for of_queue in by_queue(queues)
            ]
        )
        for number, (some, size, queue, close) in enumerate(slices, 1):
            at = some.tolist()
            values, rest = columns.some(at)
            indexes = (some + first).tolist() if first else at
            piece = Piece(values, size, receipt.slice(len(at), indexes), columns=rest)
            await self._place(topic, piece, None if queue == ANY_QUEUE else queue, receipt, number, close=close)
            if receipt.error is not None:
                return

    def _slices_of_queue(
        self, columns: OutgoingColumns, places: NDArray[np.int64], queue: int
    ) -> Iterator[tuple[NDArray[np.int64], int, int, bool]]:
        """Yield the slices of one queue: the places of the messages, their bytes, the queue, and whether the slice
        fills its batch."""
        lengths = columns.lengths[places]
        for start, stop, size in cuts(lengths, max_bytes=self._delivery.batch_bytes, max_count=MAX_BATCH_MESSAGES):
            yield places[start:stop], size, queue, stop < len(places)

    async def _send_one_by_one(
        self, columns: OutgoingColumns, places: NDArray[np.int64], first: int, topic: str, receipt: ManyReceipt
    ) -> None:
        """Send each message as `send` does, because a function of the user chooses the queues."""
        for number, place in enumerate(places.tolist(), 1):
            one = receipt.slice(1, [first + place])
            piece, queue = columns.piece(place, one)
            await self._place(topic, piece, queue, receipt, number, close=False)
            if receipt.error is not None:
                return

    async def _place(
        self, topic: str, piece: Piece, queue: int | None, receipt: ManyReceipt, number: int, *, close: bool
    ) -> None:
        """Wait for room, and give the piece to a sequencer. An error goes to the receipt of the piece. `number` counts
        the pieces of a block."""
        own = piece.receipt
        piece.trace = receipt.trace
        piece = self._recorded(topic, piece)
        selection = self._timed_selection if piece.waits else self._queue_selection
        try:
            await self._enter(piece, partial(selection.place, topic, piece, queue, close=close))
        except LedgerError as error:
            own.failed(error)
            return
        if number % _SLICES_A_TURN == 0:
            await asyncio.sleep(0)
