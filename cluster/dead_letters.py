"""The dead letters of a consumer group, as operators see them: read them, and send them again.

`DeadLetterQueue.resend` reads the dead letters as a member of a separate consumer group (`resending_group`). The
progress of the resending group records which dead letters were resent. Two resends that run at the same time share the
progress of this group, so they share the dead letters and do not send the same message.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from ledger.client.admin.admin import AsyncAdmin
from ledger.client.connection.environment import PROCESS, Environment
from ledger.client.connection.lifetime import within
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.client.group.group_consumer import AsyncGroupConsumer
from ledger.client.producer.arguments import stored_tag
from ledger.client.producer.producer import AsyncProducer
from ledger.client.records import Message, QueueOffsets
from ledger.consumer_groups import validate_group_name
from ledger.errors import OperationTimeoutError, UnknownGroupError, UnknownQueueError, UnknownTopicError
from ledger.retries import MOVED_HEADERS, consumer_group_of, dead_letter_topic, resending_group

T = TypeVar("T")

# Offsets by queue.
Ends = dict[int, int]

_WAIT_MS = 500
# How long `resend` waits without a message: another `resend` may have the queues.
_PATIENCE_S = 20
# The most dead letters that are sent at the same time.
_AT_ONCE = 500


@dataclass(slots=True)
class Resent:
    """What a resend has done until now: the number of dead letters by the topics that they came from. `left_out` has
    those whose topic or queue was deleted, and those that do not say where they came from."""

    sent: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)


class DeadLetterQueue:
    """The dead letters of one consumer group. The methods raise LedgerError."""

    def __init__(
        self,
        group: str,
        admin: AsyncAdmin,
        servers: str | Sequence[str],
        environment: Environment = PROCESS,
        *,
        request_timeout_ms: int = 30_000,
    ) -> None:
        """`admin` is a started client of the cluster. Further clients are made from `servers` and `environment`. Raises
        InvalidGroupNameError."""
        validate_group_name(group)
        self.group = group
        self.topic = dead_letter_topic(group)
        self._admin = admin
        self._servers = servers
        self._environment = environment
        self._request_timeout_ms = request_timeout_ms

    async def offsets(self) -> list[QueueOffsets]:
        """Return the offsets of the queues of the dead-letter topic; without dead letters, there may be no topic."""
        try:
            return list((await self._admin.describe_topic(self.topic)).offsets)
        except UnknownTopicError:
            return []

    async def ends(self) -> Ends:
        """Return the end offset of each queue of the dead-letter topic."""
        return {each.queue: each.end_offset for each in await self.offsets()}

    async def resent_before(self) -> Ends:
        """Return for each queue the offset before which all dead letters were resent."""
        try:
            described = await self._admin.describe_consumer_group(resending_group(self.group))
        except UnknownGroupError:
            return {}
        return {each.queue: each.offset or 0 for each in described.queues if each.topic == self.topic}

    async def count(self) -> int:
        """Return how many dead letters the log keeps that were not resent."""
        before = await self.resent_before()
        return sum(
            max(0, each.end_offset - max(each.first_offset, before.get(each.queue, 0))) for each in await self.offsets()
        )

    async def read(self, begin: Mapping[int, int], most: int, take: Callable[[Message], T]) -> tuple[list[T], Ends]:
        """Return what `take` makes of at most `most` dead letters at the offsets `begin` or later, and the offsets
        after them. Queues that `begin` does not name are read from their beginning. The second result is empty if
        there are no more dead letters."""
        ends = await self.ends()
        if not any(begin.get(queue, 0) < end for queue, end in ends.items()):
            return [], {}
        found: list[T] = []
        consumer = within(self._environment, AsyncConsumer)(
            self.topic,
            bootstrap_servers=self._servers,
            on_dropped="skip",
            request_timeout_ms=self._request_timeout_ms,
        )
        async with consumer:
            for queue, offset in begin.items():
                if offset > 0 and queue in ends:
                    await consumer.seek(self.topic, queue, min(offset, ends[queue]))
            while len(found) < most and any(consumer.position(self.topic, at) < end for at, end in ends.items()):
                messages = await consumer.getmany(min(_AT_ONCE, most - len(found)), _WAIT_MS)
                found += [take(each) for each in _before(ends, messages)]
            positions = {queue: consumer.position(self.topic, queue) for queue in ends}
        has_more = any(positions[queue] < end for queue, end in ends.items())
        return found, positions if has_more else {}

    async def resend(self, most: int | None, resent: Resent) -> None:
        """Send the dead letters that were not resent again, at most `most` of them, to the topics and queues that they
        came from. `resent` is brought up to date on the way. Raises OperationTimeoutError if another resend has the
        dead letters."""
        ends, before = await self.ends(), await self.resent_before()
        if all(before.get(queue, 0) >= end for queue, end in ends.items()):
            return
        async with self._resending() as (consumer, producer):
            loop = asyncio.get_running_loop()
            give_up_at = loop.time() + _PATIENCE_S
            while not self._is_done(consumer, ends) and (most is None or resent.sent.total() < most):
                room = _AT_ONCE if most is None else min(_AT_ONCE, most - resent.sent.total())
                messages = _before(ends, await consumer.getmany(room, _WAIT_MS))
                await _send_all(producer, messages, resent)
                consumer.finish(*messages)
                if messages:
                    give_up_at = loop.time() + _PATIENCE_S
                elif loop.time() >= give_up_at:
                    raise OperationTimeoutError(
                        f"No dead letter of {self.group} arrived within {_PATIENCE_S} s: if another resend of this "
                        "group runs, wait for its end. Then repeat."
                    )

    async def resend_some(self, places: Iterable[tuple[int, int]], resent: Resent) -> None:
        """Send the dead letters at these places (queue, offset) again, one after the other. A later `resend` does not
        know of it, and sends them once more."""
        async with self._producer() as producer:
            for queue, offset in places:
                await _send_all(producer, [await self._admin.get_message(self.topic, queue, offset)], resent)

    def _producer(self) -> AsyncProducer:
        return within(self._environment, AsyncProducer)(self._servers)

    @asynccontextmanager
    async def _resending(self) -> AsyncIterator[tuple[AsyncGroupConsumer, AsyncProducer]]:
        consumer = within(self._environment, AsyncGroupConsumer)(
            self.topic,
            group=resending_group(self.group),
            bootstrap_servers=self._servers,
            auto_acknowledge=False,
            max_attempts=1,
            request_timeout_ms=self._request_timeout_ms,
        )
        async with consumer, self._producer() as producer:
            yield consumer, producer

    def _is_done(self, consumer: AsyncGroupConsumer, ends: Ends) -> bool:
        mine = {place.queue for place in consumer.assignment}
        return all(queue in mine and consumer.position(self.topic, queue) >= end for queue, end in ends.items())


def _before(ends: Ends, messages: Iterable[Message]) -> list[Message]:
    """Return the messages before the end offsets. A queue that the topic got meanwhile has no end, and its messages are
    left out."""
    return [each for each in messages if each.offset < ends.get(each.queue, 0)]


async def _send_all(producer: AsyncProducer, messages: Sequence[Message], resent: Resent) -> None:
    results = await asyncio.gather(*(_send_again(producer, each) for each in messages))
    for message, is_sent in zip(messages, results, strict=True):
        (resent.sent if is_sent else resent.left_out)[origin_of(message)[0]] += 1


async def _send_again(producer: AsyncProducer, message: Message) -> bool:
    """Send the message to its original topic and queue. Return False if the topic or the queue was deleted, or if the
    message does not say where it came from, because a broker of an older version believed a header of its producer."""
    topic, queue = origin_of(message)
    if queue is None or consumer_group_of(topic) is not None:
        return False
    try:
        await producer.send(
            topic,
            message.value,
            key=message.key,
            tag=stored_tag(message.tag),
            headers=[(header, value) for header, value in message.headers if header not in MOVED_HEADERS],
            timestamp_ms=message.timestamp_ms,
            look_up_keys=message.look_up_keys,
            queue=queue,
        )
    except (UnknownTopicError, UnknownQueueError):
        return False
    return True


def origin_of(message: Message) -> tuple[str, int | None]:
    """Return the topic and the queue to which the producer sent the message. If the message says neither, return what
    it says, and None."""
    parts = message.origin.rsplit(":", 2)
    if len(parts) != 3 or not (parts[1].isascii() and parts[1].isdecimal() and len(parts[1]) <= 9):
        return message.origin, None
    return parts[0], int(parts[1])
