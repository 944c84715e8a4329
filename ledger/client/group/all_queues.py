"""The assignment of a broadcast consumer, which owns all queues of all its topics.

A broadcast consumer uses this module instead of `group_membership`. A broadcast has no members, no sessions and no
coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from ledger.client.connection.cluster_client import ClusterClient, no_topic
from ledger.client.group.group_membership import Assignment, View
from ledger.client.records import TopicQueue
from ledger.errors import LedgerError


class AllQueues:
    """Assigns all queues of the topics to one consumer of a broadcast. The client must have been started.
    Implements AssignmentSource."""

    def __init__(self, client: ClusterClient, topics: Sequence[str]) -> None:
        self._client = client
        self._names = topics
        self._changed = asyncio.Event()

    @property
    def trouble(self) -> LedgerError | None:
        """The error that reads raise if none of the topics exists, otherwise None."""
        return None if self._view() else no_topic(self._names[0])

    async def join(self) -> None:
        """Look up all topics of the consumer. Raises UnknownTopicError."""
        for name in self._names:
            await self._client.topic(name)
        self._client.routes.on_topic_change.append(lambda _: self._changed.set())

    async def run(self, on_view: Callable[[View], None], unacknowledged: Callable[[], int]) -> None:
        """Call `on_view` with all queues of the topics, now and after each change of a topic, until the task is
        cancelled. A broadcast has no session, so `unacknowledged` is not called."""
        while True:
            on_view(self._view())
            await self._changed.wait()
            self._changed.clear()

    async def release(self, queues: Iterable[tuple[TopicQueue, Assignment]]) -> None:
        """Do nothing: a broadcast never moves a queue to another consumer."""

    async def leave(self) -> None:
        """Do nothing: a broadcast has no coordinator."""

    def _view(self) -> View:
        topics = self._client.routes.table.topics
        return {
            TopicQueue(name, queue): Assignment(topics[name].topic_id, 0, is_leaving=False)
            for name in self._names
            if name in topics
            for queue in range(len(topics[name].shards))
        }
