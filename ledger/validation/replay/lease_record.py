"""Records for each message of a shared group who leases it, and judges the leases of a log.

    entry 40   lease 0 to 31 for 30 s      held until lease time 70,000
    entry 41   acknowledge 5               settled
    entry 42   lease 5 to 6  at 52,000     told: 5 is settled, and entry 40 holds 6

The record reads the commands of the log, and not the tables of the state machine. It tells three things:

1. An entry that leases a message that another lease holds, or that is settled. The leader decides with the state after
   its last entry, and there is never more than one on its way. So no right leader writes such an entry, although the
   state machine refuses it. Three cases are no fault: an earlier change of the same entry extended, put off or settled
   the message, because the members' changes count before the leases; and the group was reset after the last entry.
2. A change for which the state machine counts other messages than the record.
3. A group whose leases, attempts or settled messages in the state differ from those of the record.

Leases end at the lease time that the entries carry, as `ledger/state/lease_table.py` defines it. If the state machine
refuses all changes of a queue, for example because the topic was deleted, the record takes its word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from ledger.errors import GroupFullError, LedgerError
from ledger.state.lease_table import MAX_OPEN_OFFSETS, ChangeKind, LeaseResult, LeaseTable
from ledger.state.lease_window import MAX_WINDOW, LeaseWindow
from ledger.v1 import command_pb2
from ledger.validation.naming import TopicText
from ledger.validation.replay.lease_rows import LeaseRows
from ledger.words import counted

_VERBS = {
    ChangeKind.ACKNOWLEDGE: "acknowledges",
    ChangeKind.PUT_OFF: "puts off",
    ChangeKind.GIVE_BACK: "gives back",
    ChangeKind.EXTEND: "extends the lease of",
    ChangeKind.LEASE: "leases",
    ChangeKind.SKIP: "skips",
}

# What `LeaseRows.open_rows` returns, and the fields of the state machine's slots that must be equal.
_COLUMNS = ("the mark that it is settled", "the lease", "the end of the lease", "the number of attempts")
_SLOT_FIELDS = ("is_settled", "lease", "free_ms", "attempts")
# Topic id and number of a queue.
QueueKey = tuple[int, int]


class LeaseFault(NamedTuple):
    """What is wrong with a lease, and the place of its first message."""

    # True: a message was leased although it was not free. False: the state machine counts or knows something else.
    is_twice: bool
    reason: TopicText
    topic_id: int
    queue: int
    offset: int


@dataclass(slots=True)
class RecordedGroup:
    """A shared group. `created` is the index of its creation in the shard of its coordinator."""

    created: int
    queues: dict[QueueKey, LeaseRows] = field(default_factory=dict)


class LeaseRecord:
    """The leases of all shared groups in one replica's log."""

    def __init__(self, table: LeaseTable | None = None) -> None:
        """`table` are the leases at the log start."""
        self.time_ms = 0
        self._groups: dict[str, RecordedGroup] = {}
        # The offsets of all groups and queues that have rows from their `begin` on; None: it must be counted again.
        self._open_offsets: int | None = None
        # Groups and queues that were reset after the last change of leases.
        self._were_reset: set[tuple[str, QueueKey]] = set()
        if table is None:
            return
        self.time_ms = table.time_ms
        for name, known in table:
            group = self._groups[name] = RecordedGroup(known.created)
            for key, window in known.windows.items():
                rows = group.queues[key.topic_id, key.queue] = LeaseRows(window.begin, window.resets)
                for count, slot in zip(*window.runs(), strict=True):
                    settled, holder = bool(slot["is_settled"]), int(slot["lease"])
                    rows.put(int(count), settled, holder, int(slot["free_ms"]), int(slot["attempts"]))

    @property
    def is_empty(self) -> bool:
        return not self._groups

    # -- commands

    def change(
        self, body: bytes, results: Sequence[LeaseResult], index: int, ends: Mapping[QueueKey, int]
    ) -> Iterator[LeaseFault]:
        """Apply the command `ChangeLeases` in `body`, for which the state machine has these results. `ends` are the
        ends of the queues. Yield what is wrong; run this to its end, because it changes the record meanwhile."""
        try:
            wire = command_pb2.Command.FromString(body).change_leases
        except DecodeError:
            return  # the replay has told that no replica can apply the entry
        self.time_ms = max(self.time_ms, wire.time_ms)
        for queue, result in zip(wire.queues, results, strict=True):
            rows = self._opened(queue, result, ends)
            if rows is not None and not isinstance(result, LedgerError):
                yield from self._change_queue(queue, rows, result, index, ends)
        if wire.queues:
            self._were_reset.clear()

    def follow(self, body: bytes, result: object) -> None:
        """Apply another command, for which the state machine has this result."""
        command = command_pb2.Command.FromString(body)
        match command.WhichOneof("command"):
            case "reset_offsets" if isinstance(result, Sequence):
                self._reset(command.reset_offsets, result)
            case "forget_consumer_group":
                self._groups.pop(command.forget_consumer_group.consumer_group, None)
            case "delete_topic" if result is not None:
                self._forget_topic(command.delete_topic.topic_id)
            case _:
                return
        self._open_offsets = None

    def _reset(self, wire: command_pb2.ResetOffsets, results: Sequence[object]) -> None:
        group = self._groups.get(wire.consumer_group)
        if group is None:
            return
        for each, result in zip(wire.offsets, results, strict=True):
            if not isinstance(result, LedgerError):
                key, offset = (each.topic_id, each.queue), max(each.offset, 0)
                group.queues.setdefault(key, LeaseRows(offset)).reset(offset)
                self._were_reset.add((wire.consumer_group, key))

    def _forget_topic(self, topic_id: int) -> None:
        for group in self._groups.values():
            group.queues = {key: rows for key, rows in group.queues.items() if key[0] != topic_id}

    def settle(self, consumer_group: str, topic_id: int, queue: int, offset: int) -> None:
        """Settle a message that was moved to the dead letters."""
        group = self._groups.get(consumer_group)
        if group is not None and (rows := group.queues.get((topic_id, queue))) is not None:
            self._open_offsets = None
            rows.settle(offset)

    def _opened(
        self, queue: command_pb2.QueueLeases, result: LeaseResult, ends: Mapping[QueueKey, int]
    ) -> LeaseRows | None:
        """Return the rows of a queue, or None if the state machine refuses its changes."""
        group, key = self._groups.get(queue.consumer_group), (queue.topic_id, queue.queue)
        if isinstance(result, LedgerError) and not isinstance(result, GroupFullError):
            return None
        if group is None or group.created < queue.created:
            group = RecordedGroup(queue.created)
            self._groups[queue.consumer_group] = group
            self._open_offsets = None
        if isinstance(result, LedgerError):
            return None
        if (rows := group.queues.get(key)) is None:
            rows = group.queues[key] = LeaseRows(min(queue.start_offset, ends.get(key, 0)))
        return rows

    def _change_queue(
        self,
        queue: command_pb2.QueueLeases,
        rows: LeaseRows,
        result: tuple[int, ...],
        index: int,
        ends: Mapping[QueueKey, int],
    ) -> Iterator[LeaseFault]:
        key = (queue.topic_id, queue.queue)
        before = len(rows)
        others = self._count_open_offsets() - before
        most = min(MAX_WINDOW, MAX_OPEN_OFFSETS - others)
        changed: list[tuple[int, int]] = []
        is_excused = (queue.consumer_group, key) in self._were_reset
        for change, count in zip(queue.changes, result, strict=True):
            first, end = change.first, change.first + change.size
            lacking: list[int] = []
            if change.kind == ChangeKind.LEASE:
                lacking = rows.lacking(first, end, self.time_ms)
                is_fault = lacking and not is_excused and not all(_is_in(changed, offset) for offset in lacking)
                if is_fault or (lacking and count):
                    yield self._twice(queue, rows, index, lacking[0])
            due = 0 if lacking else self._apply(rows, change, index, most, ends.get(key, 0))
            if due != count and not lacking:
                yield _fault(
                    False,
                    queue,
                    first,
                    f"entry {index} {_VERBS[ChangeKind(change.kind)]} {counted(due, 'message')} of consumer group "
                    f"{queue.consumer_group!r} from offset {first} on in ",
                    f", and the state machine counts {count}",
                )
            if change.kind not in (ChangeKind.LEASE, ChangeKind.SKIP):
                changed.append((first, end))
        self._open_offsets = others + len(rows)

    def _apply(self, rows: LeaseRows, change: command_pb2.LeaseChange, index: int, most: int, end_offset: int) -> int:
        """Apply one change, and return how many messages it concerns. The messages of a lease are free."""
        kind, first, end = change.kind, change.first, change.first + change.size
        if kind in (ChangeKind.LEASE, ChangeKind.SKIP):
            passes_all = kind == ChangeKind.SKIP and first <= rows.begin and end >= rows.end
            if end > end_offset or (end - rows.begin > most and not passes_all):
                return 0
            if kind == ChangeKind.SKIP:
                return rows.skip(first, end)
            return rows.lease(first, end, index, self.time_ms + change.duration_ms)
        if change.resets != rows.resets:
            return 0
        until_ms = self.time_ms + change.duration_ms
        match kind:
            case ChangeKind.ACKNOWLEDGE:
                return rows.acknowledge(first, end, change.lease)
            case ChangeKind.PUT_OFF:
                return rows.free(first, end, change.lease, until_ms)
            case ChangeKind.GIVE_BACK:
                return rows.free(first, end, change.lease, self.time_ms, uncounted=1)
            case _:
                return rows.extend(first, end, change.lease, until_ms)

    def _count_open_offsets(self) -> int:
        if self._open_offsets is None:
            self._open_offsets = sum(len(rows) for group in self._groups.values() for rows in group.queues.values())
        return self._open_offsets

    def _twice(self, queue: command_pb2.QueueLeases, rows: LeaseRows, index: int, offset: int) -> LeaseFault:
        told = f"entry {index} leases message {offset} of "
        if rows.is_settled_at(offset):
            why = f" for consumer group {queue.consumer_group!r}, and the message is settled"
        else:
            row = offset - rows.first
            holder, free_ms = rows.holders[row], rows.free_ms[row]
            until = f"until the lease time {free_ms}, which is {free_ms - self.time_ms} ms later"
            who = f"the lease of entry {holder} holds it" if holder else "it is put off"
            why = f" for consumer group {queue.consumer_group!r}, and {who} {until}"
        return _fault(True, queue, offset, told, why)

    # -- comparison

    def differences(self, table: LeaseTable, index: int) -> Iterator[LeaseFault]:
        """Yield how the leases of a state after the entry `index` differ: the first difference of each queue."""
        state = {(name, (key[0], key[1])): window for name, group in table for key, window in group.windows.items()}
        own = {(name, key): rows for name, group in self._groups.items() for key, rows in group.queues.items()}
        for name, key in sorted(state.keys() | own.keys()):
            window, rows = state.get((name, key)), own.get((name, key))
            if window is None or rows is None:
                offset, found = 0, f"only {'the state' if rows is None else 'the log'} has leases there"
            elif (compared := _compared(rows, window)) is None:
                continue
            else:
                offset, found = compared
            told = f"after entry {index} the leases of consumer group {name!r} in queue {key[1]} of "
            reason = TopicText((told, key[0], f" differ from the log: {found}"))
            yield LeaseFault(False, reason, key[0], key[1], offset)
        if table.time_ms != self.time_ms:
            reason = TopicText(
                (f"after entry {index} the lease time is {table.time_ms}, and {self.time_ms} by the log",)
            )
            yield LeaseFault(False, reason, 0, 0, 0)


