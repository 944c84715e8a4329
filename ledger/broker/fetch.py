"""Fetch: committed messages of one or more queues, as they lie in the log; at the end of a queue it waits.

The one idea: the ConsumeQueue says in which entry an offset lies, and the entry's body goes out as it is. Nothing
is decoded here; a filter by tag reads ConsumeQueue units only. What a node has not applied does not exist for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ledger.errors import LedgerError, OffsetBeyondEndError, OffsetTooLowError, ReplicaBehindError, to_wire
from ledger.v1 import broker_pb2
from store import CommitLog, ConsumeQueue

MAX_FETCH_BYTES = 16 << 20
MAX_FETCH_QUEUES = 4096
MAX_WAIT_MS = 60_000
FILTER_UNITS = 65_536
"""How far one fetch looks for a tag; it then tells the client where to go on."""


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
    def leads(self) -> bool:
        """Whether this node leads the queue's group: only then is `end_offset` surely the end."""


class Queues(Protocol):
    """What the broker knows of queues and their growth."""

    def readable(self, topic_id: int, queue: int) -> Readable:
        """Raises UnknownTopicError, UnknownQueueError (or ReplicaBehindError where this node may just not know yet)."""

    def arrival(self, queues: Iterable[tuple[int, int]]) -> asyncio.Future[None]:
        """Done when something is applied to one of these queues, or when it is cancelled."""


async def fetch(queues: Queues, request: broker_pb2.FetchRequest) -> broker_pb2.FetchResponse:
    """Answers at once where there is anything to say, otherwise as soon as something arrives, at the latest after
    `max_wait_ms` (bounded by a minute)."""
    wanted = request.queues[:MAX_FETCH_QUEUES]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(request.max_wait_ms, MAX_WAIT_MS) / 1000
    while True:
        arrival = queues.arrival((each.topic_id, each.queue) for each in wanted)
        try:
            response = collect(queues, wanted, request.max_bytes)
            if any(has_news(asked, given) for asked, given in zip(wanted, response.queues, strict=True)):
                return response
            if (left := deadline - loop.time()) <= 0:
                return response
            await asyncio.wait((arrival,), timeout=left)
        finally:
            arrival.cancel()


def has_news(asked: broker_pb2.QueueFetch, given: broker_pb2.FetchedQueue) -> bool:
    return bool(given.batches) or given.HasField("error") or given.next_offset != asked.offset


def collect(queues: Queues, wanted: Iterable[broker_pb2.QueueFetch], max_bytes: int) -> broker_pb2.FetchResponse:
    """What is there now. The bytes are shared among the queues in the order asked; the first batch always fits."""
    response = broker_pb2.FetchResponse()
    budget = Budget(min(max_bytes, MAX_FETCH_BYTES))
    for each in wanted:
        given = response.queues.add(topic_id=each.topic_id, queue=each.queue, next_offset=each.offset)
        try:
            read_queue(queues.readable(each.topic_id, each.queue), each, given, budget)
        except LedgerError as error:
            given.error.CopyFrom(to_wire(error))
    return response


@dataclass(slots=True)
class Budget:
    """Bytes that one answer may still carry; what is left of it is given until it is overdrawn."""

    left: int
    spent: bool = False

    def allows(self, size: int) -> bool:
        return not self.spent or size <= self.left

    def spend(self, size: int) -> None:
        self.left -= size
        self.spent = True


def read_queue(queue: Readable, asked: broker_pb2.QueueFetch, given: broker_pb2.FetchedQueue, budget: Budget) -> None:
    """Adds the batches from the asked offset on, as far as the budget goes."""
    given.first_offset, given.end_offset = 0, queue.end_offset
    check_offset(queue, asked)
    tags = np.fromiter(asked.tag_hashes, np.int64) if asked.tag_hashes else None
    looked_to = min(queue.end_offset, asked.offset + FILTER_UNITS)
    offset = asked.offset
    while offset < queue.end_offset:
        if tags is not None and (offset := next_match(queue.units, offset, looked_to, tags)) >= looked_to:
            break
        unit = queue.units.read(offset, 1)[0]
        position, size = int(unit["position"]), int(unit["size"])
        if not budget.allows(size):
            break
        header, body = queue.log.entry_at(position, size)
        given.batches.add(
            base_offset=header.base_offset, append_time_ms=header.append_time_ms, term=header.term, body=body
        )
        budget.spend(size)
        offset = header.base_offset + header.count
    given.next_offset = offset


def next_match(units: ConsumeQueue, offset: int, end: int, tags: np.ndarray) -> int:
    """The first offset from `offset` on whose tag is among `tags`; `end` where there is none before it."""
    matches = np.isin(units.read(offset, end - offset)["tag_hash"], tags) if offset < end else np.empty(0, bool)
    return offset + int(matches.argmax()) if matches.any() else end


def check_offset(queue: Readable, asked: broker_pb2.QueueFetch) -> None:
    """Raises with the valid range where the offset lies outside of it."""
    end = queue.end_offset
    if asked.offset < 0:
        raise OffsetTooLowError(
            f"offset {asked.offset} of queue {asked.queue} lies before its first message: valid are 0 to {end}",
            first_offset=0,
            end_offset=end,
        )
    if asked.offset > end and not queue.leads:
        raise ReplicaBehindError(
            f"offset {asked.offset} of queue {asked.queue} has not come to this node yet, it has {end}: try again"
        )
    if asked.offset > end:
        raise OffsetBeyondEndError(
            f"offset {asked.offset} lies beyond the end of queue {asked.queue}: valid are 0 to {end}",
            first_offset=0,
            end_offset=end,
        )
