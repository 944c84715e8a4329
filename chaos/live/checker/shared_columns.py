"""Turns the operations of shared groups into columns: the messages that members received, and what they did with them.

Groups are numbered in the order in which they first appear.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaos.live.checker.cells import OUTCOMES, Growing, Numbers
from chaos.live.checker.timed_columns import NumberOfQueue
from ledger.history import LeaseRequest, SharedReceive
from ledger.history_fields import LEASE_CHANGES

ACK, NACK, EXTEND = range(len(LEASE_CHANGES))


@dataclass(frozen=True, slots=True)
class ReceiveColumns:
    """Messages that members received, in the order of the history. Times are in ns of the histories' clock."""

    operation: Numbers
    process: Numbers
    group: Numbers
    queue: Numbers
    # 1 if the group has order by key.
    by_key: Numbers
    lease_ms: Numbers
    start: Numbers
    end: Numbers
    offset: Numbers
    # The CRC of the key; 0: the message has no key.
    key: Numbers


@dataclass(frozen=True, slots=True)
class ChangeColumns:
    """Requests of members about a message, in the order of the history. `what` is ACK, NACK or EXTEND."""

    operation: Numbers
    process: Numbers
    group: Numbers
    queue: Numbers
    offset: Numbers
    what: Numbers
    ms: Numbers
    outcome: Numbers
    start: Numbers
    end: Numbers


@dataclass(frozen=True, slots=True)
class SharedColumns:
    # The names of the groups, by number.
    names: tuple[str, ...]
    receives: ReceiveColumns
    changes: ChangeColumns


class SharedReader:
    """Collects the operations of shared groups while a history is read."""

    def __init__(self, queue_of: NumberOfQueue) -> None:
        """`queue_of` returns the number of a queue."""
        self._queue_of = queue_of
        self._names: dict[str, int] = {}
        self._receives = Growing(shared=8, own=2)
        self._changes = Growing(shared=10, own=0)

    def receive(self, number: int, one: SharedReceive) -> None:
        place = (self._group(one.group), self._queue_of((one.topic, one.queue)))
        shared = (number, one.process, *place, one.by_key, one.lease_ms, one.start, one.end)
        self._receives.add(len(one.offsets), shared, one.offsets, one.keys)

    def change(self, number: int, one: LeaseRequest) -> None:
        place = (self._group(one.group), self._queue_of((one.topic, one.queue)), one.offset)
        what, outcome = LEASE_CHANGES.index(one.what), OUTCOMES[one.outcome]
        self._changes.add(1, (number, one.process, *place, what, one.ms, outcome, one.start, one.end))

    def columns(self) -> SharedColumns:
        return SharedColumns(
            tuple(self._names),
            ReceiveColumns(*self._receives.columns()),
            ChangeColumns(*self._changes.columns()),
        )

    def _group(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))
