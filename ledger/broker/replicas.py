"""Finds the replica of a shard, or the replica of a queue's shard, on this node.

Shard 0 has a replica on every node and stores all topics, so shard 0 knows the shard of each queue, and knows which
topics were deleted. If this node's replica of shard 0 is behind, the replica of another shard can know a new topic
earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ledger.broker.broker_replica import BrokerReplica
from ledger.errors import InvalidArgumentError, NotLeaderError, UnavailableError, UnknownTopicError
from ledger.state import Topic
from ledger.topics import TOPICS_SHARD, TopicType


class Replicas:
    """The replicas of the shards that have started on this node."""

    def __init__(self, why_not: Callable[[int], str] = lambda _: "") -> None:
        """`why_not(shard)` returns the reason why a shard of this node has not started. For a shard that this node
        does not have, `why_not(shard)` returns ""."""
        self._why_not = why_not
        self._by_shard: dict[int, BrokerReplica] = {}

    def add(self, replica: BrokerReplica) -> None:
        replica.type_of_topic = self._type_of_topic
        replica.find_first = lambda: self.first
        # A new dict: a task may be waiting in the middle of an iteration over the old one.
        self._by_shard = dict(sorted({**self._by_shard, replica.shard: replica}.items()))

    def remove(self, shard: int) -> None:
        """Forget the replica of a shard that this node has no more. Shard 0 is never removed."""
        self._by_shard = {number: replica for number, replica in self._by_shard.items() if number != shard}

    def __iter__(self) -> Iterator[BrokerReplica]:
        """Yield the replicas, sorted by shard."""
        return iter(self._by_shard.values())

    def get(self, shard: int) -> BrokerReplica | None:
        return self._by_shard.get(shard)

    @property
    def first(self) -> BrokerReplica | None:
        """The replica of shard 0, which stores the topics and whose members are the nodes of the cluster. The value
        is None before shard 0 has started."""
        return self._by_shard.get(TOPICS_SHARD)

    def lists_node(self, node: int) -> bool:
        """Return True if shard 0 lists the node as a member, as far as this node knows, or if this node knows no
        configuration of shard 0 yet. The certificate of a node that was removed is of no use any more."""
        first = self.first
        known = first.membership.configuration if first is not None else None
        if first is None or known is None or node in known.members:
            return True
        newest = first.newest_configuration()
        return newest is not None and node in newest.members

    @property
    def topics(self) -> BrokerReplica:
        """The replica of shard 0, which stores the topics. Raises UnavailableError before shard 0 has started."""
        if (replica := self.first) is None:
            reason = self._why_not(TOPICS_SHARD) or "it waits for the first start of the other nodes"
            raise UnavailableError(f"this node does not serve yet: {reason}")
        return replica

    def require(self, shard: int) -> BrokerReplica:
        """Return the replica of a shard. Raises UnavailableError if the shard has not started on this node. Raises
        InvalidArgumentError if the shard does not exist, and NotLeaderError if only other nodes have replicas of
        the shard."""
        if (replica := self._by_shard.get(shard)) is not None:
            return replica
        shards = self.topics.state.shards
        if shard not in shards:
            raise InvalidArgumentError(f"there is no shard {shard}: the last one is {shards.numbers[-1]}")
        if reason := self._why_not(shard):
            raise UnavailableError(f"this node does not serve shard {shard} yet: {reason}")
        if self.topics.membership.node in shards.nodes(shard):
            raise UnavailableError(f"shard {shard} has not started on this node yet: try again shortly")
        raise NotLeaderError(f"this node has no replica of shard {shard}: ask a node that has one")

    def topic(self, topic_id: int) -> Topic | None:
        """Return the topic with this id from the state of shard 0 or, if shard 0 is behind, of another shard.
        Return None if the topic is unknown on this node or was deleted."""
        topics = self.topics.state.topics
        found = topics.get(topic_id)
        if found is None and not topics.was_deleted(topic_id):
            found = next((topic for each in self if (topic := each.state.topics.get(topic_id)) is not None), None)
        return found

    def _type_of_topic(self, topic_id: int) -> TopicType:
        """Return the type of the topic as this node's replica of shard 0 knows it. A topic that it does not know yet
        allows everything."""
        first = self.first
        topic = first.state.topics.get(topic_id) if first is not None else None
        return TopicType.MIXED if topic is None else topic.type

    def of_queue(self, topic_id: int, queue: int) -> BrokerReplica:
        """Return the replica of a queue's shard. For an unknown queue, return the replica of shard 0, which refuses
        the request. Raises the errors of `require`, and UnknownTopicError if the topic was deleted."""
        topic = self.topic(topic_id)
        if topic is None and self.topics.state.topics.was_deleted(topic_id):
            raise UnknownTopicError(f"topic {topic_id} was deleted")
        return self.require(topic.shards[queue]) if topic is not None and queue < topic.queues else self.topics
