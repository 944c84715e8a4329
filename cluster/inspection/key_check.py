"""The key index against the log: which keys each batch has, what the index says of them, and how that is linked.

    entry 57: topic 3, keys a, b, at 4,096, 800 bytes
    <keys>/00000000000000000000         entries 9, 10: hashes of a and b, 4,096, 800, time; each with the one before it
    <keys>/00000000000000000000.slots   the newest entry of each slot

One idea: index entries lie in the order of the log, so as batches come by, those that each must have are made once more
and compared with the next ones that are there. Then each file's chains are made once more, and compared as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ledger.batch import key_hashes
from ledger.errors import LedgerError
from ledger.validation.replay.key_files import link_flaws
from store import Flaw, FlawKind, Found, Kind, PosixReadOnlyDisk
from store.disk.disk import view_file
from store.disk.numbered import name_of, numbers_of
from store.index.key_file import ENTRY, ENTRY_BYTES, HEADER, MAGIC, VERSION
from store.index.key_index import hashes_of_topic

_NEAR = 1024
"""Entries that are looked at one by one before it is relied on that they are in order."""
Entries = npt.NDArray[np.void]


class _KeyFile:
    """One file as it lies there, up to its last whole entry."""

    def __init__(self, path: Path) -> None:
        """Raises `ValueError` where it has no header that this program knows."""
        self.path = path
        view = view_file(PosixReadOnlyDisk(), path)
        if len(view) < HEADER.size:
            raise ValueError("the file is too short")
        magic, version, self.slots, self.capacity, self.begin_ms = HEADER.unpack_from(view)
        if (magic, version) != (MAGIC, VERSION) or not self.slots:
            raise ValueError(f"no file of a key index that this program knows begins with {magic:#010x}, {version}")
        count = (len(view) - HEADER.size) // ENTRY_BYTES
        self.entries: Entries = np.frombuffer(view, ENTRY, count, HEADER.size)

    def place(self, number: int) -> int:
        """In the file, of the entry that is the `number`th, counted from 0."""
        return HEADER.size + number * ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class _Passed:
    """Entries of a file, of which no batch was found."""

    file: _KeyFile
    first: int
    end: int


class KeyCheck:
    def __init__(self, directory: Path, start: int | None) -> None:
        """`start`: position where the log begins, None where that is not known. What lies before is passed over."""
        self._directory = directory
        self._start = start or 0
        self._knows_all = start is not None
        self._files: list[_KeyFile] = []
        self._file = 0
        self._next = 0
        """In the file `_file`: what the next batch must have."""
        self._absent: Found | None = None
        """The first batch since the last one that was there, of which nothing is."""
        self.entries = 0
        """How many were there and right."""

    def begin(self) -> Iterator[Flaw]:
        disk = PosixReadOnlyDisk()
        for number in numbers_of(disk.list(self._directory)) if disk.exists(self._directory) else ():
            try:
                self._files.append(_KeyFile(self._directory / name_of(number)))
            except ValueError as error:
                yield Flaw(FlawKind.DAMAGE, self._directory / name_of(number), 0, None, str(error))

    def interrupted(self) -> None:
        """The log has a gap here: batches may have been in it."""
        self._knows_all = False

    def take(self, found: Found) -> Iterator[Flaw]:
        header = found.header
        if header.kind is not Kind.BATCH:
            return
        try:
            hashes = key_hashes(found.body)
        except (LedgerError, ValueError):
            return  # that is told where units are compared
        if hashes is not None and len(due := hashes_of_topic(header.topic_id, hashes)):
            yield from self._compare(found, due)

    def _compare(self, found: Found, due: npt.NDArray[np.uint64]) -> Iterator[Flaw]:
        header = found.header
        file, passed = self._find(header.position)
        if file is None:
            self._absent = self._absent or found
            return
        yield from self._settle(passed)
        there = file.entries[self._next :][: len(due)]
        there = there[there["position"] == header.position]
        right = (
            len(there) == len(due)
            and bool((there["hash"] == due).all())
            and bool((there["size"] == header.size).all())
            and bool((there["time"] == header.append_time_ms - file.begin_ms).all())
        )
        first, self._next = self._next, self._next + len(there)
        if right:
            self.entries += len(due)
        else:
            reason = f"the keys of entry {header.index} are not those that the log gives"
            place, end = file.place(first), file.place(self._next)
            yield Flaw(FlawKind.DAMAGE, file.path, place, header.index, reason, end)

    def _find(self, position: int) -> tuple[_KeyFile | None, list[_Passed]]:
        """The file that has the entries of the batch there, which are the next ones then, and what was passed on the
        way to them; None, and nothing is passed, where there are none."""
        passed: list[_Passed] = []
        at, first = self._file, self._next
        while at < len(self._files):
            file = self._files[at]
            found = _search(file.entries["position"][first:], position)
            passed.append(_Passed(file, first, len(file.entries) if found is None else first + found))
            if found is not None:
                self._file, self._next = at, first + found
                return file, passed
            at, first = at + 1, 0
            if at < len(self._files) and int(self._files[at].path.name) > position:
                break
        return None, []

    def _settle(self, passed: list[_Passed], kind: FlawKind = FlawKind.DAMAGE) -> Iterator[Flaw]:
        """Of what came since the last batch that was there: entries that belong to none, and batches without any."""
        absent, self._absent = self._absent, None
        for each in passed:
            positions = each.file.entries["position"][each.first : each.end]
            kept = np.flatnonzero(positions >= self._start)
            if len(kept) and self._knows_all:
                place = each.file.place(each.first + int(kept[0]))
                reason = "entries are of batches that the log does not have, or that have no keys"
                if absent is not None:
                    reason = f"the keys of entry {absent.header.index} are not those that the log gives"
                index = absent.header.index if absent is not None else None
                yield Flaw(FlawKind.DAMAGE, each.file.path, place, index, reason, each.file.place(each.end))
                absent = None
        if absent is not None:
            path = passed[-1].file.path if passed else self._directory
            place = passed[-1].file.place(passed[-1].end) if passed else 0
            index = absent.header.index
            yield Flaw(kind, path, place, index, f"the keys of entry {index} are missing, though it was committed")

    # -- at the end of the log

    def finish(self, *, known_commit: int, orderly: bool, changing: bool) -> Iterator[Flaw]:
        """What the index lacks, and what it has too much. `changing`: the node runs, and more may have come."""
        if changing:
            return
        if self._absent is not None and self._absent.header.index > known_commit:
            self._absent = None
        left = [_Passed(file, 0, len(file.entries)) for file in self._files[self._file + 1 :]]
        if self._file < len(self._files):
            file = self._files[self._file]
            left.insert(0, _Passed(file, self._next, len(file.entries)))
        yield from self._settle(left, FlawKind.DAMAGE if orderly else FlawKind.TORN)
        for number, file in enumerate(self._files):
            is_last = number == len(self._files) - 1
            yield from link_flaws(file.path, [file.entries], file.slots, is_last=is_last)


def _search(positions: npt.NDArray[np.uint64], position: int) -> int | None:
    """Where the entries of that batch begin; None where they are not. A wrong one among the others does no harm."""
    near = np.flatnonzero(positions[:_NEAR] == position)
    at = int(near[0]) if len(near) else int(np.searchsorted(positions, np.uint64(position)))
    return at if at < len(positions) and positions[at] == position else None
