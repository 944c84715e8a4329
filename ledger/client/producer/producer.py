"""The asyncio producer: it sends messages, and returns the offsets of the committed messages.

The producer checks a message, selects its queue and gives the message to the sequencer of the queue. The module
`sender.py` sends the batches.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from ledger.client.checked_arguments import checked_client_id, checked_hook, checked_list, checked_path, checked_rng
from ledger.client.checked_numbers import checked_whole
from ledger.client.connection.cluster_client import NOT_STARTED, ClusterClient
from ledger.client.connection.environment import cluster_of
from ledger.client.connection.lifetime import AsyncLifetime, security_in
from ledger.client.producer.accumulator import Accumulator
from ledger.client.producer.arguments import (
    GivenHeaders,
    check_extras,
    check_retries,
    check_settings,
    checked_headers,
    checked_key,
    checked_look_up_keys,
    checked_message_id,
    checked_queue,
    checked_tag,
    checked_timestamp,
    checked_value,
    value_encoder,
)
from ledger.client.producer.buffer import Buffer
from ledger.client.producer.cancelling import cancel_waiting
from ledger.client.producer.common_batches import CommonKey, CommonMessages, CommonSenders
from ledger.client.producer.delivery import DeliverySettings
from ledger.client.producer.delivery_times import checked_delivery_ms
from ledger.client.producer.fault_table import FaultTable, Steps, checked_steps
from ledger.client.producer.many import ManySender
from ledger.client.producer.outgoing import OutgoingMessage, encoded_items, with_headers
from ledger.client.producer.plain_messages import PlainMessages
from ledger.client.producer.producer_batch import Piece, Receipt, because
from ledger.client.producer.queue_selection import QueueSelection
from ledger.client.producer.queue_selector import QueueSelector
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.client.producer.receipts import SingleReceipt
from ledger.client.producer.recorder import Recorder
from ledger.client.producer.sender import Sender
from ledger.client.producer.slices import check_many
from ledger.client.producer.table import Table
from ledger.client.producer.timed_selection import TimedQueueSelection
from ledger.client.records import RecordMetadata, RecordRange, Sent
from ledger.client.tracing import TracerSource, client_spans
from ledger.client.transactions.half_selection import HalfQueueSelection, HalfReceipt
from ledger.client.transactions.producer_transactions import ProducerTransactions
from ledger.client.transactions.records import TransactionChecker
from ledger.client.transactions.transaction import AsyncTransaction
from ledger.codec import Codec
from ledger.consumer_groups import validate_group_name
from ledger.errors import ClosedError, DeliveryTimeoutError
from ledger.history import HistoryError
from ledger.topics import validate_topic_name

if TYPE_CHECKING:
    from ledger.client.spans import SendSpan


class _NotStarted:
    """Stands for an attribute that `start` sets. To read it before raises ClosedError."""

    def __get__(self, producer: object, owner: type) -> Any:
        if producer is None:
            return self
        raise ClosedError(NOT_STARTED)


_NOT_STARTED: Any = _NotStarted()


class AsyncProducer(AsyncLifetime, Generic[Sent]):
    """An asyncio client that sends messages. A retry never stores a message twice, because brokers recognise a
    repeated batch by its sequence number.

    Producers of one event loop that reach the same cluster in the same way (servers, security, `client_id` and
    `request_timeout_ms`) share their connections. If their other delivery settings are equal too, they also share
    batches of small messages. So a program can have a producer for each of its parts, and stop each of them by itself.

    Messages with the same key, and messages sent with the same `queue`, keep their order. Messages with neither a key
    nor a `queue` are spread over the queues, one batch to each queue in turn. If a shard is unavailable, a batch of
    messages with neither a key nor a `queue` goes to a queue of another shard, unless the batch may already be in the
    log of the first shard. A batch that may already be in one queue stays in this queue, because a copy in a second
    queue would be a duplicate.

    Settings::

        bootstrap_servers    "host:port,host:port" or a list of addresses; one reachable address is enough
        client_id            the name that this client shows to nodes; None: chosen by the client
        linger_ms            how long a batch collects messages while its shard has unanswered batches (default 5);
                             if the shard has none, a batch is sent at once
        batch_bytes          the size at which a batch is full (default 256 KiB, at most 4 MiB)
        buffer_bytes         the most bytes that may wait to be acknowledged (default 64 MiB); beyond this limit send()
                             waits and send_nowait() raises BufferFullError
        compression          None (default), "lz4" or "zstd"
        delivery_timeout_ms  the time after which a send raises DeliveryTimeoutError (default 120,000)
        retries              how many times a batch is sent again after a failure, within delivery_timeout_ms; None
                             (default): no limit. An attempt that could not be sent is not counted
        request_timeout_ms   how long one node may take to answer (default 30,000)
        retry_backoff_ms     the wait after the first failure (default 20); it doubles up to 1000 ms
        queue_selector       a function that chooses the queue of each message sent without `queue` (default None). It
                             gets an UnplacedMessage and the number of queues, and returns a queue number from 0, or
                             None for the usual choice. If it raises or returns a number that is no queue, the send
                             raises InvalidArgumentError. With a selector, send_many is as slow as single sends
        latency_faults       avoid shards that answered late or failed, while other shards are available. False
                             (default): off; True: RocketMQ's table (550 ms: 2 s, 1.8 s: 5 s, 3 s: 6 s, 5 s or a
                             failure: 10 s, 15 s: 30 s); or a table ((latency_ms, for_ms), ...). Messages with a key
                             are not affected
        serializer           a function such as json.dumps, which makes bytes, or text that is sent as UTF-8, of each
                             value (default None: values are bytes, bytearray or memoryview)
        encoding             with this encoding, such as "utf-8", values may be str (default None). Type checkers need
                             `AsyncProducer[str](..., encoding="utf-8")`
        history              a file to which each send, each cancel and their results are written (default None; see
                             `ledger.history`). Messages of transactions are not written
        history_process      the process number in the history file (default 0)
        tracing              True: make spans of OpenTelemetry for sends, with the global tracer provider; or a tracer
                             provider (default False). The context of a span is in the headers of its messages. Needs
                             the extra `otel`
        rng                  randomness for back-offs and for the first queue (default: a new random.Random())

    The security settings `tls`, `ca`, `client_certificate`, `client_key`, `user`, `password`, `password_file`, `token`
    and `profile` are those of every client (docs/GUIDE.md, Connecting).
    """

    _queue_selection: QueueSelection = _NOT_STARTED
    _timed_selection: TimedQueueSelection = _NOT_STARTED
    _half_selection: HalfQueueSelection = _NOT_STARTED
    _transactions: ProducerTransactions[Sent] = _NOT_STARTED
    _many: ManySender = _NOT_STARTED
    _plain: PlainMessages = _NOT_STARTED
    _loop: asyncio.AbstractEventLoop = _NOT_STARTED

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
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
        serializer: Callable[[Sent], bytes | str] | None = None,
        encoding: str | None = None,
        history: str | Path | None = None,
        history_process: int = 0,
        tracing: bool | TracerSource = False,
        rng: random.Random | None = None,
        tls: bool | None = None,
        ca: str | Path | None = None,
        client_certificate: str | Path | None = None,
        client_key: str | Path | None = None,
        user: str | None = None,
        password: str | None = None,
        password_file: str | Path | None = None,
        token: str | None = None,
        profile: str | None = None,
    ) -> None:
        servers, environment = cluster_of(self._environment, bootstrap_servers, security_in(locals()))
        check_settings(linger_ms, batch_bytes, buffer_bytes, delivery_timeout_ms, request_timeout_ms, retry_backoff_ms)
        check_retries(retries)
        self._encoded = value_encoder(serializer, encoding)
        self._spans = client_spans(tracing, checked_client_id(client_id))
        self._selector = checked_hook(
            "queue_selector", queue_selector, "of an UnplacedMessage and the number of queues, which returns a queue"
        )
        steps = checked_steps(latency_faults)
        self._faults = FaultTable(steps)
        self._rng = checked_rng(rng)
        self._client = ClusterClient(
            servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            rng=self._rng,
            environment=environment,
            shares_link=True,
        )
        self._delivery = DeliverySettings(
            producer_id=environment.new_producer_id(),
            linger_ms=linger_ms,
            batch_bytes=batch_bytes,
            delivery_timeout_ms=delivery_timeout_ms,
            codec=Codec.named(compression),
            retries=retries,
        )
        self._common_key = CommonKey.of(self._delivery, steps, retry_backoff_ms)
        self._buffer = Buffer(buffer_bytes)
        self._history = None if history is None else checked_path("history", history)
        self._history_process = checked_whole("history_process", history_process, 0)
        self._recorder: Recorder | None = None
        # Closes everything. The first call of stop() makes it; the others wait for it.
        self._ending: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect to the cluster.

        Raises UnavailableError if no node answers, and HistoryError if the history file cannot be written.
        """
        self._client.check_unstarted(was_stopped=self._ending is not None)
        self._loop = asyncio.get_running_loop()
        await self._client.start()
        if self._history is not None:
            try:
                self._recorder = Recorder(
                    self._history, self._history_process, self._delivery.producer_id, self._client.environment.now_ms
                )
            except HistoryError:
                await self._client.close()
                raise
        self._accumulator = Accumulator(self._delivery, self._client.backoff, self._faults)
        self._sender = Sender(
            self._client.link,
            self._accumulator,
            now_ms=self._client.environment.now_ms,
            release=self._buffer.release,
            settling=None if self._recorder is None else self._recorder.settling,
        )
        self._common = self._join_common()
        self._plain = PlainMessages(self._sender, self._buffer, self._delivery)
        # Neither a history, nor spans, nor a queue selector looks at each message.
        chooses_alone = self._recorder is None and self._spans is None and self._selector is None
        first_queue = self._rng.randrange(1 << 16)
        self._queue_selection = QueueSelection(
            self._client,
            make_sequencer=self._accumulator.sequencer,
            add=self._sender.add,
            refund=self._buffer.release,
            is_available=self._sender.is_available,
            selector=self._selector,
            first_queue=first_queue,
            common=self._common,
            plain=self._plain if chooses_alone else None,
        )
        self._timed_selection = TimedQueueSelection(
            self._client,
            make_sequencer=self._timed_sequencer,
            add=self._sender.add,
            refund=self._buffer.release,
            is_available=self._sender.is_available,
            selector=self._selector,
            first_queue=first_queue,
        )
        self._half_selection = HalfQueueSelection(
            self._client,
            delivery=self._delivery,
            make_lane=self._accumulator.lane,
            add=self._sender.add,
            refund=self._buffer.release,
            is_available=self._sender.is_available,
            selector=self._selector,
            first_queue=first_queue,
        )
        self._transactions = ProducerTransactions(
            self._client, self._half_selection, self._half_piece, self._enter, self._delivery.delivery_timeout_ms
        )
        self._many = ManySender(
            self._client,
            self._queue_selection,
            self._timed_selection,
            self._delivery,
            enter=self._enter,
            recorded=self._recorded,
            selects=self._selector is not None,
            as_lists=self._selector is not None or self._recorder is not None,
        )

    async def stop(self) -> None:
        """Wait for at most delivery_timeout_ms until every send has a result, then close the producer. A send that has
        no result after delivery_timeout_ms fails. The call is idempotent, also while another call of stop() waits.
        """
        self._client.check_loop()
        if not self._client.started:
            if self._ending is not None:
                await asyncio.wait([self._ending])
            return
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._delivery.delivery_timeout_ms / 1000):
                    await self.flush()
                    await self._transactions.finished()
        finally:
            self._client.refuse_calls()
            self._plain.forget()
            if self._ending is None:
                self._ending = self._loop.create_task(self._end(), name="end of a producer")
            # A caller that gives up does not leave half of it open.
            await asyncio.shield(self._ending)

    async def _end(self) -> None:
        self._buffer.close()
        await self._queue_selection.close()
        await self._timed_selection.close()
        await self._half_selection.close()
        await self._transactions.stop()
        try:
            await self._sender.close()
        finally:
            if self._common is not None:
                await self._common.leave()
            if self._recorder is not None:
                self._recorder.close()
            await self._client.close()

    async def send(
        self,
        topic: str,
        value: Sent,
        *,
        key: bytes | str | None = None,
        tag: str | None = None,
        headers: GivenHeaders = None,
        timestamp_ms: int | None = None,
        queue: int | None = None,
        deliver_at: datetime | None = None,
        delay: timedelta | None = None,
        look_up_keys: Iterable[bytes | str] | None = None,
        message_id: bytes | str | None = None,
    ) -> RecordMetadata:
        """Send one message. Return the queue and the offset of the message when a majority of the shard's voters has
        the message.

        With `deliver_at`, a datetime with a time zone, or with `delay`, the message waits in the cluster, and consumers
        receive it at this time or shortly later. A message whose time has passed is delivered at once. The time is at
        most 40 days ahead. The result then has `deliver_at` and `handle`, and no offset, because the message gets its
        offset when it is delivered. Messages with the same key and the same delivery time keep their order.

        `look_up_keys` are up to 16 more keys by which Admin.query_messages finds the message, as it finds the message
        by its `key`. They do not choose the queue.

        `message_id`, 1 to 256 bytes, lets a message be sent again without a second copy: if the topic got a message
        with the same id within the last 5 minutes, the result is that of the first message, with `duplicate` set.
        Without a key, the id chooses the queue. A message that is sent again must have the same key, `queue` and
        delivery time.

        Raises an error that says why the message is invalid, or DeliveryTimeoutError. The attribute `maybe_committed`
        of a DeliveryTimeoutError says whether the message may be in the log. If the call is cancelled after the
        producer has accepted the message, the message is still sent.
        """
        data = value if self._encoded is None else self._encoded(value)
        waits = deliver_at is not None or delay is not None
        future: asyncio.Future[RecordMetadata] = self._loop.create_future()
        receipt = SingleReceipt(topic, future)
        is_plain = tag is None and headers is None and timestamp_ms is None and queue is None and look_up_keys is None
        if is_plain and not waits and message_id is None and self._plain.join(topic, data, key, receipt):
            return await future
        selection, deliver_at_ms = self._queue_selection, None
        if waits:
            selection, deliver_at_ms = self._timed_selection, self._delivery_ms(deliver_at, delay)
        if queue is not None:
            queue = checked_queue(queue)
        piece = self._single(receipt, topic, data, key, tag, headers, timestamp_ms, deliver_at_ms, look_up_keys)
        if message_id is not None:
            piece.name(checked_message_id(message_id))
        try:
            if self._buffer.take(piece.size):  # what `_enter` does, without its cost
                selection.place(topic, piece, queue)
            else:
                await self._enter(piece, partial(selection.place, topic, piece, queue))
            return await future
        except asyncio.CancelledError:
            future.cancel()  # the caller no longer waits for the result
            raise

    def send_nowait(
        self,
        topic: str,
        value: Sent,
        *,
        key: bytes | str | None = None,
        tag: str | None = None,
        headers: GivenHeaders = None,
        timestamp_ms: int | None = None,
        queue: int | None = None,
        deliver_at: datetime | None = None,
        delay: timedelta | None = None,
        look_up_keys: Iterable[bytes | str] | None = None,
        message_id: bytes | str | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Give one message to the producer, and return a future at once. The future gets the same result as send()
        returns. Raises BufferFullError if the buffer has no room; send() would wait for room."""
        data = value if self._encoded is None else self._encoded(value)
        waits = deliver_at is not None or delay is not None
        future: asyncio.Future[RecordMetadata] = self._loop.create_future()
        receipt = SingleReceipt(topic, future)
        is_plain = tag is None and headers is None and timestamp_ms is None and queue is None and look_up_keys is None
        if is_plain and not waits and message_id is None and self._plain.join(topic, data, key, receipt):
            return future
        selection, deliver_at_ms = self._queue_selection, None
        if waits:
            selection, deliver_at_ms = self._timed_selection, self._delivery_ms(deliver_at, delay)
        if queue is not None:
            queue = checked_queue(queue)
        piece = self._single(receipt, topic, data, key, tag, headers, timestamp_ms, deliver_at_ms, look_up_keys)
        if message_id is not None:
            piece.name(checked_message_id(message_id))
        if self._buffer.take(piece.size):  # what `enter_nowait` does, without the cost of a partial
            selection.place(topic, piece, queue)
        else:
            self._buffer.enter_nowait(piece.size, partial(selection.place, topic, piece, queue))
        return future

    async def send_many(
        self,
        topic: str,
        values: Iterable[Sent | tuple[bytes | str | None, Sent] | OutgoingMessage[Sent]],
        *,
        key: bytes | str | None = None,
        tag: str | None = None,
        queue: int | None = None,
        deliver_at: datetime | None = None,
        delay: timedelta | None = None,
        look_up_keys: Iterable[bytes | str] | None = None,
    ) -> list[RecordRange]:
        """Send many messages faster than separate calls of send(). Each item of `values` is a value, a pair
        `(key, value)`, or an OutgoingMessage. `key`, `tag`, `queue`, `look_up_keys`, and `deliver_at` or `delay`,
        apply to each message that has none of its own.

        When a majority of the voters has all messages, return their queues and offsets. Without keys and queues of
        their own, the messages are in the order of `values`. With them, each message goes to the queue to which
        send() sends it, and the field `indexes` of each RecordRange says which messages it has. In both cases messages
        of one queue keep their order.

        A list or tuple is checked as a whole before any message is sent. Any other iterable is read and checked in
        blocks of 16,384 messages. After the first failure no more messages are read. The call raises the error when
        every message that was already accepted has a result. If it is unknown whether some messages are in a log, the
        error is a DeliveryTimeoutError. The error has an attribute `acknowledged`, a list[RecordRange]: the queues and
        offsets of the acknowledged messages. An error that `values` itself raises is raised in the same way.
        """
        check_many(values)
        items = values if self._encoded is None else encoded_items(values, self._encoded)
        deliver_at_ms = self._delivery_ms(deliver_at, delay)
        sending = None
        if self._spans is not None:
            items = items if isinstance(items, (list, tuple)) else list(items)
            sending = self._spans.send(topic, count=len(items), key=key, tag=tag)
        if sending is None:
            return await self._many.send(
                topic, items, key=key, tag=tag, queue=queue, deliver_at_ms=deliver_at_ms, look_up_keys=look_up_keys
            )
        try:
            sent = await self._many.send(
                topic,
                with_headers(items, sending.headers),
                key=key,
                tag=tag,
                queue=queue,
                deliver_at_ms=deliver_at_ms,
                look_up_keys=look_up_keys,
                trace=sending.traceparent,
            )
        except BaseException as error:
            sending.failed(error)
            raise
        sending.ended()
        return sent

    async def send_table(
        self, topic: str, table: Table, *, value: str, key: str | None = None, queue: int | None = None
    ) -> list[RecordRange]:
        """Send a message for each row of a table, and return the queues and offsets of the messages as send_many does.

        `table` is a pyarrow.Table, or a mapping of names to columns, such as a DataFrame of pandas. Columns are Arrow
        arrays, numpy arrays, or lists. `value` and `key` name the columns with the values and keys of the messages.
        These columns have bytes or text, which is sent as UTF-8; a `serializer` is not used. A row whose key is None,
        NaN or pandas.NA goes to any queue; with `queue`, all rows go to this queue. All other rows go to the queues to
        which send() sends their keys.

        The rows become batches without a Python object for each row. Raises InvalidArgumentError if a column is missing
        or has items of another type, and the same errors as send_many.
        """
        return await self._many.send_table(topic, table, value=value, key=key, queue=queue)

    async def cancel(self, handle: str) -> bool:
        """Cancel a message that waits for its delivery time. `handle` is the `handle` of its receipt. Any producer can
        cancel the message, if its user may publish on the topic.

        Return True if the message is cancelled now and will not be delivered. Return False if it was delivered or
        cancelled before, if it is being delivered at this moment, or if it is unknown. If an answer of the cluster was
        lost, the call is repeated, and then False may also mean that the first attempt cancelled the message. A program
        that must know looks for the message in its topic after the delivery time.

        Raises InvalidArgumentError if `handle` is no handle, PermissionDeniedError, or another LedgerError; then the
        message may be cancelled or not, and the program can call cancel() again.
        """
        return (await self.cancel_many((handle,)))[0]

    async def cancel_many(self, handles: Iterable[str]) -> list[bool]:
        """Cancel many messages as cancel() does, up to 1,000 in one request. Return the result of cancel() for each
        handle, in their order. If a handle is there twice, the second result is False.

        If a text is no handle, nothing is cancelled. If the call raises another error, some of the messages may be
        cancelled.
        """
        given = checked_list("handles", handles, "handles, which receipts of waiting messages have")
        if self._recorder is None:
            return await cancel_waiting(self._client, given)
        return await self._recorder.cancelling(given, partial(cancel_waiting, self._client))

    def transaction(
        self, topic: str, *, group: str, checker: TransactionChecker | None = None
    ) -> AsyncTransaction[Sent]:
        """Begin a transaction, whose messages consumers get together or never::

            async with producer.transaction("orders", group="checkout", checker=checker) as transaction:
                await transaction.send(b"...", key="customer 7")
                ...                                          # the program's own database transaction

        The end of the block commits; an exception rolls back. `topic` is the topic of sends without another one. A
        transaction can send to several topics and queues; consumers may see its message in one queue a moment before
        its message in another queue.

        `group` names the producer group: all producers that can tell how a transaction of this kind ended. If the
        program dies, the cluster asks a live producer of the group, and its `checker` answers "commit", "rollback" or
        "unknown" for a CheckedTransaction. A checker is a function or a coroutine function. It answers from now on
        until the producer is closed; `answer_checks` does the same without a transaction. Without any checker in the
        group, the messages of a dead program get into the dead letters of the group after 3 days.

        Raises InvalidTopicNameError and InvalidGroupNameError.
        """
        self._client.check_open()
        validate_topic_name(topic)
        validate_group_name(group)
        if checker is not None:
            self._transactions.check(group, checker)
        return AsyncTransaction(self._transactions, topic, group)

    def answer_checks(self, group: str, checker: TransactionChecker) -> None:
        """Answer the questions of the cluster about transactions of this producer group, until the producer is closed.
        `checker` is the checker of `transaction`; a later one of the same group replaces it."""
        self._transactions.check(group, checker)

    async def flush(self) -> None:
        """Wait until every message accepted so far is acknowledged or has failed, including messages that wait for
        buffer space.

        flush() raises no error for a message that failed; the call that sent the message raises the error.
        """
        self._client.check_open()
        await self._buffer.line_gone()
        await self._queue_selection.flush()
        await self._timed_selection.flush()
        await self._half_selection.flush()
        if self._common is not None:
            await self._common.flush()
        await self._sender.flush()

    def _join_common(self) -> CommonMessages | None:
        """Return the part of this producer in common batches. A history identifies messages by the id of their
        producer, so a producer with a history has no messages there."""
        if self._recorder is not None:
            return None
        senders = self._client.link.part(CommonSenders)
        common = senders.join(self._common_key, self._client.backoff, self._client.environment)
        return CommonMessages(common, self._buffer, self._delivery, self._sender.poll_soon)

    def _single(
        self,
        receipt: Receipt,
        topic: str,
        value: object,
        key: bytes | str | None,
        tag: str | None,
        headers: GivenHeaders,
        timestamp_ms: int | None,
        deliver_at_ms: int | None,
        look_up_keys: Iterable[bytes | str] | None,
    ) -> Piece:
        """Check the arguments of one message. Return a piece with this message, whose sends the history records."""
        piece = self._checked_piece(receipt, topic, value, key, tag, headers, timestamp_ms, deliver_at_ms, look_up_keys)
        if self._spans is not None:
            self._trace(topic, piece)
        return self._recorded(topic, piece)

    def _delivery_ms(self, deliver_at: datetime | None, delay: timedelta | None) -> int | None:
        """Return the delivery time that the program gave, in ms since 1970, or None. Raises InvalidArgumentError."""
        if deliver_at is None and delay is None:
            return None
        return checked_delivery_ms(deliver_at, delay, self._client.environment.now_ms())

    def _timed_sequencer(
        self, topic_id: int, queue: int, shard: int, topic: str, target: tuple[int, int]
    ) -> QueueSequencer:
        producer_id = self._client.environment.new_producer_id()
        return self._accumulator.timed_sequencer(topic_id, queue, shard, topic, target, producer_id)

    def _encoded_now(self, value: object) -> object:
        """Return the value as bytes, if it is of a right type, so that the program may change its buffer afterwards."""
        if self._encoded is not None:
            return self._encoded(value)
        return bytes(value) if isinstance(value, (bytearray, memoryview)) else value

    def _accept(
        self,
        receipt: Receipt,
        topic: str,
        value: object,
        key: bytes | str | None,
        tag: str | None,
        headers: GivenHeaders,
        timestamp_ms: int | None,
        queue: int | None,
        deliver_at_ms: int | None,
        look_up_keys: Iterable[bytes | str] | None,
        message_id: bytes | None,
        sending: SendSpan | None = None,
    ) -> None:
        """Do what send_nowait does, with a receipt of the caller. `message_id` is the hash of the id, and `sending` the
        span of the send, which the caller has begun in its own thread. The synchronous producer calls this method."""
        is_plain = tag is None and headers is None and timestamp_ms is None and queue is None and not look_up_keys
        has_no_more = deliver_at_ms is None and message_id is None and sending is None
        if is_plain and has_no_more and self._plain.join(topic, value, key, receipt):
            return
        selection = self._queue_selection if deliver_at_ms is None else self._timed_selection
        if queue is not None:
            queue = checked_queue(queue)
        piece = self._checked_piece(receipt, topic, value, key, tag, headers, timestamp_ms, deliver_at_ms, look_up_keys)
        if sending is not None:
            traced(piece, sending)
        piece = self._recorded(topic, piece)
        if message_id is not None:
            piece.name(message_id)
        if self._buffer.take(piece.size):
            selection.place(topic, piece, queue)
        else:
            self._buffer.enter_nowait(piece.size, partial(selection.place, topic, piece, queue))

    def _trace(self, topic: str, piece: Piece) -> None:
        """Begin the span of a send, if the sampler keeps it."""
        sending = self._begin_span(topic, piece.key, piece.tag)
        if sending is not None:
            traced(piece, sending)

    def _begin_span(self, topic: str, key: bytes | str | None, tag: str | None) -> SendSpan | None:
        """Begin the span of a send in the present context. Return None if this producer does not trace, or if the
        sampler does not keep the span. The synchronous producer calls this method in the thread of its caller."""
        return None if self._spans is None else self._spans.send(topic, key=key, tag=tag)

    def _checked_piece(
        self,
        receipt: Receipt,
        topic: str,
        value: object,
        key: bytes | str | None,
        tag: str | None,
        headers: GivenHeaders,
        timestamp_ms: int | None,
        deliver_at_ms: int | None,
        look_up_keys: Iterable[bytes | str] | None,
    ) -> Piece:
        self._client.check_open()
        if not isinstance(topic, str) or not self._queue_selection.knows(topic):
            validate_topic_name(topic)
        data = checked_value(value, self._client.routes.table.max_message_bytes)
        if key is None and tag is None and headers is None and timestamp_ms is None and look_up_keys is None:
            return Piece([data], len(data), receipt, deliver_at_ms=deliver_at_ms)
        piece = Piece(
            [data],
            len(data),
            receipt,
            checked_key(key),
            checked_tag(tag),
            checked_headers(headers),
            checked_timestamp(timestamp_ms),
            deliver_at_ms=deliver_at_ms,
            look_up_keys=checked_look_up_keys(look_up_keys),
        )
        check_extras(piece.key, piece.tag, piece.headers, piece.look_up_keys)
        return piece

    def _half_piece(self, receipt: HalfReceipt, topic: str, message: OutgoingMessage[Sent]) -> Piece:
        """Return a piece with one message of a transaction."""
        data = message.value if self._encoded is None else self._encoded(message.value)
        if message.queue is not None:
            checked_queue(message.queue)
        piece = self._checked_piece(
            receipt,
            topic,
            data,
            message.key,
            message.tag,
            message.headers,
            message.timestamp_ms,
            None,
            message.look_up_keys,
        )
        sending = self._begin_span(topic, piece.key, piece.tag)
        if sending is not None:
            piece.add_headers(sending.headers)
            piece.trace = sending.traceparent
            receipt.observe(sending.ended)
        if message.message_id is not None:
            piece.name(checked_message_id(message.message_id))
        return piece

    def _recorded(self, topic: str, piece: Piece) -> Piece:
        if self._recorder is not None:
            self._recorder.handed_over(topic, piece)
        return piece

    async def _enter(self, piece: Piece, place: Callable[[], None]) -> None:
        """Wait for room in the buffer, then call `place`, which gives the piece to a sequencer. Raises
        DeliveryTimeoutError or ClosedError."""
        try:
            await self._buffer.enter(piece.size, place, self._delivery.delivery_timeout_ms / 1000)
        except TimeoutError:
            trouble = self._accumulator.trouble or (None if self._common is None else self._common.trouble)
            raise DeliveryTimeoutError(
                f"The producer's buffer of {self._buffer.limit_bytes} bytes stayed full for "
                f"{self._delivery.delivery_timeout_ms:.0f} ms{because(trouble)}. "
                "This message was not sent: send it again.",
                maybe_committed=False,
            ) from trouble


def traced(piece: Piece, sending: SendSpan) -> None:
    """Give the message of a piece the context of its span, which ends with the result of the message."""
    piece.receipt = sending.receipt(piece.receipt)
    piece.add_headers(sending.headers)
    piece.trace = sending.traceparent
