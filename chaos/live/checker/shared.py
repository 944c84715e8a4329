"""Checks shared groups: one member at a time, nothing again after its acknowledgement, everything in the end, and order
by key.

    receive ───────────── lease ─────────────┐
       │  nobody else receives the message   │ then anybody may
       └──> ack counted: nobody receives it again

A lease was granted between `start` and `end` of its receive. So it surely lasts from `end` until `start` and its
length, and not longer than until its member asks to end it. The rules walk over the messages one after another: the
shared groups of a run have few messages, compared with its sends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chaos.live.checker.anomaly import Finding, finding, where
from chaos.live.checker.cells import NONE, OK, Numbers
from chaos.live.checker.columns import HistoryColumns
from chaos.live.checker.joining import last_read
from chaos.live.checker.shared_columns import ACK, EXTEND

# Clocks are read in ms.
_EXACT_NS = 20_000_000
_NS = 1_000_000
# Group, queue, offset.
_Message = tuple[int, int, int]


def shared_findings(columns: HistoryColumns) -> list[Finding]:
    """Run all checks of shared groups."""
    told = _Told(columns)
    return [_leased_twice(told), _consumed_twice(told), _out_of_order(told), _unsettled(told)]


@dataclass(frozen=True, slots=True)
class SharedFigures:
    """Counts of one history: messages that were leased, all leases, and messages whose acknowledgement counted."""

    messages: int
    leases: int
    consumed: int


def shared_figures(columns: HistoryColumns) -> SharedFigures:
    told = _Told(columns)
    return SharedFigures(len(told.received), len(told.of.receives.offset), len(told.acknowledged()))


class _Told:
    """What the history says about each message of each group."""

    def __init__(self, columns: HistoryColumns) -> None:
        self.columns = columns
        self.of = columns.shared
        receives, changes = self.of.receives, self.of.changes
        # By message: the rows of its receives in the order of their ends, and of its changes in the order of their
        # starts.
        self.received = self._rows((receives.group, receives.queue, receives.offset), receives.end)
        self.changed = self._rows((changes.group, changes.queue, changes.offset), changes.start)

    @staticmethod
    def _rows(message: tuple[Numbers, Numbers, Numbers], order: Numbers) -> dict[_Message, list[int]]:
        rows = defaultdict[_Message, list[int]](list)
        for row in np.argsort(order, kind="stable").tolist():
            rows[int(message[0][row]), int(message[1][row]), int(message[2][row])].append(row)
        return dict(rows)

    def acks(self, message: _Message) -> list[int]:
        return [row for row in self.changed.get(message, ()) if self.of.changes.what[row] == ACK]

    def acknowledged(self) -> dict[_Message, int]:
        """Return the row of the first acknowledgement that counted, by message."""
        changes, first = self.of.changes, dict[_Message, int]()
        for message in self.changed:
            counted = [row for row in self.acks(message) if changes.outcome[row] == OK]
            if counted:
                first[message] = min(counted, key=lambda row: int(changes.end[row]))
        return first

    def name(self, message: _Message) -> str:
        group, queue, offset = message
        return f"{self.columns.place(queue, offset)} for group {self.of.names[group]}"

    def message_of(self, row: int) -> _Message:
        receives = self.of.receives
        return int(receives.group[row]), int(receives.queue[row]), int(receives.offset[row])

    def lines(self, message: _Message) -> list[int]:
        receives, changes = self.of.receives, self.of.changes
        rows = [int(receives.operation[row]) for row in self.received.get(message, ())]
        return rows + [int(changes.operation[row]) for row in self.changed.get(message, ())]


def _leased_twice(told: _Told) -> Finding:
    """Find receives of a message while it was surely leased to a receive before."""
    receives, before = told.of.receives, dict[int, int]()
    for message, rows in told.received.items():
        for first, second in pairwise(rows):
            until_ns = _surely_until(told, message, first, int(receives.end[second]))
            other_way = int(receives.start[second]) + int(receives.lease_ms[second]) * _NS <= int(receives.end[first])
            if int(receives.end[second]) < until_ns - _EXACT_NS and not other_way:
                before[second] = first

    def tell(row: int) -> tuple[str, Iterable[int]]:
        first, message = before[row], told.message_of(row)
        until_ns = _surely_until(told, message, first, int(receives.end[row]))
        early_ms = (until_ns - int(receives.end[row])) // _NS
        sentence = (
            f"{told.name(message)} was received by member {receives.process[row]} at least {early_ms} ms before the "
            f"lease of member {receives.process[first]} ended"
        )
        return sentence, told.lines(message)

    return finding("leased twice", np.array(sorted(before), np.int64), tell)


def _surely_until(told: _Told, message: _Message, row: int, now_ns: int) -> int:
    """Return until when a message was surely leased to this receive, as seen at `now_ns`; 0 if its member may have
    ended the lease before."""
    receives, changes = told.of.receives, told.of.changes
    until_ns = int(receives.start[row]) + int(receives.lease_ms[row]) * _NS
    for each in told.changed.get(message, ()):
        begun_ns = int(changes.start[each])
        if changes.process[each] != receives.process[row] or not receives.end[row] <= begun_ns < now_ns:
            continue
        if changes.what[each] != EXTEND:
            return 0
        longer_ns = begun_ns + int(changes.ms[each]) * _NS
        until_ns = longer_ns if changes.outcome[each] == OK and changes.end[each] < now_ns else min(until_ns, longer_ns)
    return until_ns


def _consumed_twice(told: _Told) -> Finding:
    """Find receives that began after an acknowledgement of the message had counted."""
    receives, changes, wrong = told.of.receives, told.of.changes, list[int]()
    for message, ack in told.acknowledged().items():
        again = [row for row in told.received.get(message, ()) if receives.start[row] > changes.end[ack]]
        wrong += again[:1]

    def tell(row: int) -> tuple[str, Iterable[int]]:
        message = told.message_of(row)
        return f"{told.name(message)} was received again after its acknowledgement had counted", told.lines(message)

    return finding("consumed twice", np.array(sorted(wrong), np.int64), tell)


def _out_of_order(told: _Told) -> Finding:
    """Find messages that were received before the acknowledgement of an earlier message with their key was asked
    for, in groups with order by key."""
    receives, changes = told.of.receives, told.of.changes
    by_key = defaultdict[tuple[int, int, int], list[_Message]](list)
    for message, rows in told.received.items():
        if receives.by_key[rows[0]] and receives.key[rows[0]]:
            by_key[message[0], message[1], int(receives.key[rows[0]])].append(message)
    before = dict[int, _Message]()
    for messages in by_key.values():
        # Of the earlier messages, the one that was asked to be acknowledged last. None: never.
        latest: tuple[int | None, _Message] | None = None
        for message in sorted(messages):
            first = told.received[message][0]
            if latest is not None and (latest[0] is None or receives.end[first] < latest[0]):
                before[first] = latest[1]
            acks = told.acks(message)
            asked_ns = int(changes.start[acks[0]]) if acks else None
            if latest is None or (latest[0] is not None and (asked_ns is None or asked_ns > latest[0])):
                latest = asked_ns, message

    def tell(row: int) -> tuple[str, Iterable[int]]:
        message, earlier = told.message_of(row), before[row]
        sentence = f"{told.name(message)} was received before offset {earlier[2]} of its key was acknowledged"
        return sentence, [*told.lines(earlier), *told.lines(message)]

    return finding("key order", np.array(sorted(before), np.int64), tell)


def _unsettled(told: _Told) -> Finding:
    """Find messages of the final readings that a group of their queue was not asked to settle. A group that received a
    message of a queue consumes the whole queue."""
    columns, reads = told.columns, told.columns.reads
    consumed = sorted({(group, queue) for group, queue, _ in told.received})
    read_ns = last_read(columns)
    wrong: list[tuple[int, _Message]] = []
    for group, queue in consumed:
        rows = where((reads.queue == queue) & reads.final) if read_ns[queue] != NONE else np.empty(0, np.int64)
        offsets, first = np.unique(reads.offset[rows], return_index=True)
        for offset, row in zip(offsets.tolist(), rows[first].tolist(), strict=True):
            if not told.acks((group, queue, offset)):
                wrong.append((row, (group, queue, offset)))

    def tell(at: int) -> tuple[str, Iterable[int]]:
        row, message = wrong[at]
        return f"{told.name(message)} was never acknowledged", [int(reads.operation[row]), *told.lines(message)]

    return finding("unsettled", np.arange(len(wrong), dtype=np.int64), tell)
