"""Reads the files of a key index, and checks that their entries are linked correctly.

Index entries are in the order of the log, so a binary search finds the entries of a range of the log with a few small
reads. The links of a file follow from the hashes in this file, so each file can be checked separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ledger.validation.sources.access import read_part
from store import Flaw, FlawKind
from store.disk.numbered import is_number
from store.index.key_file import ENTRY, ENTRY_BYTES, HEADER, MAGIC, SLOTS_SUFFIX, VERSION, slots_of

Entries = npt.NDArray[np.void]
_AT_ONCE = 1 << 20


class KeyIndexFile:
    """One file of a key index, up to its last whole entry."""

    def __init__(self, path: Path) -> None:
        """Raises ValueError if the file has no header that this program knows, and OSError if the file cannot be
        read."""
        self.path = path
        head = self._read(0, HEADER.size)
        if len(head) < HEADER.size:
            raise ValueError("the file is too short")
        magic, version, self.slots, self.capacity, self.begin_ms = HEADER.unpack(head)
        if (magic, version) != (MAGIC, VERSION) or not self.slots:
            raise ValueError(f"no known format of a key index begins with {magic:#010x}, {version}")
        # Log position at which the next file begins; None for the last file. All batches of this file lie before it.
        self.limit: int | None = None
        self.count = (path.stat().st_size - HEADER.size) // ENTRY_BYTES

    def place(self, number: int) -> int:
        """Return the byte position at which the entry with this number, counted from 0, begins in the file."""
        return HEADER.size + number * ENTRY_BYTES

    def entries(self, first: int = 0, end: int | None = None) -> Entries:
        """Return the entries with the numbers first .. end - 1. Without `end`, return the entries up to the last
        entry."""
        count = (self.count if end is None else end) - first
        data = self._read(self.place(first), count * ENTRY_BYTES)
        return np.frombuffer(data, ENTRY, len(data) // ENTRY_BYTES)

    def pieces(self) -> Iterator[Entries]:
        """Yield all entries, in pieces of at most _AT_ONCE entries."""
        for first in range(0, self.count, _AT_ONCE):
            yield self.entries(first, min(self.count, first + _AT_ONCE))

    def between(self, begin: int, end: int, *, thoroughly: bool = False) -> KeyEntries:
        """Return the entries of batches in the range [begin, end) of log positions.

        If `thoroughly` is true, all entries of the file are read. If `thoroughly` is true, the wanted entries are
        found even if some positions in the file are wrong."""
        if thoroughly:
            said = self.entries()["position"]
            positions = _in_order(said, self.limit)
            first, last = np.searchsorted(positions, np.array([begin, end], np.uint64)).tolist()
            while first and said[first - 1] != positions[first - 1]:
                first -= 1  # this entry may belong to the first batch of the range or to the batch before
        else:
            first = self._bisected(begin, 0)
            last = self._bisected(end, first)
        return KeyEntries(self, first, self.entries(first, last))

    def reaches(self, position: int) -> bool:
        """Return whether the file has entries of batches after this log position."""
        return self.count > 0 and int(self.entries(self.count - 1)["position"][0]) > position

    def _bisected(self, position: int, low: int) -> int:
        """Return how many entries belong to batches before this log position."""
        high = self.count
        while low < high:
            middle = (low + high) // 2
            if int(self.entries(middle, middle + 1)["position"][0]) < position:
                low = middle + 1
            else:
                high = middle
        return low

    def _read(self, offset: int, count: int) -> bytes:
        return read_part(self.path, offset, count)


@dataclass(frozen=True, slots=True)
class KeyEntries:
    """Consecutive entries of one file."""

    file: KeyIndexFile
    first: int
    entries: Entries


def key_files_in(directory: Path) -> list[KeyIndexFile]:
    """Return the files whose header this program knows, in the order of the log. `unreadable_in` yields the files
    whose header this program does not know."""
    files = []
    for path in _paths(directory):
        try:
            files.append(KeyIndexFile(path))
        except (ValueError, FileNotFoundError):  # retention of a running node may have removed the file
            continue
    for file, following in pairwise(files):
        file.limit = int(following.path.name)
    return files


def unreadable_in(directory: Path) -> Iterator[tuple[Path, str]]:
    for path in _paths(directory):
        try:
            KeyIndexFile(path)
        except ValueError as error:
            yield path, str(error)


def _paths(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if is_number(path.name)) if directory.is_dir() else []


def link_flaws(path: Path, pieces: Iterable[Entries], slot_count: int, *, is_last: bool) -> Iterator[Flaw]:
    """Yield a flaw for each wrong link between entries of a file. `pieces` are all entries of the file.

    An entry must point to the previous entry of its slot, and a slot must point to its last entry. `is_last` means
    that the file is the last file of the index. The last file can still grow, so its hash slots are allowed to be
    missing on the disk."""
    heads = np.zeros(slot_count, "<u4")
    done = 0
    for entries in pieces:
        slots = slots_of(entries["hash"], slot_count)
        numbers = np.arange(done + 1, done + len(slots) + 1, dtype=np.uint32)
        order = np.argsort(slots, kind="stable")
        previous = heads[slots]
        same = slots[order][1:] == slots[order][:-1]
        previous[order[1:][same]] = numbers[order[:-1][same]]
        wrong = np.flatnonzero(previous != entries["previous"])
        if len(wrong):
            number = done + int(wrong[0])
            reason = f"entry {number + 1} of the file does not lead to the entry before it in its slot"
            place = HEADER.size + number * ENTRY_BYTES
            yield Flaw(FlawKind.DAMAGE, path, place, None, reason, place + ENTRY_BYTES)
        heads[slots] = numbers
        done += len(slots)
    yield from _slot_flaws(path.with_name(path.name + SLOTS_SUFFIX), heads.tobytes(), is_last=is_last)


def _slot_flaws(path: Path, due: bytes, *, is_last: bool) -> Iterator[Flaw]:
    """Yield a flaw if the slots on the disk are wrong. The slots of a full file must be on the disk."""
    if not path.exists():
        if not is_last:
            yield Flaw(FlawKind.DAMAGE, path, 0, None, "the file is missing, but the index continues in a later file")
        return
    there = path.read_bytes()
    if there != due:
        at = next((i for i, (one, other) in enumerate(zip(there, due, strict=False)) if one != other), len(there))
        yield Flaw(FlawKind.DAMAGE, path, at, None, "the slots do not match the entries")


def _in_order(positions: npt.NDArray[np.uint64], limit: int | None) -> npt.NDArray[np.uint64]:
    """Return the log positions of index entries, corrected so that they ascend. A position that does not fit
    between its neighbours, or reaches the limit, is replaced by the position before it."""
    ordered = positions.astype(np.int64).clip(0)
    if limit is not None and len(ordered) > 1 and ordered[-1] >= limit:
        ordered[-1] = ordered[-2]
    if len(ordered) > 2:
        odd = (ordered[1:-1] < ordered[:-2]) | (ordered[1:-1] > ordered[2:])
        fits = ordered[2:] >= ordered[:-2]
        at = np.flatnonzero(odd & fits) + 1
        ordered[at] = ordered[at - 1]
    if len(ordered) > 1 and ordered[0] > ordered[1]:
        ordered[0] = ordered[1]
    return np.maximum.accumulate(ordered).astype(np.uint64) if len(ordered) else positions
