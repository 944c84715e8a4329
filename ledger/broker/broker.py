"""`Broker` creates the objects that serve the clients of one node. The gRPC services in rpc/ call the objects of
`Broker`; this module uses neither gRPC nor protobuf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ledger.broker.consumer_groups.delays import Delays
from ledger.broker.consumer_groups.shard_consumption import ConsumedShard, ShardConsumptions
from ledger.broker.fetch.fetch_waiters import FetchWaiters
from ledger.broker.fetch.fetchable_queues import FetchableQueues
from ledger.broker.node_view import LocalShard, NodeFacts, NodeView
from ledger.broker.replicas import Replicas
from ledger.broker.topics.retry_topics import RetryTopics
from ledger.broker.topics.timed_topic import TimedTopic
from ledger.broker.topics.topic_deletion import TopicDeletion
from ledger.broker.topics.topic_opening import TopicOpening
from ledger.broker.topics.topics import Topics
from ledger.broker.topics.transaction_topics import TransactionTopics


class ServedShard(LocalShard, ConsumedShard, Protocol):
    """The interface through which `NodeView` and `ShardConsumptions` use a shard of this node."""


class ServedShards(Protocol):
    """The shards of this node, and the objects that the shards share. Shards can be added while the node runs."""

    @property
    def local(self) -> Mapping[int, ServedShard]: ...
    @property
    def replicas(self) -> Replicas: ...
    @property
    def fetch_waiters(self) -> FetchWaiters: ...
    @property
    def opening(self) -> TopicOpening: ...
    @property
    def deletion(self) -> TopicDeletion: ...


class Broker:
    """Holds the objects that serve the clients of one node. Until shard 0 has started on this node, most methods of
    the objects raise UnavailableError."""

    def __init__(self, facts: NodeFacts, shards: ServedShards, *, retry_delays_s: Sequence[float]) -> None:
        self.replicas = shards.replicas
        self.view = NodeView(facts, shards.local, shards.replicas)
        self.topics = Topics(shards.replicas, shards.opening, shards.deletion, facts.shards)
        self.retry_topics = RetryTopics(shards.replicas, self.topics, len(retry_delays_s))
        self.timed_topic = TimedTopic(shards.replicas, self.topics)
        self.transaction_topics = TransactionTopics(shards.replicas, self.topics)
        self.queues = FetchableQueues(shards.replicas, shards.fetch_waiters, Delays(retry_delays_s))
        self.consumptions = ShardConsumptions(shards.local, shards.replicas)
