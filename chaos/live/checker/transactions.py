"""Checks transactions: all messages or none, each once, after the decision, and never after a rollback.

    prepare ok ── decide commit ──┬── end ok         each message is in its queue, once
                                  └── end unknown    the same: whoever is asked tells the cluster the same decision
               ── decide rollback                    no message is ever seen
               ── nobody decides                     no message is ever seen

A message that a commit put into its queue is matched with its prepare by the queue, the transaction and the CRC. If the
prepare has no answer, its transaction has no known number, and queue and CRC decide.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from chaos.live.checker.anomaly import Finding, finding, is_in, where
from chaos.live.checker.cells import FAIL, NONE, OK, Flags, Numbers
from chaos.live.checker.columns import HistoryColumns
from chaos.live.checker.joining import at_two_offsets, found, last_read, numbered


def transaction_findings(columns: HistoryColumns) -> list[Finding]:
    """Run all checks of transactions."""
    told = _Told(columns)
    return [
        _lost(told),
        _torn(told),
        _repeated(told),
        _after_rollback(told),
        _undecided(told),
        _phantoms(told),
        _two_outcomes(told),
    ]


@dataclass(frozen=True, slots=True)
class TransactionFigures:
    """Counts of one history. `unanswered` counts transactions that were decided, and whose producer got no answer or
    did not ask. `revealed` counts messages."""

    committed: int
    rolled_back: int
    unanswered: int
    revealed: int


def transaction_figures(columns: HistoryColumns) -> TransactionFigures:
    told = _Told(columns)
    ended = told.acknowledged[True] | told.acknowledged[False]
    decided = (told.decided_ns[True] != NONE) | (told.decided_ns[False] != NONE)
    return TransactionFigures(
        int(told.acknowledged[True].sum()),
        int(told.acknowledged[False].sum()),
        int((decided & ~ended).sum()),
        len(np.unique(told.message)),
    )


class _Told:
    """What the history says about each transaction, and the prepare of each message that was revealed."""

    def __init__(self, columns: HistoryColumns) -> None:
        self.columns = columns
        self.of = columns.transactions
        prepares, reveals = self.of.prepares, self.of.reveals
        count = len(self.of.names)
        # By whether it is a commit, for each transaction: when it was first decided, or NONE; whether it was
        # acknowledged; whether a request was refused.
        self.decided_ns = {commit: self._decided(commit, count) for commit in (True, False)}
        self.acknowledged = {commit: self._ended(commit, OK, count) for commit in (True, False)}
        self.refused = {commit: self._ended(commit, FAIL, count) for commit in (True, False)}
        # Numbers of messages by queue, transaction and value; by queue and value; and by queue and half batch.
        own, met = numbered(
            (prepares.queue, prepares.shard, prepares.number, prepares.crc),
            (reveals.queue, reveals.shard, reveals.number, reveals.crc),
        )
        own_content, self.content = numbered((prepares.queue, prepares.crc), (reveals.queue, reveals.crc))
        (self.message,) = numbered((reveals.queue, reveals.half))
        by_number = found(met, own, prepares.outcome == OK)
        by_content = found(self.content, own_content, prepares.outcome != OK)
        # The row of the prepare of each reveal; NONE: there is none.
        self.prepare = np.where(by_number != NONE, by_number, by_content)
        # The transaction of each reveal, or NONE.
        self.transaction = _at(prepares.transaction, self.prepare)
        # Whether each prepared message was seen in its queue.
        self.seen = is_in(np.arange(len(own)), np.unique(self.prepare))

    def _decided(self, commit: bool, count: int) -> Numbers:
        decides = self.of.decides
        rows = where(decides.commit == commit)
        first = np.full(count, NONE, np.int64)
        # The earliest decision is written last.
        order = rows[np.argsort(-decides.start[rows], kind="stable")]
        first[decides.transaction[order]] = decides.start[order]
        return first

    def _ended(self, commit: bool, outcome: int, count: int) -> Flags:
        ends = self.of.ends
        flags = np.zeros(count, np.bool_)
        flags[ends.transaction[(ends.commit == commit) & (ends.outcome == outcome)]] = True
        return flags

    def is_committed(self) -> Flags:
        """Return, for each transaction, whether it surely was committed in the end: a commit was acknowledged, or was
        decided by every program that said anything."""
        decided: Flags = (self.decided_ns[True] != NONE) & (self.decided_ns[False] == NONE)
        return self.acknowledged[True] | decided

    def name(self, row: int) -> str:
        """Return words for a message that was revealed."""
        reveals = self.of.reveals
        place = self.columns.place(int(reveals.queue[row]), int(reveals.offset[row]))
        of = int(self.transaction[row])
        who = f"transaction {self.of.names[of]}" if of != NONE else "an unknown transaction"
        return f"the message at {place} of {who} (number {reveals.number[row]} of shard {reveals.shard[row]})"

    def operations(self, row: int) -> list[int]:
        """Return the lines that prove what a message is: its prepare, the decisions and ends, and the read."""
        prepare, of = int(self.prepare[row]), int(self.transaction[row])
        lines = [] if prepare == NONE else [int(self.of.prepares.operation[prepare])]
        return [*lines, *self.lines_of(of), int(self.of.reveals.operation[row])]

    def lines_of(self, transaction: int) -> list[int]:
        told = (self.of.decides, self.of.ends)
        return [int(line) for one in told for line in one.operation[one.transaction == transaction]]

    def first_of_each(self, wrong: Flags) -> Numbers:
        """Return the first row of each message, of these rows: several consumers may have received it."""
        _, first = np.unique(np.where(wrong, self.message, NONE - np.arange(len(wrong))), return_index=True)
        return np.sort(first[wrong[first]])


def _lost(told: _Told) -> Finding:
    """Find messages of committed transactions that are not in their queues, which were read from the beginning to the
    end after the decision."""
    prepares = told.of.prepares
    rows = (prepares.outcome == OK) & ~told.seen & _was_read(told) & told.is_committed()[prepares.transaction]

    def tell(row: int) -> tuple[str, Iterable[int]]:
        return f"{_prepared(told, row)} is not there, although the transaction was committed", _lines(told, row)

    return finding("lost commit", where(rows), tell)


def _torn(told: _Told) -> Finding:
    """Find messages that are not in their queues, of transactions that are not surely committed and of which other
    messages are in their queues."""
    prepares, count = told.of.prepares, len(told.of.names)
    begun = np.zeros(count, np.bool_)
    begun[told.transaction[told.transaction != NONE]] = True
    partly = begun & ~told.is_committed()
    rows = (prepares.outcome == OK) & ~told.seen & _was_read(told) & partly[prepares.transaction]

    def tell(row: int) -> tuple[str, Iterable[int]]:
        sentence = f"{_prepared(told, row)} is not there, and another message of the transaction is in its queue"
        return sentence, _lines(told, row)

    return finding("torn commit", where(rows), tell)


def _repeated(told: _Told) -> Finding:
    """Find messages with two offsets, by their half batches and by their values."""
    reveals = told.of.reveals
    wrong, before = at_two_offsets(reveals.offset, told.message, told.content)

    def tell(row: int) -> tuple[str, Iterable[int]]:
        first = int(before[row])
        operations = [int(reveals.operation[first]), *told.operations(row)]
        return f"{told.name(row)} is at offset {reveals.offset[first]}, too", operations

    return finding("repeated commit", where(wrong), tell)


def _after_rollback(told: _Told) -> Finding:
    """Find messages that were seen although a rollback was acknowledged, or decided and no commit."""
    undone = told.acknowledged[False] | ((told.decided_ns[False] != NONE) & (told.decided_ns[True] == NONE))
    rows = told.first_of_each(_at(undone, told.transaction) == 1)

    def tell(row: int) -> tuple[str, Iterable[int]]:
        return f"{told.name(row)} was read, although the transaction was rolled back", told.operations(row)

    return finding("visible rollback", rows, tell)


def _undecided(told: _Told) -> Finding:
    """Find messages that a client had before anybody had decided to commit, or without a decision."""
    decided_ns = _at(told.decided_ns[True], told.transaction)
    has_rollback = _at(told.decided_ns[False], told.transaction) != NONE
    never = (decided_ns == NONE) & ~has_rollback
    early = (decided_ns != NONE) & (told.of.reveals.end < decided_ns)
    rows = told.first_of_each((told.transaction != NONE) & (never | early))

    def tell(row: int) -> tuple[str, Iterable[int]]:
        return f"{told.name(row)} was read before its producer had decided to commit", told.operations(row)

    return finding("early commit", rows, tell)


def _phantoms(told: _Told) -> Finding:
    rows = told.first_of_each(told.prepare == NONE)

    def tell(row: int) -> tuple[str, Iterable[int]]:
        crc = int(told.of.reveals.crc[row])
        return f"{told.name(row)} has CRC {crc:08x}, and was never sent so", told.operations(row)

    return finding("phantom commit", rows, tell)


def _two_outcomes(told: _Told) -> Finding:
    """Find transactions that ended in two ways, or whose commit was refused although nobody decided to roll back."""
    both = told.acknowledged[True] & told.acknowledged[False]
    undone = told.refused[True] & (told.decided_ns[False] == NONE)
    done = told.refused[False] & (told.decided_ns[True] == NONE)

    def tell(row: int) -> tuple[str, Iterable[int]]:
        what = "was committed for one client and rolled back for another" if both[row] else "ended as nobody decided"
        return f"transaction {told.of.names[row]} {what}", told.lines_of(row)

    return finding("two outcomes", where(both | undone | done), tell)


def _was_read(told: _Told) -> Flags:
    """Return, for each prepare, whether its queue was read from the beginning to the end after the decision to
    commit."""
    prepares = told.of.prepares
    read_ns = _at(last_read(told.columns), prepares.queue)
    after_ns = np.maximum(prepares.end, _at(told.decided_ns[True], prepares.transaction))
    was_read: Flags = (read_ns != NONE) & (after_ns < read_ns)
    return was_read


def _prepared(told: _Told, row: int) -> str:
    prepares = told.of.prepares
    topic, queue = told.columns.queues[int(prepares.queue[row])]
    return f"the message for {topic}:{queue} of transaction {told.of.names[int(prepares.transaction[row])]}"


def _lines(told: _Told, row: int) -> list[int]:
    prepares = told.of.prepares
    return [int(prepares.operation[row]), *told.lines_of(int(prepares.transaction[row]))]


def _at(values: Numbers | Flags, rows: Numbers) -> Numbers:
    """Return the values in these rows; NONE for rows that are NONE."""
    if not len(values):
        return np.full(len(rows), NONE, np.int64)
    return np.where(rows == NONE, NONE, values[rows].astype(np.int64))
