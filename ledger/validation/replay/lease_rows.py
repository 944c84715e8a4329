"""Records the leases of one shared group in one queue, message by message, as the log tells them.

    offset        first ............... begin ............................ end
    is settled      1   1   1   1   1     0       0        1       0       | never handed out
    holder                                entry   0                entry
    free from                             ms      ms               ms
    attempts                              2       1                1

The record follows the rules of leases without the code of the state machine: one row for each message, and no window.
Python's lists are faster here than numpy's arrays, because most changes concern 1 to 32 messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

# Rows of settled messages before the first message that is not settled, which are kept until they are dropped together.
_KEPT_ROWS = 4096
MAX_COUNTED_ATTEMPTS = (1 << 32) - 1


@dataclass(slots=True)
class LeaseRows:
    """The rows of a queue. A message that no row has was settled, or handed out never, depending on its offset. The
    methods return how many messages a change concerns."""

    # The offset of the first row.
    first: int
    # How often the offset of the group was reset.
    resets: int = 0
    is_settled: bytearray = field(default_factory=bytearray)
    # Index of the entry that leased the message last, or 0.
    holders: list[int] = field(default_factory=list)
    # The lease time from which on the message can be leased again.
    free_ms: list[int] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    # The row of the first message that is not settled; the number of rows if there is none.
    _begin: int = 0

    @property
    def begin(self) -> int:
        """The offset of the first message that is not settled."""
        return self.first + self._begin

    @property
    def end(self) -> int:
        """The offset after the last message that was handed out or passed over."""
        return self.first + len(self.is_settled)

    def __len__(self) -> int:
        """The number of offsets from the first message that is not settled on."""
        return len(self.is_settled) - self._begin

    # -- questions

    def lacking(self, first: int, end: int, time_ms: int) -> list[int]:
        """Return the offsets of [first, end) that cannot be leased at this lease time."""
        start, stop = self._rows(first, end)
        is_free = not any(self.is_settled[start:stop]) and max(self.free_ms[start:stop], default=0) <= time_ms
        if first >= self.begin and is_free:
            return []
        settled = list(range(first, min(end, self.begin)))
        rows = range(start, stop)
        return settled + [self.first + row for row in rows if self.is_settled[row] or self.free_ms[row] > time_ms]

    def is_settled_at(self, offset: int) -> bool:
        return offset < self.begin or (offset < self.end and bool(self.is_settled[offset - self.first]))

    # -- changes

    def lease(self, first: int, end: int, holder: int, free_ms: int) -> int:
        """Lease the messages [first, end), which are free."""
        self._reach(end)
        start, stop = first - self.first, end - self.first
        size = stop - start
        self.holders[start:stop] = [holder] * size
        self.free_ms[start:stop] = [free_ms] * size
        self.attempts[start:stop] = [min(each + 1, MAX_COUNTED_ATTEMPTS) for each in self.attempts[start:stop]]
        return size

    def acknowledge(self, first: int, end: int, holder: int) -> int:
        rows = self._held(first, end, holder)
        for row in rows:
            self._settle(row)
        self._pass_settled()
        return len(rows)

    def free(self, first: int, end: int, holder: int, free_ms: int, uncounted: int = 0) -> int:
        """End a lease. The messages can be leased again from `free_ms` on, and `uncounted` attempts do not count."""
        rows = self._held(first, end, holder)
        for row in rows:
            self.holders[row], self.free_ms[row] = 0, free_ms
            self.attempts[row] -= uncounted
        return len(rows)

    def extend(self, first: int, end: int, holder: int, free_ms: int) -> int:
        rows = self._held(first, end, holder)
        for row in rows:
            self.free_ms[row] = free_ms
        return len(rows)

    def skip(self, first: int, end: int) -> int:
        """Settle the messages [first, end). Messages between the last row and `first` wait from now on."""
        start, stop = self._rows(first, end)
        open_rows = [row for row in range(start, stop) if not self.is_settled[row]]
        for row in open_rows:
            self._settle(row)
        self._pass_settled()
        more = max(0, end - max(first, self.end))
        if more and not len(self) and first <= self.end:  # however far: no row is needed
            self._clear(end)
        elif more:
            self._reach(end)
            self.is_settled[-more:] = b"\1" * more
        return len(open_rows) + more

    def settle(self, offset: int) -> None:
        """Settle one message, if it is neither settled nor after the end."""
        if self.begin <= offset < self.end:
            self._settle(offset - self.first)
            self._pass_settled()

    def reset(self, offset: int) -> None:
        self._clear(offset)
        self.resets += 1

    def put(self, count: int, is_settled: bool, holder: int, free_ms: int, attempts: int) -> None:
        """Append equal rows, of a snapshot."""
        self.is_settled += bytes([is_settled]) * count
        self.holders += [holder] * count
        self.free_ms += [free_ms] * count
        self.attempts += [attempts] * count
        self._pass_settled()

    def open_rows(self) -> tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]:
        """Return four columns from `begin` on: whether it is settled, the holder, `free_ms`, the attempts."""
        at = self._begin
        return self.is_settled[at:], self.holders[at:], self.free_ms[at:], self.attempts[at:]

    # -- rows

    def _rows(self, first: int, end: int) -> tuple[int, int]:
        """Return the rows of these offsets that are there and not before `begin`."""
        start = min(max(first - self.first, self._begin), len(self.is_settled))
        return start, max(start, min(end - self.first, len(self.is_settled)))

    def _held(self, first: int, end: int, holder: int) -> list[int]:
        start, stop = self._rows(first, end)
        if not holder:
            return []
        return [row for row, by in enumerate(self.holders[start:stop], start) if by == holder]

    def _settle(self, row: int) -> None:
        self.is_settled[row] = 1
        self.holders[row] = self.free_ms[row] = self.attempts[row] = 0

    def _reach(self, end: int) -> None:
        if (more := end - self.end) > 0:
            self.is_settled += bytes(more)
            zeros = [0] * more
            self.holders += zeros
            self.free_ms += zeros
            self.attempts += zeros

    def _clear(self, first: int) -> None:
        self.first, self._begin = first, 0
        for column in (self.is_settled, self.holders, self.free_ms, self.attempts):
            column.clear()

    def _pass_settled(self) -> None:
        begin = self.is_settled.find(0, self._begin)
        self._begin = len(self.is_settled) if begin < 0 else begin
        if self._begin >= _KEPT_ROWS and 2 * self._begin >= len(self.is_settled):
            passed, self._begin = self._begin, 0
            self.first += passed
            for column in (self.is_settled, self.holders, self.free_ms, self.attempts):
                del column[:passed]
