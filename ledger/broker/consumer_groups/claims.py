"""Proposes claims, resets and deletions of a consumer group's progress, and moves messages to retry topics and dead
letters.

    queue  o o X o          retry queue, or dead letters
               └── one entry appends the message there and settles it here ──> X

A move is one entry of the log. Even if nodes fail, a message is unfinished in exactly one queue: in its own queue
or in the target queue. The leader checks a move against the applied progress before it appends the entry of the
move. Replicas apply this entry without a further check. The leader refuses moves from a queue while a claim, reset
or deletion of the group's progress in this queue is not applied yet."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ledger.batch import Batch, encode
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.label_names import LabelNames
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
from ledger.state.commands import ClaimQueues, ForgetConsumerGroup, ResetOffsets
from ledger.state.progress_table import ConsumedQueue

# The producer id of batches that the broker itself makes. No other producer has it.
BROKER = 0


@dataclass(frozen=True, slots=True)
class MessageMove:
    """A request to move one message to a retry topic, or with `give_up` to the dead letters. The owner of the
    message's queue sends the request.

    `epoch` and `resets` come from the result of the owner's claim. `attempt` is the number of deliveries of the
    message so far, which decides the delay."""

    consumer_group: str
    topic_id: int
    queue: int
    epoch: int
    resets: int
    offset: int
    attempt: int
    give_up: bool


class QueueClaims:
    """Proposes the claims and moves for the queues of one shard."""

    def __init__(self, replica: BrokerReplica) -> None:
        self._replica = replica
        # By consumer group: messages that were moved to a retry topic, and to the dead letters.
        self.retries: Counter[str] = Counter()
        self.dead_letters: Counter[str] = Counter()
        self._groups = LabelNames()
        # By queue: how many claims, resets and deletions are not applied yet.
        self._under_way: Counter[ConsumedQueue] = Counter()
        self._moving: dict[tuple[ConsumedQueue, int], asyncio.Future[Committed]] = {}

    def claim(self, wanted: ClaimQueues) -> asyncio.Future[QueueResults]:
        """Propose claims. The returned future has one result for each queue. Raises LedgerError."""
        keys = [ConsumedQueue(wanted.consumer_group, each.topic_id, each.queue) for each in wanted.queues]
        return self._propose(wanted, keys)

    def reset(self, wanted: ResetOffsets) -> asyncio.Future[QueueResults]:
        """Propose resets. The returned future has one result for each queue. Raises LedgerError."""
        keys = [ConsumedQueue(wanted.consumer_group, each.topic_id, each.queue) for each in wanted.offsets]
        return self._propose(wanted, keys)

    def forget(self, consumer_group: str) -> asyncio.Future[int]:
        """Propose to remove the consumer group's progress. The result of the returned future is the number of
        queues in which progress was removed. Raises LedgerError."""
        keys = [key for key, _ in self._replica.state.consumption.progress.of(consumer_group)]
        return self._propose(ForgetConsumerGroup(consumer_group), keys)

    def _propose(
        self, command: ClaimQueues | ResetOffsets | ForgetConsumerGroup, keys: list[ConsumedQueue]
    ) -> asyncio.Future[Any]:
        """Propose a command. Until the command is applied, moves from the queues in `keys` are refused."""
        future = self._replica.command(command)
        self._under_way.update(keys)
        future.add_done_callback(lambda _: self._applied(keys))
        return future

    def _applied(self, keys: list[ConsumedQueue]) -> None:
        self._under_way.subtract(keys)
        for key in keys:
            if not self._under_way[key]:
                del self._under_way[key]

    def move(self, wanted: MessageMove) -> asyncio.Future[Committed] | None:
        """Move a message to a retry topic or to the dead letters. The result of the returned future contains the
        offset of the message in its new queue. Return None if the message is already moved or consumed. Raises
        LedgerError."""
        replica = self._replica
        replica.check_leads(0)
        key = ConsumedQueue(wanted.consumer_group, wanted.topic_id, wanted.queue)
        if self._under_way[key]:
            raise BusyError(f"a claim of queue {wanted.queue} is not committed yet: try again shortly")
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

    def _count(self, done: asyncio.Future[Committed], wanted: MessageMove) -> None:
        if done.exception() is None:
            counter = self.dead_letters if wanted.give_up else self.retries
            counter[self._groups.label(wanted.consumer_group)] += 1

    def _moved_batch(self, wanted: MessageMove) -> bytes:
        """Return a new batch that contains only this message and is addressed to the target queue."""
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
            look_up_keys=[batch.look_up_keys()[at]],
        )

    def _message(self, wanted: MessageMove) -> tuple[Batch, int]:
        """Return the batch that contains the message, and the number of the message in the batch, counted from 0.
        Raises OffsetTooLowError, OffsetBeyondEndError, StorageFailedError."""
        replica = self._replica
        units = replica.queues.get(wanted.topic_id, wanted.queue)
        end = replica.state.next_offset(wanted.topic_id, wanted.queue)
        if wanted.offset < units.first_offset:
            sentence = f"message {wanted.offset} of queue {wanted.queue} was removed from the log"
            raise out_of_range(sentence, wanted.offset, units.first_offset, end)
        if wanted.offset >= end:
            sentence = f"queue {wanted.queue} has no message {wanted.offset} yet"
            raise out_of_range(sentence, wanted.offset, units.first_offset, end)
        unit = units.read(wanted.offset, 1)
        header, body = replica.log.reading.entry_at(int(unit["position"][0]), int(unit["size"][0]))
        batch, at = Batch(bytes(body)), wanted.offset - header.base_offset
        if not 0 <= at < len(batch):
            raise StorageFailedError(
                f"the index of queue {wanted.queue} is damaged at message {wanted.offset} on this node: try again later"
            )
        return batch, at

    def _topic(self, topic_id: int, queue: int) -> Topic:
        return self._replica.state.topics.require(topic_id, queue)

    def _target(self, wanted: MessageMove) -> tuple[Topic, int]:
        """Return the topic and the queue that receive the moved message. The returned queue is one of this shard.
        Attempt 1 uses the first retry queue of this shard, attempt 2 uses the second retry queue, and so on. If
        the attempt number is larger than the number of retry queues in this shard, use the last queue."""
        of = dead_letter_topic if wanted.give_up else retry_topic
        name = of(wanted.consumer_group)
        topic = self._replica.state.topics.named(name)
        queues = [] if topic is None else [i for i, shard in enumerate(topic.shards) if shard == self._replica.shard]
        if topic is None or not queues:
            raise UnknownTopicError(
                f"topic {name} has no queue in shard {self._replica.shard} yet: prepare retries first"
            )
        if wanted.attempt < 1:
            raise InvalidArgumentError(f"attempt {wanted.attempt} is not possible: the first attempt is 1")
        return topic, queues[min(wanted.attempt, len(queues)) - 1]
