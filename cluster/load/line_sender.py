"""Sends lines through a producer at high speed and in order, with bounded memory. The sender counts exactly how many
lines were acknowledged, were left out, or are in doubt.

Lines are sent by `send_many` in lists that fit into one batch each, with many lists in flight. The producer accepts a
list within one turn of the event loop, so the lists stay in order. A list is acknowledged as a whole or fails as a
whole, so the counts are exact. A line that the producer refuses because of its size is reported and not sent. Any
failure except a refused line ends the sending.

    handed over = acknowledged + in doubt + not sent   (the last two only under way, or after a failure)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from cluster.load.calls import ProducerCall, Receipt, is_unknown, make_call, start_call
from ledger.client.producer.producer import AsyncProducer
from ledger.client.records import RecordMetadata
from ledger.errors import (
    AuthenticationError,
    DeliveryTimeoutError,
    HeadersTooLargeError,
    InvalidArgumentError,
    LedgerError,
    MessageTooLargeError,
    PermissionDeniedError,
    TooManyHeadersError,
    UnknownQueueError,
    UnknownTopicError,
)

T = TypeVar("T")
Headers = tuple[tuple[str, bytes], ...]

# The size as the producer counts it: half a batch, so that two lists fill a batch.
_LIST_BYTES = 128 << 10
_LINE_OVERHEAD_BYTES = 16
# Well below the size of the producer's buffer. If a list had to wait for room in the buffer, lists could interleave.
_WINDOW_BYTES = 16 << 20
_MOST_SENTENCES = 1_000
# The number of messages that `send_each` gives to the producer without a look at its failures.
_MESSAGES_A_TURN = 1_000
# Refusals of one message because of its content. The messages after it can still be sent.
_CONTENT_REFUSED = (MessageTooLargeError, InvalidArgumentError, TooManyHeadersError, HeadersTooLargeError)
_REFUSED = (AuthenticationError, InvalidArgumentError, PermissionDeniedError, UnknownQueueError, UnknownTopicError)


@dataclass(frozen=True, slots=True)
class Labels:
    """The key, tag and queue that all lines of a call have."""

    key: bytes | None = None
    tag: str | None = None
    queue: int | None = None
    # Only `send_each` and `send_keyed` send headers.
    headers: Headers = ()
    # The delivery time of messages that have none of their own. At most one of the two is given.
    deliver_at: datetime | None = None
    delay: timedelta | None = None
    look_up_keys: tuple[bytes, ...] = ()
    # Makes the id of a message that has none from the number of its line. Only `send_each` and `send_keyed` send ids.
    message_id: Callable[[int], bytes] | None = None


class LineMessage(NamedTuple):
    """A message with all that a line can say of it. A `timestamp_ms` of None means the time of sending."""

    value: bytes
    key: bytes | None
    tag: str | None
    headers: Headers
    timestamp_ms: int | None
    deliver_at: datetime | None = None
    # Those of the labels follow.
    look_up_keys: tuple[bytes, ...] = ()
    message_id: bytes | None = None

    @property
    def size(self) -> int:
        """The approximate size of the message in bytes."""
        headers = sum(len(name) + len(value) for name, value in self.headers)
        more_keys = sum(map(len, self.look_up_keys))
        return len(self.value) + len(self.key or b"") + len(self.tag or "") + headers + more_keys


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """The origin of a list of lines, for messages to the user: the first line of the list is line `line` of the
    source `name`."""

    name: str
    line: int

    def of(self, number: int) -> str:
        """Return a description of line `number` of the list (counted from 0), such as "line 5 of input.txt"."""
        return f"line {self.line + number:,} of {self.name}"


class LineSender:
    """Sends lines to one topic. `acknowledged` is the number of committed lines, and `acknowledged_bytes` is their
    size in bytes. `repeated` of these lines had been sent before with the same message ids. `left_out_count` is the
    number of lines that were not sent, and `left_out` has a sentence for each of the first 1,000 of them.

    `in_doubt` is the number of lines whose result is unknown. After a failure, every later call raises the same
    failure.
    """

    def __init__(
        self, producer: AsyncProducer, topic: str, *, on_acknowledged: Callable[[], None] = lambda: None
    ) -> None:
        self.acknowledged = 0
        self.acknowledged_bytes = 0
        self.repeated = 0
        self.left_out: list[str] = []
        self.left_out_count = 0
        self._producer = producer
        self._topic = topic
        self._on_acknowledged = on_acknowledged
        self._handed_over = 0
        self._not_sent = 0
        self._failure: LedgerError | None = None
        self._under_way: dict[asyncio.Task[Any], int] = {}

    @property
    def in_doubt(self) -> int:
        """Return the number of lines that were handed over to the producer and have no known result yet."""
        return self._handed_over - self.acknowledged - self._not_sent

    async def open(self) -> None:
        """Check that the topic exists. Raises UnknownTopicError. `open` must be called before any other method."""
        await self._producer.send_many(self._topic, [])

    async def send(self, lines: list[bytes], labels: Labels, place: LineOrigin) -> list[bytes]:
        """Give `lines` to the producer. `place` names the file and the line number at which `lines` begin. The call
        waits while too many bytes are in flight.

        Return the lines that the producer accepted, which are all lines except those that are too large.
        """
        taken: list[bytes] = []
        for start, stop in _lists(lines, labels):
            part = lines[start:stop]
            if await self._hand_over(part, labels) is None:
                taken += part
                continue
            for number, line in enumerate(part, start):
                refusal = await self._hand_over([line], labels)
                if refusal is None:
                    taken.append(line)
                else:
                    self._leave_out(place.of(number), str(refusal))
        return taken

    async def send_keyed(self, lines: list[bytes], separator: bytes, labels: Labels, place: LineOrigin) -> None:
        """Send lines that consist of a key, `separator` and a value. A line without a separator is reported and not
        sent."""

        def message(line: bytes) -> LineMessage | str:
            key, found, value = line.partition(separator)
            if not found:
                return f"it does not contain {separator.decode(errors='replace')!r}, so it has no key"
            return LineMessage(value, key, labels.tag, labels.headers, None)

        await self.send_each([message(line) for line in lines], labels, place)

    async def send_each(self, messages: Sequence[LineMessage | str], labels: Labels, place: LineOrigin) -> None:
        """Send messages that each have their own key, tag, headers and timestamp. A message that the producer refuses
        because of its content is reported and not sent. A text in place of a message says why the line is no message;
        it is reported too."""
        for start in range(0, len(messages), _MESSAGES_A_TURN):
            self._raise_failure()
            sent: list[tuple[ProducerCall, asyncio.Future[RecordMetadata]]] = []
            size = 0
            for number, message in enumerate(messages[start : start + _MESSAGES_A_TURN], start):
                if isinstance(message, str):
                    self._leave_out(place.of(number), message)
                    continue
                call = ProducerCall(
                    "send-nowait",
                    self._topic,
                    [message.value],
                    message.key,
                    message.tag,
                    labels.queue,
                    headers=message.headers,
                    timestamp_ms=message.timestamp_ms,
                    deliver_at=message.deliver_at or labels.deliver_at,
                    delay=labels.delay if message.deliver_at is None else None,
                    look_up_keys=message.look_up_keys + labels.look_up_keys,
                    message_id=_message_id(message, labels, place.line + number),
                )
                if size and size + message.size > _LIST_BYTES:
                    await self._start_each(sent, size)
                    sent, size = [], 0
                if not sent:
                    await self._wait_for_room(message.size)
                try:
                    sent.append((call, start_call(self._producer, call)))
                except _CONTENT_REFUSED as error:
                    self._leave_out(place.of(number), str(error))
                else:
                    size += message.size
            await self._start_each(sent, size)

    async def drain(self) -> None:
        """Return when all lines that were handed over are acknowledged."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        self._raise_failure()

    async def _start_each(self, sent: list[tuple[ProducerCall, asyncio.Future[RecordMetadata]]], size: int) -> None:
        if sent:
            self._handed_over += len(sent)
            await self._start(self._settle_each(sent), size, len(sent))

    async def _hand_over(self, lines: list[bytes], labels: Labels) -> MessageTooLargeError | None:
        """Hand over a list to the producer, which accepts or refuses the whole list. Return None if the producer
        accepted the list, otherwise the reason of the refusal."""
        self._raise_failure()
        self._handed_over += len(lines)
        size = sum(map(len, lines))
        task = await self._start(self._send_many(lines, labels), size, len(lines))
        await asyncio.sleep(0)  # in the first turn of the task, the producer takes or refuses the list
        refusal = task.result() if task.done() else None
        if refusal is not None:
            self._handed_over -= len(lines)
        return refusal

    async def _start(self, work: Coroutine[None, None, T], size: int, count: int) -> asyncio.Task[T]:
        await self._wait_for_room(size)
        task = asyncio.get_running_loop().create_task(work)
        self._under_way[task] = size + _LINE_OVERHEAD_BYTES * count
        task.add_done_callback(lambda done: self._under_way.pop(done))
        return task

    async def _wait_for_room(self, size: int) -> None:
        while self._under_way and sum(self._under_way.values()) + size > _WINDOW_BYTES:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)

    async def _send_many(self, lines: list[bytes], labels: Labels) -> MessageTooLargeError | None:
        call = ProducerCall(
            "send-many",
            self._topic,
            lines,
            labels.key,
            labels.tag,
            labels.queue,
            deliver_at=labels.deliver_at,
            delay=labels.delay,
            look_up_keys=labels.look_up_keys,
        )
        try:
            await make_call(self._producer, call, self)
        except MessageTooLargeError as refusal:
            return refusal
        return None

    async def _settle_each(self, sent: list[tuple[ProducerCall, asyncio.Future[RecordMetadata]]]) -> None:
        for call, future in sent:
            try:
                receipt = await future
            except LedgerError as error:
                self._fail(error, 1)
            else:
                self.repeated += receipt.duplicate and call.message_id is not None
                self.record_acknowledged(call, receipt)

    # -- the record of results: LineSender implements CallRecorder

    def record_acknowledged(self, call: ProducerCall, receipt: Receipt) -> None:
        self.acknowledged += len(call.values)
        self.acknowledged_bytes += sum(map(len, call.values))
        self._on_acknowledged()

    def record_failed(self, call: ProducerCall, error: LedgerError) -> None:
        """Store the first failure. A MessageTooLargeError is raised again, because the producer has accepted no
        message of the call."""
        if isinstance(error, MessageTooLargeError):
            raise error
        self._fail(error, len(call.values))

    def _fail(self, error: LedgerError, count: int) -> None:
        self._failure = self._failure or error
        if isinstance(error, _REFUSED) or (isinstance(error, DeliveryTimeoutError) and not is_unknown(error)):
            self._not_sent += count

    def _leave_out(self, line: str, reason: str) -> None:
        self.left_out_count += 1
        if len(self.left_out) < _MOST_SENTENCES:
            self.left_out.append(f"{line}: {reason}")

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _message_id(message: LineMessage, labels: Labels, line: int) -> bytes | None:
    if message.message_id is not None or labels.message_id is None:
        return message.message_id
    return labels.message_id(line)


def _lists(lines: list[bytes], labels: Labels) -> Iterator[tuple[int, int]]:
    """Divide the lines into consecutive lists and yield (start, stop) of each list. A list has at most _LIST_BYTES
    bytes, or only one line."""
    each = _LINE_OVERHEAD_BYTES + len(labels.key or b"") + len((labels.tag or "").encode())
    start = size = 0
    for at, line in enumerate(lines):
        if at > start and size + len(line) + each > _LIST_BYTES:
            yield start, at
            start, size = at, 0
        size += len(line) + each
    if start < len(lines):
        yield start, len(lines)
