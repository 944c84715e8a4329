"""The asyncio consumer without a consumer group: it reads queues in order, from a start that the caller chooses.

Fetchers keep a limited number of bytes of fetched messages in memory. The position of a queue is the offset of the
next message to hand out; the offset of the next message to fetch can be higher.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Generic, Literal, Self, TypeVar, cast

from ledger.client.admin.offsets import QueueTimes, checked_time, in_ms, list_offsets, offsets_for_times
from ledger.client.checked_arguments import (
    checked_deserializer,
    checked_flag,
    checked_list,
    checked_offset,
    checked_pair,
    checked_place,
    checked_rng,
    shown,
)
from ledger.client.checked_numbers import NO_LIMIT, as_whole, checked_timeout, checked_whole
from ledger.client.connection.cluster_client import ClusterClient, no_topic
from ledger.client.connection.environment import cluster_of
from ledger.client.connection.lifetime import AsyncLifetime, security_in
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.consumer.cursor import Cursor, QueueBatch
from ledger.client.consumer.fetcher import FetchSettings
from ledger.client.consumer.queue_readers import QueueReaders
from ledger.client.consumer.tags import wanted_tags
from ledger.client.records import Message, QueueOffsets, Received, TopicQueue
from ledger.errors import ClosedError, InvalidArgumentError, UnknownQueueError, UnknownTopicError
from ledger.hashing import tag_hash
from ledger.topics import topic_names

log = logging.getLogger("ledgermq.client.consumer")

Start = Literal["earliest", "latest"] | int | datetime
T = TypeVar("T")

# Consumers that share connections. Each of them always has a fetch under way, and a connection carries 2,000 calls.
_CONSUMERS_OF_A_LINK = 100
MAX_FETCH_BYTES = 32 * 1024 * 1024
MAX_WAIT_MS = 60_000


@dataclass(frozen=True, slots=True)
class _UnseenTopic:
    """The cursors of a topic that the client does not see now, by queue. No fetcher fetches for them."""

    topic_id: int
    cursors: dict[int, Cursor]


class AsyncConsumer(AsyncLifetime, Generic[Received]):
    """An asyncio client that reads the queues of topics; it reads the messages of each queue in order. Consumers of one
    event loop with equal settings of their connections share connections.

    The consumer finds new queues of its topics within 30 s, and reads them from their first message. The consumer also
    finds a topic that was deleted and created again, and reads the new topic from its first message. Unread messages
    of a deleted topic are lost. If all topics are deleted, reading raises UnknownTopicError until one of the topics
    exists again. If the user loses the right to see a topic and gets it back, the consumer goes on where it was.

        bootstrap_servers   "host:port,host:port" or a list of addresses; one reachable address is enough
        start               where each queue begins: "earliest" (default), "latest" (the committed end at start()), an
                            offset, or a datetime with a time zone (the first message appended then or later)
        queues              the numbers of the queues to read of each topic; None (default): all
        tags                read only messages with one of these tags, or of an expression such as "paid || refunded";
                            None (default) or "*": all messages
        max_bytes           the size of one fetch, 1 to 33,554,432 (default 1 MiB); a batch is always fetched whole.
                            The consumer fetches a few times as much ahead. If a process has more than 32 consumers,
                            each of them fetches less at a time, but at least 256 KiB
        max_wait_ms         how long a fetch waits for new messages at the end, 0 to 60,000 (default 500)
        node                read from this node, leader or not, as far as the node has applied; None (default): the
                            leader
        on_dropped          what to do if the next messages are no longer kept: "error" (default) raises
                            OffsetTooLowError, which carries the first kept offset for seek(); "skip" continues there
                            and counts in `skipped`
        deserializer        a function such as json.loads, which makes the `value` of each message from its bytes
                            (default None). If it fails, reading raises DeserializationError until seek() moves past
                            the message. getbatches() does not use it
        check_crcs          verify the CRC32C of each batch (default True)
        client_id           the name that this client shows to nodes; None: chosen by the client
        request_timeout_ms  how long fetches may fail before reading raises the reason (default 30,000); fetching
                            continues
        retry_backoff_ms    the wait after the first failure (default 20); it doubles with each failure
        rng                 randomness for back-offs (default: a new random.Random())

    The security settings `tls`, `ca`, `client_certificate`, `client_key`, `user`, `password`, `password_file`, `token`
    and `profile` are those of every client (docs/GUIDE.md, Connecting).
    """

    def __init__(
        self,
        *topics: str | Iterable[str],
        bootstrap_servers: str | Sequence[str] | None = None,
        start: Start = "earliest",
        queues: Iterable[int] | None = None,
        tags: Iterable[str] | None = None,
        max_bytes: int = 1024 * 1024,
        max_wait_ms: int = 500,
        node: int | None = None,
        on_dropped: Literal["error", "skip"] = "error",
        deserializer: Callable[[bytes], Received] | None = None,
        check_crcs: bool = True,
        client_id: str | None = None,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: float = 20,
        rng: random.Random | None = None,
        tls: bool | None = None,
        ca: str | Path | None = None,
        client_certificate: str | Path | None = None,
        client_key: str | Path | None = None,
        user: str | None = None,
        password: str | None = None,
        password_file: str | Path | None = None,
        token: str | None = None,
        profile: str | None = None,
    ) -> None:
        servers, environment = cluster_of(self._environment, bootstrap_servers, security_in(locals()))
        if on_dropped not in ("error", "skip"):
            raise InvalidArgumentError(f'on_dropped is "{on_dropped}": it must be "error" or "skip".')
        self._names = topic_names(topics)
        self._start_at = checked_start(start)
        self._only_queues = None if queues is None else _checked_queues(queues)
        self._tags = wanted_tags(tags)
        self._check_crcs = checked_flag("check_crcs", check_crcs)
        self._deserializer = checked_deserializer(deserializer)
        self._settings = FetchSettings(
            node=None if node is None else checked_whole("node", node, 1),
            max_bytes=checked_whole("max_bytes", max_bytes, 1, MAX_FETCH_BYTES),
            max_wait_ms=checked_whole("max_wait_ms", max_wait_ms, 0, MAX_WAIT_MS),
            tag_hashes=tuple(sorted(map(tag_hash, self._tags or ()))),
            skips_dropped=on_dropped == "skip",
        )
        self._client = ClusterClient(
            servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            rng=checked_rng(rng),
            environment=environment,
            shares_link=True,
            most_users=_CONSUMERS_OF_A_LINK,
        )
        self._is_ending = False
        # Closes the consumer, also if the caller of `stop` is cancelled.
        self._ending: asyncio.Task[None] | None = None
        self._topics: dict[str, RoutedTopic] = {}
        # The topics that this client does not see now, by name: they were deleted, or the user lost a right to them. If
        # the user gets back the right, the topic has the same id, and its queues go on where they were.
        self._unseen: dict[str, _UnseenTopic] = {}
        self._current: Cursor | None = None

    async def start(self) -> None:
        """Connect to the cluster, look up the topics, and find the offset at which the consumer starts each queue.

        Raises UnknownTopicError, UnknownQueueError or UnavailableError.
        """
        self._client.check_unstarted(was_stopped=self._ending is not None)
        await self._client.start()
        self._news = asyncio.Event()
        self._readers = QueueReaders(self._client, self._settings, self._news.set)
        try:
            self._readers.add(await self._first_cursors())
        except BaseException:
            await self._client.close()
            raise
        self._client.routes.on_topic_change.append(self._topic_changed)
        for name in self._names:
            self._topic_changed(name)

    def stop_reading(self) -> None:
        """Hand out no more messages: an iteration ends after the message in hand, and every other read raises
        ClosedError. See also `ledgermq.stop_on_signal`."""
        self._is_ending = True
        if self._client.started:
            self._news.set()

    async def stop(self) -> None:
        """Close the consumer. An iteration that waits for a message ends; every other read that waits raises
        ClosedError."""
        self._client.check_loop()
        if self._ending is None:
            if not self._client.started:
                return
            self._client.refuse_calls()
            if self._topic_changed in self._client.routes.on_topic_change:
                self._client.routes.on_topic_change.remove(self._topic_changed)
            self._news.set()
            self._ending = asyncio.create_task(self._end(), name="end of a consumer")
        await asyncio.shield(self._ending)  # a caller that gives up does not leave half of it open

    async def _end(self) -> None:
        await self._readers.close()
        await self._client.close()

    @property
    def closed(self) -> bool:
        """True if the consumer was stopped."""
        return self._client.closed

    # --- reading -----------------------------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[Received]:
        """Return the next message, and wait for it without a time limit. The iteration ends when the consumer is
        stopped."""
        try:
            return cast("Message[Received]", await self._next())
        except ClosedError:
            if self.closed or self._is_ending:
                raise StopAsyncIteration from None
            raise

    async def getmany(self, max_messages: int = 500, timeout_ms: float | None = None) -> list[Message[Received]]:
        """Return up to `max_messages` messages that were fetched and not handed out yet.

        If there is no fetched message, wait for messages for up to `timeout_ms` milliseconds (None: without limit). If
        no message arrives before this timeout, return an empty list. Messages of one queue are in order.
        """
        most = checked_whole("max_messages", max_messages, 1)

        def take() -> list[Message]:
            messages: list[Message] = []
            for cursor in self._readers.in_turn():
                messages += cursor.take(most - len(messages))
                if len(messages) >= most:
                    break
            return messages

        return cast("list[Message[Received]]", await self._read(take, timeout_ms))

    async def getbatches(self, timeout_ms: float | None = None) -> list[QueueBatch]:
        """Return all fetched batches, each as (queue, base_offset, Batch). If no batch is fetched yet, wait for
        batches for up to `timeout_ms` milliseconds (None: without limit).

        With `tags`, a batch has at least the messages with wanted tags; `QueueBatch.offsets` has their offsets. Nodes
        leave out other messages if that saves bytes, so `batch.tags()` says which messages to use.
        """

        def take() -> list[QueueBatch]:
            return [batch for cursor in self._readers.in_turn() for batch in cursor.take_batches()]

        return await self._read(take, timeout_ms)

    # --- positions ---------------------------------------------------------------------------------------------------

    async def seek(self, topic: str, queue: int, offset: int) -> None:
        """Continue reading this queue at `offset`. If the queue has no such offset, the next read raises
        OffsetTooLowError or OffsetBeyondEndError; with on_dropped="skip" only OffsetBeyondEndError."""
        cursor = self._cursor(checked_place(topic, queue))
        self._readers.seek(TopicQueue(cursor.topic, cursor.queue), checked_offset(offset))

    def pause(self, *places: tuple[str, int]) -> None:
        """Stop reading the queues `places` until resume() is called. Each queue is given as (topic, queue); without
        arguments, all queues are paused.

        A paused queue keeps its position. Raises UnknownTopicError or UnknownQueueError.
        """
        for place in self._chosen(places):
            self._readers.pause(place)

    def resume(self, *places: tuple[str, int]) -> None:
        """Read the paused queues `places` again; without arguments, read all paused queues again."""
        for place in self._chosen(places):
            self._readers.resume(place)

    def is_paused(self, topic: str, queue: int) -> bool:
        """Return True if the queue is paused. For a queue that this consumer does not read, return False."""
        return self._is_paused(checked_place(topic, queue))

    def _is_paused(self, place: TopicQueue) -> bool:
        """Do the same as `is_paused` for a queue of a message, which needs no check."""
        cursor = self._readers.get(place)
        return cursor is not None and cursor.paused

    @property
    def paused(self) -> list[TopicQueue]:
        """The paused queues of this consumer, each as (topic, queue)."""
        return sorted(TopicQueue(one.topic, one.queue) for one in self._readers.in_turn() if one.paused)

    def position(self, topic: str, queue: int) -> int:
        """Return the offset of the next message that the consumer hands out from this queue."""
        return self._cursor(checked_place(topic, queue)).position

    @property
    def skipped(self) -> int:
        """The number of messages that were skipped because they were no longer kept (`on_dropped="skip"`)."""
        return self._readers.skipped

    async def beginning_offsets(self) -> dict[TopicQueue, int]:
        """Return the first kept offset of each queue that this consumer reads."""
        return {place: offsets.first_offset for place, offsets in (await self._offsets()).items()}

    async def end_offsets(self) -> dict[TopicQueue, int]:
        """Return the end offset of each queue that this consumer reads: the offset that the next message will get.

        If the consumer reads from a `node`, the end offset follows the last message that this node has applied;
        otherwise it follows the last committed message.
        """
        return {place: offsets.end_offset for place, offsets in (await self._offsets()).items()}

    async def offsets_for_times(self, times: QueueTimes) -> dict[TopicQueue, int]:
        """Return for each queue the offset of the first message appended at the given time (ms since 1970) or later.

        Each offset can be passed to seek(). If a queue has no message from the given time or later, its result is the
        end offset of the queue. The caller can also ask for queues that this consumer does not read. Raises
        UnknownTopicError, UnknownQueueError or InvalidArgumentError.
        """
        self._client.check_open()
        return await self._offsets_at(times)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _chosen(self, places: Iterable[tuple[str, int]]) -> list[TopicQueue]:
        self._client.check_open()
        cursors = [self._cursor(checked_pair("places", place)) for place in places] or self._readers.in_turn()
        return [TopicQueue(cursor.topic, cursor.queue) for cursor in cursors]

    def _cursor(self, place: TopicQueue) -> Cursor:
        self._client.check_open()
        topic, queue = place
        cursor = self._readers.get(place)
        if cursor is not None:
            return cursor
        if topic not in self._names:
            raise UnknownTopicError(f'This consumer does not read topic "{topic}": it reads {", ".join(self._names)}.')
        if topic not in self._topics:
            raise no_topic(topic)
        raise UnknownQueueError(f'This consumer does not read queue {queue} of topic "{topic}".')

    async def _first_cursors(self) -> list[tuple[Cursor, int]]:
        """Return a new cursor for each queue that the consumer reads, with the shard of the queue."""
        if self._settings.node is not None:
            self._client.node_address(self._settings.node)
        cursors: list[tuple[Cursor, int]] = []
        for name in self._names:
            topic = await self._client.topic(name)
            if self._only_queues and self._only_queues[-1] >= len(topic.shards):
                topic = await self._client.topic(name, newest=True)  # the topic may have more queues by now
            try:
                cursors += await self._cursors_of(topic)
            except UnknownTopicError:  # shared routes may be a second old, and the topic was deleted since
                newest = await self._client.topic(name, newest=True)
                if newest.topic_id == topic.topic_id:
                    raise
                cursors += await self._cursors_of(newest)
        return cursors

    async def _cursors_of(self, topic: RoutedTopic) -> list[tuple[Cursor, int]]:
        self._topics[topic.name] = topic
        queues = self._queues_of(topic)
        if isinstance(self._start_at, int):
            starts = dict.fromkeys(queues, self._start_at)
        elif isinstance(self._start_at, datetime):
            times = {TopicQueue(topic.name, queue): in_ms(self._start_at) for queue in queues}
            starts = {place.queue: offset for place, offset in (await self._offsets_at(times)).items()}
        else:
            found = await list_offsets(self._client, topic, queues, node=self._settings.node)
            latest = self._start_at == "latest"
            starts = {queue: one.end_offset if latest else one.first_offset for queue, one in found.items()}
        return [self._cursor_at(topic, queue, starts[queue]) for queue in queues]

    def _cursor_at(self, topic: RoutedTopic, queue: int, offset: int) -> tuple[Cursor, int]:
        """Return a new cursor at this offset of the queue, and the shard of the queue."""
        cursor = Cursor(
            topic.name,
            topic.topic_id,
            queue,
            offset=offset,
            tags=self._tags,
            check_crcs=self._check_crcs,
            deserializer=self._deserializer,
        )
        return cursor, topic.shards[queue]

    def _topic_changed(self, name: str) -> None:
        """Begin to read the new queues of the topic. If the topic was deleted, or deleted and created again, or if this
        user does not see the topic any more, first remove the cursors of its old queues."""
        if name not in self._names:
            return
        known, topic = self._topics.get(name), self._client.routes.table.topics.get(name)
        if known is not None and (topic is None or topic.topic_id != known.topic_id):
            log.warning(
                "topic %s is not there any more: it was deleted, and its unread messages are lost; or this user has "
                "lost the right to subscribe to it",
                name,
            )
            self._unseen[name] = _UnseenTopic(known.topic_id, self._readers.remove(name))
            del self._topics[name]
            known, self._current = None, None
        if topic is not None:
            self._topics[name] = topic
            new = range(0 if known is None else len(known.shards), len(topic.shards))
            wanted = new if self._only_queues is None else [queue for queue in self._only_queues if queue in new]
            unseen = self._unseen.pop(name, None)
            before = unseen.cursors if unseen is not None and unseen.topic_id == topic.topic_id else {}
            self._readers.add(self._cursor_after(topic, queue, before.get(queue)) for queue in wanted)
        self._news.set()

    def _cursor_after(self, topic: RoutedTopic, queue: int, before: Cursor | None) -> tuple[Cursor, int]:
        """Return a new cursor of the queue, and its shard. `before` is the cursor that read this queue until the topic
        was not seen any more; None: the queue is new, and is read from its first message."""
        if before is None:
            return self._cursor_at(topic, queue, 0)
        cursor, shard = self._cursor_at(topic, queue, before.position)
        cursor.paused, cursor.skipped = before.paused, before.skipped
        return cursor, shard

    def _queues_of(self, topic: RoutedTopic) -> list[int]:
        everything = range(len(topic.shards))
        if self._only_queues is None:
            return list(everything)
        for queue in self._only_queues:
            if queue not in everything:
                raise UnknownQueueError(
                    f'Topic "{topic.name}" has no queue {queue}: its queues are 0 to {len(everything) - 1}.'
                )
        return self._only_queues

    async def _offsets_at(self, times: QueueTimes) -> dict[TopicQueue, int]:
        return await offsets_for_times(self._client, times, node=self._settings.node)

    async def _offsets(self) -> dict[TopicQueue, QueueOffsets]:
        self._client.check_open()
        offsets: dict[TopicQueue, QueueOffsets] = {}
        for name, topic in [*self._topics.items()]:  # topics can come and go meanwhile
            found = await list_offsets(self._client, topic, self._queues_of(topic), node=self._settings.node)
            offsets |= {TopicQueue(name, queue): found[queue] for queue in found}
        return offsets

    async def _next(self) -> Message:
        self._check_reading()
        message = self._next_of_current()
        while message is None:
            await self._wait_ready(None)
            self._current = next((cursor for cursor in self._readers.in_turn() if cursor.ready), None)
            message = self._next_of_current()
        return message

    def _check_reading(self) -> None:
        self._client.check_open()
        if self._is_ending:
            raise ClosedError("This consumer hands out no more messages, because it is being stopped.")

    async def _read(self, take: Callable[[], list[T]], timeout_ms: float | None) -> list[T]:
        self._check_reading()
        timeout_ms = checked_timeout(timeout_ms)
        deadline = None if timeout_ms is None else asyncio.get_running_loop().time() + timeout_ms / 1000
        while await self._wait_ready(deadline):
            taken = take()
            self._readers.made_room()
            if taken:  # the tag filter may have removed all messages
                return taken
        return []

    async def _wait_ready(self, deadline: float | None) -> bool:
        """Wait until a cursor has messages, and return True. Return False if `deadline` passes before a cursor has
        messages. If a cursor without messages or a fetcher has an error, raise the error.
        """
        loop = asyncio.get_running_loop()
        while True:
            self._check_reading()
            self._news.clear()
            self._raise_trouble()
            if self._readers.is_ready:
                return True
            remaining = None if deadline is None else deadline - loop.time()
            if remaining is not None and remaining <= 0:
                return False
            try:
                async with asyncio.timeout(remaining):
                    await self._news.wait()
            except TimeoutError:
                return False

    def _raise_trouble(self) -> None:
        if not self._topics:
            raise no_topic(self._names[0])
        self._readers.raise_trouble()

    def _next_of_current(self) -> Message | None:
        if self._current is None:
            return None
        message = self._current.take_one()
        if not self._current.ready:
            self._current = None
            self._readers.made_room()
        return message


def checked_start(start: object) -> Start:
    """Return where a consumer starts. Raises InvalidArgumentError if `start` is something else than AsyncConsumer
    says."""
    if isinstance(start, datetime):
        checked_time(in_ms(start))
        return start
    if isinstance(start, str) and start in ("earliest", "latest"):
        return cast("Start", start)
    offset = as_whole(start)
    if offset is not None and 0 <= offset <= NO_LIMIT:
        return offset
    raise InvalidArgumentError(f'start is {shown(start)}: it must be "earliest", "latest", an offset or a datetime.')


def _checked_queues(queues: object) -> list[int]:
    numbers = sorted({checked_whole("queues", queue, 0) for queue in checked_list("queues", queues, "numbers")})
    if not numbers:
        raise InvalidArgumentError("queues is empty, so nothing would be read: name a queue, or leave out `queues`.")
    return numbers
