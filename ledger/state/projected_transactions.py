"""The half batches that the leader's own uncommitted entries add or settle.

    waits     says whether an entry may still settle a half batch
    admit     reserves half batches for an entry that settles them, before the entry is appended
    prepare   counts a half batch that is being added
    settle    drops the half batches of the entry, when the entry is applied

If the leader stops leading, all reservations are dropped, and the half batches wait as before.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

from ledger.state.projected_timed import PendingEntry
from ledger.state.transaction_table import TransactionTable


class _AddedHalf(NamedTuple):
    """A half batch that is being added. `joins` are the decision shard and the transaction that it joins, or None."""

    entry: PendingEntry
    topic_id: int
    size: int
    joins: tuple[int, int] | None


class ProjectedTransactions:
    """The half batches of `table` without those that uncommitted entries settle."""

    def __init__(self, table: TransactionTable) -> None:
        self._table = table
        # Entries that are not applied yet, in the order of their appending, with the numbers that they settle.
        self._pending: deque[tuple[PendingEntry, tuple[int, ...]]] = deque()
        # The numbers of all pending entries (a dict, because a set has no order).
        self._reserved: dict[int, None] = {}
        # Half batches that are being added, in the order of their appending.
        self._adding: deque[_AddedHalf] = deque()
        self._adding_bytes = 0
        # How many half batches of `_adding` there are for a topic.
        self._adding_of_topic: Counter[int] = Counter()
        # How many half batches of `_adding` join a transaction.
        self._joining: Counter[tuple[int, int]] = Counter()

    @property
    def waiting(self) -> int:
        """How many half batches wait, with those that are being added."""
        return len(self._table.waiting) + len(self._adding)

    @property
    def waiting_bytes(self) -> int:
        """The bytes of `waiting`."""
        return self._table.waiting_bytes + self._adding_bytes

    def waits(self, number: int) -> bool:
        """Return True if the half batch waits, and no entry on its way settles it."""
        return number in self._table.waiting and number not in self._reserved

    def waiting_of(self, topic_id: int) -> int:
        """Return how many half batches for this topic wait, with those that are being added."""
        return self._table.waiting_of(topic_id) + self._adding_of_topic[topic_id]

    def count_of(self, transaction: int, shard: int) -> int:
        """Return how many half batches wait for this transaction of `shard`, with those that are being added."""
        return self._table.count_of(transaction, shard) + self._joining[shard, transaction]

    def admit(self, entry: PendingEntry, numbers: Sequence[int]) -> None:
        """Reserve half batches for an entry that settles them, or decides about them. Each of them must wait. Call it
        in the same turn of the event loop in which the entry is proposed, in the order of the proposals."""
        self._pending.append((entry, tuple(numbers)))
        self._reserved.update(dict.fromkeys(numbers))

    def prepare(self, entry: PendingEntry, topic_id: int, size: int, joins: tuple[int, int] | None = None) -> None:
        """Count a half batch of `size` bytes for this topic that is being added. `joins` are the decision shard and the
        number of the transaction that it joins; None: it begins one. Call it like `admit`."""
        self._adding.append(_AddedHalf(entry, topic_id, size, joins))
        self._adding_bytes += size
        self._adding_of_topic[topic_id] += 1
        if joins is not None:
            self._joining[joins] += 1

    def settle(self, applied: int) -> None:
        """Drop the half batches of all entries up to the index `applied`, which the state contains."""
        while self._pending and 0 < self._pending[0][0].index <= applied:
            for number in self._pending.popleft()[1]:
                self._reserved.pop(number, None)
        while self._adding and 0 < self._adding[0].entry.index <= applied:
            _, topic_id, size, joins = self._adding.popleft()
            self._adding_bytes -= size
            self._adding_of_topic[topic_id] -= 1
            if not self._adding_of_topic[topic_id]:
                del self._adding_of_topic[topic_id]
            if joins is not None:
                self._joining[joins] -= 1
                if not self._joining[joins]:
                    del self._joining[joins]
