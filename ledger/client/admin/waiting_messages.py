"""Lists messages that wait for their delivery times, from the leaders of their shards.

Each leader lists the messages of its shard in the order of their delivery. The lists of the shards are merged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.records import WaitingMessage
from ledger.errors import UnknownTopicError
from ledger.timed import TIMED_TOPIC, TimedHandle, moment
from ledger.v1 import broker_pb2

MAX_WAITING = 10_000


@dataclass(frozen=True, slots=True)
class WaitingWanted:
    """Which messages are listed: those with delivery times in [from_ms, to_ms), in ms since 1970, the first `limit` of
    them. None: no limit."""

    from_ms: int | None
    to_ms: int | None
    limit: int
    with_values: bool


async def list_waiting(client: ClusterClient, topic: str | None, wanted: WaitingWanted) -> list[WaitingMessage]:
    """Do what AsyncAdmin.waiting_messages does."""
    topic_id = 0 if topic is None else (await client.topic(topic)).topic_id
    shards = await _shards(client)
    names = await _names(client)
    lists = await asyncio.gather(*(_of_shard(client, shard, topic_id, wanted, names) for shard in shards))
    found = [message for messages in lists for message in messages]
    # Messages with equal delivery times are in the order of their shards and identities.
    found.sort(key=lambda message: message.deliver_at)
    return found[: wanted.limit]


async def get_waiting(client: ClusterClient, text: str) -> WaitingMessage | None:
    """Do what AsyncAdmin.waiting_message does."""
    handle = TimedHandle.parse(text)
    request = broker_pb2.ListTimedRequest(
        shard=handle.shard,
        topic_id=handle.topic_id,
        from_ms=handle.deliver_at_ms,
        to_ms=handle.deliver_at_ms + 1,
        limit=1,
        with_values=True,
    )
    if handle.identity:
        request.after.delivery_ms, request.after.identity = handle.deliver_at_ms, handle.identity - 1
    response = await _ask(client, request)
    for message in response.messages:
        if message.place.identity == handle.identity:
            return _message(message, handle.shard, await _names(client))
    return None


async def _shards(client: ClusterClient) -> Iterable[int]:
    """Return the shards in which messages can wait."""
    try:
        return sorted(set((await client.topic(TIMED_TOPIC, newest=True)).shards))
    except UnknownTopicError:
        return ()


async def _names(client: ClusterClient) -> Mapping[int, str]:
    """Return the names of the topics that the client knows, by topic id."""
    return {topic.topic_id: name for name, topic in client.routes.table.topics.items()}


async def _of_shard(
    client: ClusterClient, shard: int, topic_id: int, wanted: WaitingWanted, names: Mapping[int, str]
) -> list[WaitingMessage]:
    request = broker_pb2.ListTimedRequest(
        shard=shard,
        topic_id=topic_id,
        from_ms=wanted.from_ms,
        to_ms=wanted.to_ms,
        with_values=wanted.with_values,
    )
    found: list[WaitingMessage] = []
    while True:
        request.limit = wanted.limit - len(found)
        response = await _ask(client, request)
        found += [_message(message, shard, names) for message in response.messages]
        if not response.HasField("next") or len(found) >= wanted.limit:
            return found
        request.after.CopyFrom(response.next)


async def _ask(client: ClusterClient, request: broker_pb2.ListTimedRequest) -> broker_pb2.ListTimedResponse:
    return await client.call_feature(
        "delivery times", request.shard, lambda stub, seconds: stub.ListTimed(request, timeout=seconds)
    )


def _message(message: broker_pb2.ListedMessage, shard: int, names: Mapping[int, str]) -> WaitingMessage:
    place = message.place
    return WaitingMessage(
        handle=str(TimedHandle(message.topic_id, shard, place.identity, place.delivery_ms)),
        topic=names.get(message.topic_id, ""),
        queue=message.queue,
        deliver_at=moment(place.delivery_ms),
        timestamp_ms=message.timestamp_ms,
        key=message.key if message.HasField("key") else None,
        tag=message.tag if message.HasField("tag") else None,
        size=message.size,
        value=message.value,
        headers=tuple((header.name, header.value) for header in message.headers),
        unreadable=message.unreadable,
        look_up_keys=tuple(message.look_up_keys),
    )
