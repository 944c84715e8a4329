"""Fetch: committed messages of one or more queues, as they lie in the log. At the end of a queue a fetch waits.

The ConsumeQueue says which entry contains an offset. The entry says where the next entry begins, and its body is sent
unchanged. The broker decodes no message. A filter by tag reads only ConsumeQueue units. A fetch never returns an entry
that this node has not applied.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ledger.broker.rpc.fetch_wire import FetchAnswer, GivenBatch, GivenQueue
from ledger.errors import (
    LedgerError,
    ReplicaBehindError,
    StorageFailedError,
    out_of_range,
    to_wire,
)
from ledger.v1 import broker_pb2
from store import CommitLog, ConsumeQueue, RangeDamagedError
from store.index.consume_queue import UNIT, Units
from store.log.entry import EntryFlawError

MAX_FETCH_BYTES = 16 << 20
MAX_FETCH_QUEUES = 4096
MAX_WAIT_MS = 60_000
MAX_FETCH_BATCHES = 256
MAX_FETCH_UNITS = 65_536
"""Of all queues of one fetch together, so that it does not hold the loop; the client is told where to go on."""
WINDOW_UNITS = 4096
"""Read at once where tags are looked for."""
NEXT_UNITS = 64
"""Read at once elsewhere: a batch's first unit and its last are enough, and small batches lie in one window."""


class Readable(Protocol):
    """One queue that can be fetched from, on this node."""

    @property
    def log(self) -> CommitLog: ...
    @property
    def units(self) -> ConsumeQueue: ...
    @property
    def end_offset(self) -> int:
        """What is applied on this node ends before this offset."""

    @property
    def is_at_the_end(self) -> bool:
        """Whether nothing beyond `end_offset` can have been given out elsewhere: only a leader, once it has applied all
        that earlier ones committed, can say so."""

    @property
    def due_in_s(self) -> float | None:
        """When the next message that waits for its time comes before `end_offset`; None: none waits."""


class Queues(Protocol):
    """What the broker knows of queues and their growth."""

    def readable(self, topic_id: int, queue: int) -> Readable:
        """Raises UnknownTopicError, UnknownQueueError (or ReplicaBehindError where this node may just not know yet)."""

    def waiter(self, queues: Iterable[tuple[int, int]]) -> asyncio.Future[None]:
        """Done when something is applied to one of these queues, or when it is cancelled."""


async def fetch(queues: Queues, request: broker_pb2.FetchRequest) -> FetchAnswer:
    """Answers at once where there is anything to say, otherwise as soon as something arrives, at the latest after
    `max_wait_ms` (bounded by a minute)."""
    wanted = request.queues[:MAX_FETCH_QUEUES]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(request.max_wait_ms, MAX_WAIT_MS) / 1000
    while True:
        waiter = queues.waiter((each.topic_id, each.queue) for each in wanted)
        try:
            collected = collect(queues, wanted, request.max_bytes)
            answer = collected.answer
            if any(has_news(asked, given) for asked, given in zip(wanted, answer.queues, strict=True)):
                return answer
            if (left := deadline - loop.time()) <= 0:
                return answer
            left = min(left, collected.due_in_s)
            del collected, answer  # there may be thousands of queues in it, and thousands who wait
            await asyncio.wait((waiter,), timeout=left)
        finally:
            waiter.cancel()


def has_news(asked: broker_pb2.QueueFetch, given: GivenQueue) -> bool:
    return bool(given.batches) or given.error is not None or given.next_offset != asked.offset


@dataclass(slots=True)
class Collected:
    answer: FetchAnswer
    due_in_s: float = math.inf
    """When the next message of any of the queues that waits for its time is there."""


def collect(queues: Queues, wanted: Iterable[broker_pb2.QueueFetch], max_bytes: int) -> Collected:
    """What is there now. The budget is shared among the queues in the order asked; the first batch always fits."""
    collected = Collected(FetchAnswer())
    budget = Budget(min(max_bytes, MAX_FETCH_BYTES))
    for each in wanted:
        given = GivenQueue(each.topic_id, each.queue, each.offset)
        collected.answer.queues.append(given)
        try:
            queue = queues.readable(each.topic_id, each.queue)
            if queue.due_in_s is not None:
                collected.due_in_s = min(collected.due_in_s, queue.due_in_s)
            read_queue(queue, each, given, budget)
        except LedgerError as error:
            given.error = to_wire(error)
    return collected


@dataclass(slots=True)
class Budget:
    """What one answer may still cost: bytes that it carries, batches, and units that are looked at."""

    bytes_left: int
    batches_left: int = MAX_FETCH_BATCHES
    units_left: int = MAX_FETCH_UNITS

    def allows(self, size: int) -> bool:
        first = self.batches_left == MAX_FETCH_BATCHES
        return first or (self.batches_left > 0 and size <= self.bytes_left)

    @property
    def is_spent(self) -> bool:
        """Whether no batch fits any more, whatever its size."""
        return self.units_left <= 0 or not self.allows(1)

    def spend(self, size: int) -> None:
        self.bytes_left -= size
        self.batches_left -= 1


