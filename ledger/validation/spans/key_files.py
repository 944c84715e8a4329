"""The files of a key index, as they lie there: which entries each has, and whether they are linked as they must be.

Entries lie in the order of the log, so those of a range of it are found by bisection, with a few small reads; and how
they must be linked follows from their hashes alone, so each file can be judged by itself.
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
    """One file, up to its last whole entry."""

    def __init__(self, path: Path) -> None:
        """Raises `ValueError` where it has no header that this program knows, OSError."""
        self.path = path
        head = self._read(0, HEADER.size)
        if len(head) < HEADER.size:
            raise ValueError("the file is too short")
        magic, version, self.slots, self.capacity, self.begin_ms = HEADER.unpack(head)
        if (magic, version) != (MAGIC, VERSION) or not self.slots:
            raise ValueError(f"no file of a key index that this program knows begins with {magic:#010x}, {version}")
        # Where the next file begins in the log, if there is one: no batch of this file lies there or behind.
        self.limit: int | None = None
        self.count = (path.stat().st_size - HEADER.size) // ENTRY_BYTES

    def place(self, number: int) -> int:
        """In the file, of the entry that is the `number`th, counted from 0."""
        return HEADER.size + number * ENTRY_BYTES

    def entries(self, first: int = 0, end: int | None = None) -> Entries:
        """Those from `first` to before `end`; all where none is given."""
        count = (self.count if end is None else end) - first
        data = self._read(self.place(first), count * ENTRY_BYTES)
        return np.frombuffer(data, ENTRY, len(data) // ENTRY_BYTES)

    def pieces(self) -> Iterator[Entries]:
        """All entries, so many at a time."""
        for first in range(0, self.count, _AT_ONCE):
            yield self.entries(first, min(self.count, first + _AT_ONCE))

    def between(self, begin: int, end: int, *, thoroughly: bool = False) -> KeyEntries:
        """Those of batches in [begin, end) of the log. `thoroughly`: also where some positions are wrong."""
        if thoroughly:
            said = self.entries()["position"]
            positions = _mended(said, self.limit)
            first, last = np.searchsorted(positions, np.array([begin, end], np.uint64)).tolist()
            while first and said[first - 1] != positions[first - 1]:
                first -= 1  # it may be of the first batch here as well as of the one before
        else:
            first = self._bisected(begin, 0)
            last = self._bisected(end, first)
        return KeyEntries(self, first, self.entries(first, last))

    def reaches(self, position: int) -> bool:
        """Whether it has entries of batches behind that position."""
        return self.count > 0 and int(self.entries(self.count - 1)["position"][0]) > position

    def _bisected(self, position: int, low: int) -> int:
        """How many entries lie before that position of the log."""
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
    """Some neighbours in one file."""

    file: KeyIndexFile
    first: int
    entries: Entries


def key_files_in(directory: Path) -> list[KeyIndexFile]:
    """Those that can be read, by position; `unreadable_in` has the others."""
    files = []
    for path in _paths(directory):
        try:
            files.append(KeyIndexFile(path))
        except (ValueError, FileNotFoundError):  # retention takes them, of a node that runs
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
    """What is wrong with how these, all of a file in pieces, are linked: each leads to the one before it in its slot,
    and the slot to the last of them. `is_last`: of the index; it may still grow, and its slots need not be on the
    disk."""
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
            reason = f"entry {number + 1} of the file does not lead to the one before it in its slot"
            place = HEADER.size + number * ENTRY_BYTES
            yield Flaw(FlawKind.DAMAGE, path, place, None, reason, place + ENTRY_BYTES)
        heads[slots] = numbers
        done += len(slots)
    yield from _slot_flaws(path.with_name(path.name + SLOTS_SUFFIX), heads.tobytes(), is_last=is_last)


def _slot_flaws(path: Path, due: bytes, *, is_last: bool) -> Iterator[Flaw]:
    """Those of a file that is full are on the disk."""
    if not path.exists():
        if not is_last:
            yield Flaw(FlawKind.DAMAGE, path, 0, None, "it is missing, though the index goes on in another file")
        return
    there = path.read_bytes()
    if there != due:
        at = next((i for i, (one, other) in enumerate(zip(there, due, strict=False)) if one != other), len(there))
        yield Flaw(FlawKind.DAMAGE, path, at, None, "its slots are not those that the entries give")


def _mended(positions: npt.NDArray[np.uint64], limit: int | None) -> npt.NDArray[np.uint64]:
    """Positions in order: one that does not lie between its neighbours, or is not below the limit, is taken to be that
    of the one before."""
    mended = positions.astype(np.int64).clip(0)
    if limit is not None and len(mended) > 1 and mended[-1] >= limit:
        mended[-1] = mended[-2]
    if len(mended) > 2:
        odd = (mended[1:-1] < mended[:-2]) | (mended[1:-1] > mended[2:])
        fits = mended[2:] >= mended[:-2]
        at = np.flatnonzero(odd & fits) + 1
        mended[at] = mended[at - 1]
    if len(mended) > 1 and mended[0] > mended[1]:
        mended[0] = mended[1]
    return np.maximum.accumulate(mended).astype(np.uint64) if len(mended) else positions
