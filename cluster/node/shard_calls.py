"""Calls the leaders of shards, which other nodes may lead.

The node uses a client of its own cluster, because a client finds leaders and follows changes of leadership. The client
is created at the first call and kept until `stop`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from google.protobuf.message import Message

from cluster.node.runtime import Runtime
from ledger.broker.placement.view import PlacedReplica, PlacedShard
from ledger.client.connection.cluster_client import ClusterClient
from ledger.state import Topic
from ledger.v1 import operations_pb2

REQUEST_MS = 5_000


class ShardCalls:
    """Calls the leaders of shards when a topic is opened or deleted, and when replicas move. Implements `OtherLeaders`
    of `ledger.broker.topics.topic_opening` and `topic_deletion`, and `PlacementCalls` of
    `ledger.broker.placement.keeper`. `addresses()` returns the addresses of the nodes."""

    def __init__(self, addresses: Callable[[], Iterable[str]], runtime: Runtime) -> None:
        self._addresses = addresses
        self._runtime = runtime
        self._client: ClusterClient | None = None
        self._starting = asyncio.Lock()

    async def open_topic(self, shard: int, topic: Topic) -> None:
        request = operations_pb2.OpenTopicRequest(
            shard=shard, topic_id=topic.topic_id, name=topic.name, shards=topic.shards, created_ms=topic.created_ms
        )
        await self._call(shard, "OpenTopic", request)

    async def drop_topic(self, shard: int, topic_id: int) -> None:
        request = operations_pb2.DropTopicRequest(shard=shard, topic_id=topic_id)
        await self._call(shard, "DropTopic", request)

    # -- the placement of replicas

    async def placed_shard(self, shard: int) -> PlacedShard:
        request = operations_pb2.GetMembersRequest(shard=shard)
        said: operations_pb2.GetMembersResponse = await self._call(shard, "GetMembers", request)
        replicas = {
            member.node: PlacedReplica(
                member.node, member.voter, member.answers, not member.suspect, member.caught_up, member.lag_bytes
            )
            for member in said.members
        }
        is_pinned = said.pinned_leader > 0
        return PlacedShard(shard, said.leader, replicas, said.log_bytes, said.preferred_leader, is_pinned)

    async def add_replica(self, shard: int, node: int, address: str) -> None:
        request = operations_pb2.AddNodeRequest(shard=shard, node=node, address=address, wait=True)
        await self._call(shard, "AddNode", request)

    async def promote_replica(self, shard: int, node: int) -> None:
        request = operations_pb2.PromoteNodeRequest(shard=shard, node=node, wait=True)
        await self._call(shard, "PromoteNode", request)

    async def remove_replica(self, shard: int, node: int) -> None:
        request = operations_pb2.RemoveNodeRequest(shard=shard, node=node, wait=True)
        await self._call(shard, "RemoveNode", request)

    async def transfer_leadership(self, shard: int, source: int) -> None:
        request = operations_pb2.TransferLeadershipRequest(shard=shard, from_node=source)
        await self._call(shard, "TransferLeadership", request)

    async def prefer_leader(self, shard: int, node: int) -> None:
        request = operations_pb2.PinLeaderRequest(shard=shard, node=node, balances=True)
        await self._call(shard, "PinLeader", request)

    async def learn_rooms(self) -> None:
        await self.client()

    def rooms(self) -> Mapping[int, str]:
        return {} if self._client is None else self._client.routes.table.rooms

    async def stop(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _call(self, shard: int, method: str, request: Message) -> Any:
        """Call this method of the shard's leader, and return its response. Raises LedgerError."""
        client = await self.client()
        return await client.call(shard, lambda stub, seconds: getattr(stub, method)(request, timeout=seconds))

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
