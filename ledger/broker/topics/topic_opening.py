"""Opens the queues of new topics in their shards. Clients can use a queue only after it is open.

    1. shard 0               CreateTopic or AlterTopic is committed
    2. each other shard      OpenTopic is committed
    3. shard 0               TopicOpened is committed, after step 2 is complete in all shards

The leader of shard 0 opens topics. The state of shard 0 says which topics are not open yet, so the next leader
continues the work. Every step is idempotent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

from ledger.broker.replicas import Replicas
from ledger.broker.topics.other_leaders import OtherLeaders
from ledger.broker.topics.topic_commands import open_topic, topic_opened
from ledger.errors import BusyError, LedgerError, UnknownTopicError
from ledger.state import Topic

log = logging.getLogger("ledgermq.broker.topics")

RETRY_S = 0.2
# How long a client's request waits until a topic is open. The opening continues after that.
PATIENCE_S = 4.0

Spawn = Callable[[Coroutine[None, None, None], str], "asyncio.Task[None]"]


class TopicOpening:
    """Opens topics while this node leads shard 0."""

    def __init__(self, replicas: Replicas, leaders: OtherLeaders, spawn: Spawn) -> None:
        self._replicas = replicas
        self._leaders = leaders
        self._spawn = spawn
        # By topic id: the task that opens the topic.
        self._tasks: dict[int, asyncio.Task[None]] = {}
        # By topic id: the error of the last attempt.
        self._troubles: dict[int, LedgerError] = {}

    def look(self) -> None:
        """Start one task for each topic that is not open yet, which opens the topic. Call `look` when this node
        becomes leader of shard 0, and when topics change."""
        replica = self._replicas.first
        if replica is None or not replica.knows_the_end:
            return
        for topic in replica.state.topics.opening():
            if topic.topic_id not in self._tasks:
                task = self._spawn(self._open(topic.topic_id), f"opening of topic {topic.name}")
                self._tasks[topic.topic_id] = task

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wait(self, topic: Topic) -> Topic:
        """Wait until the topic is open, and return the topic. Raises UnknownTopicError if the topic was deleted
        meanwhile. Raises a retriable LedgerError if the topic is not open in time, or this node stops leading."""
        self.look()
        if (task := self._tasks.get(topic.topic_id)) is not None:
            await asyncio.wait((task,), timeout=PATIENCE_S)
        replica = self._replicas.topics
        now = replica.state.topics.get(topic.topic_id)
        if now is not None and now.is_open:
            return now
        if not replica.knows_the_end:
            raise replica.not_leading()
        if now is None:
            raise UnknownTopicError(f"topic {topic.name!r} was deleted meanwhile")
        trouble = self._troubles.get(topic.topic_id)
        raise BusyError(
            f"topic {topic.name!r} is created, but not open yet "
            f"({trouble or 'other shards are slow'}): try again shortly"
        )

    async def _open(self, topic_id: int) -> None:
        """Open a topic. Returns when the topic is open, or when this node does not lead shard 0 any more."""
        try:
            while (topic := self._to_open(topic_id)) is not None:
                try:
                    await self._open_everywhere(topic)
                except LedgerError as trouble:
                    self._tell(topic, trouble)
                    await asyncio.sleep(RETRY_S)
        finally:
            del self._tasks[topic_id]
            self._troubles.pop(topic_id, None)

    def _to_open(self, topic_id: int) -> Topic | None:
        replica = self._replicas.topics
        topic = replica.state.topics.get(topic_id)
        return topic if topic is not None and not topic.is_open and replica.knows_the_end else None

    async def _open_everywhere(self, topic: Topic) -> None:
        shards = sorted(set(topic.shards[topic.opened :]) - {self._replicas.topics.shard})
        outcomes = await asyncio.gather(*(self._open_in(shard, topic) for shard in shards), return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome
        await topic_opened(self._replicas.topics, topic)

    async def _open_in(self, shard: int, topic: Topic) -> None:
        replica = self._replicas.get(shard)
        if replica is not None and replica.knows_the_end:
            await open_topic(replica, topic)
        else:
            await self._leaders.open_topic(shard, topic)

    def _tell(self, topic: Topic, trouble: LedgerError) -> None:
        if str(self._troubles.get(topic.topic_id)) != str(trouble):
            log.info("topic %s is not open yet: %s", topic.name, trouble)
        self._troubles[topic.topic_id] = trouble
