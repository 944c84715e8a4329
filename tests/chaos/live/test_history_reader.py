"""What a consumer of a chaos run records about messages whose batches the broker made."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import google_crc32c
import numpy as np

from chaos.live.load.consuming import HistoryReader
from ledger.batch import Batch, DecidedColumn, HalfColumn, TimedColumn, Waiting, decided_batch, encode, firing_batch
from ledger.client.consumer.cursor import QueueBatch
from ledger.codec import Codec
from ledger.history import Delivery, HistoryWriter, Poll, Reveal, read_history

TIMES = [1_800_000_000_000, 1_800_000_000_005]


def plain() -> Batch:
    return Batch(
        encode(
            [b"plain"], topic_id=1, queue=0, producer_id=7, epoch=0, first_sequence=0, base_timestamp_ms=0
        )
    )  # fmt: skip


def fired() -> Batch:
    column = TimedColumn(1, 0, np.array(TIMES, np.int64))
    waits = Batch(
        encode(
            [b"a", b"bb"], topic_id=2, queue=0, producer_id=7, epoch=0, first_sequence=0, base_timestamp_ms=0,
            timed=column,
        )
    )  # fmt: skip
    waiting = Waiting([waits], np.zeros(2, np.int64), np.arange(2), np.array([40, 41], np.uint64), column.times_ms)
    return Batch(firing_batch(waiting, topic_id=1, queue=0, first_sequence=5, codec=Codec.NONE))


def decided() -> Batch:
    half = encode(
        [b"c", b"dd"], topic_id=2, queue=0, producer_id=7, epoch=0, first_sequence=0, base_timestamp_ms=0,
        half=HalfColumn(1, 0, 4, "g", 30),
    )  # fmt: skip
    return Batch(decided_batch(bytes(half), DecidedColumn(33, 30, 4), topic_id=1, queue=0, first_sequence=5))


class Consumer:
    """A consumer that returns these batches once."""

    def __init__(self, *batches: QueueBatch) -> None:
        self._batches = list(batches)

    async def getbatches(self, timeout_ms: float) -> list[QueueBatch]:
        return self._batches


async def read(path: Path, first: int, *batches: QueueBatch) -> list[Any]:
    with HistoryWriter(path) as writer:
        reader = HistoryReader(writer, 9, "t", 3, final=True)
        reader.assigned(0, first)
        await reader.poll(cast("Any", SimpleNamespace(getbatches=Consumer(*batches).getbatches)), 10)
    return list(read_history(path))[1:]


async def test_a_poll_and_what_the_batch_says_of_messages_that_had_waited(tmp_path: Path) -> None:
    delivery, poll = await read(tmp_path / "history", 4, QueueBatch(0, 4, plain(), 1), QueueBatch(0, 5, fired(), 123))
    assert isinstance(delivery, Delivery)
    assert isinstance(poll, Poll)
    assert poll.offsets == [4, 5, 6]
    assert poll.producers == [f"{7:016x}", f"{0:016x}", f"{0:016x}"]
    assert (delivery.process, delivery.topic, delivery.queue) == (9, "t", 0)
    assert (delivery.offsets, delivery.identities, delivery.times_ms) == ([5, 6], [40, 41], TIMES)
    assert delivery.appended_ms == [123, 123]
    assert delivery.crcs == [google_crc32c.value(b"a"), google_crc32c.value(b"bb")]
    assert (delivery.start, delivery.end) == (poll.start, poll.end)


async def test_messages_before_the_asked_offset_are_left_out(tmp_path: Path) -> None:
    delivery, poll = await read(tmp_path / "history", 6, QueueBatch(0, 5, fired(), 123))
    assert (delivery.offsets, delivery.identities, poll.offsets) == ([6], [41], [6])


async def test_other_messages_leave_no_line(tmp_path: Path) -> None:
    (only,) = await read(tmp_path / "history", 4, QueueBatch(0, 4, plain(), 1))
    assert isinstance(only, Poll)


async def test_what_the_batch_says_of_messages_of_a_transaction(tmp_path: Path) -> None:
    batches = (QueueBatch(0, 4, plain(), 1), QueueBatch(0, 5, decided(), 123))
    reveal, poll = await read(tmp_path / "history", 4, *batches)
    assert isinstance(reveal, Reveal)
    assert isinstance(poll, Poll)
    assert (reveal.process, reveal.topic, reveal.queue, reveal.offsets) == (9, "t", 0, [5, 6])
    assert (reveal.shards, reveal.numbers, reveal.halves) == ([4, 4], [30, 30], [33, 33])
    assert reveal.crcs == poll.crcs[1:] == [google_crc32c.value(b"c"), google_crc32c.value(b"dd")]
    assert (reveal.start, reveal.end) == (poll.start, poll.end)
    (later, _) = await read(tmp_path / "later", 6, QueueBatch(0, 5, decided(), 123))
    assert (later.offsets, later.halves) == ([6], [33])
