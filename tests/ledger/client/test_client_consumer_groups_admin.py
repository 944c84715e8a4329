"""What the admin client asks the shards about consumer groups."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from ledger.client.admin.consumer_groups_admin import ConsumerGroupsAdmin
from ledger.v1 import consumer_group_operations_pb2 as pb2

SHARDS = (0, 1, 2)


class Client:
    """Stands for the connections of a client. A shard answers when all shards were asked."""

    def __init__(self) -> None:
        self.routes = SimpleNamespace(table=SimpleNamespace(leaders=dict.fromkeys(SHARDS)))
        self._all_asked = asyncio.Barrier(len(SHARDS))

    async def call(self, shard: int, *_: object) -> pb2.ListConsumerGroupsResponse:
        await self._all_asked.wait()
        summary = pb2.ConsumerGroupSummary(name="billing", queues=1, lag_messages=10 * shard)
        return pb2.ListConsumerGroupsResponse(consumer_groups=[summary])


async def test_groups_are_listed_by_all_shards_at_once() -> None:
    client: Any = Client()
    async with asyncio.timeout(5):
        (summary,) = await ConsumerGroupsAdmin(client).list_all()
    assert (summary.name, summary.queues, summary.lag) == ("billing", 3, 30)
