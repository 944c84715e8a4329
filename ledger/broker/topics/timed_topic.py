"""The topic in which messages wait for their delivery times."""

from __future__ import annotations

from ledger.broker.replicas import Replicas
from ledger.broker.topics.topics import Topics
from ledger.state import Topic
from ledger.state.feature_levels import TIMED
from ledger.timed import TIMED_TOPIC


class TimedTopic:
    """Creates the topic `%TIMED`, on the leader of shard 0."""

    def __init__(self, replicas: Replicas, topics: Topics) -> None:
        self._replicas = replicas
        self._topics = topics

    async def prepare(self) -> Topic:
        """Return the topic `%TIMED`, with one queue in each shard. Create the topic, or add queues for new shards, if
        needed. Raises InvalidArgumentError if the feature level of shard 0 is below 3, or another LedgerError."""
        replica = self._replicas.topics
        replica.check_leads(0)
        await replica.feature_level.reach(TIMED)
        replica.state.require_timed()
        return await self._topics.keep(TIMED_TOPIC, 1)
