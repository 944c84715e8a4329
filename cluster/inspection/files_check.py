"""The small files of a shard: votes, the bases that are kept, and the marks of stops, boots and doubts.

One idea: each says of itself whether it is whole; a base that is kept must agree with the entry that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from store import Flaw, FlawKind, Found, PosixReadOnlyDisk, RepairMark, Snapshot, Suspect
from store.directory.boot import decode_boot_record
from store.directory.vote_file import examined
from store.disk.disk import read_file
from store.disk.numbered import name_of, numbers_of
from store.log.tail import Tail


def check_votes(shard: Path) -> Iterator[Flaw]:
    path = shard / "vote"
    if PosixReadOnlyDisk().exists(path):
        yield from (Flaw.of(error) for error in examined(PosixReadOnlyDisk(), path)[1])
    else:
        yield Flaw(FlawKind.DAMAGE, path, 0, None, "it is missing: without it this node might vote twice in a term")


def check_marks(shard: Path) -> Iterator[Flaw]:
    """Those of the machine's last run and of doubt; the clean mark is for whoever knows how the log ends."""
    yield from _check(shard / "boot", decode_boot_record, "boot record")
    yield from _check(shard / "suspect", Suspect.decode, "suspect mark")
    yield from _check(shard / "repair", RepairMark.decode, "repair mark")


def _check(path: Path, decode: Callable[[bytes], object], what: str) -> Iterator[Flaw]:
    disk = PosixReadOnlyDisk()
    if disk.exists(path):
        try:
            decode(read_file(disk, path))
        except ValueError as error:
            yield Flaw(FlawKind.DAMAGE, path, 0, None, f"this is no {what} ({error})")


class SnapshotsCheck:
    """The bases at which the log may begin some day, against its entries as they come by."""

    def __init__(self, shard: Path) -> None:
        self._disk = PosixReadOnlyDisk()
        self._directory = shard / "snapshots"
        names = self._disk.list(self._directory) if self._disk.exists(self._directory) else ()
        self._kept = set(numbers_of(names))

    def begin(self) -> Iterator[Flaw]:
        """Those that cannot be read."""
        for index in sorted(self._kept):
            try:
                self._read(index)
            except ValueError as error:
                self._kept.discard(index)
                yield Flaw(FlawKind.DAMAGE, self._path(index), 0, None, f"this is no base ({error})")

    def take(self, found: Found) -> Iterator[Flaw]:
        index = found.header.index
        if index in self._kept and self._read(index).tail != Tail.of(found.header):
            yield Flaw(FlawKind.DAMAGE, self._path(index), 0, index, f"it is of another log than entry {index} here")

    def _read(self, index: int) -> Snapshot:
        return Snapshot.decode(read_file(self._disk, self._path(index)))

    def _path(self, index: int) -> Path:
        return self._directory / name_of(index)
