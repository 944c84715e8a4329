"""Messages with a value, and perhaps a key, that a program sends in one turn of the event loop: they join the batch of
an earlier message, over real gRPC with a fake node."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest

import ledgermq
from ledger.batch import Batch
from ledger.client.producer.plain_messages import PlainMessages
from ledger.client.producer.producer_batch import Receipt
from ledger.errors import BufferFullError, ClosedError, InvalidArgumentError, MessageTooLargeError
from ledger.hashing import queue_of
from tests.ledger.client.fake_broker import MAX_MESSAGE_BYTES, FakeCluster

pytestmark = pytest.mark.real

# Messages of this size do not go into batches that producers share, if a batch has at most BATCH_BYTES.
SIZE, BATCH_BYTES = 300, 4_000


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The values that joined the batch of an earlier message."""
    found, join = list[bytes](), PlainMessages.join

    def noted(plain: PlainMessages, topic: str, value: object, key: object, receipt: Receipt) -> bool:
        joins = join(plain, topic, value, key, receipt)
        if joins:
            assert isinstance(value, bytes)
            found.append(value)
        return joins

    monkeypatch.setattr(PlainMessages, "join", noted)
    return found


def producer(cluster: FakeCluster, **settings: Any) -> ledgermq.AsyncProducer:
    return ledgermq.AsyncProducer(list(cluster.addresses.values()), **{"batch_bytes": BATCH_BYTES, **settings})


def value_of(number: int) -> bytes:
    return b"%0*d" % (SIZE, number)


def keys_and_values(cluster: FakeCluster, topic: str, queue: int) -> list[tuple[bytes | None, bytes]]:
    batches = [Batch(stored.body) for stored in cluster.queues[cluster.topics[topic].topic_id, queue]]
    return [pair for batch in batches for pair in zip(batch.keys(), batch.values(), strict=True)]


def stored_values(cluster: FakeCluster) -> list[bytes]:
    return cluster.values("t", 0)


async def test_they_join_one_batch_after_the_other_in_their_order(cluster: FakeCluster, joined: list[bytes]) -> None:
    values = [value_of(number) for number in range(100)]
    async with producer(cluster) as one:
        await one.send("t", value_of(0))
        found = await asyncio.gather(*(one.send("t", value) for value in values))
    assert [metadata.offset for metadata in found] == list(range(1, 101))
    assert stored_values(cluster) == [value_of(0), *values]
    batches = [Batch(stored.body) for stored in cluster.queues[cluster.topics["t"].topic_id, 0]]
    assert all(sum(map(len, batch.values())) <= BATCH_BYTES for batch in batches)
    assert len(joined) == 100 - (len(batches) - 1), "the first message of each batch is placed"


async def test_messages_with_more_than_a_value_keep_their_places_among_them(cluster: FakeCluster) -> None:
    values = [bytes(9_000), *(value_of(number) for number in range(1, 9))]  # the first one is large
    async with producer(cluster, batch_bytes=1 << 17) as one:
        await one.send("t", b"")
        more: list[dict[str, Any]] = [{}, {}, {"key": "k"}, {}, {"tag": "x"}, {}, {"headers": {"h": b"1"}}, {}, {}]
        await asyncio.gather(*(one.send("t", value, **extra) for value, extra in zip(values, more, strict=True)))
    assert stored_values(cluster)[1:] == values
    batch = Batch(cluster.queues[cluster.topics["t"].topic_id, 0][-1].body)
    assert batch.keys() == [None, None, b"k", None, None, None, None, None, None]
    assert batch.tags() == [None, None, None, None, "x", None, None, None, None]


async def test_keys_choose_the_queue_and_keep_their_order(cluster: FakeCluster, joined: list[bytes]) -> None:
    sent = [(f"key {number % 7}" if number % 4 else None, value_of(number)) for number in range(200)]
    async with producer(cluster, batch_bytes=1 << 17) as one:
        await one.send("wide", b"")
        first = one.send_nowait("wide", bytes(9_000), tag="its batch has tags, so no plain message joins it")
        found = await asyncio.gather(*(one.send("wide", value, key=key) for key, value in sent))
        await first
    assert len(joined) > 100
    for (key, value), metadata in zip(sent, found, strict=True):
        assert cluster.values("wide", metadata.queue)[metadata.offset] == value
        assert key is None or metadata.queue == queue_of(key.encode(), 3)
    assert [stored for queue in range(3) for stored in keys_and_values(cluster, "wide", queue) if stored[0]] == [
        (key.encode(), value) for queue in range(3) for key, value in sent if key and queue_of(key.encode(), 3) == queue
    ]


async def test_those_of_a_synchronous_producer_join_too(cluster: FakeCluster, joined: list[bytes]) -> None:
    sent = [(f"key {number % 7}" if number % 2 else None, value_of(number)) for number in range(500)]

    def send_all() -> list[ledgermq.RecordMetadata]:
        with ledgermq.Producer(list(cluster.addresses.values()), batch_bytes=1 << 17) as one:
            one.send("t", b"")
            futures = [one.send_nowait("t", value, key=key) for key, value in sent]
            return [future.result(30) for future in futures]

    found = await asyncio.to_thread(send_all)
    assert [cluster.values("t", 0)[metadata.offset] for metadata in found] == [value for _, value in sent]
    assert joined


