"""Checks messages with delivery times: never early, once, as they were sent, and not after a cancel.

    schedule  ok: identity 9 of queue 0 ──┬── cancel ok         never delivered
                                          ├── cancel fail       delivered, or cancelled by an attempt without an answer
                                          └── no cancel         delivered once, when its time has come
    schedule  unknown: no identity ─────────── value and time   delivered once, or not at all

Deliveries are matched with acknowledged schedules by queue and identity, and with others by queue, delivery time and
CRC. The values of a load are different, so two deliveries with equal values are one message that was delivered twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from chaos.live.checker.anomaly import Finding, finding, is_in, same_as_before, where
from chaos.live.checker.cells import FAIL, NONE, OK, UNKNOWN, Flags, Numbers
from chaos.live.checker.clock_doubt import RIGHT_MS, ClockDoubt
from chaos.live.checker.columns import HistoryColumns
from chaos.live.checker.joining import at_two_offsets, found, last_read, numbered

_NS = 1_000_000


def timed_findings(columns: HistoryColumns, doubt: ClockDoubt) -> list[Finding]:
    """Run all checks of messages with delivery times."""
    matches = _Matches(columns)
    return [
        _early(matches, doubt),
        _repeated(matches),
        _cancelled(matches),
        _lost(matches),
        _altered(matches),
        _phantoms(matches),
        _aborted(matches),
        _reordered(matches),
    ]


@dataclass(frozen=True, slots=True)
class TimedFigures:
    """Counts of one history. The lateness is that of messages whose time had not passed when they were sent, by the
    dates of the deliveries."""

    scheduled: int
    cancelled: int
    delivered: int
    late_p50_ms: int
    late_p99_ms: int
    latest_ms: int


def timed_figures(columns: HistoryColumns) -> TimedFigures:
    matches = _Matches(columns)
    schedules, cancels, deliveries = columns.timed.schedules, columns.timed.cancels, columns.timed.deliveries
    _, first = np.unique(matches.delivered, return_index=True)
    of = matches.schedule[first]
    first, of = first[of != NONE], of[of != NONE]
    ahead = schedules.time_ms[of] > schedules.clock_ms[of]
    late_ms = np.sort((deliveries.appended_ms[first] - deliveries.time_ms[first])[ahead])
    p50, p99, most = (_quantile(late_ms, share) for share in (0.5, 0.99, 1.0))
    cancelled = int((cancels.outcome == OK).sum())
    return TimedFigures(int((schedules.outcome == OK).sum()), cancelled, len(first), p50, p99, most)


class _Matches:
    """The deliveries of a history, each with the schedule to which it belongs."""

    def __init__(self, columns: HistoryColumns) -> None:
        self.columns = columns
        self.timed = columns.timed
        schedules, deliveries = self.timed.schedules, self.timed.deliveries
        # Numbers of messages by queue and identity. Schedules without an answer have negative numbers.
        own, self.delivered = numbered(
            (schedules.queue, schedules.identity), (deliveries.queue, deliveries.identity)
        )  # fmt: skip
        self.scheduled = np.where(schedules.identity == NONE, NONE - np.arange(len(own)), own)
        # Numbers of messages by queue, delivery time and value.
        self.own_content, self.content = numbered(
            (schedules.queue, schedules.time_ms, schedules.crc), (deliveries.queue, deliveries.time_ms, deliveries.crc)
        )
        by_identity = found(self.delivered, self.scheduled, schedules.outcome == OK)
        by_content = found(self.content, self.own_content, schedules.outcome == UNKNOWN)
        # The row of the schedule of each delivery; NONE: there is none.
        self.schedule = np.where(by_identity != NONE, by_identity, by_content)

    def name(self, row: int) -> str:
        """Return words for a delivery."""
        deliveries = self.timed.deliveries
        place = self.columns.place(int(deliveries.queue[row]), int(deliveries.offset[row]))
        return (
            f"the waiting message {deliveries.identity[row]}, due at {deliveries.time_ms[row]}, delivered at {place},"
        )

    def operations(self, row: int) -> list[int]:
        schedule = int(self.schedule[row])
        told = [] if schedule == NONE else [int(self.timed.schedules.operation[schedule])]
        return [*told, int(self.timed.deliveries.operation[row])]


def _early(matches: _Matches, doubt: ClockDoubt) -> Finding:
    """Check both the date of a delivery, by the cluster's word, and the time at which a client had received it."""
    deliveries, schedules = matches.timed.deliveries, matches.timed.schedules
    dated = deliveries.appended_ms < deliveries.time_ms - doubt.date_error_ms
    due_ns = (deliveries.time_ms - RIGHT_MS) * _NS - matches.timed.clock_offset_ns
    wrong = dated | (deliveries.end < due_ns)
    begin = np.where(matches.schedule == NONE, 0, schedules.start[matches.schedule] if len(schedules.start) else 0)
    for start, end in doubt.windows:
        wrong &= (deliveries.end < start) | (begin > end)

    def tell(row: int) -> tuple[str, Iterable[int]]:
        early_ms = int(deliveries.time_ms[row] - deliveries.appended_ms[row])
        seen_ms = int(due_ns[row] + RIGHT_MS * _NS - deliveries.end[row]) // _NS
        sentence = f"{matches.name(row)} is dated {early_ms} ms and was received {seen_ms} ms before that time"
        return sentence, matches.operations(row)

    return finding("early delivery", where(wrong), tell)


