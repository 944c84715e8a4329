"""A simple copy of the window of a shared group in one queue. It has one record for each offset, and follows the
changes of the log one message at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ledger.state.lease_table import ChangeKind
from ledger.state.lease_window import LeaseWindow
from ledger.v1 import command_pb2

# The fields of a slot: free_ms, lease, receipt, attempts, is_settled.
SETTLED = (0, 0, 0, 0, 1)


@dataclass(slots=True)
class SlotTwin:
    """One message. The fields are those of a slot of `LeaseWindow`."""

    free_ms: int = 0
    lease: int = 0
    receipt: int = 0
    attempts: int = 0
    is_settled: bool = False

    def free(self, until_ms: int) -> None:
        self.free_ms, self.lease, self.receipt = until_ms, 0, 0

    def fields(self) -> tuple[int, ...]:
        return (self.free_ms, self.lease, self.receipt, self.attempts, 0) if not self.is_settled else SETTLED


class LeaseTwin:
    """The messages of a window, from `begin` on."""

    def __init__(self, begin: int) -> None:
        self.begin = self.end = begin
        self.resets = 0
        self._slots: dict[int, SlotTwin] = {}

    def is_open(self, offset: int) -> bool:
        """Return True if a member may get the message some time."""
        slot = self._slots.get(offset)
        return offset >= self.begin and (slot is None or not slot.is_settled)

    def can_lease(self, offset: int, now_ms: int) -> bool:
        """Return True if an entry of this lease time may lease the message."""
        slot = self._slots.get(offset)
        return self.is_open(offset) and (slot is None or slot.free_ms <= now_ms)

    def held_by(self, receipt: int, now_ms: int) -> Iterator[tuple[int, int]]:
        """Yield the offsets that the receive with this attempt id still has, each with the entry of its lease."""
        for offset in range(self.begin, self.end):
            slot = self._slots[offset]
            if slot.receipt == receipt and slot.lease and not slot.is_settled and slot.free_ms > now_ms:
                yield offset, slot.lease

    def lease(self, offset: int, entry: int, end_ms: int, receipt: int) -> None:
        slot = self._reach(offset)
        slot.free_ms, slot.lease, slot.receipt = end_ms, entry, receipt
        slot.attempts += 1

    def settle(self, offset: int) -> None:
        """Settle a message that nobody shall receive. Nothing happens if it is settled."""
        if self.is_open(offset):
            self._reach(offset).is_settled = True
            self._advance()

    def change(self, change: command_pb2.LeaseChange, offset: int, now_ms: int) -> None:
        """Apply a change of a member to one message, if the message still has the lease."""
        slot = self._slots.get(offset)
        if (
            slot is None
            or slot.is_settled
            or change.resets != self.resets
            or slot.lease != change.lease
            or not slot.lease
        ):
            return
        match change.kind:
            case ChangeKind.ACKNOWLEDGE:
                slot.is_settled = True
                self._advance()
            case ChangeKind.PUT_OFF:
                slot.free(now_ms + change.duration_ms)
            case ChangeKind.GIVE_BACK:
                slot.free(now_ms)
                slot.attempts -= 1
            case _:
                slot.free_ms = now_ms + change.duration_ms

    def differs(self, window: LeaseWindow | None) -> str:
        """Return a phrase about the first difference to a node's window, "" if there is none."""
        if window is None:
            return "there is no window"
        if (window.begin, window.end, window.resets) != (self.begin, self.end, self.resets):
            return f"it is [{window.begin}, {window.end}) and not [{self.begin}, {self.end})"
        slots: list[tuple[int, ...]] = window.slots.tolist()
        for offset, slot in zip(range(self.begin, self.end), slots, strict=True):
            if slot != (fields := self._slots[offset].fields()):
                return f"message {offset} is {slot} and not {fields}"
        return ""

    def _reach(self, offset: int) -> SlotTwin:
        while self.end <= offset:
            self._slots[self.end] = SlotTwin()
            self.end += 1
        return self._slots[offset]

    def _advance(self) -> None:
        while self.begin < self.end and self._slots[self.begin].is_settled:
            del self._slots[self.begin]
            self.begin += 1
