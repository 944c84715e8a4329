"""The window of one shared consumer group in one queue: the offsets from the first message that is not settled to the
last message that was ever handed out.

    settled          window                                    never handed out
    | 0 .. begin-1 | leased  settled  waits  leased  leased  | end ..

A slot of the window is settled, leased, or it waits. A slot that is not settled can be leased again from the lease time
`free_ms` on: this is the end of its lease, or the time until which the message was put off. The
window begins with a message that is not settled, so it is empty if every message before its end is settled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Offsets of one window.
MAX_WINDOW = 20_000

SLOT = np.dtype(
    [
        # The lease time from which on the message may be handed out again.
        ("free_ms", "<i8"),
        # Index of the entry that leased the message last; 0 if its member gave the message back, or nobody had it yet.
        ("lease", "<u8"),
        # The attempt id of the receive that got the message last; 0 like `lease`.
        ("receipt", "<u8"),
        # How often the message was handed out.
        ("attempts", "<u4"),
        ("is_settled", "<u4"),
    ]
)
Slots = NDArray[np.void]
_MAX_ATTEMPTS = (1 << 32) - 1
_SETTLED = np.array((0, 0, 0, 0, 1), SLOT)
# The least slots for which a window has memory, when it has some.
_LEAST_ROOM = 16


class Lease(NamedTuple):
    """A lease: the index of its entry, the lease time of its end, and the attempt id of the receive."""

    entry: int
    end_ms: int
    receipt: int


class LeaseWindow:
    """The slots of a window. The methods change nothing outside of the window, and return how many messages they
    changed."""

    def __init__(self, begin: int, resets: int = 0, slots: Slots | None = None) -> None:
        self.begin = begin
        # How often the offset of the group was reset. A handle from before a reset is refused.
        self.resets = resets
        # The slots are those from `_first` on. Behind them, all bytes are 0: growing by one slot costs the same however
        # long the window is, because all replicas apply thousands of changes in one go.
        self._memory = np.zeros(0, SLOT) if slots is None else slots.copy()
        self._first, self._count = 0, len(self._memory)

    def __len__(self) -> int:
        return self._count

    @property
    def end(self) -> int:
        """The offset after the last message that was handed out or passed over."""
        return self.begin + self._count

    @property
    def slots(self) -> Slots:
        """The slots from `begin` on. Do not change them, and do not keep them: the next change replaces them."""
        return self._memory[self._first : self._first + self._count]

    def slot(self, offset: int) -> np.void | None:
        """Return the slot of this offset, or None if the offset is not in the window."""
        at = offset - self.begin
        return self._memory[self._first + at] if 0 <= at < self._count else None

    def open_messages(self) -> int:
        """Return the number of messages that were handed out or passed over, and are not settled."""
        return self._count - int(np.count_nonzero(self.slots["is_settled"]))

    def settled(self, first: int, count: int, resets: int) -> int:
        """Return how many messages of this range are settled, or 0 if the offset was reset since."""
        if resets != self.resets:
            return 0
        before = min(max(self.begin - first, 0), count)
        return before + int(np.count_nonzero(self._range(first, count)["is_settled"]))

    # -- changes. `lease` is the index of the entry that leased the messages

    def acknowledge(self, first: int, count: int, lease: int) -> int:
        """Settle the messages of this range that still have this lease."""
        slots = self._range(first, count)
        return self._settle(slots, _held(slots, lease))

    def put_off(self, first: int, count: int, lease: int, until_ms: int) -> int:
        """End a lease. The messages of this range that still have it may be leased again from `until_ms` on."""
        slots = self._range(first, count)
        held = _held(slots, lease)
        _free(slots, held, until_ms)
        return int(np.count_nonzero(held))

    def give_back(self, first: int, count: int, lease: int, now_ms: int) -> int:
        """End a lease as if it had never begun: the attempt does not count."""
        slots = self._range(first, count)
        held = _held(slots, lease)
        slots["attempts"][held] -= 1
        _free(slots, held, now_ms)
        return int(np.count_nonzero(held))

    def extend(self, first: int, count: int, lease: int, end_ms: int) -> int:
        """Move the end of a lease."""
        slots = self._range(first, count)
        held = _held(slots, lease)
        slots["free_ms"][held] = end_ms
        return int(np.count_nonzero(held))

    def lease(self, first: int, count: int, lease: Lease, now_ms: int) -> int:
        """Lease all messages of this range, or none of them if one is settled or not free at `now_ms`. Messages
        between the end of the window and `first` wait from now on."""
        if first < self.begin:
            return 0
        known = self._range(first, count)
        if known["is_settled"].any() or (known["free_ms"] > now_ms).any():
            return 0
        self._reach(first + count)
        slots = self._range(first, count)
        slots["free_ms"], slots["lease"], slots["receipt"] = lease.end_ms, lease.entry, lease.receipt
        slots["attempts"] = np.minimum(slots["attempts"].astype(np.int64) + 1, _MAX_ATTEMPTS)
        return count

    def skip(self, first: int, count: int) -> int:
        """Settle all messages of this range, which nobody shall receive. Messages between the end of the window and
        `first` wait from now on."""
        end = first + count
        slots = self._range(first, count)
        skipped = self._settle(slots, slots["is_settled"] == 0)
        if end <= self.end:
            return skipped
        self._drop_settled()
        more = end - max(first, self.end)
        if not self._count and first <= self.begin:  # however far: no slot is needed
            self.begin = end
        else:
            was = self.end
            self._reach(end)
            self._range(max(first, was), more)["is_settled"] = 1
        return skipped + more

    def reset(self, offset: int) -> None:
        """Begin anew at this offset. All leases end."""
        self.begin = offset
        self._memory, self._first, self._count = np.zeros(0, SLOT), 0, 0
        self.resets += 1

    def changed(self) -> None:
        """Drop the settled messages at the beginning. Call this after the last change of an entry."""
        self._drop_settled()

    def runs(self) -> tuple[NDArray[np.int64], Slots]:
        """Return the runs of equal slots, in the order of offsets: their lengths, and one slot of each."""
        slots = self.slots
        if not len(slots):
            return np.zeros(0, np.int64), slots
        firsts = np.append(0, np.flatnonzero(slots[1:] != slots[:-1]) + 1)
        return np.diff(np.append(firsts, len(slots))), slots[firsts]

    def _range(self, first: int, count: int) -> Slots:
        """Return the slots of the range that are in the window, as a view."""
        start = min(max(first - self.begin, 0), self._count)
        stop = max(start, min(first + count - self.begin, self._count))
        return self._memory[self._first + start : self._first + stop]

    def _reach(self, end: int) -> None:
        count = end - self.begin
        if count <= self._count:
            return
        if self._first + count > len(self._memory):
            self._move(max(2 * count, _LEAST_ROOM))
        self._count = count

    def _move(self, room: int) -> None:
        """Move the slots into new memory for `room` slots."""
        known, self._memory, self._first = self.slots, np.zeros(room, SLOT), 0
        # As bytes, because numpy copies records field by field.
        self._memory.view(np.uint8)[: known.nbytes] = known.view(np.uint8)

    @staticmethod
    def _settle(slots: Slots, which: NDArray[np.bool_]) -> int:
        slots[which] = _SETTLED
        return int(np.count_nonzero(which))

    def _drop_settled(self) -> None:
        slots = self.slots
        if not len(slots) or not slots[0]["is_settled"]:
            return
        waiting = slots["is_settled"] == 0
        passed = int(waiting.argmax()) if waiting.any() else len(slots)
        self.begin += passed
        self._first += passed
        self._count -= passed
        if len(self._memory) > max(4 * self._count, _LEAST_ROOM):
            self._move(2 * self._count)


def _held(slots: Slots, lease: int) -> NDArray[np.bool_]:
    """Return which of these slots have the lease. Index 0 is no lease."""
    return np.asarray((slots["lease"] == lease) & (lease > 0))


def _free(slots: Slots, held: NDArray[np.bool_], until_ms: int) -> None:
    slots["free_ms"][held] = until_ms
    slots["lease"][held] = 0
    slots["receipt"][held] = 0
