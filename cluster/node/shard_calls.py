"""Calls the leaders of shards that are led by other nodes.

The node uses a client of its own cluster, because a client finds leaders and follows changes of leadership. The client
is created at the first call and kept until `stop`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from cluster.node.runtime import Runtime
from ledger.client.connection.cluster_client import ClusterClient
from ledger.state import Topic
from ledger.v1 import operations_pb2

REQUEST_MS = 5_000


class ShardCalls:
    """Calls the leaders of other shards when a topic is opened or deleted. Implements `OtherLeaders` of
    `ledger.broker.topics.topic_opening` and `topic_deletion`. `addresses()` returns the addresses of the nodes."""

    def __init__(self, addresses: Callable[[], Iterable[str]], runtime: Runtime) -> None:
        self._addresses = addresses
        self._runtime = runtime
        self._client: ClusterClient | None = None
        self._starting = asyncio.Lock()

    async def open_topic(self, shard: int, topic: Topic) -> None:
        client = await self.client()
        request = operations_pb2.OpenTopicRequest(
            shard=shard, topic_id=topic.topic_id, name=topic.name, shards=topic.shards, created_ms=topic.created_ms
        )
        await client.call(shard, lambda stub, seconds: stub.OpenTopic(request, timeout=seconds))

    async def drop_topic(self, shard: int, topic_id: int) -> None:
        client = await self.client()
        request = operations_pb2.DropTopicRequest(shard=shard, topic_id=topic_id)
        await client.call(shard, lambda stub, seconds: stub.DropTopic(request, timeout=seconds))

    async def stop(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def client(self) -> ClusterClient:
        """Return the client of this node's own cluster. Raises LedgerError."""
        async with self._starting:
            if self._client is None:
                client = ClusterClient(
                    [*self._addresses()],
                    client_id=None,
                    request_timeout_ms=REQUEST_MS,
                    retry_backoff_ms=20,
                    rng=self._runtime.chance,
                    environment=self._runtime.client,
                )
                await client.start()
                self._client = client
            return self._client
