"""The fetchers of one consumer: one fetcher for each shard that has queues of the consumer.

A fetcher starts with the first call of a method for its shard, and runs until `close`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.consumer.cursor import Cursor
from ledger.client.consumer.fetcher import Fetcher, FetchSettings
from ledger.errors import LedgerError


class Fetchers:
    """The fetchers of one consumer, one for each shard.

    A fetcher calls `on_news` when a reader that waits must wake up: messages have arrived, or an error has occurred.
    """

    def __init__(self, client: ClusterClient, settings: FetchSettings, on_news: Callable[[], None]) -> None:
        self._client = client
        self._settings = settings
        self._on_news = on_news
        self._by_shard: dict[int, Fetcher] = {}

    def start(self, shard: int, cursors: Sequence[Cursor] = ()) -> None:
        """Start a fetcher for this shard. Do nothing if the shard already has a fetcher."""
        if shard not in self._by_shard:
            self._by_shard[shard] = Fetcher(self._client, shard, cursors, self._settings, self._on_news)

    def add(self, shard: int, cursors: Sequence[Cursor]) -> None:
        """Fetch for `cursors` from now on. The queues of the cursors are in `shard`."""
        if shard in self._by_shard:
            self._by_shard[shard].add(cursors)
        else:
            self.start(shard, cursors)

    def remove(self, shard: int, cursor: Cursor) -> None:
        """Remove this cursor from the fetcher of its shard. Do nothing if the cursor was not added."""
        self.start(shard)
        self._by_shard[shard].remove(cursor)

    def restart(self, shard: int) -> None:
        """Cancel the fetch request that is under way for this shard, and send a new request, because a cursor has a
        new offset."""
        self.start(shard)
        self._by_shard[shard].restart()

    def made_room(self) -> None:
        """Wake all fetchers, because messages were taken from cursors and there may be room for more."""
        for fetcher in self._by_shard.values():
            fetcher.made_room()

    def troubles(self) -> list[LedgerError]:
        """For each shard from which no fetch has succeeded for `request_timeout_ms`, return the last error of its
        fetcher."""
        return [fetcher.trouble for fetcher in self._by_shard.values() if fetcher.trouble is not None]

    async def close(self) -> None:
        for fetcher in self._by_shard.values():
            await fetcher.close()
