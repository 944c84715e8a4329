"""Copies the messages of one topic from one broker.

Messages are given to the producer in the order in which they are received, and the producer keeps the order of messages
with one key. So only one receive at a time is under way. Four at a time were slower when they were tried.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from ledger.client.producer.arguments import stored_tag
from ledger.client.producer.buffer import Buffer
from ledger.client.producer.producer import AsyncProducer
from ledger.errors import (
    DeliveryTimeoutError,
    HeadersTooLargeError,
    InvalidArgumentError,
    LedgerError,
    MessageTooLargeError,
    TooManyHeadersError,
)
from ledger.rocketmq.mirror.mirror_tally import MirrorTally
from ledger.rocketmq.mirror.mirrored_message import (
    MirroredMessage,
    mirrored_message,
    received_bytes,
    source_message_id,
)
from ledger.rocketmq.mirror.source_acknowledger import SourceAcknowledger
from ledger.rocketmq.mirror.source_connection import SourceConnection
from ledger.rocketmq.mirror.source_routes import SourceBroker
from ledger.rocketmq.mirror.source_settings import MirrorError, SourceSettings
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2
from ledger.timed import moment

BATCH = 32
POLL_S = 5.0
# After the poll, a server may take so long for its answer.
ANSWER_S = 10.0
_AGAIN_S = 1.0

# The cluster cannot store a message, whoever sends it.
_TOO_LARGE = (MessageTooLargeError, TooManyHeadersError, HeadersTooLargeError)


@dataclass(frozen=True, slots=True)
class CopyParts:
    """What all copiers of a mirror share."""

    settings: SourceSettings
    producer: AsyncProducer[bytes]
    # The bytes of messages that are received and not acknowledged.
    room: Buffer
    tally: MirrorTally
    now_ms: Callable[[], int]
    # Ends the mirror with an error.
    fail: Callable[[Exception], None]


class SourceCopier:
    """Copies from `topic` of one broker to `target`. Run the method `run` as a task."""

    def __init__(
        self,
        topic: str,
        target: str,
        broker: SourceBroker,
        parts: CopyParts,
        connections: Callable[[int], SourceConnection],
    ) -> None:
        """`connections(turn)` returns the connection to the broker's address number `turn`, which may be any number."""
        # Loop time since when the broker has no more messages, or None if it may have some.
        self.empty_since_s: float | None = None
        self._name = f"{topic} on {broker.name}"
        self._topic = topic
        self._target = target
        self._broker = broker
        self._parts = parts
        self._connections = connections
        self._turn = 0
        self._acknowledger = SourceAcknowledger(parts.settings.group, topic, lambda: self._connection)
        self._copies: set[asyncio.Task[None]] = set()

    @property
    def is_idle(self) -> bool:
        """True if no message is on its way."""
        return not self._copies

    @property
    def _connection(self) -> SourceConnection:
        return self._connections(self._turn)

    async def finish(self, timeout_s: float) -> None:
        """Wait until the received messages are copied, at most for `timeout_s`."""
        if self._copies:
            await asyncio.wait(self._copies, timeout=timeout_s)
        for task in self._copies:
            task.cancel()
        await asyncio.gather(*self._copies, return_exceptions=True)
        await self._acknowledger.close()

    async def run(self) -> None:
        """Copy until the task is cancelled, or until the servers refuse this consumer."""
        attempt = ""
        while True:
            attempt = attempt or uuid.uuid4().hex
            try:
                await self._connection.ready()
                await self._receive(attempt)
                attempt = ""
            except MirrorError as error:
                self.empty_since_s = None
                self._parts.tally.trouble = str(error)
                if not error.retriable:
                    self._parts.fail(error)
                    return
                self._turn += error.is_unreachable
                await asyncio.sleep(_AGAIN_S)

    async def _receive(self, attempt: str) -> None:
        """Receive once, and begin to copy what comes. Raises MirrorError."""
        connection, settings = self._connection, self._parts.settings
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        request = service_pb2.ReceiveMessageRequest(
            group=pb.Resource(name=settings.group),
            message_queue=pb.MessageQueue(
                topic=pb.Resource(name=self._topic), id=self._broker.queue, broker=pb.Broker(name=self._broker.name)
            ),
            filter_expression=pb.FilterExpression(type=pb.TAG, expression="*"),
            batch_size=BATCH,
            attempt_id=attempt,
        )
        request.invisible_duration.FromSeconds(settings.invisible_s)
        request.long_polling_timeout.FromMilliseconds(round(POLL_S * 1000))
        async for answer in connection.receive(request, POLL_S + ANSWER_S + settings.invisible_s):
            if answer.HasField("message"):
                self.empty_since_s = None
                await self._begin(answer.message)
            elif answer.HasField("status") and answer.status.code == pb.MESSAGE_NOT_FOUND:
                if self.empty_since_s is None:
                    self.empty_since_s = asked_s
                self._parts.tally.is_empty(self._name)
            elif answer.HasField("status"):
                connection.check(answer.status, f"a receive of topic {self._topic!r} in group {settings.group!r}")

    async def _begin(self, message: pb.Message) -> None:
        """Wait for room, and begin to copy a message."""
        size = received_bytes(message)
        await self._parts.room.enter(size, lambda: None)
        stored = message.system_properties.store_timestamp
        self._parts.tally.received(self._name, stored.seconds * 1000 + stored.nanos // 1_000_000)
        task = asyncio.create_task(self._copy(message), name=f"copy of a message of {self._topic}")
        self._copies.add(task)
        task.add_done_callback(lambda done: self._copied(done, size))

    def _copied(self, done: asyncio.Task[None], size: int) -> None:
        self._copies.discard(done)
        self._parts.room.release(size)
        if done.cancelled():
            self._parts.tally.unfinished += 1
        elif (error := done.exception()) is not None:
            self._parts.fail(error if isinstance(error, Exception) else RuntimeError(str(error)))

    async def _copy(self, message: pb.Message) -> None:
        """Store a message in the cluster, and then acknowledge it. Raises the LedgerError that ends the mirror."""
        tally = self._parts.tally
        try:
            copy = mirrored_message(message, self._parts.now_ms())
        except (*_TOO_LARGE, InvalidArgumentError) as error:
            await self._leave_out(message, error)
            return
        try:
            repeated = await self._store(copy)
        except _TOO_LARGE as error:
            await self._leave_out(message, error)
            return
        except LedgerError as error:
            if not error.retriable and not isinstance(error, DeliveryTimeoutError):
                raise
            tally.trouble = str(error)
            tally.unfinished += 1
            return
        handle = message.system_properties.receipt_handle
        if not await self._acknowledger.acknowledge(message.system_properties.message_id, handle):
            tally.unfinished += 1
            return
        tally.copied[self._topic] += 1
        tally.copied_bytes += len(message.body)
        tally.repeated += repeated

    async def _store(self, copy: MirroredMessage) -> bool:
        """Return whether the cluster had the message already. Raises LedgerError."""
        sent = await self._parts.producer.send(
            self._target,
            copy.value,
            key=copy.key,
            tag=stored_tag(copy.tag),
            headers=copy.headers,
            timestamp_ms=copy.timestamp_ms,
            deliver_at=None if copy.deliver_at_ms is None else moment(copy.deliver_at_ms),
            look_up_keys=copy.look_up_keys,
            message_id=copy.message_id,
        )
        return sent.duplicate

    async def _leave_out(self, message: pb.Message, reason: LedgerError) -> None:
        """Move a message that the cluster cannot store to the dead letters of the group at the servers."""
        system, tally = message.system_properties, self._parts.tally
        request = service_pb2.ForwardMessageToDeadLetterQueueRequest(
            group=pb.Resource(name=self._parts.settings.group),
            topic=pb.Resource(name=self._topic),
            receipt_handle=system.receipt_handle,
            message_id=system.message_id,
            delivery_attempt=system.delivery_attempt,
            max_delivery_attempts=system.delivery_attempt,
        )
        try:
            answer = await self._connection.call("ForwardMessageToDeadLetterQueue", request)
            self._connection.check(answer.status, f"message {system.message_id} as a dead letter")
        except MirrorError as error:
            tally.trouble = str(error)
            tally.unfinished += 1
            return
        tally.leave_out(f"message {source_message_id(message)} of topic {self._topic}: {reason}")
