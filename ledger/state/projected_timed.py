"""The waiting messages that the leader's own uncommitted entries deliver or cancel.

    waits     says whether an entry may still deliver or cancel a message
    admit     reserves messages for an entry that delivers or cancels them, before the entry is appended
    settle    drops the messages of the entry, when the entry is applied

After an entry is applied, the state knows which messages it delivered, and the index of waiting messages knows which
messages it cancelled. If the leader stops leading, all reservations are dropped, and the messages wait as before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from ledger.state.timed_table import MAX_OPEN, TimedTable


class PendingEntry(Protocol):
    """An entry on its way, such as a `BatchRecord`. `index` is 0 until the entry is appended."""

    @property
    def index(self) -> int: ...


class ProjectedTimed:
    """The waiting messages of `table` without those that uncommitted entries deliver or cancel."""

    def __init__(self, table: TimedTable) -> None:
        self._table = table
        # Entries that are not applied yet, in the order of their appending, with their identities.
        self._pending: deque[tuple[PendingEntry, tuple[int, ...]]] = deque()
        # identity -> the last pending entry that delivers or cancels the message.
        self._reserved: dict[int, PendingEntry] = {}

    @property
    def room(self) -> int:
        """How many messages the leader may deliver now, so that the state never has more than MAX_OPEN open ones."""
        return max(0, MAX_OPEN - len(self._table.open) - len(self._reserved))

    def waits(self, time_ms: int, identity: int) -> bool:
        """Return True if neither the state nor an entry on its way has delivered the message, and no entry on its way
        cancels it. The index of waiting messages knows which messages exist, and which were cancelled before."""
        return identity not in self._reserved and self._table.waits(time_ms, identity)

    def admit(self, entry: PendingEntry, identities: Sequence[int]) -> None:
        """Reserve messages for an entry that delivers or cancels them. Call it in the same turn of the event loop in
        which the entry is proposed, in the order of the proposals."""
        self._pending.append((entry, tuple(identities)))
        self._reserved.update(dict.fromkeys(identities, entry))

    def settle(self, applied: int) -> None:
        """Drop the messages of all entries up to the index `applied`, which the state contains."""
        while self._pending and 0 < self._pending[0][0].index <= applied:
            self._drop(*self._pending.popleft())

    def _drop(self, entry: PendingEntry, identities: Iterable[int]) -> None:
        for identity in identities:
            if self._reserved.get(identity) is entry:
                del self._reserved[identity]
