"""Creates, changes and deletes topics for clients, and waits until every shard has made the change."""

from __future__ import annotations

import asyncio

from ledger.broker.replicas import Replicas
from ledger.broker.topics.topic_commands import alter_topic, create_topic, keep_topic
from ledger.broker.topics.topic_deletion import TopicDeletion
from ledger.broker.topics.topic_opening import TopicOpening
from ledger.errors import BusyError, TopicExistsError
from ledger.state import Topic
from ledger.topics import TopicType, validate_topic_name


class Topics:
    """The topics of the cluster, on the leader of shard 0. Every method can raise LedgerError."""

    def __init__(self, replicas: Replicas, opening: TopicOpening, deletion: TopicDeletion, shards: int = 1) -> None:
        """`shards` is the number of shards in the settings. No topic is created before these shards exist, because
        its queues would not be spread over all shards."""
        self._replicas = replicas
        self._opening = opening
        self._deletion = deletion
        self._shards = shards

    async def create(self, name: str, queues: int, topic_type: int = TopicType.MIXED, replicas: int = 0) -> Topic:
        """Create a topic of a user. `topic_type` is the number of its type. `replicas` is the number of replicas that
        its shards shall have; 0: the number of the cluster. Returns when the topic's queues are open."""
        replica = self._replicas.topics
        if replica.knows_the_end and len(replica.state.shards.numbers) < self._shards:
            raise BusyError(f"the {self._shards} shards of the cluster are still being created: try again shortly")
        known = replica.state.topics.named(name)
        if known is not None and replica.knows_the_end and not known.opened:
            await self._opening.wait(known)  # an earlier request created it, perhaps of the same client
        try:
            created = create_topic(replica, name, queues, topic_type, replicas)
        except TopicExistsError:
            if replica.state.topics.named(name) is None:
                raise _is_being_created(name) from None  # it exists when the entry of another request is committed
            raise
        return await self._opening.wait(await asyncio.shield(created))

    async def alter(self, name: str, queues: int | None, topic_type: int | None = None) -> Topic:
        """Add queues to a topic of a user, so that the topic has `queues` queues, and give it the type with the number
        `topic_type`. None keeps what the topic has. Returns when the new queues are open."""
        return await self._opening.wait(await alter_topic(self._replicas.topics, name, queues, topic_type))

    async def delete(self, topic_id: int) -> None:
        """Delete a topic of a user. Returns when every shard has removed the topic."""
        topic = self._replicas.topics.state.topics.get(topic_id)
        if topic is not None:
            validate_topic_name(topic.name)
        await self._deletion.delete(topic_id)

    async def keep(self, name: str, queues: int) -> Topic:
        """Return the internal topic of this name, with `queues` queues in each shard. Create the topic if needed."""
        try:
            topic = await keep_topic(self._replicas.topics, name, queues)
        except TopicExistsError:  # another request is creating it
            raise _is_being_created(name) from None
        return await self._opening.wait(topic)

    async def delete_internal(self, name: str) -> None:
        """Delete the internal topic of this name, if it exists."""
        topic = self._replicas.topics.state.topics.named(name)
        if topic is not None:
            await self._deletion.delete(topic.topic_id)


def _is_being_created(name: str) -> BusyError:
    return BusyError(f"topic {name!r} is being created: try again shortly")
