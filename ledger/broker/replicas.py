"""The shards that this node has a replica of, by number, and which of them a queue lives in.

Shard 0 is on every node and has all topics, so it says where a queue lives, and that a topic was deleted; while this
node has not heard of a topic there, a shard that the topic was opened in says so too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ledger.broker.broker_replica import BrokerReplica
from ledger.errors import InvalidArgumentError, NotLeaderError, UnavailableError, UnknownTopicError
from ledger.state import Topic
from ledger.topics import TOPICS_SHARD


class Replicas:
    """Of shards that have started here. They only ever come."""

    def __init__(self, why_not: Callable[[int], str] = lambda _: "") -> None:
        """`why_not(shard)`: what that shard waits for on this node; empty where it is not here."""
        self._why_not = why_not
        self._by_shard: dict[int, BrokerReplica] = {}

    def add(self, replica: BrokerReplica) -> None:
        self._by_shard[replica.shard] = replica
        self._by_shard = dict(sorted(self._by_shard.items()))

    def __iter__(self) -> Iterator[BrokerReplica]:
        """By number of the shard."""
        return iter(self._by_shard.values())

    def get(self, shard: int) -> BrokerReplica | None:
        return self._by_shard.get(shard)

    @property
    def first(self) -> BrokerReplica | None:
        """Of shard 0, which has the topics, and whose members are the cluster's nodes."""
        return self._by_shard.get(TOPICS_SHARD)

    @property
    def topics(self) -> BrokerReplica:
        """The same. Raises UnavailableError before it has started."""
        if (replica := self.first) is None:
            reason = self._why_not(TOPICS_SHARD) or "it waits for the others' first start"
            raise UnavailableError(f"this node does not serve yet: {reason}")
        return replica

    def require(self, shard: int) -> BrokerReplica:
        """Raises UnavailableError where this node, or that shard here, has not started, InvalidArgumentError where
        there is no such shard, NotLeaderError where it is on other nodes."""
        if (replica := self._by_shard.get(shard)) is not None:
            return replica
        shards = self.topics.state.shards
        if shard not in shards:
            raise InvalidArgumentError(f"there is no shard {shard}: the last one is {shards.numbers[-1]}")
        if reason := self._why_not(shard):
            raise UnavailableError(f"this node does not serve shard {shard} yet: {reason}")
        if self.topics.membership.node in shards.nodes(shard):
            raise UnavailableError(f"shard {shard} has not started on this node yet: try again shortly")
        raise NotLeaderError(f"this node has no replica of shard {shard}: ask one that has")

    def topic(self, topic_id: int) -> Topic | None:
        """As shard 0 has it here, or a shard that it was opened in; None where shard 0 knows that it was deleted."""
        topics = self.topics.state.topics
        found = topics.get(topic_id)
        if found is None and not topics.was_deleted(topic_id):
            found = next((topic for each in self if (topic := each.state.topics.get(topic_id)) is not None), None)
        return found

    def of_queue(self, topic_id: int, queue: int) -> BrokerReplica:
        """Where that queue lives; shard 0 where nobody here knows such a queue: it says so. Raises as `require`, and
        UnknownTopicError where the topic was deleted, whoever leads."""
        topic = self.topic(topic_id)
        if topic is None and self.topics.state.topics.was_deleted(topic_id):
            raise UnknownTopicError(f"topic {topic_id} was deleted")
        return self.require(topic.shards[queue]) if topic is not None and queue < topic.queues else self.topics
