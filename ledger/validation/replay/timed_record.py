"""Records for each waiting message of one replica whether the log delivers, cancels or settles it.

A message that was appended to `%TIMED` waits until a batch delivers it, a command cancels it, or a turn settles it
because its target queue was deleted. The state machine knows only which messages the cursor settles. The record also
knows which messages exist. So it finds a message that the cursor passed without a delivery, and a delivery of a message
that does not wait.

The record takes 13 bytes for each message since the first message that still waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ledger.state.timed_table import TimedCursor
from ledger.validation.spans.waiting_columns import WaitingColumns

_LEAST_ROWS = 1024
Number = TypeVar("Number", bound=np.generic)
# Topic id and number of a queue.
Target = tuple[int, int]


class WaitingFate(IntEnum):
    # A copy of a waiting message. A copy has an offset, but no identity of its own.
    NO_MESSAGE = 0
    WAITS = 1
    DELIVERED = 2
    CANCELLED = 3
    SETTLED = 4


_PHRASES = {
    WaitingFate.NO_MESSAGE: "is a copy",
    WaitingFate.DELIVERED: "was delivered before",
    WaitingFate.CANCELLED: "was cancelled before",
    WaitingFate.SETTLED: "was settled before",
}


class TimedRecord:
    """The waiting messages of one replica, from the identity `first` on. Earlier messages are unknown, and the record
    judges nothing about them."""

    def __init__(self, first: int) -> None:
        # Row i is the message with the identity `_first + i`.
        self._first = first
        self._count = 0
        self._times = np.empty(0, np.int64)
        self._targets = np.empty(0, np.int32)
        self._fates = np.empty(0, np.uint8)
        # The target queues, in the order in which they were first used, and their numbers.
        self._queues: list[Target] = []
        self._numbers: dict[Target, int] = {}

    @property
    def _end(self) -> int:
        return self._first + self._count

    def wait(self, columns: WaitingColumns, cursor: TimedCursor) -> None:
        """Add messages. Messages that are known are passed over."""
        at = 0
        for first, count, topic_id, queue in columns.batches():
            if first >= self._end:
                self._reserve(first + count - self._end, cursor)
                row = first - self._first
                self._fates[self._count : row] = WaitingFate.NO_MESSAGE
                self._times[row : row + count] = columns.times_ms[at : at + count]
                self._targets[row : row + count] = self._number(topic_id, queue)
                self._fates[row : row + count] = WaitingFate.WAITS
                self._count = row + count
            at += count

    def deliver(self, identities: Sequence[int], times: Sequence[int], target: Target) -> str | None:
        """Record a delivery into the queue `target`. Return what is wrong with the first message that cannot be
        delivered there, or None."""
        wrong: str | None = None
        for identity, time_ms in zip(identities, times, strict=True):
            if self._first <= identity < self._end:
                wrong = wrong or self._wrong(identity, time_ms, target)
                self._fates[identity - self._first] = WaitingFate.DELIVERED
        return wrong

    def cancel(self, identity: int, time_ms: int) -> None:
        """Record a cancel. It has no effect if the message does not wait, or has another delivery time."""
        if self._fate(identity) is WaitingFate.WAITS and self._times[identity - self._first] == time_ms:
            self._fates[identity - self._first] = WaitingFate.CANCELLED

    def settle(self, identities: Sequence[int]) -> Iterator[tuple[int, Target]]:
        """Record messages that were settled without a delivery. Yield identity and target queue of those that
        waited."""
        for identity in identities:
            if self._fate(identity) is WaitingFate.WAITS:
                self._fates[identity - self._first] = WaitingFate.SETTLED
                yield identity, self._target(identity)

    def passed(self, cursor: TimedCursor) -> list[tuple[int, int, Target]]:
        """Return identity, delivery time and target queue of the messages that wait although the cursor settles
        them."""
        rows = np.flatnonzero(self._is_settled(cursor) & (self._fates[: self._count] == WaitingFate.WAITS))
        return [(self._first + row, int(self._times[row]), self._target(self._first + row)) for row in rows.tolist()]

    def _wrong(self, identity: int, time_ms: int, target: Target) -> str | None:
        fate, due = WaitingFate(self._fates[identity - self._first]), int(self._times[identity - self._first])
        if fate is not WaitingFate.WAITS:
            return f"the batch delivers the waiting message {identity}, which {_PHRASES[fate]}"
        if due != time_ms:
            return f"the batch delivers the waiting message {identity} as of {time_ms}, and its delivery time is {due}"
        if self._target(identity) != target:
            topic_id, queue = self._target(identity)
            return (
                f"the batch delivers the waiting message {identity}, and the message is for queue {queue} of topic id "
                f"{topic_id}"
            )
        return None

    def _fate(self, identity: int) -> WaitingFate | None:
        if not self._first <= identity < self._end:
            return None
        return WaitingFate(self._fates[identity - self._first])

    def _target(self, identity: int) -> Target:
        return self._queues[int(self._targets[identity - self._first])]

    def _number(self, topic_id: int, queue: int) -> int:
        number = self._numbers.get((topic_id, queue))
        if number is None:
            number = self._numbers[topic_id, queue] = len(self._queues)
            self._queues.append((topic_id, queue))
        return number

    def _is_settled(self, cursor: TimedCursor) -> NDArray[np.bool_]:
        times = self._times[: self._count]
        identities = np.arange(self._first, self._end)
        by_key = (times < cursor.through_ms) | (
            (times == cursor.through_ms) & (identities <= min(cursor.through_identity, (1 << 63) - 1))
        )
        return np.asarray(by_key & (identities < cursor.seen))

    def _reserve(self, more: int, cursor: TimedCursor) -> None:
        """Make room for so many messages more. Before the arrays grow, drop the first messages, as long as nothing
        can be wrong with them any more."""
        if self._count + more <= len(self._fates):
            return
        fates = self._fates[: self._count]
        over = (fates != WaitingFate.WAITS) & ((fates != WaitingFate.CANCELLED) | self._is_settled(cursor))
        drop = self._count if over.all() else int(np.argmin(over))
        rows = max(_LEAST_ROWS, 2 * (self._count - drop + more))
        self._times = _moved(self._times[drop : self._count], rows)
        self._targets = _moved(self._targets[drop : self._count], rows)
        self._fates = _moved(self._fates[drop : self._count], rows)
        self._first, self._count = self._first + drop, self._count - drop


def _moved(values: NDArray[Number], rows: int) -> NDArray[Number]:
    made = np.empty(rows, values.dtype)
    made[: len(values)] = values
    return made
