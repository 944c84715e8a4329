"""Adds plain messages, which have a value and perhaps a key, to batches that earlier messages of the same turn opened.

A program that sends many messages in one turn of the event loop sends most of them to the same few batches. For the
first message of a batch, the producer checks everything, chooses the queue, and makes a piece. The next messages join
the batch without that. They join only where they would be placed anyway: in the same turn, for the same topic, in the
queue of their key or of the messages without keys, and while the batch has room.
"""

from __future__ import annotations

from asyncio import get_running_loop

from ledger.client.producer.buffer import Buffer
from ledger.client.producer.delivery import MAX_BATCH_MESSAGES, DeliverySettings
from ledger.client.producer.producer_batch import MESSAGE_OVERHEAD_BYTES, Piece, ProducerBatch, Receipt
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.client.producer.sender import Sender
from ledger.hashing import queue_of

# A message with a longer key is placed in the usual way, which checks the key.
_MOST_KEY_BYTES = 256


class PlainMessages:
    """The plain messages of one producer."""

    def __init__(self, sender: Sender, buffer: Buffer, delivery: DeliverySettings) -> None:
        """Create it in the producer's event loop."""
        self._loop = get_running_loop()
        self._sender = sender
        self._buffer = buffer
        self._batch_bytes = delivery.batch_bytes
        # The rest holds in one turn of the sender, for one topic.
        self._turn = 0
        self._topic = ""
        self._queues = 1
        self._max_message_bytes = 0
        # Open batches that plain messages may join, by queue.
        self._batches: dict[int | None, ProducerBatch] = {}
        # The queue of messages without keys; None: it is not chosen yet.
        self._keyless: int | None = None

    def placed(self, topic: str, queues: int, sequencer: QueueSequencer, piece: Piece, max_message_bytes: int) -> None:
        """Note that a piece for a topic with so many queues was given to this sequencer. `max_message_bytes` is the
        limit of the cluster; 0: it is not known yet."""
        if self._turn != self._sender.turn or self._topic != topic:
            self.forget()
            self._turn, self._topic, self._queues = self._sender.turn, topic, queues
            self._max_message_bytes = max_message_bytes
        queue, batch = sequencer.queue, sequencer.open_batch
        if queue == self._keyless and self._batches.get(queue) is not batch:
            self._keyless = None
        if batch is not None and batch.is_plain:
            self._batches[queue] = batch
        else:
            self._batches.pop(queue, None)
        if not piece.bound:
            self._keyless = queue

    def forget(self) -> None:
        """Let the next messages be placed in the usual way."""
        self._batches.clear()
        self._keyless = None

    def join(self, topic: str, value: object, key: object, receipt: Receipt) -> bool:
        """Add a plain message to an open batch. Return False if it must be checked and placed in the usual way."""
        if (
            self._turn != self._sender.turn
            or self._topic != topic
            or type(value) is not bytes
            or len(value) > self._max_message_bytes
            or get_running_loop() is not self._loop
        ):
            return False
        size = len(value) + MESSAGE_OVERHEAD_BYTES
        if key is None:
            batch = self._batches.get(self._keyless)
        else:
            if type(key) is str and key.isascii():
                key = key.encode()
            if type(key) is not bytes or len(key) > _MOST_KEY_BYTES:
                return False
            batch = self._batches.get(queue_of(key, self._queues))
            size += len(key)
        if batch is None or batch.size + size >= self._batch_bytes or batch.count + 1 >= MAX_BATCH_MESSAGES:
            return False
        if not self._buffer.take(size):
            return False
        batch.join(value, key, size, receipt)
        return True
