"""Finds messages by their key or a look-up key, and one message by its topic, queue and offset.

A broker returns whole batches that can contain messages with the wanted key. This module decodes the batches and
compares the keys. A leader answers after a linearizable read index, so a query finds every message that was
acknowledged before the query.
"""

from __future__ import annotations

from operator import attrgetter

from ledger.client.admin.offsets import list_offsets
from ledger.client.connection.channels import NodeStub
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.consumer.messages import decoded, messages_of
from ledger.client.records import Message
from ledger.errors import (
    InvalidArgumentError,
    OffsetBeyondEndError,
    OffsetTooLowError,
    ReplicaBehindError,
    UnknownQueueError,
)
from ledger.v1 import broker_pb2

MAX_MESSAGES = 100_000
_FETCH_BYTES = 1  # a fetch returns at least one batch, whatever its size


async def query_messages(
    client: ClusterClient,
    topic: RoutedTopic,
    key: bytes,
    *,
    begin_ms: int | None,
    end_ms: int | None,
    max_messages: int,
    node: int | None,
) -> list[Message]:
    """Return the newest messages with the given key or look-up key, at most `max_messages` of them, newest first.

    Only messages appended at `begin_ms` or later and before `end_ms` are returned. If `node` is given, ask this node
    instead of the leaders of the shards.
    """
    found: list[Message] = []
    for shard in sorted(set(topic.shards)):
        request = broker_pb2.QueryMessagesRequest(
            shard=shard,
            topic_id=topic.topic_id,
            key=key,
            begin_ms=begin_ms,
            end_ms=end_ms,
            max_messages=max_messages,
            linearizable=node is None,
        )
        found += await _of_shard(client, topic, request, node)
    # Each shard's messages are in order already. The sort is stable, so it keeps the order of equal append times.
    found.sort(key=attrgetter("append_time_ms"), reverse=True)
    return found[:max_messages]


async def _of_shard(
    client: ClusterClient, topic: RoutedTopic, request: broker_pb2.QueryMessagesRequest, node: int | None
) -> list[Message]:
    """Repeat the request until at least `max_messages` messages are found, or the shard has no more messages with
    the key."""
    found: list[Message] = []
    while True:
        response = await client.call(
            request.shard, lambda stub, seconds: stub.QueryMessages(request, timeout=seconds), node=node
        )
        for each in response.batches:
            messages = _messages(topic, each.queue, each.batch)
            found += [message for message in reversed(messages) if has_key(message, request.key)]
        request.before_position = response.next_before_position
        if not request.before_position or len(found) >= request.max_messages:
            return found


def has_key(message: Message, key: bytes) -> bool:
    """Return True if `key` is the key or a look-up key of the message."""
    return message.key == key or key in message.look_up_keys


async def get_message(client: ClusterClient, topic: RoutedTopic, queue: int, offset: int) -> Message:
    """Return the message at the given offset of the given queue.

    Raises UnknownQueueError, OffsetTooLowError or OffsetBeyondEndError, and InvalidArgumentError if the offset is
    negative.
    """
    if not 0 <= queue < len(topic.shards):
        raise UnknownQueueError(
            f'Topic "{topic.name}" has no queue {queue}: its queues are 0 to {len(topic.shards) - 1}.'
        )
    if offset < 0:
        raise InvalidArgumentError(f"The offset {offset} is not valid: offsets count from 0.")
    there = (await list_offsets(client, topic, [queue]))[queue]
    if not there.first_offset <= offset < there.end_offset:
        wrong = OffsetTooLowError if offset < there.first_offset else OffsetBeyondEndError
        raise wrong(
            f'Queue {queue} of topic "{topic.name}" has no message at offset {offset}: it has the offsets '
            f"{there.first_offset} to {there.end_offset - 1}."
            if there.first_offset < there.end_offset
            else f'Queue {queue} of topic "{topic.name}" has no messages.',
            first_offset=there.first_offset,
            end_offset=there.end_offset,
        )
    batch = await fetch_batch(client, topic, queue, offset)
    return _messages(topic, queue, batch)[offset - batch.base_offset]


async def fetch_batch(client: ClusterClient, topic: RoutedTopic, queue: int, offset: int) -> broker_pb2.FetchedBatch:
    """Return the batch that has the message at this offset, which must be committed. Raises the errors of a fetch."""
    asked = broker_pb2.QueueFetch(topic_id=topic.topic_id, queue=queue, offset=offset)
    request = broker_pb2.FetchRequest(queues=[asked], max_bytes=_FETCH_BYTES)

    async def fetch(stub: NodeStub, seconds: float) -> broker_pb2.FetchedQueue:
        given: broker_pb2.FetchedQueue = (await stub.Fetch(request, timeout=seconds)).queues[0]
        if not given.batches and not given.HasField("error"):
            raise ReplicaBehindError(
                f"The node does not have offset {offset} yet, although the message is committed: try again."
            )
        return given

    return (await client.call(topic.shards[queue], fetch)).batches[0]


def _messages(topic: RoutedTopic, queue: int, batch: broker_pb2.FetchedBatch) -> list[Message]:
    return messages_of(
        decoded(batch.body, topic.name, queue, batch.base_offset),
        topic=topic.name,
        queue=queue,
        base_offset=batch.base_offset,
        term=batch.term,
        append_time_ms=batch.append_time_ms,
    )
