"""The asyncio producer: messages in, offsets out.

The one idea: a message is checked, given a queue, and put into its lane; `sender.py` does the rest. An awaited send
means that a majority of the nodes has the message.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.environment import PROCESS, Environment
from ledger.client.connection.lifetime import AsyncLifetime
from ledger.client.producer.accumulator import Accumulator
from ledger.client.producer.arguments import (
    check_extras,
    check_retries,
    check_settings,
    checked_headers,
    checked_key,
    checked_tag,
    checked_timestamp,
    checked_value,
)
from ledger.client.producer.buffer import Buffer
from ledger.client.producer.delivery import MAX_BATCH_MESSAGES, Delivery
from ledger.client.producer.fault_table import FaultTable, Steps, checked_steps
from ledger.client.producer.producer_batch import Headers, Piece, because, extras_bytes
from ledger.client.producer.queue_selection import QueueSelection
from ledger.client.producer.queue_selector import QueueSelector
from ledger.client.producer.receipts import ManyReceipt, SingleReceipt
from ledger.client.producer.recorder import Recorder
from ledger.client.producer.sender import Sender
from ledger.client.producer.slices import blocks, checked_lengths, cuts
from ledger.client.records import RecordMetadata, RecordRange
from ledger.codec import Codec
from ledger.errors import DeliveryTimeoutError, LedgerError
from ledger.history import HistoryError
from ledger.topics import validate_topic_name

# send_many lets the loop run after so many slices, so that the first ones are under way while the rest is cut.
_SLICES_A_TURN = 8


class AsyncProducer(AsyncLifetime):
    """Sends messages, each exactly once as long as this object lives, and in order within their queue those that belong
    there: by their key, by `queue`, or by the selector.

    All others go round the queues, one batch to each. Where one cannot be delivered to its queue, the next attempt is
    made in a queue of another shard that answers, unless the first queue may have it already: then it stays, for
    two queues do not know of each other's messages, and it could be in both.

    Settings::

        bootstrap_servers    "host:port,host:port", or a list of addresses; one that answers is enough
        client_id            named to the nodes
        linger_ms            how long a batch gathers while its shard owes an answer to another (else not at all)
        batch_bytes          a batch is full at this size; at most 4 MiB
        buffer_bytes         how much may wait to be acknowledged; beyond it, send() waits and send_nowait() refuses
        compression          None, "lz4" or "zstd"
        delivery_timeout_ms  when a send raises DeliveryTimeoutError, which says whether the message may be committed
        retries              how often a batch is sent again after a failure, within that time (then the same error);
                             None: as often as there is time. What could not be sent at all does not count
        request_timeout_ms   how long one node may take to answer
        retry_backoff_ms     the wait after a first failure; it doubles up to 1000 ms
        queue_selector       your own choice of queues: a function of an UnplacedMessage and of the number of queues of
                             its topic, which returns one from 0 on, or None for the usual choice. It is asked for each
                             message without `queue`; where it raises or chooses what is not there, the send raises
                             InvalidArgumentError. It makes send_many as slow as many sends
        latency_faults       True: shards that answered late, or failed, are passed over for a while by messages that go
                             round, by RocketMQ's table (550 ms: 2 s, 1.8 s: 5 s, 3 s: 6 s, 5 s or a failure: 10 s,
                             15 s: 30 s), while there are others. Or a table of your own, ((latency_ms, for_ms), ...)
        history              a file: what was sent and what came of it is written there (see `ledger.history`)
        history_process      the number under which that is done
        rng                  the randomness of back-offs and of the queue that comes first, and of nothing else
    """

    def __init__(
        self,
        bootstrap_servers: str | list[str] | tuple[str, ...],
        *,
        client_id: str | None = None,
        linger_ms: float = 5,
        batch_bytes: int = 256 * 1024,
        buffer_bytes: int = 64 * 1024 * 1024,
        compression: str | None = None,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: float = 20,
        retries: int | None = None,
        queue_selector: QueueSelector | None = None,
        latency_faults: bool | Steps = False,
        history: str | Path | None = None,
        history_process: int = 0,
        rng: random.Random | None = None,
        _environment: Environment = PROCESS,
    ) -> None:
        check_settings(linger_ms, batch_bytes, buffer_bytes, delivery_timeout_ms, request_timeout_ms, retry_backoff_ms)
        check_retries(retries)
        self._selector = queue_selector
        self._faults = FaultTable(checked_steps(latency_faults))
        self._rng = rng or random.Random()
        self._client = ClusterClient(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            rng=self._rng,
            environment=_environment,
        )
        self._delivery = Delivery(
            producer_id=_environment.new_producer_id(),
            linger_ms=linger_ms,
            batch_bytes=batch_bytes,
            delivery_timeout_ms=delivery_timeout_ms,
            codec=Codec.named(compression),
            retries=retries,
        )
        self._buffer = Buffer(buffer_bytes)
        self._history = None if history is None else Path(history)
        self._history_process = history_process
        self._recorder: Recorder | None = None

    async def start(self) -> None:
        """Connect; raises UnavailableError where no node answers, HistoryError where the history cannot be written."""
        self._loop = asyncio.get_running_loop()
        await self._client.start()
        if self._history is not None:
            try:
                self._recorder = Recorder(self._history, self._history_process, self._delivery.producer_id)
            except HistoryError:
                await self._client.close()
                raise
        self._accumulator = Accumulator(self._delivery, self._client.backoff, self._faults)
        self._sender = Sender(self._client, self._accumulator, self._buffer, self._recorder)
        self._queue_selection = QueueSelection(
            self._client,
            make_sequencer=self._accumulator.sequencer,
            add=self._sender.add,
            refund=self._buffer.release,
            is_available=self._sender.is_available,
            selector=self._selector,
            first_queue=self._rng.randrange(1 << 16),
        )

    async def stop(self) -> None:
        """Flush, for as long as a delivery may take, and close. What is not settled then fails, and so does every call
        that still waits."""
        if not self._client.started:
            return
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._delivery.delivery_timeout_ms / 1000):
                    await self.flush()
        finally:
            self._client.refuse_calls()
            self._buffer.close()
            await self._queue_selection.close()
            await self._sender.close()
            if self._recorder is not None:
                self._recorder.close()
            await self._client.close()

    async def send(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | str | None = None,
        tag: str | None = None,
        headers: Headers | Mapping[str, bytes] | None = None,
        timestamp_ms: int | None = None,
        queue: int | None = None,
    ) -> RecordMetadata:
        """Send one message; returns when a majority of the nodes has it.

        Raises DeliveryTimeoutError (see its `maybe_committed`), or what is wrong with the message. To be cancelled
        does not recall a message that was already handed over.
        """
        piece, future = self._single(topic, value, key, tag, headers, timestamp_ms)
        try:
            if self._buffer.take(piece.size):  # what `_enter` does, without its cost
                self._queue_selection.place(topic, piece, queue)
            else:
                await self._enter(piece, partial(self._queue_selection.place, topic, piece, queue))
            return await future
        except asyncio.CancelledError:
            future.cancel()  # nobody will ask for its outcome
            raise

    def send_nowait(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | str | None = None,
        tag: str | None = None,
        headers: Headers | Mapping[str, bytes] | None = None,
        timestamp_ms: int | None = None,
        queue: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Like send(), but gives a future at once. Raises BufferFullError where send() would wait."""
        piece, future = self._single(topic, value, key, tag, headers, timestamp_ms)
        self._buffer.enter_nowait(piece.size, partial(self._queue_selection.place, topic, piece, queue))
        return future

    async def send_many(
        self,
        topic: str,
        values: Iterable[bytes],
        *,
        key: bytes | str | None = None,
        tag: str | None = None,
        queue: int | None = None,
    ) -> list[RecordRange]:
        """Send many messages fast; returns where they lie, in the order of `values`, once a majority has them all.

        `key` and `tag` hold for every message. A list or tuple is checked as a whole before any of it is sent; other
        iterables in blocks, as they are drawn. At the first failure nothing more is drawn, and it is raised when
        everything under way is settled (or, if the fate of some messages is unknown by then, a DeliveryTimeoutError
        that says so). The error's attribute `acknowledged`, a list[RecordRange], says where those of the messages lie
        that were acknowledged all the same, in the order of `values`.
        """
        receipt = ManyReceipt(topic)
        try:
            self._client.check_open()
            validate_topic_name(topic)
            shared = _Shared(topic, checked_key(key), checked_tag(tag), queue)
            check_extras(shared.key, shared.tag, None)
            await self._queue_selection.resolve(topic)
            for block in blocks(values):
                lengths = checked_lengths(block, self._client.routes.table.max_message_bytes)
                await self._send_block(block, lengths, shared, receipt)
                if receipt.error is not None:
                    break
        except LedgerError as error:
            receipt.give_up(error)
        return await receipt.result()

    async def flush(self) -> None:
        """Returns when every message handed over so far is acknowledged or has failed (its own send says which); those
        that wait for room in the buffer are among them."""
        self._client.check_open()
        await self._buffer.line_gone()
        await self._queue_selection.flush()
        await self._sender.flush()

    def _single(
        self,
        topic: str,
        value: bytes,
        key: bytes | str | None,
        tag: str | None,
        headers: Headers | Mapping[str, bytes] | None,
        timestamp_ms: int | None,
    ) -> tuple[Piece, asyncio.Future[RecordMetadata]]:
        """One message, checked, and the future of its metadata."""
        self._client.check_open()
        if not self._queue_selection.knows(topic):
            validate_topic_name(topic)
        checked_value(value, self._client.routes.table.max_message_bytes)
        future: asyncio.Future[RecordMetadata] = self._loop.create_future()
        receipt = SingleReceipt(topic, future)
        if key is None and tag is None and not headers and timestamp_ms is None:
            return self._recorded(topic, Piece([value], len(value), receipt)), future
        piece = Piece(
            [value],
            len(value),
            receipt,
            checked_key(key),
            checked_tag(tag),
            checked_headers(headers),
            checked_timestamp(timestamp_ms),
        )
        check_extras(piece.key, piece.tag, piece.headers)
        return self._recorded(topic, piece), future

    def _recorded(self, topic: str, piece: Piece) -> Piece:
        if self._recorder is not None:
            self._recorder.handed_over(topic, piece)
        return piece

    async def _send_block(
        self, values: list[bytes], lengths: NDArray[np.int64], shared: _Shared, receipt: ManyReceipt
    ) -> None:
        """Every slice but the last fills its batch; the last one stays open for what comes next. Where each message's
        queue is the selector's choice, each is a slice of its own."""
        each = extras_bytes(shared.key, shared.tag, None)
        one_by_one = self._selector is not None and shared.queue is None
        most = 1 if one_by_one else MAX_BATCH_MESSAGES
        slices = cuts(lengths, max_bytes=self._delivery.batch_bytes, max_count=most, each=each)
        for number, (start, stop, size) in enumerate(slices, 1):
            slice_receipt = receipt.slice(stop - start)
            piece = self._recorded(shared.topic, Piece(values[start:stop], size, slice_receipt, shared.key, shared.tag))
            close = stop < len(values) and not one_by_one
            try:
                await self._enter(
                    piece, partial(self._queue_selection.place, shared.topic, piece, shared.queue, close=close)
                )
            except LedgerError as error:
                slice_receipt.failed(error)
                return
            if number % _SLICES_A_TURN == 0:
                await asyncio.sleep(0)
            if receipt.error is not None:
                return

    async def _enter(self, piece: Piece, place: Callable[[], None]) -> None:
        """Into the buffer, and from there at once into its place."""
        try:
            await self._buffer.enter(piece.size, place, self._delivery.delivery_timeout_ms / 1000)
        except TimeoutError:
            trouble = self._accumulator.trouble
            raise DeliveryTimeoutError(
                f"The producer's buffer of {self._buffer.limit_bytes} bytes stayed full for "
                f"{self._delivery.delivery_timeout_ms:.0f} ms{because(trouble)}. "
                "This message was not sent: send it again.",
                maybe_committed=False,
            ) from trouble


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all messages of one send_many have in common."""

    topic: str
    key: bytes | None
    tag: str | None
    queue: int | None
