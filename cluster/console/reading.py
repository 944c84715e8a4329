"""Reads messages of a queue at any offset, without a consumer group, for pages of the console.

Each call is bounded in time, messages and bytes. A page that needs more asks again, from `ReadMessages.next_offset` on.
Batches are decoded in a thread, so that a large batch does not stop the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ledger.client.admin.offsets import list_offsets
from ledger.client.admin.queries import has_key
from ledger.client.connection.channels import NodeStub
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.consumer.messages import decoded, messages_of
from ledger.client.producer.arguments import checked_key
from ledger.client.records import Message, QueueOffsets
from ledger.errors import InvalidArgumentError, UnavailableError, UnknownQueueError
from ledger.hashing import tag_hash
from ledger.v1 import broker_pb2

# One fetch, in bytes of the log. A node returns at least one batch, however large it is.
FETCH_BYTES = 1 << 20
# What one page may look through.
PAGE_BYTES = 8 << 20
PAGE_S = 5.0
CALL_MS = 5_000


@dataclass(frozen=True, slots=True)
class ReadMessages:
    """Messages of one queue. `next_offset` is where to read on: every message before it was looked at. The queue has
    the offsets from `first_offset` to `end_offset` - 1."""

    messages: list[Message]
    next_offset: int
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class MessageLine:
    """A message in a list: everything but its value, of which only the beginning is kept."""

    topic: str
    queue: int
    offset: int
    timestamp_ms: int
    append_time_ms: int
    key: bytes | None
    tag: str | None
    headers: int
    size: int
    start: bytes = field(repr=False)


def line_of(message: Message, shown_bytes: int) -> MessageLine:
    """Return the message with the first bytes of its value."""
    return MessageLine(
        message.topic,
        message.queue,
        message.offset,
        message.timestamp_ms,
        message.append_time_ms,
        message.key,
        message.tag,
        len(message.headers),
        len(message.value),
        message.value[:shown_bytes],
    )


class TopicReader:
    """Reads topics with the connections of one client, and with the rights of its user."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    async def topic(self, name: str) -> RoutedTopic:
        """Return the topic. Raises UnknownTopicError if it does not exist, or if the user may not see it."""
        return await self._client.topic(name, newest=True)

    async def offsets(self, topic: RoutedTopic, *, sizes: bool = False) -> list[QueueOffsets]:
        """Return the offsets of all queues, with `sizes` also about how many bytes they have. One request goes to each
        shard. Raises LedgerError."""
        async with bounded(f"The offsets of topic {topic.name}"):
            shards = sorted(set(topic.shards))
            queues = [[queue for queue, place in enumerate(topic.shards) if place == shard] for shard in shards]
            found = await asyncio.gather(*(list_offsets(self._client, topic, some, sizes=sizes) for some in queues))
        return sorted((one for each in found for one in each.values()), key=lambda one: one.queue)

    async def offsets_of(self, topic: RoutedTopic, queue: int) -> QueueOffsets:
        """Raises UnknownQueueError."""
        if not 0 <= queue < len(topic.shards):
            raise UnknownQueueError(
                f"Topic {topic.name} has no queue {queue}: its queues are 0 to {len(topic.shards) - 1}."
            )
        async with bounded(f"The offsets of queue {queue}"):
            return (await list_offsets(self._client, topic, [queue]))[queue]

    async def read(self, topic: RoutedTopic, queue: int, offset: int, count: int, *, tag: str = "") -> ReadMessages:
        """Return up to `count` messages from `offset` on. An offset that the queue does not have becomes the nearest
        one that it has. With `tag`, only messages with this tag; there may be more although fewer than `count` came.
        Raises LedgerError."""
        there = await self.offsets_of(topic, queue)
        at = min(max(offset, there.first_offset), there.end_offset)
        found: list[Message] = []
        left, until = PAGE_BYTES, asyncio.get_running_loop().time() + PAGE_S
        while len(found) < count and at < there.end_offset and left > 0 and asyncio.get_running_loop().time() < until:
            messages, at_next, size = await self._fetched(topic, queue, at, min(left, FETCH_BYTES), tag)
            messages = [one for one in messages if at <= one.offset < there.end_offset and tag in ("", one.tag)]
            if at_next <= at:
                break  # the node has less than was committed: the next page may find it
            found += messages
            at, left = at_next, left - max(size, 1)
        if len(found) > count:
            found, at = found[:count], found[count].offset
        return ReadMessages(found, min(at, there.end_offset), there.first_offset, there.end_offset)

    async def _fetched(
        self, topic: RoutedTopic, queue: int, offset: int, max_bytes: int, tag: str = ""
    ) -> tuple[list[Message], int, int]:
        """Return the messages of one fetch, the offset of the next fetch, and the bytes that came."""
        hashes = [tag_hash(tag)] if tag else []
        asked = broker_pb2.QueueFetch(topic_id=topic.topic_id, queue=queue, offset=offset, tag_hashes=hashes)
        request = broker_pb2.FetchRequest(queues=[asked], max_bytes=max_bytes, accepts_cut_batches=bool(tag))

        async def fetch(stub: NodeStub, seconds: float) -> broker_pb2.FetchedQueue:
            given: broker_pb2.FetchedQueue = (await stub.Fetch(request, timeout=seconds)).queues[0]
            return given

        given = await self._client.call(topic.shards[queue], fetch, timeout_ms=CALL_MS)
        messages = await asyncio.to_thread(_messages, topic, queue, given.batches)
        return messages, given.next_offset, sum(len(batch.body) for batch in given.batches)

    async def newest(self, topic: RoutedTopic, queue: int, offset: int, end: int) -> list[Message]:
        """Return messages from `offset` to before `end`, always with the last one, and with as many others as one more
        fetch has. Raises LedgerError."""
        messages, _, _ = await self._fetched(topic, queue, end - 1, FETCH_BYTES)
        if messages and messages[0].offset > offset:
            older, _, _ = await self._fetched(topic, queue, offset, FETCH_BYTES)
            messages = [one for one in older if one.offset < messages[0].offset] + messages
        return [one for one in messages if offset <= one.offset < end]

    async def stretch(
        self, topic: RoutedTopic, queue: int, offset: int, end: int, max_messages: int, max_bytes: int
    ) -> AsyncGenerator[list[Message]]:
        """Yield the messages of a queue from `offset` to before `end`, until `max_messages` messages or about
        `max_bytes` bytes of values. Raises LedgerError."""
        there = await self.offsets_of(topic, queue)
        at, end = max(offset, there.first_offset), min(end, there.end_offset)
        while at < end and max_messages > 0 and max_bytes > 0:
            messages, at_next, _ = await self._fetched(topic, queue, at, FETCH_BYTES)
            messages = [one for one in messages if at <= one.offset < end][:max_messages]
            if at_next <= at:
                raise UnavailableError(f"The node does not have offset {at} of queue {queue} yet: try again shortly.")
            at = at_next
            max_messages -= len(messages)
            max_bytes -= sum(len(one.value) for one in messages)
            if messages:
                yield messages

    async def with_key(
        self, topic: RoutedTopic, key: str, count: int, shown_bytes: int, before_ms: int = 0
    ) -> list[MessageLine]:
        """Return the newest messages with a key or look-up key from all queues, the newest first. `before_ms`: only
        messages that were appended before this time (ms since 1970); 0: all. Raises LedgerError."""
        wanted = checked_key(key)
        if not wanted:
            raise InvalidArgumentError("Give the key to look for.")
        found: list[MessageLine] = []
        async with bounded(f"The search for the key {key[:60]!r}"):
            for shard in sorted(set(topic.shards)):
                found += await self._with_key(topic, shard, wanted, count, shown_bytes, before_ms)
                found.sort(key=lambda line: line.append_time_ms, reverse=True)
                del found[count:]
        return found

    async def _with_key(
        self, topic: RoutedTopic, shard: int, key: bytes, count: int, shown_bytes: int, before_ms: int
    ) -> list[MessageLine]:
        request = broker_pb2.QueryMessagesRequest(
            shard=shard,
            topic_id=topic.topic_id,
            key=key,
            end_ms=before_ms or None,
            max_messages=count,
            linearizable=True,
        )
        found: list[MessageLine] = []
        while len(found) < count:
            response = await self._client.call(shard, lambda stub, s: stub.QueryMessages(request, timeout=s))
            for each in response.batches:
                messages = await asyncio.to_thread(_messages, topic, each.queue, [each.batch])
                found += [line_of(one, shown_bytes) for one in reversed(messages) if has_key(one, key)]
            request.before_position = response.next_before_position
            if not request.before_position:
                break
        return found[:count]


def _messages(topic: RoutedTopic, queue: int, batches: Sequence[broker_pb2.FetchedBatch]) -> list[Message]:
    found: list[Message] = []
    for batch in batches:
        found += messages_of(
            decoded(batch.body, topic.name, queue, batch.base_offset),
            topic=topic.name,
            queue=queue,
            base_offset=batch.base_offset,
            term=batch.term,
            append_time_ms=batch.append_time_ms,
        )
    return found


@asynccontextmanager
async def bounded(what: str, seconds: float = PAGE_S) -> AsyncIterator[None]:
    """Raise UnavailableError if the work takes longer than `seconds`. `what` begins the sentence of the error."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise UnavailableError(f"{what} took longer than {seconds:.0f} s: try again.") from error
