"""The queues that a consumer reads: a cursor for each queue, and a fetcher for each shard that has some of them.

Queues come and go while they are read, because topics grow and are deleted. Messages fetched ahead of a removed queue
are dropped with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.consumer.cursor import Cursor
from ledger.client.consumer.fetcher import FetchSettings
from ledger.client.consumer.fetchers import Fetchers
from ledger.client.records import TopicQueue


class QueueReaders:
    """`on_news` is called after every change that a waiting reader should look at."""

    def __init__(self, client: ClusterClient, settings: FetchSettings, on_news: Callable[[], None]) -> None:
        self._cursors: dict[TopicQueue, Cursor] = {}
        # In which each of these queues lives.
        self._shards: dict[TopicQueue, int] = {}
        self._fetchers = Fetchers(client, settings, on_news)

    def get(self, place: TopicQueue) -> Cursor | None:
        return self._cursors.get(place)

    def in_turn(self) -> Collection[Cursor]:
        """All cursors, beginning with another one each time, so that no queue starves."""
        for first in list(self._cursors)[:1]:
            self._cursors[first] = self._cursors.pop(first)
        return list(self._cursors.values())

    @property
    def is_ready(self) -> bool:
        """Whether some cursor has something."""
        return any(cursor.ready for cursor in self._cursors.values())

    @property
    def skipped(self) -> int:
        return sum(cursor.skipped for cursor in self._cursors.values())

    def add(self, cursors: Iterable[tuple[Cursor, int]]) -> None:
        """Each with the shard in which its queue lives."""
        by_shard: dict[int, list[Cursor]] = {}
        for cursor, shard in cursors:
            place = TopicQueue(cursor.topic, cursor.queue)
            self._cursors[place], self._shards[place] = cursor, shard
            by_shard.setdefault(shard, []).append(cursor)
        for shard, new in by_shard.items():
            self._fetchers.add(shard, new)

    def remove(self, topic: str) -> None:
        """All queues of that topic, with what was fetched ahead of them."""
        for place in [place for place in self._cursors if place.topic == topic]:
            self._fetchers.remove(self._shards.pop(place), self._cursors.pop(place))

    def seek(self, place: TopicQueue, offset: int) -> None:
        self._cursors[place].seek(offset)
        self._fetchers.restart(self._shards[place])

    def pause(self, place: TopicQueue) -> None:
        self._cursors[place].pause()
        self._fetchers.restart(self._shards[place])

    def resume(self, place: TopicQueue) -> None:
        self._cursors[place].paused = False
        self._fetchers.restart(self._shards[place])

    def made_room(self) -> None:
        """Messages have been taken."""
        self._fetchers.made_room()

    def raise_trouble(self) -> None:
        """What stands in the way of a cursor that has nothing."""
        for cursor in self._cursors.values():
            if cursor.error is not None and not cursor.ready:
                raise cursor.error
        for trouble in self._fetchers.troubles():
            raise trouble

    async def close(self) -> None:
        await self._fetchers.close()
