"""The entry of one turn while it is being made: the changes of all groups in all queues of the shard."""

from __future__ import annotations

from typing import NamedTuple

from ledger.errors import LedgerError
from ledger.state import TopicQueueId
from ledger.state.commands import ChangeLeases, QueueLeases
from ledger.state.group_modes import GroupMode
from ledger.state.lease_table import LeaseChange, LeaseResults

# Changes and queues of one entry, at which a turn adds no more. One request of a member, or what one receive gets from
# one queue, may go beyond: both are small beside MAX_LEASE_CHANGES and MAX_LEASE_QUEUES (command_checks.py).
MAX_ENTRY_CHANGES = 12_000
MAX_ENTRY_QUEUES = 3_000


class Ticket(NamedTuple):
    """The place of a change in the entry, by which its result is found."""

    queue: int
    change: int


class LeaseEntry:
    """Collects changes. Changes of one group in one queue keep their order."""

    def __init__(self, now_ms: int) -> None:
        """`now_ms` is the lease time of the turn."""
        self.now_ms = now_ms
        self._numbers: dict[tuple[str, TopicQueueId], int] = {}
        self._queues: list[tuple[GroupMode, TopicQueueId, int, list[LeaseChange]]] = []
        self.size = 0

    @property
    def room(self) -> int:
        """How many more changes the turn adds. 0: the entry is full, and the rest waits for the next turn."""
        return 0 if len(self._queues) >= MAX_ENTRY_QUEUES else max(0, MAX_ENTRY_CHANGES - self.size)

    def open(self, mode: GroupMode, queue: TopicQueueId, start_offset: int = 0) -> int:
        """Let the group begin in the queue at `start_offset` if it is new there. Return the number of the queue in the
        entry."""
        key = (mode.consumer_group, queue)
        if (number := self._numbers.get(key)) is None:
            number = self._numbers[key] = len(self._queues)
            self._queues.append((mode, queue, start_offset, []))
        return number

    def add(self, mode: GroupMode, queue: TopicQueueId, change: LeaseChange) -> Ticket:
        """Add a change of a queue in which the group has begun."""
        number = self.open(mode, queue)
        changes = self._queues[number][3]
        changes.append(change)
        self.size += 1
        return Ticket(number, len(changes) - 1)

    def command(self) -> ChangeLeases | None:
        """Return the command, or None if there is nothing to change."""
        if not self._queues:
            return None
        return ChangeLeases(
            tuple(
                QueueLeases(mode.consumer_group, mode.created, queue, start_offset, tuple(changes))
                for mode, queue, start_offset, changes in self._queues
            ),
            self.now_ms,
        )


def changed_by(results: LeaseResults, ticket: Ticket) -> int:
    """Return how many messages a change changed. 0: it did not count, or the whole queue was refused."""
    result = results.queues[ticket.queue]
    return 0 if isinstance(result, LedgerError) else result[ticket.change]
