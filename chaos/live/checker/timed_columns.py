"""Turns the operations about messages with delivery times into columns: what was scheduled, cancelled and delivered.

Each message of an operation has one row. A waiting message is known by its target queue and its identity. A message
whose schedule has no answer has no known identity; it is known by its target queue, delivery time and CRC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chaos.live.checker.cells import NONE, OUTCOMES, Growing, Numbers
from ledger.history import Cancel, Delivery, Schedule

NumberOfQueue = Callable[[tuple[str, int]], int]


@dataclass(frozen=True, slots=True)
class ScheduleColumns:
    """Messages with delivery times that were sent, in the order of the history. `time_ms` has delivery times, in ms
    since 1970. `start` and `end` are in ns of the histories' clock."""

    operation: Numbers
    process: Numbers
    # The target queue.
    queue: Numbers
    # NONE unless the outcome is OK.
    shard: Numbers
    identity: Numbers
    outcome: Numbers
    time_ms: Numbers
    crc: Numbers
    # The wall clock of the producer at `start`, in ms since 1970.
    clock_ms: Numbers
    start: Numbers
    end: Numbers


@dataclass(frozen=True, slots=True)
class CancelColumns:
    """Requests to cancel a message, in the order of the history."""

    operation: Numbers
    shard: Numbers
    identity: Numbers
    outcome: Numbers


@dataclass(frozen=True, slots=True)
class DeliveryColumns:
    """Messages that had waited, each time that a consumer received one, in the order of the history."""

    operation: Numbers
    queue: Numbers
    offset: Numbers
    identity: Numbers
    time_ms: Numbers
    # When a leader appended the delivery, by its own word, in ms since 1970.
    appended_ms: Numbers
    crc: Numbers
    # When the consumer had received the message, in ns of the histories' clock.
    end: Numbers


@dataclass(frozen=True, slots=True)
class TimedColumns:
    schedules: ScheduleColumns
    cancels: CancelColumns
    deliveries: DeliveryColumns

    @property
    def clock_offset_ns(self) -> int:
        """The wall clock of the clients, in ns since 1970, minus the histories' clock; 0 if no message was
        scheduled."""
        schedules = self.schedules
        offsets = schedules.clock_ms * 1_000_000 - schedules.start
        return int(np.median(offsets)) if len(offsets) else 0


class TimedReader:
    """Collects the operations about messages with delivery times while a history is read."""

    def __init__(self, queue_of: NumberOfQueue) -> None:
        """`queue_of` returns the number of a queue."""
        self._queue_of = queue_of
        # In the order of the fields.
        self._schedules = Growing(shared=8, own=3)
        self._cancels = Growing(shared=4, own=0)
        self._deliveries = Growing(shared=3, own=5)

    def schedule(self, number: int, one: Schedule) -> None:
        count, queue = len(one.crcs), self._queue_of((one.topic, one.queue))
        shared = (number, one.process, queue, one.shard, OUTCOMES[one.outcome], one.clock_ms, one.start, one.end)
        identities = [NONE] * count if one.identity is None else range(one.identity, one.identity + count)
        self._schedules.add(count, shared, identities, one.times_ms, one.crcs)

    def cancel(self, number: int, one: Cancel) -> None:
        self._cancels.add(1, (number, one.shard, one.identity, OUTCOMES[one.outcome]))

    def delivery(self, number: int, one: Delivery) -> None:
        shared = (number, self._queue_of((one.topic, one.queue)), one.end)
        own = (one.offsets, one.identities, one.times_ms, one.appended_ms, one.crcs)
        self._deliveries.add(len(one.offsets), shared, *own)

    def columns(self) -> TimedColumns:
        *shared, identity, time_ms, crc = self._schedules.columns()
        operation, process, queue, shard, outcome, clock_ms, start, end = shared
        schedules = ScheduleColumns(
            operation, process, queue, shard, identity, outcome, time_ms, crc, clock_ms, start, end
        )
        read, of, over, offset, who, due_ms, appended_ms, sum_ = self._deliveries.columns()
        deliveries = DeliveryColumns(read, of, offset, who, due_ms, appended_ms, sum_, over)
        return TimedColumns(schedules, CancelColumns(*self._cancels.columns()), deliveries)
