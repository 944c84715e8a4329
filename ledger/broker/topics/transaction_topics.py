"""The topics that transactions need: that of half batches, and the dead-letter topics of producer groups."""

from __future__ import annotations

from ledger.broker.replicas import Replicas
from ledger.broker.topics.topics import Topics
from ledger.consumer_groups import validate_group_name
from ledger.retries import dead_letter_topic
from ledger.state import Topic
from ledger.state.feature_levels import TRANSACTIONS
from ledger.transactions import HALF_TOPIC


class TransactionTopics:
    """Creates the topics of transactions, on the leader of shard 0."""

    def __init__(self, replicas: Replicas, topics: Topics) -> None:
        self._replicas = replicas
        self._topics = topics

    async def prepare(self, producer_group: str) -> Topic:
        """Return the topic `%HALF`, with one queue in each shard. Create it and the dead-letter topic of the producer
        group, or add queues for new shards, if needed. Raises InvalidGroupNameError, InvalidArgumentError if the
        feature level of shard 0 is below 4, or another LedgerError."""
        validate_group_name(producer_group)
        replica = self._replicas.topics
        replica.check_leads(0)
        await replica.feature_level.reach(TRANSACTIONS)
        replica.state.require_transactions()
        await self._topics.keep(dead_letter_topic(producer_group), 1)
        return await self._topics.keep(HALF_TOPIC, 1)
