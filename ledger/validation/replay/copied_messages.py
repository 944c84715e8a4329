"""Records the waiting messages of which the log has only a copy, because their first batch was before the log start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from ledger.state.timed_table import TimedCursor, TimedTable

# Topic id and number of a queue.
Target = tuple[int, int]


class WaitingFate(IntEnum):
    # A copy of a waiting message. A copy has an offset, but no identity of its own.
    NO_MESSAGE = 0
    WAITS = 1
    DELIVERED = 2
    CANCELLED = 3
    SETTLED = 4


@dataclass(slots=True)
class CopiedMessage:
    """One message. `time_ms` is its delivery time in ms since 1970, `contents` a hash of it, and `position` that of the
    newest entry that has it."""

    time_ms: int
    target: Target
    contents: int
    position: int = 0
    fate: WaitingFate = WaitingFate.WAITS


class CopiedMessages:
    """The copied messages of one replica, by identity. They take about 300 bytes each."""

    def __init__(self) -> None:
        self._messages: dict[int, CopiedMessage] = {}

    def get(self, identity: int) -> CopiedMessage | None:
        return self._messages.get(identity)

    def add(self, identity: int, message: CopiedMessage) -> None:
        self._messages[identity] = message

    def waiting(self, cursor: TimedCursor) -> Iterator[tuple[int, CopiedMessage]]:
        """Yield the messages that wait and that the cursor does not settle, by rising identity."""
        table = TimedTable(cursor)
        for identity, message in sorted(self._messages.items()):
            if message.fate is WaitingFate.WAITS and not table.is_settled(message.time_ms, identity):
                yield identity, message

    def passed(self, cursor: TimedCursor) -> Iterator[tuple[int, int, Target]]:
        """Yield identity, delivery time and target queue of the messages that wait although the cursor settles
        them."""
        table = TimedTable(cursor)
        for identity, message in sorted(self._messages.items()):
            if message.fate is WaitingFate.WAITS and table.is_settled(message.time_ms, identity):
                yield identity, message.time_ms, message.target
