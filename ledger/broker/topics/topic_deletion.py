"""A topic is deleted in shard 0, and then nothing is left of it in any other shard.

    DeleteTopic in 0 ──every node hears of it──> the leader of each other shard has the same entry there

Shard 0 is on every node, so the leader of any shard sees in its own node's replica of it which topics were deleted;
whatever is left of one in its shard, from before or by an opening that came late, it deletes there. So nobody need
remember what is under way, and a failover anywhere changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.replicas import Replicas
from ledger.broker.topics.topic_commands import delete_topic
from ledger.errors import BusyError, LedgerError, ReplicaBehindError, UnknownTopicError
from ledger.topics import TOPICS_SHARD

log = logging.getLogger("ledgermq.broker.topics")

LOOK_S = 1.0
"""Between looks at what is left."""
PATIENCE_S = 4.0
"""How long a client's request waits for the other shards before it is told to come again; they go on by themselves."""


class OtherLeaders(Protocol):
    """The leaders of shards, wherever they are."""

    async def drop_topic(self, shard: int, topic_id: int) -> None:
        """Returns once nothing is left there of a topic that was deleted. Raises LedgerError."""


class TopicDeletion:
    """`run` it as long as the node runs."""

    def __init__(self, replicas: Replicas, leaders: OtherLeaders) -> None:
        self._replicas = replicas
        self._leaders = leaders
        self._seen: dict[int, tuple[int, int, int]] = {}
        """By shard, as of what the last look found nothing left there."""

    async def delete(self, topic_id: int) -> None:
        """Returns when nothing of the topic is left anywhere; to ask once more is no error. Raises LedgerError:
        UnknownTopicError where there never was such a topic, BusyError where it is deleted and other shards take
        long."""
        replica = self._replicas.topics
        replica.check_leads(0)
        topics = replica.state.topics
        topic = topics.get(topic_id)
        if topic is None and not topics.was_deleted(topic_id):
            raise UnknownTopicError(f"there is no topic with id {topic_id}")
        shards: Sequence[int] = replica.state.shards.numbers
        if topic is not None:
            shards = sorted(set(topic.shards))
            await asyncio.shield(delete_topic(replica, topic_id))
            log.info("topic %s (%d) is deleted", topic.name, topic_id)
        await self._everywhere(topic_id, [shard for shard in shards if shard != TOPICS_SHARD])

    async def drop(self, replica: BrokerReplica, topic_id: int) -> None:
        """Of a topic that was deleted: returns when nothing is left in that shard. Raises ReplicaBehindError where this
        node has not heard of that, or another LedgerError."""
        replica.check_leads(0)
        if not self._replicas.topics.state.topics.was_deleted(topic_id):
            raise ReplicaBehindError(f"that topic {topic_id} was deleted has not come to this node yet: try again")
        if replica.state.topics.get(topic_id) is not None:
            await asyncio.shield(delete_topic(replica, topic_id))

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for replica in self._replicas:
                if replica.shard != TOPICS_SHARD:
                    await self._look(replica)

    async def _everywhere(self, topic_id: int, shards: Sequence[int]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*(self._drop_in(shard, topic_id) for shard in shards))
        except (LedgerError, TimeoutError) as trouble:
            why = trouble if isinstance(trouble, LedgerError) else "it takes long"
            raise BusyError(f"topic {topic_id} is deleted, but not gone everywhere yet ({why}): it goes on") from None

    async def _drop_in(self, shard: int, topic_id: int) -> None:
        replica = self._replicas.get(shard)
        if replica is not None and replica.knows_the_end:
            await self.drop(replica, topic_id)
        else:
            await self._leaders.drop_topic(shard, topic_id)

    async def _look(self, replica: BrokerReplica) -> None:
        """Deletes what is left there of topics that were deleted, if this node leads that shard."""
        if self._replicas.first is None or not replica.leading_term:
            return
        first = self._replicas.first.state.topics
        now = (first.changed_at, replica.state.topics.changed_at, replica.leading_term)
        if self._seen.get(replica.shard) == now:
            return
        left = [topic.topic_id for topic in replica.state.topics if first.was_deleted(topic.topic_id)]
        try:
            for topic_id in left:
                await self.drop(replica, topic_id)
        except LedgerError as trouble:
            log.info("shard %d: deleted topics are still to go: %s", replica.shard, trouble)
            return
        if not left:
            self._seen[replica.shard] = now
