"""Tests fetches: which batches a fetch returns within its limits, and how many units of the ConsumeQueue it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pytest

from ledger.broker.fetch.fetch import (
    MAX_FETCH_BATCHES,
    MAX_FETCH_UNITS,
    MAX_TURN_STEPS,
    NEXT_UNITS,
    WINDOW_UNITS,
    collect,
    fetch,
)
from ledger.broker.fetch.fetch_result import FetchResult, QueueFetch
from ledger.broker.rpc.fetch_wire import serialize
from ledger.broker.turn_budget import TurnBudget
from ledger.errors import BusyError
from ledger.v1 import broker_pb2, error_pb2
from store import CommitLog, ConsumeQueue, EntryDraft, EntryKind, LogSettings, MemoryDisk
from store.index.consume_queue import Units

TAG_A, TAG_B = 11, 22


class CountingQueue(ConsumeQueue):
    """A ConsumeQueue that counts in `units_read` how many units were read."""

    units_read = 0

    def read(self, offset: int, max_units: int) -> Units:
        units = super().read(offset, max_units)
        self.units_read += len(units)
        return units


@dataclass
class OneQueue:
    """One queue with a real log and a real ConsumeQueue on a memory disk."""

    log: CommitLog
    units: CountingQueue
    due_in_s: float | None = None
    is_at_the_end: bool = True

    @classmethod
    def empty(cls) -> Self:
        disk = MemoryDisk()
        log = CommitLog.open(disk, Path("/log"), LogSettings(segment_bytes=1 << 24))
        return cls(log, CountingQueue(disk, Path("/queue")))

    @property
    def end_offset(self) -> int:
        return self.units.end_offset

    def add(self, body: bytes, tags: list[int], *, claimed: int | None = None) -> None:
        """Append a batch with one message for each tag. If `claimed` is given, the header of the entry has this wrong
        number of messages.
        """
        count = len(tags) if claimed is None else claimed
        draft = EntryDraft(EntryKind.BATCH, body, base_offset=self.end_offset, count=count)
        (header,) = self.log.append([draft], term=1, commit=0, now_ms=0)
        self.units.put(self.end_offset, header.position, header.size, np.array(tags, np.int64), len(tags))

    def readable(self, topic_id: int, queue: int) -> OneQueue:
        return self

    def waiter(self, queues: Iterable[tuple[int, int]]) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    def fetch(self, offset: int = 0, max_bytes: int = 1 << 20, tags: Iterable[int] = ()) -> broker_pb2.FetchedQueue:
        asked = QueueFetch(topic_id=1, queue=0, offset=offset, tag_hashes=tuple(tags))
        return read_back(collect(self, [asked], max_bytes).result)


def read_back(result: FetchResult) -> broker_pb2.FetchedQueue:
    """Serialize and parse the result, and return its first queue as a client receives it."""
    return broker_pb2.FetchResponse.FromString(serialize(result, 0)).queues[0]


@pytest.fixture
def queue() -> OneQueue:
    return OneQueue.empty()


def bodies(given: broker_pb2.FetchedQueue) -> list[bytes]:
    return [batch.body for batch in given.batches]


def test_batches_come_whole_from_the_one_that_holds_the_offset(queue: OneQueue) -> None:
    queue.add(b"first", [0, 0, 0])
    queue.add(b"second", [0, 0])
    given = queue.fetch(offset=2)
    assert bodies(given) == [b"first", b"second"]
    assert [batch.base_offset for batch in given.batches] == [0, 3]
    assert (given.next_offset, given.end_offset) == (5, 5)


def test_the_first_batch_is_given_however_large_and_then_the_bytes_decide(queue: OneQueue) -> None:
    for _ in range(3):
        queue.add(bytes(1000), [0])
    assert queue.fetch(max_bytes=1).next_offset == 1
    assert queue.fetch(max_bytes=2200).next_offset == 2


def test_only_batches_with_a_tag_are_given_and_the_rest_is_passed_over(queue: OneQueue) -> None:
    queue.add(b"a", [TAG_A, 0])
    queue.add(b"b", [TAG_B, TAG_B])
    queue.add(b"none", [0, 0])
    queue.add(b"both", [TAG_B, TAG_A])
    assert bodies(queue.fetch(tags=[TAG_A])) == [b"a", b"both"]
    assert bodies(queue.fetch(tags=[TAG_A, TAG_B])) == [b"a", b"b", b"both"]
    assert queue.fetch(tags=[99]).next_offset == 8


def test_going_on_where_the_budget_ended_gives_every_match_once(queue: OneQueue) -> None:
    for number in range(50):
        queue.add(b"%d" % number, [TAG_A if number % 3 == 0 else TAG_B] * 2)
    found, offset = [], 0
    while offset < queue.end_offset:
        given = queue.fetch(offset=offset, max_bytes=200, tags=[TAG_A])
        assert given.next_offset > offset
        found += bodies(given)
        offset = given.next_offset
    assert found == [b"%d" % number for number in range(0, 50, 3)]


def test_a_fetch_reads_each_unit_once_and_is_bounded_in_batches_and_units(queue: OneQueue) -> None:
    for _ in range(MAX_FETCH_BATCHES + 10):
        queue.add(b"a", [TAG_A])
    given = queue.fetch(tags=[TAG_A])
    assert len(given.batches) == MAX_FETCH_BATCHES
    assert queue.units.units_read <= WINDOW_UNITS

    queue.add(b"many", [TAG_B] * 60_000)
    queue.add(b"many", [TAG_B] * 60_000)
    queue.units.units_read = 0
    given = queue.fetch(tags=[99])
    assert MAX_FETCH_UNITS <= given.next_offset < queue.end_offset
    assert queue.units.units_read <= MAX_FETCH_UNITS + WINDOW_UNITS


def test_small_batches_and_large_ones_are_given_once_each_in_their_order(queue: OneQueue) -> None:
    """Every batch is returned once and in order. An entry may end within the units of one read, exactly at their end,
    or far after them.
    """
    counts = [1] * 10 + [NEXT_UNITS - 10, NEXT_UNITS, NEXT_UNITS + 1, 1, 1000, 2, 2]
    for number, count in enumerate(counts):
        queue.add(b"%d" % number, [0] * count)
    given = queue.fetch(offset=3)
    assert bodies(given) == [b"%d" % number for number in range(3, len(counts))]
    assert given.next_offset == queue.end_offset


@pytest.mark.parametrize("count", [1, 20, 1000])
def test_without_tags_few_units_of_each_batch_are_read(queue: OneQueue, count: int) -> None:
    for _ in range(NEXT_UNITS):
        queue.add(b"batch", [0] * count)
    assert len(queue.fetch().batches) == NEXT_UNITS
    assert queue.units.units_read <= 2 * min(count, NEXT_UNITS) * NEXT_UNITS


def test_nothing_is_read_for_queues_behind_the_end_of_the_budget(queue: OneQueue) -> None:
    for _ in range(2):
        queue.add(bytes(1000), [0])
    everything = [QueueFetch(topic_id=1, queue=number, offset=0) for number in range(100)]
    result = collect(queue, everything, max_bytes=1000).result
    assert [len(given.batches) for given in result.queues] == [1] + [0] * 99
    assert queue.units.units_read <= 2 * NEXT_UNITS


def test_an_index_that_names_another_entry_is_told_and_not_followed(queue: OneQueue) -> None:
    queue.add(b"first", [0])
    queue.add(b"second", [TAG_A])
    wrong = queue.units.read(0, 1)
    queue.units.put(2, int(wrong["position"][0]), int(wrong["size"][0]), np.array([TAG_A]), 1)
    for tags, found in (((), [b"first", b"second"]), ((TAG_A,), [b"second"])):
        given = queue.fetch(tags=tags)
        assert (bodies(given), given.next_offset, given.HasField("error")) == (found, 2, False)
        error = queue.fetch(offset=2, tags=tags).error
        assert (error.code, "offset 2 of queue 0" in error.message) == (error_pb2.STORAGE_FAILED, True)


@pytest.mark.parametrize("wrong", [0, 2, 5, 1000])
@pytest.mark.parametrize("tags", [(), (TAG_A,)])
def test_a_wrong_count_in_an_entry_passes_over_nothing(queue: OneQueue, wrong: int, tags: tuple[int, ...]) -> None:
    """A fetch does not check the CRC of an entry's header. The fetch compares the message count with the index, and
    reports an error instead of skipping messages.
    """
    for number in range(10):
        queue.add(b"%d" % number, [TAG_A], claimed=wrong if number == 3 else None)
    given = queue.fetch(tags=tags)
    assert (bodies(given), given.next_offset, given.HasField("error")) == ([b"0", b"1", b"2"], 3, False)
    assert queue.fetch(offset=3, tags=tags).error.code == error_pb2.STORAGE_FAILED


def test_an_offset_outside_has_the_valid_range_in_its_error(queue: OneQueue) -> None:
    queue.add(b"one", [0])
    beyond = queue.fetch(offset=2).error
    assert (beyond.code, beyond.first_offset, beyond.end_offset) == (error_pb2.OFFSET_BEYOND_END, 0, 1)
    below = queue.fetch(offset=-1).error
    (kept,) = collect(queue, [QueueFetch(1, 0, -1)], 1).result.queues
    assert kept.error is not None
    assert kept.error.__traceback__ is None, "a traceback would keep views of the log alive"
    assert (below.code, below.first_offset, below.end_offset) == (error_pb2.OFFSET_TOO_LOW, 0, 1)
    queue.is_at_the_end = False
    assert queue.fetch(offset=2).error.code == error_pb2.REPLICA_BEHIND


def test_behind_what_is_due_there_is_nothing_yet() -> None:
    """A consumer may request an offset after the messages that are due, because another node's clock was ahead. Then
    the fetch returns no message and no error.
    """

    class Waiting(OneQueue):
        due = 1

        @property
        def end_offset(self) -> int:
            return self.due

    queue = Waiting.empty()
    for _ in range(3):
        queue.due = queue.units.end_offset
        queue.add(b"one", [0])
    queue.due, queue.due_in_s, queue.is_at_the_end = 1, 3_600.0, False
    for offset in (1, 2, 3):
        given = queue.fetch(offset=offset)
        assert (given.HasField("error"), bodies(given), given.next_offset) == (False, [], offset)
    assert queue.fetch(offset=4).error.code == error_pb2.REPLICA_BEHIND


async def test_at_the_end_it_waits_until_something_arrives() -> None:
    arrivals: list[asyncio.Future[None]] = []

    class Announced(OneQueue):
        def waiter(self, queues: Iterable[tuple[int, int]]) -> asyncio.Future[None]:
            arrivals.append(super().waiter(queues))
            return arrivals[-1]

    queue = Announced.empty()
    asked = [QueueFetch(topic_id=1, queue=0, offset=0)]
    waiting = asyncio.create_task(fetch(queue, asked, TurnBudget(8), max_bytes=1 << 20, max_wait_ms=60_000))
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.add(b"new", [0])
    arrivals[0].set_result(None)
    assert bodies(read_back(await asyncio.wait_for(waiting, 5))) == [b"new"]


async def test_messages_are_given_also_if_too_many_fetches_wait() -> None:
    class Full(OneQueue):
        def waiter(self, queues: Iterable[tuple[int, int]]) -> asyncio.Future[None]:
            raise BusyError("the limit of waiting fetches is reached")

    queue = Full.empty()
    asked = [QueueFetch(topic_id=1, queue=0, offset=0)]
    with pytest.raises(BusyError):
        await fetch(queue, asked, TurnBudget(8), max_bytes=1 << 20, max_wait_ms=60_000)
    queue.add(b"here", [0])
    found = await fetch(queue, asked, TurnBudget(8), max_bytes=1 << 20, max_wait_ms=60_000)
    assert bodies(read_back(found)) == [b"here"]


class ManyQueues:
    """Queues of one log that count how often a fetch looked at a queue. Only the queues in `filled` have messages."""

    def __init__(self, filled: set[int]) -> None:
        self.looks = 0
        self._filled, self._empty = OneQueue.empty(), OneQueue.empty()
        self._filled.add(b"batch", [0])
        self._numbers = filled

    def readable(self, topic_id: int, queue: int) -> OneQueue:
        self.looks += 1
        return self._filled if queue in self._numbers else self._empty

    def waiter(self, queues: Iterable[tuple[int, int]]) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()


async def test_many_fetches_of_many_queues_leave_turns_for_heartbeats() -> None:
    """Before, 150 fetches of 4,000 queues took one turn of several seconds, and the leader lost an election."""
    queues, turns, most = ManyQueues({7, 3999}), TurnBudget(MAX_TURN_STEPS), 0
    asked = [QueueFetch(topic_id=1, queue=number, offset=0) for number in range(4000)]
    fetches = [asyncio.create_task(fetch(queues, asked, turns, max_bytes=1 << 20, max_wait_ms=1000)) for _ in range(20)]
    while not all(each.done() for each in fetches):
        before = queues.looks
        await asyncio.sleep(0)
        most = max(most, queues.looks - before)
    assert most <= 2 * MAX_TURN_STEPS
    for each in fetches:
        given = each.result().queues
        assert [number for number, queue in enumerate(given) if queue.batches] == [7, 3999]
        assert [queue.queue for queue in given] == list(range(4000))


async def test_a_small_fetch_does_not_wait_for_all_of_a_large_one() -> None:
    queues, turns = ManyQueues({1}), TurnBudget(MAX_TURN_STEPS)
    asked = [QueueFetch(topic_id=1, queue=number, offset=0) for number in range(4000)]
    large = [asyncio.create_task(fetch(queues, asked, turns, max_bytes=1, max_wait_ms=0)) for _ in range(20)]
    await asyncio.sleep(0)
    result = await fetch(queues, asked[1:2], turns, max_bytes=1, max_wait_ms=0)
    assert len(result.queues[0].batches) == 1
    assert not any(each.done() for each in large)
    for each in large:
        each.cancel()
    await asyncio.gather(*large, return_exceptions=True)
