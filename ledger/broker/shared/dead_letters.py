"""Moves messages that a shared group was handed too often to the dead letters of the group. One entry appends the copy
and settles the message."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.moved_batch import MessageMove, moved_batch
from ledger.broker.label_names import LabelNames
from ledger.broker.produce.proposals import Committed
from ledger.errors import LedgerError
from ledger.state import TopicQueueId
from raft.transport.rare_log import RareLog
from store import StoreError

log = logging.getLogger("ledgermq.broker.shared")

# Messages that one turn moves.
MAX_MOVES = 64
# Messages that could not be moved are tried again after this time.
RETRY_S = 1.0


class DeadLetters:
    """The moves of one shard. `monotonic_s` is a clock in seconds."""

    def __init__(self, replica: BrokerReplica, monotonic_s: Callable[[], float]) -> None:
        self._replica = replica
        self._monotonic_s = monotonic_s
        self._groups = LabelNames()
        self._refused_log = RareLog(log, monotonic_s)
        # (consumer group, queue, offset) -> when a message that could not be moved is tried again.
        self._put_off: dict[tuple[str, TopicQueueId, int], float] = {}
        # (consumer group, queue, offset) -> a move that is not committed yet.
        self._moving: dict[tuple[str, TopicQueueId, int], asyncio.Future[Committed]] = {}
        # By consumer group: how many messages were moved.
        self.moved: Counter[str] = Counter()

    def move(
        self, consumer_group: str, queue: TopicQueueId, offset: int, attempts: int
    ) -> asyncio.Future[Committed] | None:
        """Move a message. Return a future that ends with the commit, or None if it cannot be moved now. If a move of
        this message is under way, return its future."""
        key = (consumer_group, queue, offset)
        if (moving := self._moving.get(key)) is not None:
            return moving
        now_s = self._monotonic_s()
        if self._put_off.get(key, now_s) > now_s:
            return None
        self._put_off.pop(key, None)
        wanted = MessageMove(consumer_group, *queue, 0, 0, offset, attempts, give_up=True)
        try:
            moved = self._replica.append(moved_batch(self._replica, wanted))
        except (LedgerError, StoreError) as error:
            self._refused_log.warning(
                "consumer group %s: message %d of queue %d of topic %d cannot be moved to the dead letters: %s",
                consumer_group,
                offset,
                queue.queue,
                queue.topic_id,
                error,
            )
            if len(self._put_off) < MAX_MOVES * MAX_MOVES:
                self._put_off[key] = now_s + RETRY_S
            return None
        self._moving[key] = moved
        moved.add_done_callback(lambda _: self._moving.pop(key))
        moved.add_done_callback(lambda done: self._count(done, consumer_group))
        return moved

    def _count(self, done: asyncio.Future[Committed], consumer_group: str) -> None:
        if not done.cancelled() and done.exception() is None:
            self.moved[self._groups.label(consumer_group)] += 1

    def clear(self) -> None:
        self._put_off.clear()
