"""The queues of a member: what it is told of them counts at once, whatever it waits for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

from ledger.client.backoff import Backoff
from ledger.client.cluster_client import ClusterClient
from ledger.client.fetcher import FetchSettings
from ledger.client.group_member import GroupMember, Ownership
from ledger.client.holdings import Holdings, HoldingSettings
from ledger.client.records import TopicQueue
from ledger.v1 import consumer_group_pb2 as pb2

FIRST, SECOND = TopicQueue("orders", 0), TopicQueue("orders", 1)


class Cluster:
    """What holdings ask of a client: claims are answered while `answers` says so. Nobody leads for fetches."""

    def __init__(self) -> None:
        self.answers = True
        self.asked = asyncio.Event()
        self.backoff = Backoff(1, 10, random.Random(1))
        self.request_timeout_ms = 60_000
        topic = SimpleNamespace(topic_id=1, groups=(0, 0))
        table = SimpleNamespace(topics={"orders": topic}, leader_address=lambda group: None)
        self.routes = SimpleNamespace(table=table, refresh_soon=lambda: None)

    async def call(self, group: int, send: Callable[[Any, float], Awaitable[Any]]) -> Any:
        return await send(self, 1.0)

    async def Claim(self, request: pb2.ClaimRequest, timeout: float) -> pb2.ClaimResponse:  # noqa: N802 (gRPC's)
        self.asked.set()
        if not self.answers:
            await asyncio.Event().wait()
        return pb2.ClaimResponse(queues=[pb2.QueueProgress(offset=5) for _ in request.queues])


async def test_a_queue_that_has_gone_elsewhere_is_dropped_while_another_ones_claim_is_not_answered() -> None:
    cluster, settings = Cluster(), HoldingSettings("billing", "earliest", None, True, 1.0, 30.0)
    fetching = FetchSettings(node=None, max_bytes=100, max_wait_ms=100, prefetch_bytes=200, tag_hashes=())
    holdings = Holdings(
        cast(ClusterClient, cluster), cast(GroupMember, SimpleNamespace()), settings, fetching, lambda: None
    )
    running = asyncio.create_task(holdings.run())
    holdings.seen({FIRST: Ownership(7, False)})
    await asyncio.wait_for(cluster.asked.wait(), 5)
    await asyncio.sleep(0)
    assert holdings.places() == [FIRST]

    cluster.answers, cluster.asked = False, asyncio.Event()
    holdings.seen({FIRST: Ownership(7, False), SECOND: Ownership(9, False)})
    await asyncio.wait_for(cluster.asked.wait(), 5)
    holdings.seen({SECOND: Ownership(9, False)})
    assert holdings.places() == []

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await holdings.close()
