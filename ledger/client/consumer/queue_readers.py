"""The queues that a consumer reads: a cursor for each queue, and a fetcher for each shard.

Queues are added and removed while the consumer runs, because topics can get more queues and can be deleted. When a
queue is removed, its messages that were fetched and not handed out are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.consumer.cursor import Cursor
from ledger.client.consumer.fetcher import FetchSettings
from ledger.client.consumer.fetchers import Fetchers
from ledger.client.records import TopicQueue


class QueueReaders:
    """The cursors and fetchers of one consumer.

    A fetcher calls `on_news` when a reader that waits must wake up: messages have arrived, or an error has occurred.
    """

    def __init__(self, client: ClusterClient, settings: FetchSettings, on_news: Callable[[], None]) -> None:
        self._cursors: dict[TopicQueue, Cursor] = {}
        # The shard of each queue.
        self._shards: dict[TopicQueue, int] = {}
        self._fetchers = Fetchers(client, settings, on_news)

    def get(self, place: TopicQueue) -> Cursor | None:
        return self._cursors.get(place)

    def in_turn(self) -> Collection[Cursor]:
        """Return all cursors. Each call moves the first cursor to the end of the list, so that every queue is read."""
        for first in list(self._cursors)[:1]:
            self._cursors[first] = self._cursors.pop(first)
        return list(self._cursors.values())

    @property
    def is_ready(self) -> bool:
        """True if at least one cursor has fetched messages."""
        return any(cursor.ready for cursor in self._cursors.values())

    @property
    def skipped(self) -> int:
        return sum(cursor.skipped for cursor in self._cursors.values())

    def add(self, cursors: Iterable[tuple[Cursor, int]]) -> None:
        """Add cursors, each given with the shard of its queue, and fetch for them."""
        by_shard: dict[int, list[Cursor]] = {}
        for cursor, shard in cursors:
            place = TopicQueue(cursor.topic, cursor.queue)
            self._cursors[place], self._shards[place] = cursor, shard
            by_shard.setdefault(shard, []).append(cursor)
        for shard, new in by_shard.items():
            self._fetchers.add(shard, new)

    def remove(self, topic: str) -> dict[int, Cursor]:
        """Remove all queues of the topic, and drop their messages that were fetched and not handed out. Return the
        removed cursors by queue."""
        removed = {}
        for place in [place for place in self._cursors if place.topic == topic]:
            cursor = removed[place.queue] = self._cursors.pop(place)
            self._fetchers.remove(self._shards.pop(place), cursor)
            cursor.seek(cursor.position)
        return removed

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
        """Wake all fetchers, because messages were taken and there may be room for more."""
        self._fetchers.made_room()

    def raise_trouble(self) -> None:
        """Raise the error of a cursor that has no messages, or the error of a fetcher. If there is no error, do
        nothing."""
        for cursor in self._cursors.values():
            if cursor.error is not None and not cursor.ready:
                raise cursor.error
        for trouble in self._fetchers.troubles():
            raise trouble

    async def close(self) -> None:
        await self._fetchers.close()