def _repeated(matches: _Matches) -> Finding:
    """Find messages with two offsets, by their identities and by their values."""
    deliveries = matches.timed.deliveries
    wrong, before = at_two_offsets(deliveries.offset, matches.delivered, matches.content)

    def tell(row: int) -> tuple[str, Iterable[int]]:
        first = int(before[row])
        sentence = f"{matches.name(row)} was delivered at offset {deliveries.offset[first]}, too"
        return sentence, [int(deliveries.operation[first]), *matches.operations(row)]

    return finding("repeated delivery", where(wrong), tell)


def _cancelled(matches: _Matches) -> Finding:
    """Find messages that were delivered and cancelled. A client that was told that a message is cancelled can rely on
    it, at any time."""
    schedules, cancels = matches.timed.schedules, matches.timed.cancels
    cancel = _cancels_of(matches, cancels.outcome == OK)
    of = matches.schedule
    wrong = (of != NONE) & (cancel[of] != NONE) if len(schedules.queue) else np.zeros(len(of), np.bool_)
    _, first = np.unique(np.where(wrong, matches.delivered, NONE - np.arange(len(of))), return_index=True)
    rows = np.sort(first[wrong[first]])

    def tell(row: int) -> tuple[str, Iterable[int]]:
        asked = int(cancels.operation[cancel[of[row]]])
        return f"{matches.name(row)} was cancelled", [*matches.operations(row), asked]

    return finding("cancelled delivery", rows, tell)


def _lost(matches: _Matches) -> Finding:
    """Find acknowledged messages that no client received and that nobody may have cancelled. Their queues were read to
    the end and from the beginning, after their delivery times. A load cancels with the producer that sent the message,
    so nothing is judged about messages of a killed producer: its last cancel may have no line."""
    columns, schedules, cancels = matches.columns, matches.timed.schedules, matches.timed.cancels
    asked = _cancels_of(matches, np.ones(len(cancels.outcome), np.bool_)) != NONE
    asked |= is_in(schedules.process, np.array(sorted(columns.silent), np.int64))
    read_ns = last_read(columns)[schedules.queue] if len(schedules.queue) else schedules.queue
    due_ns = schedules.time_ms * _NS - matches.timed.clock_offset_ns
    is_due = (read_ns != NONE) & (due_ns < read_ns) & (schedules.end < read_ns)
    never = ~is_in(matches.scheduled, matches.delivered)

    def tell(row: int) -> tuple[str, Iterable[int]]:
        topic, queue = columns.queues[int(schedules.queue[row])]
        sentence = (
            f"the waiting message {schedules.identity[row]} for {topic}:{queue}, due at {schedules.time_ms[row]}, was "
            "acknowledged and never delivered"
        )
        return sentence, (int(schedules.operation[row]),)

    return finding("lost delivery", where((schedules.outcome == OK) & ~asked & is_due & never), tell)


