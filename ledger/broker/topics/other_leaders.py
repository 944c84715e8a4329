"""The interface through which a node opens and deletes topics in shards that other nodes lead."""

from __future__ import annotations

from typing import Protocol

from ledger.state import Topic


class OtherLeaders(Protocol):
    """Calls the leader of a shard on another node, also after the leadership has moved. Every method can raise
    LedgerError."""

    async def open_topic(self, shard: int, topic: Topic) -> None:
        """Ask the shard's leader to open the topic's queues in the shard. Return when the queues are open."""

    async def drop_topic(self, shard: int, topic_id: int) -> None:
        """Ask the shard's leader to remove a deleted topic. Return when the shard has removed the topic."""
