"""Records for each waiting message of one replica whether the log delivers, cancels or settles it, and whether its
copies and its delivery have its contents.

A message that was appended to `%TIMED` waits until a batch delivers it, a command cancels it, or a turn settles it
because its target queue was deleted. The state machine knows only which messages the cursor settles. The record also
knows which messages exist. So it finds a message that the cursor passed without a delivery, and a delivery of a message
that does not wait. A message that was appended before the log start is known from its copy.

The record takes 29 bytes for each message since the first message that still waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ledger.state.timed_table import TimedCursor
from ledger.validation.replay.copied_messages import CopiedMessage, CopiedMessages, Target, WaitingFate
from ledger.validation.spans.message_contents import NOT_KNOWN
from ledger.validation.spans.waiting_columns import WaitingColumns

_LEAST_ROWS = 1024
Number = TypeVar("Number", bound=np.generic)
# Identities, delivery times, positions, and the identity from which on every other message waits no more.
WaitingColumnsAt = tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.uint64], int]

_PHRASES = {
    WaitingFate.NO_MESSAGE: "is a copy",
    WaitingFate.DELIVERED: "was delivered before",
    WaitingFate.CANCELLED: "was cancelled before",
    WaitingFate.SETTLED: "was settled before",
}


class TimedRecord:
    """The waiting messages of one replica, from the identity `first` on. Earlier messages are known if the log has
    copies of them. The record judges nothing about others."""

    def __init__(self, first: int) -> None:
        # Earlier messages were appended before the log start.
        self._begin = first
        self._copied = CopiedMessages()
        # Row i is the message with the identity `_first + i`.
        self._first = first
        self._count = 0
        self._times = np.empty(0, np.int64)
        self._targets = np.empty(0, np.int32)
        self._fates = np.empty(0, np.uint8)
        self._contents = np.empty(0, np.uint64)
        self._positions = np.empty(0, np.uint64)
        # The target queues, in the order in which they were first used, and their numbers.
        self._queues: list[Target] = []
        self._numbers: dict[Target, int] = {}

    @property
    def _end(self) -> int:
        return self._first + self._count

    def wait(self, columns: WaitingColumns, cursor: TimedCursor) -> None:
        """Add messages. Messages that are known are passed over."""
        at = 0
        for first, count, topic_id, queue, position in columns.batches():
            if first >= self._end:
                self._reserve(first + count - self._end, cursor)
                row = first - self._first
                self._fates[self._count : row] = WaitingFate.NO_MESSAGE
                self._times[row : row + count] = columns.times_ms[at : at + count]
                self._targets[row : row + count] = self._number(topic_id, queue)
                self._contents[row : row + count] = columns.contents[at : at + count]
                self._positions[row : row + count] = position
                self._fates[row : row + count] = WaitingFate.WAITS
                self._count = row + count
            at += count

    def copy(
        self,
        identities: Sequence[int],
        times: Sequence[int],
        target: Target,
        contents: Sequence[int],
        position: int = 0,
    ) -> str | None:
        """Record copies of messages for the queue `target`, in the entry at `position`. Return what is wrong with the
        first copy that differs from its message, or None."""
        wrong: str | None = None
        for identity, time_ms, content in zip(identities, times, contents, strict=True):
            if (known := self._known(identity)) is not None:
                wrong = wrong or _difference("copies", identity, known, time_ms, target, content)
            elif identity < self._begin:
                self._copied.add(identity, CopiedMessage(time_ms, target, content))
            self._set_position(identity, position)
        return wrong

    def waiting(self, cursor: TimedCursor) -> WaitingColumnsAt:
        """Return what waits and is not settled by the cursor: identities, delivery times, positions, and the identity
        from which on every other message waits no more."""
        rows = np.flatnonzero(~self._is_settled(cursor) & (self._fates[: self._count] == WaitingFate.WAITS))
        copied = list(self._copied.waiting(cursor))
        return (
            np.concatenate((np.array([each for each, _ in copied], np.uint64), (rows + self._first).astype(np.uint64))),
            np.concatenate((np.array([one.time_ms for _, one in copied], np.int64), self._times[rows])),
            np.concatenate((np.array([one.position for _, one in copied], np.uint64), self._positions[rows])),
            self._begin,
        )

    def deliver(
        self, identities: Sequence[int], times: Sequence[int], target: Target, contents: Sequence[int]
    ) -> str | None:
        """Record a delivery into the queue `target`. Return what is wrong with the first message that cannot be
        delivered there, or None."""
        if self._delivers_all(identities, times, target, contents):
            return None
        wrong: str | None = None
        for identity, time_ms, content in zip(identities, times, contents, strict=True):
            if (known := self._known(identity)) is not None:
                found = _difference("delivers", identity, known, time_ms, target, content)
                if known.fate is not WaitingFate.WAITS:
                    found = f"the batch delivers the waiting message {identity}, which {_PHRASES[known.fate]}"
                wrong = wrong or found
                self._set_fate(identity, WaitingFate.DELIVERED)
        return wrong

    def _delivers_all(
        self, identities: Sequence[int], times: Sequence[int], target: Target, contents: Sequence[int]
    ) -> bool:
        """Record a delivery in which nothing is wrong, and return True. Return False if a message is unknown, or if
        something may be wrong; then nothing is recorded."""
        if target not in self._numbers or min(identities) < self._first or max(identities) >= self._end:
            return False
        rows = np.array(identities, np.int64) - self._first
        is_right = (
            len(np.unique(rows)) == len(rows)
            and (self._fates[rows] == WaitingFate.WAITS).all()
            and (self._targets[rows] == self._numbers[target]).all()
            and (self._times[rows] == np.array(times, np.int64)).all()
            and (self._contents[rows] == np.array(contents, np.uint64)).all()
        )
        if is_right:
            self._fates[rows] = WaitingFate.DELIVERED
        return bool(is_right)

    def cancel(self, identity: int, time_ms: int) -> None:
        """Record a cancel. It has no effect if the message does not wait, or has another delivery time."""
        known = self._known(identity)
        if known is not None and known.fate is WaitingFate.WAITS and known.time_ms == time_ms:
            self._set_fate(identity, WaitingFate.CANCELLED)

    def settle(self, identities: Sequence[int]) -> Iterator[tuple[int, Target]]:
        """Record messages that were settled without a delivery. Yield identity and target queue of those that
        waited."""
        for identity in identities:
            known = self._known(identity)
            if known is not None and known.fate is WaitingFate.WAITS:
                self._set_fate(identity, WaitingFate.SETTLED)
                yield identity, known.target

    def passed(self, cursor: TimedCursor) -> list[tuple[int, int, Target]]:
        """Return identity, delivery time and target queue of the messages that wait although the cursor settles
        them."""
        rows = np.flatnonzero(self._is_settled(cursor) & (self._fates[: self._count] == WaitingFate.WAITS))
        own = [(self._first + row, int(self._times[row]), self._target(row)) for row in rows.tolist()]
        return [*self._copied.passed(cursor), *own]

    def _known(self, identity: int) -> CopiedMessage | None:
        """Return what is known of a message, or None."""
        if not self._first <= identity < self._end:
            return self._copied.get(identity)
        row = identity - self._first
        fate, contents = WaitingFate(self._fates[row]), int(self._contents[row])
        return CopiedMessage(int(self._times[row]), self._target(row), contents, int(self._positions[row]), fate)

    def _set_fate(self, identity: int, fate: WaitingFate) -> None:
        if self._first <= identity < self._end:
            self._fates[identity - self._first] = fate
        elif (copied := self._copied.get(identity)) is not None:
            copied.fate = fate

    def _set_position(self, identity: int, position: int) -> None:
        if self._first <= identity < self._end:
            self._positions[identity - self._first] = position
        elif (copied := self._copied.get(identity)) is not None:
            copied.position = position

    def _target(self, row: int) -> Target:
        return self._queues[int(self._targets[row])] if self._fates[row] != WaitingFate.NO_MESSAGE else (0, 0)

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
        self._contents = _moved(self._contents[drop : self._count], rows)
        self._positions = _moved(self._positions[drop : self._count], rows)
        self._first, self._count = self._first + drop, self._count - drop


def _difference(
    verb: str, identity: int, known: CopiedMessage, time_ms: int, target: Target, contents: int
) -> str | None:
    """Return how a copy or a delivery differs from its message, or None."""
    what = f"the batch {verb} the waiting message {identity}"
    if known.time_ms != time_ms:
        return f"{what} as of {time_ms}, and its delivery time is {known.time_ms}"
    if known.target != target:
        topic_id, queue = known.target
        return f"{what}, and the message is for queue {queue} of topic id {topic_id}"
    if NOT_KNOWN not in (known.contents, contents) and known.contents != contents:
        return f"{what} with other contents than it was sent with"
    return None


def _moved(values: NDArray[Number], rows: int) -> NDArray[Number]:
    made = np.empty(rows, values.dtype)
    made[: len(values)] = values
    return made
