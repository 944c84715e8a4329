"""The account that a LineSender keeps, with a producer that answers only when the test releases it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from cluster.load.line_sender import Labels, LineOrigin, LineSender
from ledger.errors import (
    AuthenticationError,
    DeliveryTimeoutError,
    LedgerError,
    MessageTooLargeError,
    PermissionDeniedError,
    UnknownTopicError,
)
from ledgermq import AsyncProducer, RecordMetadata, RecordRange

LIMIT = 1 << 20
BATCH_BYTES = 256 << 10
PLACE = LineOrigin("file", 1)


class HeldProducer:
    """Accepts messages like AsyncProducer, and acknowledges a call when the test releases it."""

    def __init__(self) -> None:
        self.taken: list[tuple[bytes | None, bytes]] = []
        self.largest_call_bytes = 0
        self.waiting: list[asyncio.Future[None]] = []
        self.released = False

    async def send_many(
        self,
        topic: str,
        values: Sequence[bytes],
        *,
        key: bytes | None = None,
        tag: str | None = None,
        queue: int | None = None,
    ) -> list[RecordRange]:
        if topic != "topic":
            raise UnknownTopicError(f"no topic {topic}")
        if any(len(value) > LIMIT for value in values):
            raise MessageTooLargeError("too large")
        if values:
            self.largest_call_bytes = max(self.largest_call_bytes, sum(len(value) + 16 for value in values))
            self.taken += [(key, value) for value in values]
            await self._turn()
        return [RecordRange(topic, 0, 0, len(values))]

    def send_nowait(
        self, topic: str, value: bytes, *, key: bytes, tag: str | None, queue: int | None
    ) -> asyncio.Future[RecordMetadata]:
        if len(value) > LIMIT:
            raise MessageTooLargeError("too large")
        self.taken.append((key, value))
        return asyncio.ensure_future(self._one(topic))

    def release(self, error: Exception | None = None) -> None:
        """Answer every call so far, and all later calls unless `error` is given."""
        self.released = error is None
        for turn in self.waiting:
            if error is None:
                turn.set_result(None)
            else:
                turn.set_exception(error)
        self.waiting.clear()

    async def _one(self, topic: str) -> RecordMetadata:
        await self._turn()
        return RecordMetadata(topic, 0, 0, 0, 1, False)

    async def _turn(self) -> None:
        if not self.released:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.append(turn)
            await turn


@pytest.fixture
def producer() -> HeldProducer:
    return HeldProducer()


def sender_of(producer: HeldProducer, topic: str = "topic") -> LineSender:
    return LineSender(cast("AsyncProducer", producer), topic)


async def test_lines_are_taken_in_order_and_counted_when_acknowledged(producer: HeldProducer) -> None:
    sender = sender_of(producer)
    lines = [b"%d" % number for number in range(50_000)]
    await sender.send(lines, Labels(key=b"k"), PLACE)
    assert producer.taken == [(b"k", line) for line in lines]
    assert (sender.acknowledged, sender.in_doubt) == (0, len(lines))
    producer.release()
    await sender.drain()
    assert (sender.acknowledged, sender.in_doubt) == (len(lines), 0)
    assert sender.acknowledged_bytes == sum(map(len, lines))


async def test_a_list_fits_into_one_batch(producer: HeldProducer) -> None:
    producer.release()
    sender = sender_of(producer)
    await sender.send([b"x" * 100] * 10_000 + [b""] * 50_000, Labels(), PLACE)
    assert producer.largest_call_bytes <= BATCH_BYTES
    assert len(producer.taken) == 60_000


async def test_a_line_over_the_limit_is_named_and_the_others_go(producer: HeldProducer) -> None:
    producer.release()
    sender = sender_of(producer)
    lines = [b"a", b"x" * (LIMIT + 1), b"b", b"y" * (LIMIT + 1)]
    assert await sender.send(lines, Labels(), LineOrigin("file", 10)) == [b"a", b"b"]
    await sender.drain()
    assert sender.acknowledged == 2
    assert sender.left_out == ["line 11 of file: too large", "line 13 of file: too large"]


async def test_memory_is_bounded_by_waiting_for_acknowledgements(producer: HeldProducer) -> None:
    sender = sender_of(producer)
    sending = asyncio.ensure_future(sender.send([b"x" * 1000] * 100_000, Labels(), PLACE))
    for _ in range(2000):
        await asyncio.sleep(0)
    assert not sending.done()
    assert 8_000 < len(producer.taken) < 20_000
    producer.release()
    await sending
    await sender.drain()
    assert sender.acknowledged == 100_000


@pytest.mark.parametrize(
    ("failure", "in_doubt"),
    [
        (DeliveryTimeoutError("late", maybe_committed=True), 2),
        (DeliveryTimeoutError("late", maybe_committed=False), 0),
        (PermissionDeniedError("no right to publish"), 0),
        (AuthenticationError("who are you?"), 0),
    ],
    ids=repr,
)
async def test_after_a_failure_the_account_is_exact(
    producer: HeldProducer, failure: LedgerError, in_doubt: int
) -> None:
    sender = sender_of(producer)
    await sender.send([b"first"], Labels(), PLACE)
    producer.release()
    await sender.drain()
    producer.released = False
    await sender.send([b"second", b"third"], Labels(), PLACE)
    producer.release(failure)
    with pytest.raises(type(failure)):
        await sender.drain()
    assert sender.acknowledged == 1
    assert sender.in_doubt == in_doubt
    with pytest.raises(type(failure)):
        await sender.send([b"fourth"], Labels(), PLACE)
    assert len(producer.taken) == 3, "nothing is sent after a failure"


async def test_an_unknown_topic_is_told_before_anything_is_read(producer: HeldProducer) -> None:
    with pytest.raises(UnknownTopicError):
        await sender_of(producer, "other").open()


async def test_keyed_lines(producer: HeldProducer) -> None:
    sender = sender_of(producer)
    lines = [b"k1:v1", b"no key", b":v2", b"k2:v:3", b"k3:" + b"x" * (LIMIT + 1)]
    await sender.send_keyed(lines, b":", Labels(), PLACE)
    assert producer.taken == [(b"k1", b"v1"), (b"", b"v2"), (b"k2", b"v:3")]
    assert sender.in_doubt == 3
    producer.release()
    await sender.drain()
    assert (sender.acknowledged, sender.acknowledged_bytes, sender.in_doubt) == (3, 7, 0)
    assert sender.left_out == ["line 2 of file: it does not contain ':', so it has no key", "line 5 of file: too large"]


async def test_large_keyed_lines_wait_for_room_before_they_are_handed_over(producer: HeldProducer) -> None:
    sender = sender_of(producer)
    lines = [b"k:" + b"x" * (LIMIT - 10)] * 40
    sending = asyncio.ensure_future(sender.send_keyed(lines, b":", Labels(), PLACE))
    for _ in range(2000):
        await asyncio.sleep(0)
    assert not sending.done()
    assert len(producer.taken) == 15, "another megabyte may not fit into the producer's buffer"
    producer.release()
    await sending
    await sender.drain()
    assert sender.acknowledged == 40


async def test_the_reasons_of_refused_lines_are_bounded(producer: HeldProducer) -> None:
    sender = sender_of(producer)
    await sender.send_each(["it is no message"] * 2_500, Labels(), PLACE)
    assert (sender.left_out_count, len(sender.left_out), sender.in_doubt) == (2_500, 1_000, 0)
