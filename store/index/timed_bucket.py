"""One bucket of the timed index: the waiting messages whose delivery times are in the same minute.

    <minute>-<generation>.units         units in the order of the log; their identities rise
    <minute>-<generation>.copies        units that retention made: it copied the messages to a later entry of the log
    <minute>-<generation>.tombstones    which of the units no longer wait: cancelled, or replaced by a copy

All three files are only appended to. A change in place would be simpler to read, but an appended file is described
whole by its length and its CRC, as other indexes are: a start with a checkpoint cuts what was appended later, and the
entries after the checkpoint append the same records again. The last two files exist only if they are needed.

The newest unit of an identity is the only one that can wait, because a copy comes with a tombstone for the unit before
it. So units can be read in pieces, and one bit for each unit tells which of them wait. Copies are found by bisection
too: retention copies in the order of identities, so the copies are a few runs with rising identities.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import google_crc32c
import numpy as np

from store.errors import IndexDamagedError
from store.index.bucket_table import BucketRow
from store.index.open_files import OpenFiles
from store.index.timed_tombstones import Tombstones
from store.index.timed_unit import (
    NO_UNITS,
    TOMBSTONE,
    TOMBSTONE_BYTES,
    UNIT,
    UNIT_BYTES,
    Identities,
    Units,
    checks_of,
    read_tombstones,
    tombstones_of,
)

UNITS, COPIES = 0, 1
SUFFIXES = (".units", ".copies", ".tombstones")
PIECE_UNITS = 1 << 16
# The last step of a bisection reads so many units at once.
_STEP_UNITS = 128
# If the copies have more runs, no bisection is made.
_MOST_RUNS = 64


class Located(NamedTuple):
    """The newest unit of an identity, and where it is in its bucket."""

    lane: int
    number: int
    unit: Units  # one unit
    waits: bool


class BucketChange(NamedTuple):
    """A change of a bucket that is in its files, but does not count before `Bucket.commit`."""

    row: BucketRow
    # Numbers of the units with a new tombstone, in each lane.
    tombstones: tuple[Identities, Identities]
    copies: Units


_NO_NUMBERS = np.empty(0, np.uint64)


class Bucket:
    """One bucket, described by its row. A new object reads the files of the row."""

    def __init__(self, files: OpenFiles, directory: Path, row: BucketRow, piece_units: int = PIECE_UNITS) -> None:
        self._files = files
        self._directory = directory
        self._piece_units = piece_units
        self.row = row
        self._tombstones: tuple[Tombstones, Tombstones] | None = None
        # The first copy of each run, and the identity of the last copy; None if the copies are not read yet.
        self._runs: list[int] | None = None
        self._last_copy = -1

    # -- reading

    def pieces(self) -> Iterator[Units]:
        """Yield all waiting units, in pieces."""
        for lane in (UNITS, COPIES):
            yield from self.pieces_of(lane)

    def pieces_of(self, lane: int) -> Iterator[Units]:
        """Yield the waiting units of a lane in the order of the log, in pieces."""
        gone, count = self._gone(), self._count(lane)
        for first in range(0, count, self._piece_units):
            here = min(self._piece_units, count - first)
            waits = gone[lane].absent(first, here)
            if waits.all():
                yield self._read(lane, first, here)
            elif waits.any():
                yield self._read(lane, first, here)[waits]

    def locate(self, identities: Identities) -> list[Located | None]:
        """Return the newest unit of each identity, or None if the bucket has no unit of it. The identities must rise.
        Raise `IndexDamagedError` if a unit on the way is damaged."""
        found: dict[int, Located] = {}
        self._find(UNITS, 0, self.row.units, identities, found)
        older = identities[[not (each in found and found[each].waits) for each in identities.tolist()]]
        if len(older) and self.row.copies:
            found |= self._newest_copies(older)
        return [found.get(each) for each in identities.tolist()]

    # -- changing

    def append(self, units: Units) -> BucketChange:
        """Append units whose identities rise, and are above all identities that were appended before."""
        row = self._grown(units)
        data = units.tobytes()
        self._files.write(self._name(UNITS), self.row.units * UNIT_BYTES, data)
        row = row._replace(units=self.row.units + len(units), units_crc=google_crc32c.extend(self.row.units_crc, data))
        return BucketChange(row, (_NO_NUMBERS, _NO_NUMBERS), NO_UNITS)

    def replace(self, old: list[Located], copies: Units) -> BucketChange:
        """Append copies, and a tombstone for each of the units `old`. A copy may have no unit in `old`."""
        row = self._grown(copies) if len(copies) else self.row
        if len(copies):
            data = copies.tobytes()
            self._files.write(self._name(COPIES), self.row.copies * UNIT_BYTES, data)
            row = row._replace(
                copies=self.row.copies + len(copies), copies_crc=google_crc32c.extend(self.row.copies_crc, data)
            )
        numbers = tuple(
            np.array([each.number for each in old if each.lane == lane], np.uint64) for lane in (UNITS, COPIES)
        )
        data = b"".join(tombstones_of(each, lane).tobytes() for lane, each in enumerate(numbers))
        if data:
            self._files.write(self._name(2), self.row.tombstones * TOMBSTONE_BYTES, data)
        row = row._replace(
            tombstones=self.row.tombstones + len(old),
            tombstones_crc=google_crc32c.extend(self.row.tombstones_crc, data),
            waiting=row.waiting - len(old),
            waiting_bytes=row.waiting_bytes - sum(int(each.unit["share"][0]) for each in old),
        )
        return BucketChange(row, (numbers[0], numbers[1]), copies)

    def commit(self, change: BucketChange) -> None:
        """Let the change count."""
        first = self.row.copies
        self.row = change.row
        if self._tombstones is not None:
            for gone, numbers in zip(self._tombstones, change.tombstones, strict=True):
                gone.add(numbers)
        if self._runs is not None:
            self._note_runs(first, change.copies["identity"])

    def begins_at(self, position: int) -> None:
        """Note in the row that no waiting unit is of an entry before `position`."""
        self.row = self.row._replace(oldest=position)

    def names(self) -> list[str]:
        """Return the names of the files of the bucket."""
        counts = (self.row.units, self.row.copies, self.row.tombstones)
        return [self._name(number) for number, count in enumerate(counts) if count]

    def is_whole(self) -> bool:
        """Return False if a file differs from its length and CRC in the row."""
        row = self.row
        return (
            self._agrees(UNITS, row.units * UNIT_BYTES, row.units_crc)
            and self._agrees(COPIES, row.copies * UNIT_BYTES, row.copies_crc)
            and self._agrees(2, row.tombstones * TOMBSTONE_BYTES, row.tombstones_crc)
        )

    # -- inside

    def _grown(self, units: Units) -> BucketRow:
        row, times, is_first = self.row, units["time"], self.row.is_empty
        first_ms, last_ms, oldest = int(times.min()), int(times.max()), int(units["position"][0])
        return row._replace(
            first_ms=first_ms if is_first else min(row.first_ms, first_ms),
            last_ms=last_ms if is_first else max(row.last_ms, last_ms),
            newest=max(row.newest, int(units["identity"].max())),
            oldest=min(row.oldest, oldest) if row.waiting else oldest,
            waiting=row.waiting + len(units),
            waiting_bytes=row.waiting_bytes + int(units["share"].sum(dtype=np.uint64)),
        )

    def _count(self, lane: int) -> int:
        return self.row.copies if lane else self.row.units

    def _name(self, number: int) -> str:
        return f"{self.row.minute}-{self.row.generation}{SUFFIXES[number]}"

    def _read(self, lane: int, first: int, count: int) -> Units:
        """Return units of a lane, whether they wait or not. Raise `IndexDamagedError` if one of them is damaged."""
        units = np.frombuffer(self._files.read(self._name(lane), first * UNIT_BYTES, count * UNIT_BYTES), UNIT)
        if not np.array_equal(checks_of(units), units["check"]):
            raise self._damaged(lane, f"a unit from number {first} on differs from its check")
        return units

    def _gone(self) -> tuple[Tombstones, Tombstones]:
        if self._tombstones is None:
            found = Tombstones(), Tombstones()
            for first in range(0, self.row.tombstones, self._piece_units):
                count = min(self._piece_units, self.row.tombstones - first)
                data = self._files.read(self._name(2), first * TOMBSTONE_BYTES, count * TOMBSTONE_BYTES)
                numbers, is_copy, is_whole = read_tombstones(np.frombuffer(data, TOMBSTONE))
                if not is_whole:
                    raise self._damaged(2, f"a tombstone from number {first} on differs from its check")
                found[UNITS].add(numbers[~is_copy])
                found[COPIES].add(numbers[is_copy])
            self._tombstones = found
        return self._tombstones

    def _find(self, lane: int, low: int, high: int, wanted: Identities, found: dict[int, Located]) -> None:
        """Find the wanted identities among the units low .. high - 1 of a lane, whose identities rise. Reads at once
        what lies close together."""
        if low == high or not len(wanted):
            return
        low, end = self._step(lane, low, high, int(wanted[0]))
        _, end = self._step(lane, end - 1, high, int(wanted[-1])) if len(wanted) > 1 else (low, end)
        if len(wanted) > 1 and end - low > len(wanted) * _STEP_UNITS:
            half = len(wanted) // 2
            self._find(lane, low, end, wanted[:half], found)
            self._find(lane, low, end, wanted[half:], found)
            return
        units = self._read(lane, low, end - low)
        identities = np.ascontiguousarray(units["identity"])
        places = np.searchsorted(identities, wanted)
        for place in places[identities[np.minimum(places, len(identities) - 1)] == wanted].tolist():
            unit = units[place : place + 1]
            found[int(identities[place])] = Located(lane, low + place, unit, not self._gone()[lane].has(low + place))

    def _step(self, lane: int, low: int, high: int, identity: int) -> tuple[int, int]:
        """Return the bounds of a few of the units low .. high - 1. Among them is the identity, if it is there."""
        while high - low > _STEP_UNITS:
            middle = (low + high) // 2
            if int(self._read(lane, middle, 1)["identity"][0]) <= identity:
                low = middle
            else:
                high = middle
        return low, high

    def _newest_copies(self, wanted: Identities) -> dict[int, Located]:
        found: dict[int, Located] = {}
        runs = self._known_runs()
        if len(runs) > _MOST_RUNS:
            self._scan_copies(wanted, found)
            return found
        for low, high in zip(reversed(runs), [self.row.copies, *reversed(runs)], strict=False):
            self._find(COPIES, low, high, wanted[[each not in found for each in wanted.tolist()]], found)
        return found

    def _scan_copies(self, wanted: Identities, found: dict[int, Located]) -> None:
        """Read all copies, the newest ones first, because they have no useful order."""
        for end in range(self.row.copies, 0, -self._piece_units):
            first = max(0, end - self._piece_units)
            units = self._read(COPIES, first, end - first)
            for place in np.flatnonzero(np.isin(units["identity"], wanted)).tolist()[::-1]:
                unit, number = units[place : place + 1], first + place
                waits = not self._gone()[COPIES].has(number)
                found.setdefault(int(unit["identity"][0]), Located(COPIES, number, unit, waits))
            if len(found) == len(wanted):
                return

    def _known_runs(self) -> list[int]:
        if self._runs is None:
            self._runs, self._last_copy = [], -1
            for first in range(0, self.row.copies, self._piece_units):
                count = min(self._piece_units, self.row.copies - first)
                self._note_runs(first, self._read(COPIES, first, count)["identity"])
        return self._runs

    def _note_runs(self, first: int, identities: Identities) -> None:
        """Note the runs of the copies from number `first` on. More runs than are useful are not noted."""
        if self._runs is None or not len(identities):
            return
        if self._last_copy < 0 or int(identities[0]) <= self._last_copy:
            self._runs.append(first)
        breaks = np.flatnonzero(identities[1:] <= identities[:-1]) + 1
        self._runs.extend((breaks[: _MOST_RUNS + 1] + first).tolist())
        del self._runs[_MOST_RUNS + 1 :]
        self._last_copy = int(identities[-1])

    def _agrees(self, number: int, length: int, crc: int) -> bool:
        found, step = 0, self._piece_units * UNIT_BYTES
        try:
            for at in range(0, length, step):
                found = google_crc32c.extend(found, self._files.read(self._name(number), at, min(step, length - at)))
        except IndexDamagedError:
            return False
        return found == crc

    def _damaged(self, number: int, reason: str) -> IndexDamagedError:
        return IndexDamagedError(self._directory / self._name(number), reason)