@pytest.mark.parametrize("key", ["\ud800", 5])
async def test_a_wrong_key_is_refused(cluster: FakeCluster, key: Any) -> None:
    async with producer(cluster, batch_bytes=1 << 17) as one:
        await one.send("t", b"")
        first = one.send_nowait("t", bytes(9_000), key="k")
        with pytest.raises(InvalidArgumentError):
            one.send_nowait("t", b"x", key=key)
        await asyncio.gather(first, one.send("t", b"last", key="schl\u00fcssel"))
    assert keys_and_values(cluster, "t", 0)[-1] == ("schl\u00fcssel".encode(), b"last")


@pytest.mark.parametrize("seed", range(5))
async def test_every_message_is_where_its_result_says(cluster: FakeCluster, joined: list[bytes], seed: int) -> None:
    random, sends = Random(seed), list[tuple[bytes, asyncio.Future[ledgermq.RecordMetadata]]]()
    async with producer(cluster, linger_ms=random.choice((0, 5)), rng=random) as one:
        for number in range(400):
            value = b"%d:" % number + bytes(random.choice((0, 10, SIZE, 2_000)))
            forms: list[dict[str, Any]] = [
                {"key": "k"},
                {"key": value[:4]},
                {"queue": 0},
                {"tag": "x"},
                {"message_id": b"%d" % number},
            ]
            extra = random.choice([{}, {}, {}, {}, *forms])
            sends.append((value, one.send_nowait(random.choice(("t", "t", "wide")), value, **extra)))
            if random.random() < 0.1:
                await asyncio.sleep(random.choice((0, 0.005)))
        for value, future in sends:
            metadata = await future
            assert cluster.values(metadata.topic, metadata.queue)[metadata.offset] == value
    assert joined


async def test_they_take_room_in_the_buffer_and_give_it_back(cluster: FakeCluster, joined: list[bytes]) -> None:
    async with producer(cluster, buffer_bytes=10 * (SIZE + 16)) as one:
        await one.send("t", value_of(0))
        futures = [one.send_nowait("t", value_of(number)) for number in range(10)]
        with pytest.raises(BufferFullError):
            one.send_nowait("t", value_of(10))
        await asyncio.gather(one.send("t", value_of(11)), *futures)  # it waits for room
        assert one._buffer.used == 0
    assert len(joined) == 9
    assert stored_values(cluster)[-1] == value_of(11)


async def test_one_that_is_too_large_or_of_another_type_is_refused(cluster: FakeCluster) -> None:
    async with producer(cluster, batch_bytes=1 << 20) as one:
        await one.send("t", b"")
        first = one.send_nowait("t", bytes(MAX_MESSAGE_BYTES))
        with pytest.raises(MessageTooLargeError):
            one.send_nowait("t", bytes(MAX_MESSAGE_BYTES + 1))
        with pytest.raises(InvalidArgumentError):
            one.send_nowait("t", 5)  # type: ignore[arg-type]
        buffer = bytearray(b"copied")
        last = one.send_nowait("t", buffer)
        buffer[:] = b"after "
        await asyncio.gather(first, last)
    assert stored_values(cluster) == [b"", bytes(MAX_MESSAGE_BYTES), b"copied"]


async def test_none_joins_when_the_producer_stops(cluster: FakeCluster, joined: list[bytes]) -> None:
    one = producer(cluster)
    await one.start()
    await one.send("t", value_of(0))
    one.send_nowait("t", value_of(1))
    one.send_nowait("t", value_of(2))
    one._client.refuse_calls()  # what stop() does in the turn in which its wait ends
    one._plain.forget()
    with pytest.raises(ClosedError):
        one.send_nowait("t", value_of(3))
    assert joined == [value_of(2)]
    one._client.started = True
    await one.stop()


async def test_none_joins_from_another_event_loop(cluster: FakeCluster) -> None:
    refused: list[BaseException] = []

    async def send(one: ledgermq.AsyncProducer) -> None:
        with pytest.raises(ClosedError) as refusal:
            await one.send("t", value_of(2))
        refused.append(refusal.value)

    async with producer(cluster) as one:
        await one.send("t", value_of(0))
        accepted = one.send_nowait("t", value_of(1))
        thread = Thread(target=lambda: asyncio.run(send(one)))
        thread.start()
        thread.join()
        await accepted
    assert "another event loop" in str(refused[0])
    assert len(stored_values(cluster)) == 2


async def test_a_queue_selector_and_a_history_see_each_message(
    cluster: FakeCluster, joined: list[bytes], tmp_path: Path
) -> None:
    seen: list[bytes] = []

    def selector(message: ledgermq.UnplacedMessage, queues: int) -> None:
        seen.append(message.value)

    values = [value_of(number) for number in range(5)]
    history = tmp_path / "history"
    async with producer(cluster, queue_selector=selector) as one, producer(cluster, history=history) as other:
        await asyncio.gather(*(each.send("t", value) for value in values for each in (one, other)))
    assert seen == values
    assert history.read_bytes().count(b"\n") >= len(values)
    assert joined == []
