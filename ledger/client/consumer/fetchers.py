"""The fetchers of one consumer: one for each shard that has queues of the consumer.

A fetcher starts with the first call that names its shard and lives until `close`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.consumer.cursor import Cursor
from ledger.client.consumer.fetcher import Fetcher, FetchSettings
from ledger.errors import LedgerError


class Fetchers:
    """`on_news` is called after every change that a waiting reader should look at."""

    def __init__(self, client: ClusterClient, settings: FetchSettings, on_news: Callable[[], None]) -> None:
        self._client = client
        self._settings = settings
        self._on_news = on_news
        self._by_shard: dict[int, Fetcher] = {}

    def start(self, shard: int, cursors: Sequence[Cursor] = ()) -> None:
        """Starts the fetcher of this shard. Does nothing if the shard has one."""
        if shard not in self._by_shard:
            self._by_shard[shard] = Fetcher(self._client, shard, cursors, self._settings, self._on_news)

    def add(self, shard: int, cursors: Sequence[Cursor]) -> None:
        """Fetches for these cursors too. Their queues live in `shard`."""
        if shard in self._by_shard:
            self._by_shard[shard].add(cursors)
        else:
            self.start(shard, cursors)

    def remove(self, shard: int, cursor: Cursor) -> None:
        """Fetches no longer for this cursor. Does nothing if the cursor was not added."""
        self.start(shard)
        self._by_shard[shard].remove(cursor)

    def restart(self, shard: int) -> None:
        """A cursor of this shard has moved: drops the request under way and sends a new one."""
        self.start(shard)
        self._by_shard[shard].restart()

    def made_room(self) -> None:
        """Messages have been taken out of the cursors."""
        for fetcher in self._by_shard.values():
            fetcher.made_room()

    def troubles(self) -> list[LedgerError]:
        """The error of each shard from which no fetch has succeeded for as long as a request may take."""
        return [fetcher.trouble for fetcher in self._by_shard.values() if fetcher.trouble is not None]

    async def close(self) -> None:
        for fetcher in self._by_shard.values():
            await fetcher.close()