def _compared(rows: LeaseRows, window: LeaseWindow) -> tuple[int, str] | None:
    """Return the offset of the first message that differs, and how, or None."""
    own, state = (rows.begin, rows.end, rows.resets), (window.begin, window.end, window.resets)
    if own != state:
        return min(rows.begin, window.begin), (
            f"begin, end and resets are {', '.join(map(str, state))} in the state, and {', '.join(map(str, own))} by "
            "the log"
        )
    slots = window.slots
    for what, column, recorded in zip(_COLUMNS, _SLOT_FIELDS, rows.open_rows(), strict=True):
        found, due = slots[column].astype(np.uint64), np.array(recorded, np.uint64)
        different = np.flatnonzero(found != due)
        if len(different):
            row = int(different[0])
            offset = window.begin + row
            return offset, f"{what} of message {offset} is {found[row]} in the state, and {due[row]} by the log"
    return None


def _is_in(ranges: Sequence[tuple[int, int]], offset: int) -> bool:
    return any(first <= offset < end for first, end in ranges)


def _fault(is_twice: bool, queue: command_pb2.QueueLeases, offset: int, told: str, why: str) -> LeaseFault:
    reason = TopicText((f"{told}queue {queue.queue} of ", queue.topic_id, why))
    return LeaseFault(is_twice, reason, queue.topic_id, queue.queue, offset)
