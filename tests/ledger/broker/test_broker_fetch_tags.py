"""Tests fetches by tag of clients that accept cut batches: which messages and how many bytes they get."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.batch import Batch, Codec, encode
from ledger.batch.header import CUT
from ledger.broker.fetch.fetch import MAX_FETCH_CUT_STEPS, collect
from ledger.broker.fetch.fetch_result import FetchedQueue, QueueFetch
from ledger.broker.fetch.tag_filter import MAX_CUT_TAGS, MIN_SAVED_BYTES
from ledger.client.consumer.cursor import Cursor
from ledger.client.records import Message
from ledger.errors import CorruptBatchError
from ledger.hashing import tag_hash
from tests.ledger.broker.test_broker_fetch import OneQueue

RARE = tag_hash("rare")


def stored(tags: Sequence[str | None], size: int = 500, codec: Codec = Codec.NONE, **columns: Any) -> bytes:
    """Return a batch whose messages do not compress, and cannot be confused."""
    chosen = random.Random(len(tags))
    return encode(
        [chosen.randbytes(size) for _ in tags],
        tags=tags,
        topic_id=1,
        queue=0,
        producer_id=1,
        epoch=0,
        first_sequence=0,
        base_timestamp_ms=0,
        codec=codec,
        **columns,
    )


def add(queue: OneQueue, tags: Sequence[str | None], body: bytes | None = None) -> bytes:
    """Append the batch to the queue, and return its bytes."""
    body = stored(tags) if body is None else body
    queue.add(body, [0 if tag is None else tag_hash(tag) for tag in tags])
    return body


def fetched(queue: OneQueue, offset: int = 0, *, tags: tuple[str, ...] = ("rare",), **how: Any) -> FetchedQueue:
    asked = QueueFetch(1, 0, offset, tuple(map(tag_hash, tags)), how.pop("accepts_cuts", True))
    return collect(queue, [asked], how.pop("max_bytes", 1 << 20)).result.queues[0]


def offsets(given: FetchedQueue) -> list[int]:
    return [offset for batch in given.batches for offset in Batch(batch.body).offsets_from(batch.base_offset).tolist()]


@pytest.fixture
def queue() -> OneQueue:
    return OneQueue.empty()


@pytest.mark.parametrize("codec", list(Codec))
def test_twenty_rare_messages_cost_about_their_own_bytes(queue: OneQueue, codec: Codec) -> None:
    """Without cuts, the twenty messages cost all 2,000, because every batch has one."""
    for _ in range(20):
        tags: list[str | None] = ["common"] * 100
        tags[7] = "rare"
        add(queue, tags, stored(tags, codec=codec))
    whole, given = fetched(queue, accepts_cuts=False), fetched(queue)
    read = 0
    while given.batches:
        assert offsets(given) == [100 * number + 7 for number in range(read, read + len(given.batches))]
        assert sum(len(batch.body) for batch in given.batches) < len(given.batches) * 700
        read += len(given.batches)
        given = fetched(queue, given.next_offset)
    assert (read, given.next_offset, len(whole.batches)) == (20, 2000, 20)
    assert sum(len(batch.body) for batch in whole.batches) > 1_000_000


def test_a_client_that_does_not_accept_cuts_gets_the_stored_bytes(queue: OneQueue) -> None:
    body = add(queue, ["rare", *["common"] * 99])
    assert [bytes(batch.body) for batch in fetched(queue, accepts_cuts=False).batches] == [body]
    assert [bytes(batch.body) for batch in fetched(queue, tags=()).batches] == [body]


def test_for_very_many_tags_batches_are_sent_whole(queue: OneQueue) -> None:
    """Otherwise one request could make the node search each of many batches for millions of tags."""
    body = add(queue, ["rare", *["common"] * 99])
    others = tuple(map(str, range(MAX_CUT_TAGS)))
    assert [batch.messages for batch in fetched(queue, tags=("rare", *others[1:])).batches] == [1]
    assert [bytes(batch.body) for batch in fetched(queue, tags=("rare", *others)).batches] == [body]


def test_a_batch_is_sent_whole_if_a_cut_would_save_little(queue: OneQueue) -> None:
    bodies = [
        add(queue, ["rare"] * 100),
        add(queue, ["rare"] * 80 + ["common"] * 20),
        add(queue, ["rare", "common"], stored(["rare", "common"], size=MIN_SAVED_BYTES // 2)),
    ]
    given = fetched(queue)
    assert [bytes(batch.body) for batch in given.batches] == bodies
    assert [(batch.messages, batch.saved_bytes) for batch in given.batches] == [(100, 0), (100, 0), (2, 0)]


def test_few_large_messages_among_many_wanted_ones_are_left_out(queue: OneQueue) -> None:
    """The bytes decide and not the number of messages."""
    body = encode(
        [b"wanted"] * 90 + [bytes(50_000)],
        tags=["rare"] * 90 + ["common"],
        topic_id=1,
        queue=0,
        producer_id=1,
        epoch=0,
        first_sequence=0,
        base_timestamp_ms=0,
    )
    add(queue, ["rare"] * 90 + ["common"], body)
    (batch,) = fetched(queue).batches
    assert (len(batch.body) < 5_000, batch.messages, batch.saved_bytes) == (True, 90, len(body) - len(batch.body))


def test_messages_before_the_asked_offset_are_left_out(queue: OneQueue) -> None:
    add(queue, [*["rare", "common"] * 50, *["common"] * 100])
    given = fetched(queue, 97)
    assert (offsets(given), given.next_offset) == ([98], 200)
    assert fetched(queue, 99).batches == []


def test_the_bytes_of_cuts_count_and_not_those_of_stored_batches(queue: OneQueue) -> None:
    for _ in range(3):
        add(queue, ["rare", *["common"] * 99])
    assert offsets(fetched(queue, max_bytes=2_500)) == [0, 100, 200]
    assert offsets(fetched(queue, max_bytes=700)) == [0]
    assert fetched(queue, max_bytes=700).next_offset == 100
    assert offsets(fetched(queue, max_bytes=1)) == [0]


def test_the_steps_for_cuts_are_bounded_and_counted(queue: OneQueue) -> None:
    for _ in range(100):
        add(queue, ["rare", *["common"] * 99])
    asked = QueueFetch(1, 0, 0, (RARE,), True)
    collected = collect(queue, [asked], 1 << 20)
    (given,) = collected.result.queues
    assert 5 < len(given.batches) < 50
    assert given.next_offset == 100 * len(given.batches)
    assert MAX_FETCH_CUT_STEPS / 2 < collected.steps <= MAX_FETCH_CUT_STEPS + 1


def test_one_batch_is_cut_however_large_it_is(queue: OneQueue) -> None:
    for _ in range(2):
        tags: list[str | None] = ["rare", *["common"] * 50]
        add(queue, tags, stored(tags, size=100_000))
    given = fetched(queue)
    assert (offsets(given), given.next_offset) == ([0], 51)
    assert len(given.batches[0].body) < 101_000


@pytest.mark.parametrize("codec", list(Codec))
def test_a_cut_does_not_hide_damage(queue: OneQueue, codec: Codec) -> None:
    """A damaged batch comes as it is, so that the consumer's check finds the damage."""
    tags: list[str | None] = ["rare", *["common"] * 99]
    body = stored(tags, codec=codec)
    for place in (5, 20, 3_000, len(body) - 1):
        damaged = bytearray(body)
        damaged[place] ^= 1
        queue.add(bytes(damaged), [RARE, *[0] * 99])
    for number in range(4):
        (batch,) = fetched(queue, 100 * number, max_bytes=1).batches
        here = Cursor("orders", 1, 0, offset=100 * number, tags={"rare"}, check_crcs=True)
        here.fetched(batch.base_offset, batch.term, bytes(batch.body))
        here.passed(100 * number + 100)
        assert here.take(100) == []
        assert isinstance(here.error, CorruptBatchError)


