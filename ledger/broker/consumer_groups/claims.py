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
from typing import Any

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.moved_batch import MessageMove, moved_batch
from ledger.broker.label_names import LabelNames
from ledger.broker.produce.proposals import Committed
from ledger.consumer_groups import group_of
from ledger.errors import BusyError, GroupFullError
from ledger.state import QueueResults
from ledger.state.commands import ClaimQueues, ForgetConsumerGroup, ResetOffsets
from ledger.state.progress_table import MAX_CONSUMED_QUEUES_OF_GROUP, ConsumedQueue
from ledger.topics import check_readable


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
        # By consumer group: how many queues the claims and resets that are not applied yet may add to its progress.
        self._beginning: Counter[str] = Counter()
        self._moving: dict[tuple[ConsumedQueue, int], asyncio.Future[Committed]] = {}
        # By queue: how many of its messages are in `_moving`.
        self._moving_from: Counter[ConsumedQueue] = Counter()

    def claim(self, wanted: ClaimQueues) -> asyncio.Future[QueueResults]:
        """Propose claims. The returned future has one result for each queue. Raises LedgerError."""
        keys = [ConsumedQueue(wanted.consumer_group, each.topic_id, each.queue) for each in wanted.queues]
        return self._propose(wanted, keys, self._new(wanted.consumer_group, keys))

    def reset(self, wanted: ResetOffsets) -> asyncio.Future[QueueResults]:
        """Propose resets. The returned future has one result for each queue. Raises LedgerError."""
        keys = [ConsumedQueue(wanted.consumer_group, each.topic_id, each.queue) for each in wanted.offsets]
        return self._propose(wanted, keys, self._new(wanted.consumer_group, keys))

    def _new(self, consumer_group: str, keys: list[ConsumedQueue]) -> int:
        """Return in how many of these queues the consumer group has no progress yet. Raises GroupFullError if the group
        and its broadcasts would have progress in too many queues."""
        progress, group = self._replica.state.consumption.progress, group_of(consumer_group)
        new = sum(progress.get(key) is None for key in keys)
        present = progress.count_of(group) + self._beginning[group]
        if new and present + new > MAX_CONSUMED_QUEUES_OF_GROUP:
            raise GroupFullError(
                f"This shard stores the progress of consumer group {group!r} and of its broadcasts in {present:,} "
                f"queues, and at most {MAX_CONSUMED_QUEUES_OF_GROUP:,} are possible: delete broadcasts that you no "
                "longer need (`ledgermq group delete`)."
            )
        return new

    def forget(self, consumer_group: str) -> asyncio.Future[int]:
        """Propose to remove the consumer group's progress. The result of the returned future is the number of
        queues in which progress was removed. Raises LedgerError."""
        keys = [key for key, _ in self._replica.state.consumption.progress.of(consumer_group)]
        return self._propose(ForgetConsumerGroup(consumer_group), keys)

    def _propose(
        self, command: ClaimQueues | ResetOffsets | ForgetConsumerGroup, keys: list[ConsumedQueue], new: int = 0
    ) -> asyncio.Future[Any]:
        """Propose a command, which begins in `new` of the queues `keys`. Until the command is applied, moves from these
        queues are refused."""
        future, group = self._replica.command(command), group_of(command.consumer_group)
        self._under_way.update(keys)
        self._beginning[group] += new
        future.add_done_callback(lambda _: self._applied(keys, group, new))
        return future

    def _applied(self, keys: list[ConsumedQueue], group: str, new: int) -> None:
        self._beginning[group] -= new
        if not self._beginning[group]:
            del self._beginning[group]
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
        topic = replica.state.topics.get(wanted.topic_id)
        check_readable("" if topic is None else topic.name)
        key = ConsumedQueue(wanted.consumer_group, wanted.topic_id, wanted.queue)
        if self._under_way[key]:
            raise BusyError(f"a claim of queue {wanted.queue} is not committed yet: try again shortly")
        others = self._moving_from[key]
        progress = replica.state.consumption.progress
        if not progress.may_settle(key, wanted.epoch, wanted.resets, wanted.offset, moving=others):
            return None
        if (moving := self._moving.get((key, wanted.offset))) is not None:
            return moving
        future = replica.append(moved_batch(replica, wanted))
        self._moving[key, wanted.offset] = future
        self._moving_from[key] += 1
        future.add_done_callback(lambda _: self._moved(key, wanted.offset))
        future.add_done_callback(lambda done: self._count(done, wanted))
        return future

    def _moved(self, key: ConsumedQueue, offset: int) -> None:
        del self._moving[key, offset]
        self._moving_from[key] -= 1
        if not self._moving_from[key]:
            del self._moving_from[key]

    def _count(self, done: asyncio.Future[Committed], wanted: MessageMove) -> None:
        if done.exception() is None:
            counter = self.dead_letters if wanted.give_up else self.retries
            counter[self._groups.label(wanted.consumer_group)] += 1
