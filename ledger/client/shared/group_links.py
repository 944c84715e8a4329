"""The links of one member of a shared group to all shards that have queues of its topics."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ledger.client.background import is_passing
from ledger.client.connection.cluster_client import ClusterClient, no_topic
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.shared.shard_link import ShardLink
from ledger.client.shared.shared_message import MessageLease, SentChange, changes_of
from ledger.errors import InvalidArgumentError, LedgerError, UnknownTopicError
from ledger.v1 import consumer_group_pb2

log = logging.getLogger("ledgermq.client.shared_consumer")

# Changes of one request.
_CHANGES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Membership:
    """What a member tells each shard: its group, its name, and which messages it wants. `start_offset` is where the
    group begins with a queue that it has never consumed."""

    group: str
    member: str
    by_key: bool
    start_offset: int
    tag_hashes: Sequence[int]
    where: str

    def opening(self, shard: int, topic_ids: Iterable[int]) -> consumer_group_pb2.ShareOpening:
        """Return the first request of a stream to a shard."""
        return consumer_group_pb2.ShareOpening(
            shard=shard,
            consumer_group=self.group,
            member=self.member,
            by_key=self.by_key,
            topics=[
                consumer_group_pb2.SharedTopic(
                    topic_id=topic_id,
                    tag_hashes=self.tag_hashes,
                    start_offset=self.start_offset,
                    filter=self.where,
                )
                for topic_id in topic_ids
            ],
        )


class GroupLinks:
    """Opens links as topics get shards, and other streams if topics are deleted or created again."""

    def __init__(self, client: ClusterClient, names: Sequence[str], membership: Membership) -> None:
        self._client, self._names, self._membership = client, names, membership
        # By shard.
        self._links: dict[int, ShardLink] = {}
        # The names of the topics that exist, by id.
        self._topic_names: dict[int, str] = {}

    async def current(self) -> list[ShardLink]:
        """Return the links to all shards that have queues of the topics. Raises UnknownTopicError if none of the topics
        exists."""
        topics = self._topics_there() or [await self._first_topic()]
        self._know(topics)
        shards = {shard for topic in topics for shard in topic.shards}
        for shard in sorted(shards):
            if shard not in self._links:
                self._links[shard] = ShardLink(self._client, shard, self._opening, self._look_for_topics)
        return [self._links[shard] for shard in sorted(shards)]

    async def open(self) -> None:
        """Open the streams to all shards at once. A later request opens the stream to a shard that has no leader now.
        Raises LedgerError if a shard refuses the member, or if no shard answers."""
        links = await self.current()
        results = await asyncio.gather(*(link.open() for link in links), return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        if errors and (len(errors) == len(links) or not all(map(is_passing, errors))):
            raise min(errors, key=is_passing)
        for error in errors:
            log.warning("messages of a shard are missing until its leader answers: %s", error)

    def topic_name(self, topic_id: int) -> str | None:
        """Return the name of a topic that exists, or None."""
        return self._topic_names.get(topic_id)

    async def change(self, shard: int, leases: list[MessageLease], kind: int, duration_ms: int) -> list[SentChange]:
        """Send changes of leases to their shard, and return them with their results. Raises LedgerError."""
        link = self._links.get(shard)
        if link is None:
            raise InvalidArgumentError("This message was not received by this consumer.")
        changes = list(changes_of(leases, kind, duration_ms))
        counts: list[int] = []
        for first in range(0, len(changes), _CHANGES_AT_ONCE):
            counts += await link.change(changes[first : first + _CHANGES_AT_ONCE])
        return [SentChange(shard, change, counted) for change, counted in zip(changes, counts, strict=True)]

    def _topics_there(self) -> list[RoutedTopic]:
        """Return the topics of this consumer that exist, as far as its routes know."""
        known = self._client.routes.table.topics
        return [known[name] for name in self._names if name in known]

    async def _first_topic(self) -> RoutedTopic:
        """Ask the leader of shard 0 for a topic that exists. Raises UnknownTopicError."""
        for name in self._names:
            with contextlib.suppress(UnknownTopicError):
                return await self._client.topic(name)
        raise no_topic(self._names[0])

    def _know(self, topics: Sequence[RoutedTopic]) -> None:
        """Open other streams if topics were deleted or created again: a stream names topics by their ids."""
        names = {topic.topic_id: topic.name for topic in topics}
        if names != self._topic_names:
            self._topic_names = names
            for link in self._links.values():
                link.opening_changed()

    async def _look_for_topics(self) -> None:
        """Ask the leader of shard 0 which topics exist. In a secured cluster no member has a right on the id of a
        deleted topic, so the leader of a shard refuses a stream that names it."""
        with contextlib.suppress(LedgerError):
            for name in self._names:
                with contextlib.suppress(UnknownTopicError):
                    await self._client.topic(name, newest=True)
        if topics := self._topics_there():
            self._know(topics)

    def _opening(self, shard: int) -> consumer_group_pb2.ShareOpening:
        return self._membership.opening(shard, self._topic_names)

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links.values()))
