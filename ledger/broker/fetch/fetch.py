"""A fetch returns committed batches of one or more queues, with the bytes that the log stores. If no queue of the
fetch has new messages, the fetch waits.

The ConsumeQueue says which entry contains an offset, and the body of that entry is sent unchanged. To find messages
with a tag, the broker reads the units of the ConsumeQueue and not the messages. Only if a client accepts it, the broker
cuts a batch that has other messages too (tag_filter.py). A fetch never returns an entry that this node has not
applied."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ledger.broker.fetch.fetch_result import FetchedBatch, FetchedQueue, FetchResult, QueueFetch, detached
from ledger.broker.fetch.tag_filter import TagFilter, WantedPart
from ledger.broker.turn_budget import TurnBudget
from ledger.errors import BusyError, LedgerError, ReplicaBehindError, StorageFailedError, out_of_range
from store import UNREADABLE, CommitLog, ConsumeQueue
from store.index.consume_queue import UNIT, Units
from store.log.entry import EntryFlawError

MAX_FETCH_BYTES = 16 << 20
MAX_FETCH_QUEUES = 4096
MAX_WAIT_MS = 60_000
MAX_FETCH_BATCHES = 256
# Units of all queues that one fetch reads, so that it does not block the event loop. The result says where the next
# fetch continues.
MAX_FETCH_UNITS = 65_536
# Steps of one fetch that cuts batches. One batch is cut even if it takes more.
MAX_FETCH_CUT_STEPS = 256
# Queues of which one fetch reads batches. A fetch of more queues returns the others without batches, as if the budget
# of bytes were spent.
MAX_FETCH_READS = 256
# Queues that a fetch looks at before other requests get their turn.
QUEUES_AT_ONCE = 64
# Steps of all fetches in one turn of the event loop. A step takes about 10 us: one queue, or `STEP_BYTES` bytes, or
# `STEP_UNITS` units.
MAX_TURN_STEPS = 512
STEP_BYTES = 64 << 10
STEP_UNITS = 1024
# Units that are read at a time when a fetch filters by tag.
WINDOW_UNITS = 4096
# Units that are read at a time otherwise. Only the first and the last unit of a batch are needed, and several small
# batches lie in one window.
NEXT_UNITS = 64


class ReadableQueue(Protocol):
    """One queue on this node that a fetch can read."""

    @property
    def log(self) -> CommitLog: ...
    @property
    def units(self) -> ConsumeQueue: ...
    @property
    def end_offset(self) -> int:
        """The offset after the last message that this node has applied and whose delay, if any, has passed."""

    @property
    def is_at_the_end(self) -> bool:
        """True if no other node can have returned a message at or after `end_offset`. The value can be True only on
        a leader that has applied its no-op."""

    @property
    def due_in_s(self) -> float | None:
        """The seconds until the next delayed message of the queue is due, or None if no message of the queue is
        still delayed."""


class ReadableQueues(Protocol):
    """The queues that a fetch can read on this node."""

    def readable(self, topic_id: int, queue: int) -> ReadableQueue:
        """Return the queue. Raises UnknownTopicError or UnknownQueueError. If the queue can exist although this
        node does not know it yet, raises ReplicaBehindError."""

    def waiter(self, queues: Iterable[tuple[int, int]]) -> asyncio.Future[None]:
        """Return a future that ends when an entry of one of `queues` is applied. The caller cancels the future when
        it is no longer needed. Raises BusyError if too many fetches wait."""


async def fetch(
    queues: ReadableQueues, wanted: Sequence[QueueFetch], turns: TurnBudget, *, max_bytes: int, max_wait_ms: int
) -> FetchResult:
    """Return the messages of the requested queues. If a queue of the request has messages or an error, return at
    once. If no queue has messages or an error, wait until a message arrives, at most `max_wait_ms` and at most a
    minute. Queues after the first MAX_FETCH_QUEUES are ignored. All fetches of a node share the budget
    `turns`, so a fetch of many queues takes several turns of the event loop."""
    wanted = wanted[:MAX_FETCH_QUEUES]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(max_wait_ms, MAX_WAIT_MS) / 1000
    queued_s = waited_s = 0.0
    while True:
        queued_s += await turns.spend(waiting_steps(wanted))
        waiter: asyncio.Future[None] | BusyError
        try:
            waiter = queues.waiter((each.topic_id, each.queue) for each in wanted)
        except BusyError as error:
            waiter = error  # the queues may have messages all the same
        try:
            collected = await collect_in_turns(queues, wanted, turns, max_bytes)
            queued_s += collected.queued_s
            result = collected.result
            result.queued_s, result.waited_s = queued_s, waited_s
            if any(has_news(asked, given) for asked, given in zip(wanted, result.queues, strict=True)):
                return result
            if isinstance(waiter, BusyError):
                raise waiter
            if (left := deadline - loop.time()) <= 0:
                return result
            left = min(left, collected.due_in_s)
            del collected, result  # thousands of fetches may wait, each for thousands of queues
            waits_from_s = loop.time()
            await asyncio.wait((waiter,), timeout=left)
            waited_s += loop.time() - waits_from_s
        finally:
            if not isinstance(waiter, BusyError):
                waiter.cancel()


def waiting_steps(wanted: Sequence[QueueFetch]) -> int:
    """Return the steps that it takes to wait for these queues, and to wait no longer."""
    return len(wanted) // 8


def has_news(asked: QueueFetch, given: FetchedQueue) -> bool:
    """Return True if a queue has messages, an error or a new offset, so that the client receives the result at
    once."""
    return bool(given.batches) or given.error is not None or given.next_offset != asked.offset


@dataclass(slots=True)
class Collected:
    """The messages that the queues of a fetch have now, and the time until their next delayed message is due."""

    result: FetchResult
    # Seconds until the next delayed message of any of the queues is due.
    due_in_s: float = math.inf
    # What reading the batches cost, in steps of a turn.
    steps: int = 0
    # How long the fetch waited for its turns, in seconds.
    queued_s: float = 0.0


async def collect_in_turns(
    queues: ReadableQueues, wanted: Sequence[QueueFetch], turns: TurnBudget, max_bytes: int
) -> Collected:
    """Return what `collect` returns, within the budget of the turns of the event loop.

    Views of the log must not outlive a turn. So a fetch of many queues first looks, turn by turn, which queues have
    messages, and then reads some of these queues in one turn."""
    if len(wanted) <= QUEUES_AT_ONCE:
        queued_s = await turns.spend(len(wanted))
        collected = collect(queues, wanted, max_bytes)
        collected.queued_s = queued_s
        turns.charge(collected.steps)
        return collected
    collected = Collected(FetchResult())
    ready: list[int] = []
    for start in range(0, len(wanted), QUEUES_AT_ONCE):
        some = wanted[start : start + QUEUES_AT_ONCE]
        collected.queued_s += await turns.spend(len(some))
        ready += (start + at for at in look_at(queues, some, collected))
    # The response is encoded in the turn in which the batches are read.
    collected.queued_s += await turns.spend(len(wanted) // 4)
    ready = ready[:MAX_FETCH_READS]
    read = collect(queues, [wanted[at] for at in ready], max_bytes)
    turns.charge(read.steps)
    for at, given in zip(ready, read.result.queues, strict=True):
        collected.result.queues[at] = given
    return collected


def look_at(queues: ReadableQueues, wanted: Iterable[QueueFetch], collected: Collected) -> list[int]:
    """Add these queues to the result, without their batches. Return the places in `wanted` of the queues that have
    messages."""
    ready = []
    for at, each in enumerate(wanted):
        given = FetchedQueue(each.topic_id, each.queue, each.offset)
        collected.result.queues.append(given)
        try:
            queue = open_queue(queues, each, given, collected)
        except LedgerError as error:
            given.error = detached(error)
        else:
            if each.offset < queue.end_offset:
                ready.append(at)
    return ready


def collect(queues: ReadableQueues, wanted: Iterable[QueueFetch], max_bytes: int) -> Collected:
    """Return the messages that the requested queues have now, without waiting. All queues share one budget, which
    the earlier queues of the request use first. The first batch is returned even if it is larger than the budget."""
    collected = Collected(FetchResult())
    most_bytes = min(max_bytes, MAX_FETCH_BYTES)
    budget = FetchBudget(most_bytes)
    for each in wanted:
        given = FetchedQueue(each.topic_id, each.queue, each.offset)
        collected.result.queues.append(given)
        try:
            read_queue(open_queue(queues, each, given, collected), each, given, budget)
        except LedgerError as error:
            given.error = detached(error)
    collected.steps = (
        (most_bytes - budget.bytes_left) // STEP_BYTES
        + (MAX_FETCH_UNITS - budget.units_left) // STEP_UNITS
        + MAX_FETCH_CUT_STEPS
        - budget.cut_steps_left
    )
    return collected


def open_queue(queues: ReadableQueues, asked: QueueFetch, given: FetchedQueue, collected: Collected) -> ReadableQueue:
    """Return the queue, and add its first and end offset to the result. Raises LedgerError, for example if the queue
    does not have the requested offset."""
    queue = queues.readable(asked.topic_id, asked.queue)
    if queue.due_in_s is not None:
        collected.due_in_s = min(collected.due_in_s, queue.due_in_s)
    given.first_offset, given.end_offset = queue.units.first_offset, queue.end_offset
    check_offset(queue, asked)
    return queue


@dataclass(slots=True)
class FetchBudget:
    """The remaining budget of one fetch: the bytes and batches that its result can still have, the ConsumeQueue units
    that it can still read, and the steps that it can still take to cut batches."""

    bytes_left: int
    batches_left: int = MAX_FETCH_BATCHES
    units_left: int = MAX_FETCH_UNITS
    cut_steps_left: int = MAX_FETCH_CUT_STEPS

    def allows(self, size: int) -> bool:
        first = self.batches_left == MAX_FETCH_BATCHES
        return first or (self.batches_left > 0 and size <= self.bytes_left)

    @property
    def is_spent(self) -> bool:
        """True if the budget allows no further batch, not even the smallest batch."""
        return self.units_left <= 0 or not self.allows(1)

    def spend(self, size: int) -> None:
        self.bytes_left -= size
        self.batches_left -= 1

    def spend_cut(self, steps: int) -> bool:
        """Take the steps of a cut from the budget, and return True. Return False if the budget does not allow them."""
        first = self.batches_left == MAX_FETCH_BATCHES
        if not first and steps > self.cut_steps_left:
            return False
        self.cut_steps_left -= steps
        return True


def read_queue(queue: ReadableQueue, asked: QueueFetch, given: FetchedQueue, budget: FetchBudget) -> None:
    """Add the batches from the requested offset on to the result, as far as the budget allows. Raises LedgerError."""
    places = EntryPlaces(queue.units, budget)
    if asked.tag_hashes:
        tags = TagFilter.of(asked.tag_hashes, accepts_cuts=asked.accepts_cuts)
        read_tagged(queue, places, tags, given, budget)
    else:
        read_all(queue, places, given, budget)


class EntryPlaces:
    """Finds the log positions of entries by the ConsumeQueue. `EntryPlaces` reads a range of units at a time,
    called the window, and subtracts the units from the budget."""

    def __init__(self, units: ConsumeQueue, budget: FetchBudget) -> None:
        self._units = units
        self._budget = budget
        self._first = 0
        self._window = np.empty(0, UNIT)

    def read(self, offset: int, count: int) -> Units:
        """Read a window of up to `count` units from this offset on. The method `of` uses this window until the next
        window is read."""
        self._first, self._window = offset, self._units.read(offset, count)
        self._budget.units_left -= len(self._window)
        return self._window

    def of(self, offset: int) -> tuple[int, int]:
        """Return the log position and the size of the entry that contains this offset. Raises EntryFlawError if the
        offset is after the end of the ConsumeQueue."""
        if not 0 <= offset - self._first < len(self._window) and not len(self.read(offset, NEXT_UNITS)):
            raise EntryFlawError(f"the queue's index ends before offset {offset}")
        position, size, _ = self._window[offset - self._first].item()
        return position, size


def read_all(queue: ReadableQueue, places: EntryPlaces, given: FetchedQueue, budget: FetchBudget) -> None:
    """Add all batches from `given.next_offset` on to the result, until the budget is spent."""
    while given.next_offset < queue.end_offset and not budget.is_spent:
        if not add_batch(queue.log, places, given.next_offset, given, budget):
            return


def read_tagged(
    queue: ReadableQueue, places: EntryPlaces, tags: TagFilter, given: FetchedQueue, budget: FetchBudget
) -> None:
    """Add only batches that have a message with one of the tags in `tags`. The function reads the ConsumeQueue
    window by window."""
    while (offset := given.next_offset) < queue.end_offset and budget.units_left > 0:
        window = places.read(offset, min(WINDOW_UNITS, queue.end_offset - offset))
        for at in tags.entries(window):
            if not add_batch(queue.log, places, offset + at, given, budget, tags):
                given.next_offset = max(given.next_offset, offset + at)
                return
        given.next_offset = max(given.next_offset, offset + len(window))


def add_batch(
    log: CommitLog,
    places: EntryPlaces,
    offset: int,
    given: FetchedQueue,
    budget: FetchBudget,
    tags: TagFilter | None = None,
) -> bool:
    """Add the batch that contains this offset to the result, or its messages with `tags`. Returns False if the budget
    does not allow the batch. If the batch cannot be read and the result has earlier batches, returns False. If the
    first batch of the result cannot be read, raises StorageFailedError."""
    cuts = tags is not None and tags.cuts
    try:
        position, size = places.of(offset)
        if not budget.allows(1 if cuts else size):
            return False
        header, body = log.reading.entry_at(position, size)
        end = header.base_offset + header.count
        # No CRC is checked here. So the entry is used only if the index agrees about where it begins and ends.
        if not header.base_offset <= offset < end or places.of(end - 1)[0] != position:
            raise EntryFlawError(f"the queue's index and the entry at position {position} contradict each other")
    except UNREADABLE as damage:
        if given.batches:
            return False  # the earlier batches are returned first
        where = f"offset {offset} of queue {given.queue}"
        raise StorageFailedError(f"{where} cannot be read on this node: {damage}") from damage
    batch = FetchedBatch(header.base_offset, header.append_time_ms, header.term, body, header.count)
    if tags is not None and (part := tags.part_of(body, offset - header.base_offset)) is not None:
        if not budget.spend_cut(part.steps):
            return False
        batch = with_part(batch, part)
    if not budget.allows(size := size - batch.saved_bytes):
        return False
    given.batches.append(batch)
    given.next_offset = end
    budget.spend(size)
    return True


def with_part(batch: FetchedBatch, part: WantedPart) -> FetchedBatch:
    """Return the batch with only the wanted part of its messages, or unchanged if it cannot be cut."""
    if (body := part.cut()) is None:
        return batch
    return batch._replace(body=body, messages=len(part.places), saved_bytes=len(batch.body) - len(body))


def check_offset(queue: ReadableQueue, asked: QueueFetch) -> None:
    """Raise OffsetTooLowError or OffsetBeyondEndError if the offset is outside of the valid range. The error contains
    the first and the end offset of the queue.

    Raise ReplicaBehindError if the offset is after the queue's end on this node but can exist on another node. In a
    retry queue, an offset after the due messages is valid, because another node's clock can be ahead. For an offset
    after the due messages, the fetch returns no messages."""
    first, end = queue.units.first_offset, queue.end_offset
    if asked.offset < first:
        sentence = f"offset {asked.offset} of queue {asked.queue} is no longer available"
        raise out_of_range(sentence, asked.offset, first, end)
    if queue.due_in_s is not None and end < asked.offset <= queue.units.end_offset:
        return
    if asked.offset > end and not queue.is_at_the_end:
        raise ReplicaBehindError(
            f"this node has queue {asked.queue} only up to offset {end}, and offset {asked.offset} may exist: try again"
        )
    if asked.offset > end:
        sentence = f"offset {asked.offset} is after the end of queue {asked.queue}"
        raise out_of_range(sentence, asked.offset, first, end)
