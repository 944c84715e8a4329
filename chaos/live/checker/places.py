"""Checks the offsets of messages by all *sightings*: the acknowledgements and reads that show a message at an offset.
A sighting is an acknowledgement or a read that shows a message at an offset. All sightings together must describe one
log: one message at each offset, one offset for each message, and the messages of each producer in order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.live.checker.anomaly import Finding, finding, same_as_before, where
from chaos.live.checker.cells import OK, Numbers
from chaos.live.checker.columns import HistoryColumns


@dataclass(frozen=True, slots=True)
class Sightings:
    """Columns with one row for each time that a client learned the offset of a message."""

    operation: Numbers
    queue: Numbers
    offset: Numbers
    identity: Numbers
    producer: Numbers
    epoch: Numbers
    sequence: Numbers
    crc: Numbers

    def take(self, rows: Numbers) -> Sightings:
        return Sightings(*(getattr(self, name)[rows] for name in self.__slots__))


def sightings(columns: HistoryColumns) -> Sightings:
    """Return the sightings of all acknowledgements and all reads."""
    sends, reads = columns.sends, columns.reads
    acknowledged = where(sends.outcome == OK)
    return Sightings(
        *(np.concatenate((getattr(sends, name)[acknowledged], getattr(reads, name))) for name in Sightings.__slots__)
    )


def inconsistent_offsets(columns: HistoryColumns, seen: Sightings) -> Finding:
    rows = seen.take(np.lexsort((seen.crc, seen.identity, seen.offset, seen.queue)))
    at_one = same_as_before(rows.queue, rows.offset)
    differs = at_one & ~same_as_before(rows.identity, rows.crc)

    def tell(row: int) -> tuple[str, tuple[int, int]]:
        one, other = (columns.name(*_names(rows, each)) for each in (row, row + 1))
        place = columns.place(int(rows.queue[row]), int(rows.offset[row]))
        crcs = f"{rows.crc[row]:08x} and {rows.crc[row + 1]:08x}"
        return f"{place} is {one} and {other} (payloads {crcs})", _operations(rows, row)

    return finding("inconsistent offset", where(differs), tell)


def duplicates(columns: HistoryColumns, seen: Sightings) -> Finding:
    rows = seen.take(np.lexsort((seen.offset, seen.identity)))
    differs = same_as_before(rows.identity) & ~same_as_before(rows.offset)

    def tell(row: int) -> tuple[str, tuple[int, int]]:
        place = columns.place(int(rows.queue[row]), int(rows.offset[row]))
        return f"{columns.name(*_names(rows, row))} is at {place} and at offset {rows.offset[row + 1]}", _operations(
            rows, row
        )

    return finding("duplicate", where(differs), tell)


def reordered(columns: HistoryColumns, seen: Sightings) -> Finding:
    rows = seen.take(np.lexsort((seen.sequence, seen.epoch, seen.offset, seen.producer, seen.queue)))
    falls = (rows.epoch[1:] < rows.epoch[:-1]) | (
        (rows.epoch[1:] == rows.epoch[:-1]) & (rows.sequence[1:] < rows.sequence[:-1])
    )
    wrong = same_as_before(rows.queue, rows.producer) & ~same_as_before(rows.offset) & falls

    def tell(row: int) -> tuple[str, tuple[int, int]]:
        one, other = (columns.name(*_names(rows, each)) for each in (row, row + 1))
        place = columns.place(int(rows.queue[row]), int(rows.offset[row]))
        return f"{one} is at {place}, and {other} behind it, at offset {rows.offset[row + 1]}", _operations(rows, row)

    return finding("reordered", where(wrong), tell)


def _names(rows: Sightings, row: int) -> tuple[int, int, int]:
    return int(rows.producer[row]), int(rows.epoch[row]), int(rows.sequence[row])


def _operations(rows: Sightings, row: int) -> tuple[int, int]:
    return int(rows.operation[row]), int(rows.operation[row + 1])
