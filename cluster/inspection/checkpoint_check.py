"""The checkpoint, and the positions of entries that it vouches for, against the log.

    entry 57 at 4,096, 800 bytes, term 3
    <shard>/positions/00000000000000000000, unit 57     position 4,096, size 800, term 3
    <shard>/checkpoint                                  as of an entry that is in the log, with that chain

One idea: as with ConsumeQueues, what a unit must be is made once more from the entry. Behind the checkpoint's entry
units count for nothing: the next start writes them anew.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from store import Checkpoint, Flaw, FlawKind, Found, PosixReadOnlyDisk
from store.disk.disk import read_file, view_file
from store.disk.numbered import name_of
from store.log.position_files import UNITS_PER_FILE
from store.log.positions import UNIT
from store.log.tail import Tail

_UNIT = struct.Struct("<QIQ")
assert _UNIT.size == UNIT.itemsize


class CheckpointCheck:
    def __init__(self, shard: Path) -> None:
        self._disk = PosixReadOnlyDisk()
        self._path = shard / "checkpoint"
        self._positions = shard / "positions"
        self._checkpoint: Checkpoint | None = None
        self._view = memoryview(b"")
        self._base = -1
        # The last flaw of units, as long as the next one may continue it.
        self._wrong: Flaw | None = None

    def begin(self) -> Iterator[Flaw]:
        if not self._disk.exists(self._path):
            return
        try:
            self._checkpoint = Checkpoint.decode(read_file(self._disk, self._path))
        except (ValueError, TypeError) as error:
            yield Flaw(FlawKind.DAMAGE, self._path, 0, None, f"this is no checkpoint ({error})")

    def take(self, found: Found) -> Iterator[Flaw]:
        checkpoint, header = self._checkpoint, found.header
        if checkpoint is None or header.index > checkpoint.index:
            return
        if header.index == checkpoint.index and checkpoint.snapshot.tail != Tail.of(header):
            reason = f"it is of another log than entry {header.index} here"
            yield Flaw(FlawKind.DAMAGE, self._path, 0, header.index, reason)
        at = header.index % UNITS_PER_FILE
        if header.index - at != self._base:
            self._base, self._view = header.index - at, self._mapped(header.index - at)
        unit = self._view[at * _UNIT.size : (at + 1) * _UNIT.size]
        if unit != _UNIT.pack(header.position, header.size, header.term):
            yield from self._tell(self._path_of(self._base), at * _UNIT.size, header.index, is_there=len(unit) > 0)

    def _tell(self, path: Path, place: int, index: int, *, is_there: bool) -> Iterator[Flaw]:
        """A run of wrong units once."""
        before, end = self._wrong, place + _UNIT.size
        if before is not None and (before.path, before.end) == (path, place):
            self._wrong = replace(before, end=end, last_index=index)
            return
        yield from self._settle()
        reason = f"the unit of entry {index} is " + ("not what the log gives" if is_there else "missing")
        self._wrong = Flaw(FlawKind.DAMAGE, path, place, index, reason, end, last_index=index)

    def _settle(self) -> Iterator[Flaw]:
        if self._wrong is not None:
            yield self._wrong
            self._wrong = None

    def finish(self, last_index: int | None, *, changing: bool) -> Iterator[Flaw]:
        """The log ends with that entry. `changing`: the node runs, and may be writing a checkpoint."""
        yield from self._settle()
        if changing:
            return
        checkpoint = self._checkpoint
        if checkpoint is not None and checkpoint.index > (last_index or 0):
            reason = f"it is of entry {checkpoint.index}, which was flushed, and the log ends before it"
            yield Flaw(FlawKind.DAMAGE, self._path, 0, checkpoint.index, reason)

    def _mapped(self, base: int) -> memoryview:
        path = self._path_of(base)
        return view_file(self._disk, path) if self._disk.exists(path) else memoryview(b"")

    def _path_of(self, base: int) -> Path:
        return self._positions / name_of(base)
