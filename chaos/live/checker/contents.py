"""Compares the messages that were sent with the messages that were read.

The outcome of a send decides whether its message may be read. If the outcome is `ok`, the message must be in the queue
at the end. If the outcome is `fail`, no consumer may ever receive the message. If the outcome is `unknown`, the
message may be in the queue or not. But once a consumer has read the message, it must stay in the queue. A producer
that was killed may have sent messages that its history does not contain.
"""

from __future__ import annotations

import numpy as np

from chaos.live.checker.anomaly import Finding, finding, is_in, where
from chaos.live.checker.cells import FAIL, NONE, Flags, Numbers
from chaos.live.checker.columns import HistoryColumns
from chaos.live.checker.joining import numbered
from chaos.live.checker.places import Sightings

_CRCS = 1 << 32


def lost(columns: HistoryColumns, seen: Sightings) -> Finding:
    """Find lost messages in the queues that were read to their end. Messages before the offset at which the final
    reading began were removed by retention, and are not lost.
    """
    reads = columns.reads
    last = is_in(seen.identity, np.unique(reads.identity[reads.final]))
    kept = seen.offset >= _beginnings(columns)[seen.queue]
    read = is_in(seen.queue, np.array(sorted({queue for queue, _ in columns.read_to_end}), np.int64))
    rows = where(~last & kept & read)
    _, first = np.unique(seen.identity[rows], return_index=True)
    rows = rows[np.sort(first)]

    def tell(row: int) -> tuple[str, tuple[int]]:
        name = columns.name(int(seen.producer[row]), int(seen.epoch[row]), int(seen.sequence[row]))
        place = columns.place(int(seen.queue[row]), int(seen.offset[row]))
        return f"{name} was at {place}, and is not in that queue at the end", (int(seen.operation[row]),)

    return finding("lost", rows, tell)


def _beginnings(columns: HistoryColumns) -> Numbers:
    """Return, for each queue, the largest offset at which the final reading began on any node. A node may have removed
    the messages before this offset.
    """
    beginnings = np.zeros(len(columns.queues), np.int64)
    for (queue, _), offset in columns.beginnings().items():
        beginnings[queue] = max(beginnings[queue], offset)
    return beginnings


def phantoms(columns: HistoryColumns) -> Finding:
    reads = columns.reads
    silent = np.array(sorted(columns.known - columns.orderly), np.int64)
    unsent = ~is_in(reads.identity, np.unique(columns.sends.identity)) & ~is_in(reads.producer, silent)
    unsent &= ~accounted(columns)

    def tell(row: int) -> tuple[str, tuple[int]]:
        elsewhere = _sent_elsewhere(columns, row)
        also = f"; the same payload was sent to {', '.join(elsewhere)}" if elsewhere else ""
        return f"{_read(columns, row)} was never sent there{also}", (int(reads.operation[row]),)

    return finding("phantom", where(unsent), tell)


def accounted(columns: HistoryColumns) -> Flags:
    """Return, for each message that was read, whether the broker made its batch: of messages that had waited for their
    delivery times, and of messages of transactions. The producer that the batch names did not send them."""
    reads = columns.reads
    made = (columns.timed.deliveries, columns.transactions.reveals)
    places = tuple(np.concatenate([getattr(one, name) for one in made]) for name in ("queue", "offset"))
    read, known = numbered((reads.queue, reads.offset), places)
    return is_in(read, np.unique(known))


def _sent_elsewhere(columns: HistoryColumns, row: int) -> list[str]:
    sends, reads = columns.sends, columns.reads
    same = (sends.crc == reads.crc[row]) & (sends.producer == reads.producer[row])
    return [f"queue {columns.queues[number]}" for number in np.unique(sends.queue[same]).tolist()]


def aborted_reads(columns: HistoryColumns) -> Finding:
    """Find messages that were read although their send failed. A producer may give the sequence number of a refused
    message to another message, so payloads are compared too.
    """
    sends, reads = columns.sends, columns.reads
    refused = sends.outcome == FAIL
    wrong = _was_sent(columns, refused) & ~_was_sent(columns, ~refused)

    def tell(row: int) -> tuple[str, tuple[int, int]]:
        refusal = where(refused & (sends.identity == reads.identity[row]))[0]
        return f"{_read(columns, row)} was read, although its send had failed", (
            int(sends.operation[refusal]),
            int(reads.operation[row]),
        )

    return finding("aborted read", where(wrong), tell)


def mixed_payloads(columns: HistoryColumns) -> Finding:
    sends, reads = columns.sends, columns.reads
    wrong = is_in(reads.identity, np.unique(sends.identity)) & ~_was_sent(columns, sends.identity != NONE)

    def tell(row: int) -> tuple[str, tuple[int, int]]:
        send = where(sends.identity == reads.identity[row])[0]
        return f"{_read(columns, row)} has CRC {reads.crc[row]:08x}, and was sent with {sends.crc[send]:08x}", (
            int(sends.operation[send]),
            int(reads.operation[row]),
        )

    return finding("payload mixed up", where(wrong), tell)


def _was_sent(columns: HistoryColumns, rows: Flags) -> Flags:
    """Return, for each message that was read, whether one of the sends in `rows` had the same identity and the same
    payload.
    """
    sends, reads = columns.sends, columns.reads
    identities = np.unique(np.concatenate((sends.identity, reads.identity)))
    sent, met = (np.searchsorted(identities, rows.identity) * _CRCS + rows.crc for rows in (sends, reads))
    return is_in(met, np.unique(sent[rows]))


def _read(columns: HistoryColumns, row: int) -> str:
    reads = columns.reads
    name = columns.name(int(reads.producer[row]), int(reads.epoch[row]), int(reads.sequence[row]))
    return f"{name} (read at {columns.place(int(reads.queue[row]), int(reads.offset[row]))})"