def test_a_batch_whose_codec_is_not_installed_is_sent_whole(queue: OneQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    tags: list[str | None] = ["rare", *["common"] * 99]
    body = encode(
        [b"compressible"] * 100, tags=tags, codec=Codec.ZSTD, topic_id=1, queue=0, producer_id=1, epoch=0,
        first_sequence=0, base_timestamp_ms=0, headers=[[("h", random.Random(n).randbytes(50))] for n in range(100)],
    )  # fmt: skip
    add(queue, tags, body)
    assert fetched(queue).batches[0].saved_bytes > 0
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    assert bytes(fetched(queue).batches[0].body) == body


TAGS = st.lists(st.sampled_from(["rare", "common", None]), min_size=1, max_size=40)


@settings(max_examples=50)
@given(st.lists(TAGS, min_size=1, max_size=8), st.sampled_from(Codec), st.integers(1, 20_000), st.data())
def test_a_consumer_gets_each_wanted_message_once_in_order_at_its_offset(
    batches: list[list[str | None]], codec: Codec, max_bytes: int, data: st.DataObject
) -> None:
    queue, values = OneQueue.empty(), list[tuple[bytes, str | None]]()
    for number, tags in enumerate(batches):
        body = stored(tags, size=100 + 200 * (number % 2), codec=codec)
        values += zip(Batch(body).values(), tags, strict=True)
        add(queue, tags, body)
    start = data.draw(st.integers(0, len(values)))
    wanted = [(offset, value) for offset, (value, tag) in enumerate(values) if tag == "rare" and offset >= start]
    here = Cursor("orders", 1, 0, offset=start, tags={"rare"}, check_crcs=True)
    taken: list[Message] = []
    while here.fetch_offset < len(values):
        given = fetched(queue, here.fetch_offset, max_bytes=max_bytes)
        for batch in given.batches:
            here.fetched(batch.base_offset, batch.term, bytes(batch.body))
        here.passed(given.next_offset)
        taken += here.take(data.draw(st.integers(1, 100)))
    taken += here.take(len(values))
    assert [(message.offset, message.value) for message in taken] == wanted
    assert here.position == len(values)


def test_a_cut_says_that_it_is_one(queue: OneQueue) -> None:
    add(queue, ["rare", *["common"] * 99])
    (batch,) = fetched(queue).batches
    cut_batch = Batch(batch.body)
    assert cut_batch.header.columns & CUT
    assert cut_batch.places is not None
    assert np.array_equal(cut_batch.places, [0])