def _altered(matches: _Matches) -> Finding:
    schedules, deliveries = matches.timed.schedules, matches.timed.deliveries
    of = matches.schedule
    differs = np.zeros(len(of), np.bool_)
    if len(schedules.queue):
        differs = (of != NONE) & (
            (schedules.time_ms[of] != deliveries.time_ms) | (schedules.crc[of] != deliveries.crc)
        )  # fmt: skip

    def tell(row: int) -> tuple[str, Iterable[int]]:
        sent = int(of[row])
        sentence = (
            f"{matches.name(row)} has CRC {deliveries.crc[row]:08x}, and was sent with CRC {schedules.crc[sent]:08x} "
            f"for {schedules.time_ms[sent]}"
        )
        return sentence, matches.operations(row)

    return finding("altered delivery", where(differs), tell)


def _phantoms(matches: _Matches) -> Finding:
    """Find deliveries of messages that nobody sent. If a producer was killed, its history may lack what it sent last,
    so nothing is judged."""
    columns, schedules = matches.columns, matches.timed.schedules
    refused = found(matches.content, matches.own_content, schedules.outcome == FAIL) != NONE
    unsent = (matches.schedule == NONE) & ~refused
    if columns.known - columns.orderly:
        unsent[:] = False

    def tell(row: int) -> tuple[str, Iterable[int]]:
        return f"{matches.name(row)} was never sent for that queue and time", matches.operations(row)

    return finding("phantom delivery", where(unsent), tell)


def _aborted(matches: _Matches) -> Finding:
    schedules, deliveries = matches.timed.schedules, matches.timed.deliveries
    refused = found(matches.content, matches.own_content, schedules.outcome == FAIL)
    wrong = (matches.schedule == NONE) & (refused != NONE)

    def tell(row: int) -> tuple[str, Iterable[int]]:
        operations = (int(schedules.operation[refused[row]]), int(deliveries.operation[row]))
        return f"{matches.name(row)} was delivered, although its send had failed", operations

    return finding("aborted delivery", where(wrong), tell)


def _reordered(matches: _Matches) -> Finding:
    """Check that messages of a queue with equal delivery times have offsets in the order of their identities."""
    deliveries = matches.timed.deliveries
    order = np.lexsort((deliveries.offset, deliveries.identity, deliveries.time_ms, deliveries.queue))
    queue, time_ms, identity, offset = (
        column[order] for column in (deliveries.queue, deliveries.time_ms, deliveries.identity, deliveries.offset)
    )
    later = same_as_before(queue, time_ms) & ~same_as_before(identity)
    wrong = later & (offset[1:] < offset[:-1])

    def tell(at: int) -> tuple[str, Iterable[int]]:
        first, second = int(order[at]), int(order[at + 1])
        sentence = f"{matches.name(second)} came before the waiting message {deliveries.identity[first]} of that time"
        return sentence, (int(deliveries.operation[first]), int(deliveries.operation[second]))

    return finding("reordered delivery", where(wrong), tell)


def _cancels_of(matches: _Matches, chosen: Flags) -> Numbers:
    """Return, for each schedule, the row of one of the chosen cancels of its message, or NONE."""
    schedules, cancels = matches.timed.schedules, matches.timed.cancels
    scheduled, cancelled = numbered((schedules.shard, schedules.identity), (cancels.shard, cancels.identity))
    return np.where(schedules.identity == NONE, NONE, found(scheduled, cancelled, chosen))


def _quantile(ordered: Numbers, share: float) -> int:
    return int(ordered[max(0, int(np.ceil(len(ordered) * share)) - 1)]) if len(ordered) else 0
