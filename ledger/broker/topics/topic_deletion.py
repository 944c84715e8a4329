"""Deletes a topic in shard 0, and then in every other shard that has queues of the topic.

    shard 0               DeleteTopic is committed, and every node applies it
    each other shard      the shard's leader then proposes DeleteTopic in this shard

Every node has a replica of shard 0. From this replica, the leader of each shard learns which topics were deleted,
and deletes them in its own shard. If a shard opens a topic after the deletion of the topic, the shard's leader
deletes the topic in the same way. No list of deletions is needed, and a new leader needs no special step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.replicas import Replicas
from ledger.broker.topics.other_leaders import OtherLeaders
from ledger.broker.topics.topic_commands import delete_topic
from ledger.errors import BusyError, LedgerError, ReplicaBehindError, UnknownTopicError
from ledger.topics import TOPICS_SHARD

log = logging.getLogger("ledgermq.broker.topics")

# Interval of the checks for remains of deleted topics.
LOOK_S = 1.0
# How long a client's request waits for the other shards. The deletion continues after that.
PATIENCE_S = 4.0


class TopicDeletion:
    """Deletes topics in shard 0 and in the shards of their queues. Run the method `run` as a task as long as the
    node runs."""

    def __init__(
        self, replicas: Replicas, leaders: OtherLeaders, shared_wait_s: Callable[[float], float] = float
    ) -> None:
        """`shared_wait_s` is that of the node's runtime: it may make a regular wait a little shorter."""
        self._shared_wait_s = shared_wait_s
        self._replicas = replicas
        self._leaders = leaders
        # By shard: the versions of shard 0's topics and of the shard's topics, and the term, at the last check that
        # found nothing to delete.
        self._seen: dict[int, tuple[int, int, int]] = {}

    async def delete(self, topic_id: int) -> None:
        """Delete a topic. Returns when every shard has removed the topic. The call is idempotent. Raises
        UnknownTopicError if the topic never existed, BusyError if other shards have not removed the topic in time,
        or another LedgerError."""
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
        """Remove a deleted topic from the replica's shard. Raises ReplicaBehindError if this node has not applied the
        deletion in shard 0, or another LedgerError."""
        replica.check_leads(0)
        if not self._replicas.topics.state.topics.was_deleted(topic_id):
            raise ReplicaBehindError(f"this node has not applied the deletion of topic {topic_id} yet: try again")
        if replica.state.topics.get(topic_id) is not None:
            await asyncio.shield(delete_topic(replica, topic_id))

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._shared_wait_s(LOOK_S))
            for replica in self._replicas:
                if replica.shard != TOPICS_SHARD:
                    await self._look(replica)

    async def _everywhere(self, topic_id: int, shards: Sequence[int]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*(self._drop_in(shard, topic_id) for shard in shards))
        except (LedgerError, TimeoutError) as trouble:
            why = trouble if isinstance(trouble, LedgerError) else "other shards are slow"
            raise BusyError(
                f"topic {topic_id} is deleted, but not removed from every shard yet ({why}): the removal continues"
            ) from None

    async def _drop_in(self, shard: int, topic_id: int) -> None:
        replica = self._replicas.get(shard)
        if replica is not None and replica.knows_the_end:
            await self.drop(replica, topic_id)
        else:
            await self._leaders.drop_topic(shard, topic_id)

    async def _look(self, replica: BrokerReplica) -> None:
        """If this node leads the shard, remove all deleted topics from the shard."""
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
            log.info("shard %d: deleted topics are not removed yet: %s", replica.shard, trouble)
            return
        if not left:
            self._seen[replica.shard] = now
