"""The synchronous clients Producer and Consumer.

Each synchronous client runs an asyncio client on an event loop, in a thread of its own, and waits for the result of
each call.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Generic, Literal

from ledger.client.admin.offsets import QueueTimes
from ledger.client.checked_arguments import checked_place
from ledger.client.connection.lifetime import Lifetime, settings_in
from ledger.client.consumer.consumer import AsyncConsumer, Start
from ledger.client.consumer.cursor import QueueBatch
from ledger.client.producer.arguments import GivenHeaders, checked_look_up_keys, checked_message_id
from ledger.client.producer.fault_table import Steps
from ledger.client.producer.outgoing import OutgoingMessage
from ledger.client.producer.producer import AsyncProducer
from ledger.client.producer.queue_selector import QueueSelector
from ledger.client.producer.table import Table
from ledger.client.records import (
    Message,
    Received,
    RecordMetadata,
    RecordRange,
    Sent,
    TopicQueue,
)
from ledger.client.sync.handover import Handover
from ledger.client.sync.loop_thread import CLEAN_UP_S, LoopThread, made, started, stopped
from ledger.client.sync.read_ahead import first_ahead, split_ahead
from ledger.client.sync.transactions import Transaction, in_own_thread
from ledger.client.tracing import TracerSource
from ledger.client.transactions.records import TransactionChecker
from ledger.errors import ClosedError

log = logging.getLogger("ledgermq.client.producer")

_ITERATION_MESSAGES = 500


class Producer(Lifetime, Generic[Sent]):
    """The synchronous form of AsyncProducer, with the same arguments. The constructor connects to the cluster.

    If the program ends without a call of `close`, messages of `send_nowait` that are not acknowledged may be lost, and
    a warning says so.
    """

    _works_alone = True

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
        self._client: AsyncProducer[Sent] = AsyncProducer(**settings_in(locals()))
        self._thread = started(self._client, "ledgermq-producer")
        self._handover = Handover(self._thread, self._client._accept)
        self._at_exit = partial(_tell_unsent, self._client, self._handover, self._thread)
        atexit.register(self._at_exit)

    def send(
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
        the message. With `deliver_at` or `delay`, the message waits, and with `message_id` it is appended once, as
        AsyncProducer.send says. Raises the same errors as AsyncProducer.send.
        """
        return self._thread.run(
            self._client.send(
                topic,
                value,
                key=key,
                tag=tag,
                headers=headers,
                timestamp_ms=timestamp_ms,
                queue=queue,
                deliver_at=deliver_at,
                delay=delay,
                look_up_keys=look_up_keys,
                message_id=message_id,
            )
        )

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
    ) -> concurrent.futures.Future[RecordMetadata]:
        """Pass one message to the producer, and return a future. The future gets the metadata of the message or an
        error. If the buffer has no room, the error is BufferFullError.

        The call does not wait for the cluster. If 2,048 messages, or 8 MiB, wait for the client's own thread, the call
        waits until this thread has taken them. Raises ClosedError, and InvalidArgumentError if `deliver_at`, `delay`,
        `look_up_keys` or `message_id` is invalid.
        """
        deliver_at_ms = self._client._delivery_ms(deliver_at, delay)
        data = self._client._encoded_now(value)
        size = len(data) if isinstance(data, bytes) else 0  # the client's own thread refuses other types
        more_keys = checked_look_up_keys(look_up_keys)
        hashed = None if message_id is None else checked_message_id(message_id)
        sending = self._client._begin_span(topic, key, tag)
        arguments = (data, key, tag, headers, timestamp_ms, queue, deliver_at_ms, more_keys, hashed, sending)
        return self._handover.put(size, topic, arguments)

    def send_many(
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
        """Send many messages fast, and return their queues and offsets, as AsyncProducer.send_many does. If `values`
        is an iterator, it is read on the client's own thread.
        """
        return self._thread.run(
            self._client.send_many(
                topic,
                values,
                key=key,
                tag=tag,
                queue=queue,
                deliver_at=deliver_at,
                delay=delay,
                look_up_keys=look_up_keys,
            )
        )

    def send_table(
        self, topic: str, table: Table, *, value: str, key: str | None = None, queue: int | None = None
    ) -> list[RecordRange]:
        """Send a message for each row of a table, as AsyncProducer.send_table does."""
        return self._thread.run(self._client.send_table(topic, table, value=value, key=key, queue=queue))

    def cancel(self, handle: str) -> bool:
        """Cancel a message that waits for its delivery time, as AsyncProducer.cancel does."""
        return self._thread.run(self._client.cancel(handle))

    def cancel_many(self, handles: Iterable[str]) -> list[bool]:
        """Cancel many messages, as AsyncProducer.cancel_many does."""
        return self._thread.run(self._client.cancel_many(handles))

    def transaction(self, topic: str, *, group: str, checker: TransactionChecker | None = None) -> Transaction[Sent]:
        """Begin a transaction, as AsyncProducer.transaction does, for a `with` block. A checker that is a plain
        function runs in a thread of its own."""
        checks = None if checker is None else in_own_thread(checker)
        inner = self._thread.run(made(lambda: self._client.transaction(topic, group=group, checker=checks)))
        return Transaction(inner, self._thread)

    def answer_checks(self, group: str, checker: TransactionChecker) -> None:
        """Answer the questions of the cluster about transactions of this producer group, as AsyncProducer.answer_checks
        does. A checker that is a plain function runs in a thread of its own."""
        self._thread.run(made(lambda: self._client.answer_checks(group, in_own_thread(checker))))

    def flush(self) -> None:
        """Return when every message accepted so far is acknowledged or has failed."""
        self._thread.run(self._client.flush())

    def close(self) -> None:
        """Wait for at most delivery_timeout_ms until every send has a result, and close the producer. The call is
        idempotent."""
        stopped(self._client.stop(), self._thread)
        atexit.unregister(self._at_exit)


def _tell_unsent(client: AsyncProducer[Any], handover: Handover, thread: LoopThread) -> None:
    """Log a warning at the end of the program if messages of an open producer have no result yet."""
    if thread.alive and (handover or client._buffer.used):
        log.warning(
            "the program ends with an open Producer, some of whose messages are not acknowledged and may be lost: call "
            "close() or flush(), or use it in a `with` block"
        )


class Consumer(Lifetime, Generic[Received]):
    """The synchronous form of AsyncConsumer, with the same arguments. The constructor connects to the cluster."""

    def __init__(
        self,
        *topics: str | Iterable[str],
        bootstrap_servers: str | Sequence[str] | None = None,
        start: Start = "earliest",
        queues: Iterable[int] | None = None,
        tags: Iterable[str] | None = None,
        max_bytes: int = 1024 * 1024,
        max_wait_ms: int = 500,
        node: int | None = None,
        on_dropped: Literal["error", "skip"] = "error",
        deserializer: Callable[[bytes], Received] | None = None,
        check_crcs: bool = True,
        client_id: str | None = None,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: float = 20,
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
        self._client: AsyncConsumer[Received] = AsyncConsumer(*topics, **settings_in(locals()))
        self._thread = started(self._client, "ledgermq-consumer")
        # What was read and not handed out. The other thread reads many messages at once for an iteration, and stores
        # them here itself: if a signal handler raises during a read, for example at Ctrl-C, the next read has them.
        self._ahead: deque[Message[Received]] = deque()
        self._is_ending = False

    def __iter__(self) -> Iterator[Message[Received]]:
        return self

    def __next__(self) -> Message[Received]:
        """Return the next message, and wait for it without a time limit. The iteration ends when the consumer is
        closed."""
        try:
            at = None if self._is_ending else self._first_ahead()
            while at is None and not self._is_over:
                self._thread.run(self._read_ahead(_ITERATION_MESSAGES), clean_up_s=CLEAN_UP_S)
                at = self._first_ahead()
        except ClosedError:
            if not self._is_over:
                raise  # the process was forked, so the client's thread does not exist here
        if self._is_over or at is None:
            raise StopIteration
        message = self._ahead[at]
        del self._ahead[at]  # no call follows, so no signal handler runs before the message is returned
        return message

    def getmany(self, max_messages: int = 500, timeout_ms: float | None = None) -> list[Message[Received]]:
        """Return up to `max_messages` messages that were fetched and not handed out yet.

        If there is no fetched message, wait for messages for up to `timeout_ms` milliseconds (None: without limit). If
        no message arrives before this timeout, return an empty list.
        """
        messages, others = self._split_ahead(max_messages)
        if not messages:
            self._thread.run(self._read_ahead(max_messages, timeout_ms), clean_up_s=CLEAN_UP_S)
            # What was just read needs no second look, which would take as long as the read.
            messages, others = self._split_ahead(max_messages) if others else (list(self._ahead), deque())
        self._ahead = others  # as in __next__
        return messages

    def getbatches(self, timeout_ms: float | None = None) -> list[QueueBatch]:
        """Return all fetched batches, as AsyncConsumer.getbatches does. Do not use getbatches() together with
        iteration: getbatches() does not return the messages that an iteration has read ahead.
        """
        return self._thread.run(self._client.getbatches(timeout_ms))

    def seek(self, topic: str, queue: int, offset: int) -> None:
        """Continue reading this queue at `offset`."""
        self._thread.run(self._client.seek(topic, queue, offset))
        self._ahead = deque(one for one in self._ahead if (one.topic, one.queue) != (topic, queue))

    def pause(self, *places: tuple[str, int]) -> None:
        """Stop reading the queues `places` until resume() is called. Each queue is given as (topic, queue); without
        arguments, all queues are paused."""
        self._thread.run(made(lambda: self._client.pause(*places)))

    def resume(self, *places: tuple[str, int]) -> None:
        """Read the paused queues `places` again; without arguments, read all paused queues again."""
        self._thread.run(made(lambda: self._client.resume(*places)))

    @property
    def paused(self) -> list[TopicQueue]:
        """The paused queues of this consumer, each as (topic, queue)."""
        return self._thread.run(made(lambda: self._client.paused))

    def is_paused(self, topic: str, queue: int) -> bool:
        """Return True if the queue is paused. For a queue that this consumer does not read, return False."""
        return self._client.is_paused(topic, queue)

    @property
    def closed(self) -> bool:
        """True if the consumer was stopped."""
        return self._client.closed

    @property
    def skipped(self) -> int:
        """The number of messages that were skipped because they were no longer kept (`on_dropped="skip"`)."""
        return self._client.skipped

    def position(self, topic: str, queue: int) -> int:
        """Return the offset of the next message that the consumer hands out from this queue."""
        place = checked_place(topic, queue)
        for message in self._ahead:
            if (message.topic, message.queue) == place:
                return message.offset
        return self._thread.run(made(lambda: self._client.position(topic, queue)))

    def beginning_offsets(self) -> dict[TopicQueue, int]:
        """Return the first kept offset of each queue that this consumer reads."""
        return self._thread.run(self._client.beginning_offsets())

    def end_offsets(self) -> dict[TopicQueue, int]:
        """Return the end offset of each queue that this consumer reads: the offset that the next message will get.

        If the consumer reads from a `node`, the end offset follows the last message that this node has applied;
        otherwise it follows the last committed message.
        """
        return self._thread.run(self._client.end_offsets())

    def offsets_for_times(self, times: QueueTimes) -> dict[TopicQueue, int]:
        """Return for each queue the offset of the first message appended at the given time (ms since 1970) or later.
        If a queue has no message from that time or later, its result is the end offset of the queue. Each offset can
        be passed to seek().
        """
        return self._thread.run(self._client.offsets_for_times(times))

    def stop_reading(self) -> None:
        """Hand out no more messages: an iteration ends after the message in hand, and every other read raises
        ClosedError. Other threads and signal handlers can call it. See also `ledgermq.stop_on_signal`."""
        self._is_ending = True
        self._thread.soon(self._client.stop_reading)

    def close(self) -> None:
        """Close the consumer. If another thread waits for messages, its iteration ends, and its getmany() raises
        ClosedError."""
        stopped(self._client.stop(), self._thread)

    @property
    def _is_over(self) -> bool:
        return self._is_ending or self._client.closed

    async def _read_ahead(self, max_messages: int, timeout_ms: float | None = None) -> None:
        messages = await self._client.getmany(max_messages, timeout_ms)
        self._ahead.extend(messages)

    def _first_ahead(self) -> int | None:
        """Return the place of the first message that was read ahead and that is not of a paused queue, or None."""
        return first_ahead(self._ahead, self._may_go)

    def _split_ahead(self, max_messages: int) -> tuple[list[Message[Received]], deque[Message[Received]]]:
        return split_ahead(self._ahead, self._may_go, 0 if self._is_ending else max_messages)

    def _may_go(self, message: Message[Any]) -> bool:
        return not self._client._is_paused(TopicQueue(message.topic, message.queue))
