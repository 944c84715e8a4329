"""The interface to the leaders of shards on other nodes, for topics."""

from __future__ import annotations

from typing import Protocol

from ledger.state import Topic


class OtherLeaders(Protocol):
    """Calls to the leaders of shards, whose nodes may change. Every method raises LedgerError."""

    async def open_topic(self, shard: int, topic: Topic) -> None:
        """Return when the topic's queues of the shard are open."""

    async def drop_topic(self, shard: int, topic_id: int) -> None:
        """Return when the shard has removed a deleted topic."""
