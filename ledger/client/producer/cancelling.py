"""Cancels messages that wait for their delivery times.

    handles ──> by shard ──> requests of at most 1,000 handles, one after the other ──> the leader of the shard

The shards are asked at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from ledger.client.connection.cluster_client import ClusterClient
from ledger.errors import InternalError
from ledger.timed import TimedHandle
from ledger.v1 import broker_pb2

# The most messages of one request. A broker takes 4,096, but a busy node may not answer a large request in time,
# and a request that is sent again gives False for what it cancelled before.
MAX_HANDLES = 1000
# While a long list is parsed, other tasks run after so many handles.
_PARSED_AT_ONCE = 4096


async def cancel_waiting(client: ClusterClient, texts: Iterable[str]) -> list[bool]:
    """Do what AsyncProducer.cancel_many does."""
    client.check_open()
    by_shard: dict[int, list[tuple[int, TimedHandle]]] = {}
    count = 0
    for text in texts:
        handle = TimedHandle.parse(text)
        by_shard.setdefault(handle.shard, []).append((count, handle))
        count += 1
        if count % _PARSED_AT_ONCE == 0:
            await asyncio.sleep(0)
    results = [False] * count
    shards = [_cancel_in(client, shard, handles, results) for shard, handles in by_shard.items()]
    # All shards end before an error is raised, so that nothing is cancelled after the call.
    for outcome in await asyncio.gather(*shards, return_exceptions=True):
        if outcome is not None:
            raise outcome
    return results


async def _cancel_in(
    client: ClusterClient, shard: int, handles: Sequence[tuple[int, TimedHandle]], results: list[bool]
) -> None:
    """Cancel the messages in one shard, and put their results at the numbers that are with the handles."""
    for first in range(0, len(handles), MAX_HANDLES):
        some = handles[first : first + MAX_HANDLES]
        request = broker_pb2.CancelTimedRequest(
            shard=shard,
            messages=[
                broker_pb2.WaitingMessage(
                    topic_id=handle.topic_id, identity=handle.identity, delivery_ms=handle.deliver_at_ms
                )
                for _, handle in some
            ],
        )
        cancelled = await _ask(client, request)
        if len(cancelled) != len(some):
            raise InternalError(f"A node answered {len(cancelled)} results for {len(some)} messages to cancel.")
        for (number, _), result in zip(some, cancelled, strict=True):
            results[number] = result


async def _ask(client: ClusterClient, request: broker_pb2.CancelTimedRequest) -> Sequence[bool]:
    response = await client.call_feature(
        "delivery times", request.shard, lambda stub, seconds: stub.CancelTimed(request, timeout=seconds)
    )
    cancelled: Sequence[bool] = response.cancelled
    return cancelled
