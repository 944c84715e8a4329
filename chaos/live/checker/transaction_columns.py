"""Turns the operations about transactions into columns: what was prepared, decided, ended, and revealed.

The names that programs give to transactions are numbered in the order in which they first appear.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaos.live.checker.cells import NONE, OUTCOMES, Growing, Numbers
from chaos.live.checker.timed_columns import NumberOfQueue
from ledger.history import Decide, EndRequest, Prepare, Reveal


@dataclass(frozen=True, slots=True)
class PrepareColumns:
    """Messages that were sent in transactions, in the order of the history. Times are in ns of the histories' clock."""

    operation: Numbers
    transaction: Numbers
    # The target queue.
    queue: Numbers
    # The decision shard, and the number of the transaction there. NONE unless the outcome is OK.
    shard: Numbers
    number: Numbers
    outcome: Numbers
    crc: Numbers
    end: Numbers


@dataclass(frozen=True, slots=True)
class DecideColumns:
    """Decisions of programs, in the order of the history. `commit` is 1 or 0."""

    operation: Numbers
    transaction: Numbers
    commit: Numbers
    start: Numbers


@dataclass(frozen=True, slots=True)
class EndColumns:
    """Requests to end a transaction, in the order of the history. `commit` is 1 or 0."""

    operation: Numbers
    transaction: Numbers
    commit: Numbers
    outcome: Numbers


@dataclass(frozen=True, slots=True)
class RevealColumns:
    """Messages that commits put into their queues, each time that a consumer received one, in the order of the
    history."""

    operation: Numbers
    queue: Numbers
    offset: Numbers
    shard: Numbers
    number: Numbers
    half: Numbers
    crc: Numbers
    # When the consumer had received the message, in ns of the histories' clock.
    end: Numbers


@dataclass(frozen=True, slots=True)
class TransactionColumns:
    # The names of the transactions, by number.
    names: tuple[str, ...]
    prepares: PrepareColumns
    decides: DecideColumns
    ends: EndColumns
    reveals: RevealColumns


class TransactionReader:
    """Collects the operations about transactions while a history is read."""

    def __init__(self, queue_of: NumberOfQueue) -> None:
        """`queue_of` returns the number of a queue."""
        self._queue_of = queue_of
        self._names: dict[str, int] = {}
        self._prepares = Growing(shared=8, own=0)
        self._decides = Growing(shared=4, own=0)
        self._ends = Growing(shared=4, own=0)
        self._reveals = Growing(shared=3, own=5)

    def prepare(self, number: int, one: Prepare) -> None:
        queue, of = self._queue_of((one.topic, one.queue)), self._number(one.transaction)
        known = NONE if one.number is None else one.number
        self._prepares.add(1, (number, of, queue, one.shard, known, OUTCOMES[one.outcome], one.crc, one.end))

    def decide(self, number: int, one: Decide) -> None:
        self._decides.add(1, (number, self._number(one.transaction), one.commit, one.start))

    def end(self, number: int, one: EndRequest) -> None:
        self._ends.add(1, (number, self._number(one.transaction), one.commit, OUTCOMES[one.outcome]))

    def reveal(self, number: int, one: Reveal) -> None:
        shared = (number, self._queue_of((one.topic, one.queue)), one.end)
        self._reveals.add(len(one.offsets), shared, one.offsets, one.shards, one.numbers, one.halves, one.crcs)

    def columns(self) -> TransactionColumns:
        read, of, over, offset, shard, number, half, crc = self._reveals.columns()
        return TransactionColumns(
            tuple(self._names),
            PrepareColumns(*self._prepares.columns()),
            DecideColumns(*self._decides.columns()),
            EndColumns(*self._ends.columns()),
            RevealColumns(read, of, offset, shard, number, half, crc, over),
        )

    def _number(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))
