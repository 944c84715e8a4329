"""The retry topic and the dead-letter topic of each consumer group."""

from __future__ import annotations

from ledger.broker.replicas import Replicas
from ledger.broker.topics.topics import Topics
from ledger.consumer_groups import validate_consumed_name, validate_group_name
from ledger.retries import dead_letter_topic, retry_topic
from ledger.state import Topic
from ledger.state.consumption import check_has_no_members, elsewhere
from ledger.topics import TOPICS_SHARD


class RetryTopics:
    """Creates and deletes retry topics and dead-letter topics, on the leader of shard 0. Every method can raise
    LedgerError."""

    def __init__(self, replicas: Replicas, topics: Topics, delays: int) -> None:
        """`delays` is the number of different retry delays. A retry topic has one queue for each delay in each
        shard."""
        self._replicas = replicas
        self._topics = topics
        self._delays = delays

    async def prepare(self, consumer_group: str) -> tuple[Topic, Topic]:
        """Return the retry topic and the dead-letter topic of a consumer group. Create the two topics if needed."""
        validate_group_name(consumer_group)
        retry = await self._topics.keep(retry_topic(consumer_group), self._delays)
        return retry, await self._topics.keep(dead_letter_topic(consumer_group), 1)

    async def forget(self, consumer_group: str, *, is_empty: bool = False) -> None:
        """Delete the retry topic and the dead-letter topic of a consumer group. Raises GroupNotEmptyError if the
        consumer group has members in shard 0. `is_empty` says that the group's coordinator in another shard knows no
        members; without it, raise CoordinatedElsewhereError for such a group."""
        validate_consumed_name(consumer_group)
        replica = self._replicas.topics
        await replica.confirm_still_leading()
        place = replica.state.coordinators.get(consumer_group)
        if place is not None and place.shard != TOPICS_SHARD and not is_empty:
            raise elsewhere(consumer_group, place.shard)
        for name in (retry_topic(consumer_group), dead_letter_topic(consumer_group)):
            check_has_no_members(replica.state.consumption.groups, consumer_group)
            await self._topics.delete_internal(name)
