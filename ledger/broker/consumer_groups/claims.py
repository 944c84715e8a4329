"""Who may go on with a queue, ahead of commit; and messages that its owner moves elsewhere.

    queue  o o X o          retry queue of that step, or dead letters
               └── one entry: the message is appended there, and settled here ──> X

A move is one entry of the log, so the message is in exactly one place, whatever dies when. That entry must be right
when it is applied; so the leader judges it by what is applied and by the claims that are on their way.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from ledger.batch import Batch, encode
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.produce.proposals import Committed
from ledger.errors import (
    BusyError,
    InvalidArgumentError,
    StorageFailedError,
    UnknownTopicError,
    out_of_range,
)
from ledger.retries import dead_letter_topic, moved_headers, retry_topic
from ledger.state import QueueResults, Topic
from ledger.state.progress_table import ConsumedQueue
from ledger.v1 import command_pb2, consumer_group_pb2

BROKER = 0
"""The id of a producer: none has it but the broker itself."""


class Claims:
    """Of one shard."""

    def __init__(self, replica: BrokerReplica) -> None:
        self._replica = replica
        self.retries: Counter[str] = Counter()
        """Messages of each consumer group that were moved here to be consumed again; and those that were given up."""
        self.dead_letters: Counter[str] = Counter()
        # Claims, resets and deletions that are not applied yet.
        self._under_way: Counter[ConsumedQueue] = Counter()
        self._moving: dict[tuple[ConsumedQueue, int], asyncio.Future[Committed]] = {}

    def claim(self, wanted: command_pb2.ClaimQueues) -> asyncio.Future[QueueResults]:
        """The future has what came of each. Raises LedgerError."""
        keys = [ConsumedQueue(wanted.consumer_group, each.topic_id, each.queue) for each in wanted.queues]
        return self._propose(command_pb2.Command(claim_queues=wanted), keys)

    def reset(self, wanted: command_pb2.ResetOffsets) -> asyncio.Future[QueueResults]:
        """The future has what came of each. Raises LedgerError."""
        keys = [ConsumedQueue(wanted.consumer_group, each.topic_id, each.queue) for each in wanted.offsets]
        return self._propose(command_pb2.Command(reset_offsets=wanted), keys)

    def forget(self, consumer_group: str) -> asyncio.Future[int]:
        """The future has of how many queues it was known how far the consumer group had come. Raises LedgerError."""
        keys = [key for key, _ in self._replica.state.consumption.progress.of(consumer_group)]
        wanted = command_pb2.ForgetConsumerGroup(consumer_group=consumer_group)
        return self._propose(command_pb2.Command(forget_consumer_group=wanted), keys)

    def _propose(self, command: command_pb2.Command, keys: list[ConsumedQueue]) -> asyncio.Future[Any]:
        """Until it is applied, nobody moves messages of these queues."""
        future = self._replica.command(command)
        self._under_way.update(keys)
        future.add_done_callback(lambda _: self._applied(keys))
        return future

    def _applied(self, keys: list[ConsumedQueue]) -> None:
        self._under_way.subtract(keys)
        for key in keys:
            if not self._under_way[key]:
                del self._under_way[key]

    def move(self, wanted: consumer_group_pb2.MoveRequest) -> asyncio.Future[Committed] | None:
        """The future has the place where the message is then; None: it has been moved, or consumed. Raises
        LedgerError."""
        replica = self._replica
        replica.check_leads(0)
        key = ConsumedQueue(wanted.consumer_group, wanted.topic_id, wanted.queue)
        if self._under_way[key]:
            raise BusyError(f"queue {wanted.queue} is being claimed: try again shortly")
        others = sum(each == key for each, _ in self._moving)
        progress = replica.state.consumption.progress
        if not progress.may_settle(key, wanted.epoch, wanted.resets, wanted.offset, moving=others):
            return None
        if (moving := self._moving.get((key, wanted.offset))) is not None:
            return moving
        future = replica.append(self._moved_batch(wanted))
        self._moving[key, wanted.offset] = future
        future.add_done_callback(lambda _: self._moving.pop((key, wanted.offset)))
        future.add_done_callback(lambda done: self._count(done, wanted))
        return future

    def _count(self, done: asyncio.Future[Committed], wanted: consumer_group_pb2.MoveRequest) -> None:
        if done.exception() is None:
            counter = self.dead_letters if wanted.give_up else self.retries
            counter[wanted.consumer_group] += 1

    def _moved_batch(self, wanted: consumer_group_pb2.MoveRequest) -> bytes:
        """A batch of the message alone, for the queue where it goes."""
        topic, (batch, at) = self._topic(wanted.topic_id, wanted.queue), self._message(wanted)
        there, queue = self._target(wanted)
        headers = moved_headers(
            batch.headers()[at],
            here=f"{topic.name}:{wanted.queue}:{wanted.offset}",
            came_from=f"{wanted.topic_id}:{wanted.queue}:{wanted.offset}",
            attempt=wanted.attempt,
        )
        return encode(
            [batch.values()[at]],
            topic_id=there.topic_id,
            queue=queue,
            producer_id=BROKER,
            epoch=0,
            first_sequence=self._replica.next_offset(there.topic_id, queue),
            base_timestamp_ms=batch.timestamps_ms()[at],
            keys=[batch.keys()[at]],
            tags=[batch.tags()[at]],
            headers=[headers],
        )

    def _message(self, wanted: consumer_group_pb2.MoveRequest) -> tuple[Batch, int]:
        """Its batch, and its place there. Raises OffsetTooLowError, OffsetBeyondEndError, StorageFailedError."""
        replica = self._replica
        units = replica.queues.get(wanted.topic_id, wanted.queue)
        end = replica.state.next_offset(wanted.topic_id, wanted.queue)
        if wanted.offset < units.first_offset:
            sentence = f"message {wanted.offset} of queue {wanted.queue} is kept no longer"
            raise out_of_range(sentence, wanted.offset, units.first_offset, end)
        if wanted.offset >= end:
            sentence = f"queue {wanted.queue} has no message {wanted.offset} yet"
            raise out_of_range(sentence, wanted.offset, units.first_offset, end)
        unit = units.read(wanted.offset, 1)
        header, body = replica.log.reading.entry_at(int(unit["position"][0]), int(unit["size"][0]))
        batch, at = Batch(bytes(body)), wanted.offset - header.base_offset
        if not 0 <= at < len(batch):
            raise StorageFailedError(f"the index of queue {wanted.queue} is wrong about message {wanted.offset}")
        return batch, at

    def _topic(self, topic_id: int, queue: int) -> Topic:
        return self._replica.state.topics.require(topic_id, queue)

    def _target(self, wanted: consumer_group_pb2.MoveRequest) -> tuple[Topic, int]:
        """Of the queues that this shard has for it, the one of that step; the last one for all further steps."""
        of = dead_letter_topic if wanted.give_up else retry_topic
        name = of(wanted.consumer_group)
        topic = self._replica.state.topics.named(name)
        queues = [] if topic is None else [i for i, shard in enumerate(topic.shards) if shard == self._replica.shard]
        if topic is None or not queues:
            raise UnknownTopicError(f"there is no {name} in shard {self._replica.shard} yet: prepare retries first")
        if wanted.attempt < 1:
            raise InvalidArgumentError(f"attempt {wanted.attempt}: the first one is 1")
        return topic, queues[min(wanted.attempt, len(queues)) - 1]