def read_queue(queue: Readable, asked: broker_pb2.QueueFetch, given: GivenQueue, budget: Budget) -> None:
    """Adds the batches from the asked offset on, as far as the budget goes."""
    given.first_offset, given.end_offset = queue.units.first_offset, queue.end_offset
    check_offset(queue, asked)
    places = Places(queue.units, budget)
    if asked.tag_hashes:
        read_tagged(queue, places, np.fromiter(asked.tag_hashes, np.int64), given, budget)
    else:
        read_all(queue, places, given, budget)


class Places:
    """Where the entries of messages lie, as the ConsumeQueue says; read window by window, within the budget."""

    def __init__(self, units: ConsumeQueue, budget: Budget) -> None:
        self._units = units
        self._budget = budget
        self._first = 0
        self._window = np.empty(0, UNIT)

    def read(self, offset: int, count: int) -> Units:
        """A window of up to so many units, which is kept until the next one."""
        self._first, self._window = offset, self._units.read(offset, count)
        self._budget.units_left -= len(self._window)
        return self._window

    def of(self, offset: int) -> tuple[int, int]:
        """(position, size). Raises EntryFlawError beyond the end."""
        if not 0 <= offset - self._first < len(self._window) and not len(self.read(offset, NEXT_UNITS)):
            raise EntryFlawError(f"the queue's index ends before offset {offset}")
        position, size, _ = self._window[offset - self._first].item()
        return position, size


def read_all(queue: Readable, places: Places, given: GivenQueue, budget: Budget) -> None:
    """Batch after batch."""
    while given.next_offset < queue.end_offset and not budget.is_spent:
        if not add_batch(queue.log, places, given.next_offset, given, budget):
            return


def read_tagged(
    queue: Readable, places: Places, tags: npt.NDArray[np.int64], given: GivenQueue, budget: Budget
) -> None:
    """Only batches that have one of these tags, window by window of the ConsumeQueue."""
    while (offset := given.next_offset) < queue.end_offset and budget.units_left > 0:
        window = places.read(offset, min(WINDOW_UNITS, queue.end_offset - offset))
        for at in tagged_entries(window, tags):
            if not add_batch(queue.log, places, offset + at, given, budget):
                given.next_offset = max(given.next_offset, offset + at)
                return
        given.next_offset = max(given.next_offset, offset + len(window))


def tagged_entries(window: Units, tags: npt.NDArray[np.int64]) -> list[int]:
    """For each entry that has messages with one of these tags, the place of the first one in the window. Reads units
    only, each once."""
    wanted = np.flatnonzero(np.isin(window["tag_hash"], tags))
    positions = window["position"][wanted]
    first = np.flatnonzero(np.diff(positions, prepend=-1))
    places: list[int] = wanted[first].tolist()
    return places


def add_batch(log: CommitLog, places: Places, offset: int, given: GivenQueue, budget: Budget) -> bool:
    """The batch that holds that offset; False where the budget ends before it, or where it cannot be read and there
    are others to give. Raises StorageFailedError where there are none."""
    try:
        position, size = places.of(offset)
        if not budget.allows(size):
            return False
        header, body = log.reading.entry_at(position, size)
        end = header.base_offset + header.count
        # No CRC is checked here: only where the index agrees is it believed where the entry begins and ends.
        if not header.base_offset <= offset < end or places.of(end - 1)[0] != position:
            raise EntryFlawError(f"the queue's index and its entry at position {position} contradict each other")
    except (RangeDamagedError, EntryFlawError) as damage:
        if given.batches:
            return False  # what comes before is not withheld
        where = f"offset {offset} of queue {given.queue}"
        raise StorageFailedError(f"{where} cannot be read on this node: {damage}") from damage
    given.batches.append(GivenBatch(header.base_offset, header.append_time_ms, header.term, body))
    given.next_offset = end
    budget.spend(size)
    return True


def check_offset(queue: Readable, asked: broker_pb2.QueueFetch) -> None:
    """Raises with the valid range where the offset lies outside of it. Beyond what is due, where others have been given
    more by another clock, there is nothing yet: an error would hold up all queues of the fetch."""
    first, end = queue.units.first_offset, queue.end_offset
    if asked.offset < first:
        sentence = f"offset {asked.offset} of queue {asked.queue} is no longer available"
        raise out_of_range(sentence, asked.offset, first, end)
    if queue.due_in_s is not None and end < asked.offset <= queue.units.end_offset:
        return
    if asked.offset > end and not queue.is_at_the_end:
        raise ReplicaBehindError(
            f"offset {asked.offset} of queue {asked.queue} has not come to this node yet, it has {end}: try again"
        )
    if asked.offset > end:
        sentence = f"offset {asked.offset} lies beyond the end of queue {asked.queue}"
        raise out_of_range(sentence, asked.offset, first, end)
