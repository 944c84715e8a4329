"""Sends lines through a producer: fast, in order, with bounded memory, and with an account of every line.

Lines go by `send_many` in lists that fit into one batch each, many of them under way. So the producer takes a list in
one turn of the loop, which keeps lists in order, and a list is acknowledged or fails as a whole, which keeps the
account exact. A line that cannot be sent is named and left out; any other failure ends the sending.

    handed over = acknowledged + in doubt + not sent   (the last two only under way, or after a failure)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from cluster.load.calls import ProducerCall, Receipt, is_unknown, make_call, start_call
from ledger.client.producer.producer import AsyncProducer
from ledger.client.records import RecordMetadata
from ledger.errors import (
    DeliveryTimeoutError,
    InvalidArgumentError,
    LedgerError,
    MessageTooLargeError,
    UnknownQueueError,
    UnknownTopicError,
)

T = TypeVar("T")

# As the producer counts: half a batch, so that two lists fill one.
_LIST_BYTES = 128 << 10
_LINE_OVERHEAD_BYTES = 16
# Well below the producer's buffer: nobody waits for room there, which would let lists interleave.
_WINDOW_BYTES = 16 << 20
_REFUSED = (InvalidArgumentError, UnknownQueueError, UnknownTopicError)


@dataclass(frozen=True, slots=True)
class Labels:
    """What all lines of a call have in common."""

    key: bytes | None = None
    tag: str | None = None
    queue: int | None = None


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """Where lines come from: the first of them is line `line` of `name`."""

    name: str
    line: int

    def of(self, number: int) -> str:
        return f"line {self.line + number:,} of {self.name}"


class LineSender:
    """`acknowledged` lines of `acknowledged_bytes` are committed; `left_out` has a sentence for each that was not sent.

    `in_doubt` lines may be committed. After a failure every call raises it.
    """

    def __init__(
        self, producer: AsyncProducer, topic: str, *, on_acknowledged: Callable[[], None] = lambda: None
    ) -> None:
        self.acknowledged = 0
        self.acknowledged_bytes = 0
        self.left_out: list[str] = []
        self._producer = producer
        self._topic = topic
        self._on_acknowledged = on_acknowledged
        self._handed_over = 0
        self._not_sent = 0
        self._failure: LedgerError | None = None
        self._under_way: dict[asyncio.Task[Any], int] = {}

    @property
    def in_doubt(self) -> int:
        """Lines handed over of which nothing is known (yet)."""
        return self._handed_over - self.acknowledged - self._not_sent

    async def open(self) -> None:
        """Finds the topic, or raises UnknownTopicError. To be called first."""
        await self._producer.send_many(self._topic, [])

    async def send(self, lines: list[bytes], labels: Labels, place: LineOrigin) -> list[bytes]:
        """Hands over `lines`, which lie at `place`, waiting while too much is under way.

        Returns the lines that were taken: all that are not too large.
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
        """Like `send`, for lines that each begin with a key and `separator`. One without them is left out."""
        for start, stop in _lists(lines, labels):
            self._raise_failure()
            part, sent = lines[start:stop], []
            for number, line in enumerate(part, start):
                key, found, value = line.partition(separator)
                if not found:
                    self._leave_out(place.of(number), f"no {separator.decode(errors='replace')!r} in it, so no key")
                    continue
                call = ProducerCall("send-nowait", self._topic, [value], key, labels.tag, labels.queue)
                try:
                    future = start_call(self._producer, call)
                except MessageTooLargeError as error:
                    self._leave_out(place.of(number), str(error))
                else:
                    sent.append((call, future))
            self._handed_over += len(sent)
            await self._start(self._settle_each(sent), sum(map(len, part)), len(part))

    async def drain(self) -> None:
        """Returns when everything handed over is acknowledged."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        self._raise_failure()

    async def _hand_over(self, lines: list[bytes], labels: Labels) -> MessageTooLargeError | None:
        """The producer takes all of a list, or refuses all of it: then its reason."""
        self._raise_failure()
        self._handed_over += len(lines)
        size = sum(map(len, lines))
        task = await self._start(self._send_many(lines, labels), size, len(lines))
        await asyncio.sleep(0)  # its first turn, in which the producer takes them or refuses them
        refusal = task.result() if task.done() else None
        if refusal is not None:
            self._handed_over -= len(lines)
        return refusal

    async def _start(self, work: Coroutine[None, None, T], size: int, count: int) -> asyncio.Task[T]:
        while self._under_way and sum(self._under_way.values()) + size > _WINDOW_BYTES:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.get_running_loop().create_task(work)
        self._under_way[task] = size + _LINE_OVERHEAD_BYTES * count
        task.add_done_callback(lambda done: self._under_way.pop(done))
        return task

    async def _send_many(self, lines: list[bytes], labels: Labels) -> MessageTooLargeError | None:
        call = ProducerCall("send-many", self._topic, lines, labels.key, labels.tag, labels.queue)
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
                self.record_acknowledged(call, receipt)

    # -- the record of results: LineSender implements CallRecorder

    def record_acknowledged(self, call: ProducerCall, receipt: Receipt) -> None:
        self.acknowledged += len(call.values)
        self.acknowledged_bytes += sum(map(len, call.values))
        self._on_acknowledged()

    def record_failed(self, call: ProducerCall, error: LedgerError) -> None:
        """Keep the first failure. Raises MessageTooLargeError again: the producer took nothing of the call."""
        if isinstance(error, MessageTooLargeError):
            raise error
        self._fail(error, len(call.values))

    def _fail(self, error: LedgerError, count: int) -> None:
        self._failure = self._failure or error
        if isinstance(error, _REFUSED) or (isinstance(error, DeliveryTimeoutError) and not is_unknown(error)):
            self._not_sent += count

    def _leave_out(self, line: str, reason: str) -> None:
        self.left_out.append(f"{line}: {reason}")

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _lists(lines: list[bytes], labels: Labels) -> Iterator[tuple[int, int]]:
    """(start, stop) of consecutive parts that are within the bounds of a list, or are one line."""
    each = _LINE_OVERHEAD_BYTES + len(labels.key or b"") + len((labels.tag or "").encode())
    start = size = 0
    for at, line in enumerate(lines):
        if at > start and size + len(line) + each > _LIST_BYTES:
            yield start, at
            start, size = at, 0
        size += len(line) + each
    if start < len(lines):
        yield start, len(lines)
