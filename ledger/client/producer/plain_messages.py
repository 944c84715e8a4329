"""Adds messages that have only a value to the batch of the message before them.

A program that sends many messages in one turn of the event loop sends nearly all of them to the same open batch. So the
producer chooses a queue for the first of them, and the next ones join its batch without a choice and without a piece of
their own. They join only if a choice would give the same batch: in the same turn, for the same topic, with no other
message in between, and while the batch has room.
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop

from ledger.client.producer.buffer import Buffer
from ledger.client.producer.delivery import MAX_BATCH_MESSAGES, DeliverySettings
from ledger.client.producer.producer_batch import MESSAGE_OVERHEAD_BYTES, ProducerBatch
from ledger.client.producer.receipts import SingleReceipt
from ledger.client.producer.sender import Sender
from ledger.client.records import RecordMetadata


class PlainMessages:
    """The plain messages of one producer: those without a key, a tag, a queue, or anything else beside the value."""

    def __init__(self, sender: Sender, buffer: Buffer, delivery: DeliverySettings) -> None:
        """Create it in the producer's event loop."""
        self._loop = get_running_loop()
        self._sender = sender
        self._buffer = buffer
        self._batch_bytes = delivery.batch_bytes
        # The batch of the message before, if the next plain message of its topic may join it in this turn.
        self._batch: ProducerBatch | None = None
        self._topic = ""
        self._turn = 0
        self._max_message_bytes = 0

    def follow(self, topic: str, batch: ProducerBatch, max_message_bytes: int) -> None:
        """Note that a message of the topic went to this open batch, whose messages are plain. `max_message_bytes` is
        the limit of the cluster; 0: it is not known yet."""
        self._topic, self._batch = topic, batch
        self._turn, self._max_message_bytes = self._sender.turn, max_message_bytes

    def forget(self) -> None:
        """Let the next message choose its queue: another message was placed, or the topic has changed."""
        self._batch = None

    def join(self, topic: str, value: object) -> asyncio.Future[RecordMetadata] | None:
        """Add a plain message to the batch of the message before it, and return the future of its result. Return None
        if the message must be checked and placed in the usual way."""
        batch = self._batch
        if (
            batch is None
            or self._turn != self._sender.turn
            or self._topic != topic
            or type(value) is not bytes
            or len(value) > self._max_message_bytes
            or get_running_loop() is not self._loop
        ):
            return None
        size = len(value) + MESSAGE_OVERHEAD_BYTES
        fills = batch.size + size >= self._batch_bytes or batch.count + 1 >= MAX_BATCH_MESSAGES
        if fills or not self._buffer.take(size):
            return None
        future: asyncio.Future[RecordMetadata] = self._loop.create_future()
        batch.join(value, size, SingleReceipt(topic, future))
        return future
