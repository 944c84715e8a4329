"""Checks the small files of a shard: vote file, clean mark, boot record, suspect mark and repair mark.

Each of the small files has a checksum, so damage is found without reading any other file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.sources.errors import SourceError
from ledger.validation.sources.replica import LogReplica
from store import CleanMark, Flaw, PosixReadOnlyDisk, RepairMark, StoreError, Suspect
from store.directory.boot import BootRecord
from store.directory.vote_file import examined
from store.disk.disk import read_file

_MARKS: tuple[tuple[str, str, Callable[[bytes], object]], ...] = (
    ("clean", "clean mark", CleanMark.decode),
    ("boot", "boot record", BootRecord.decode),
    ("distrusted", "boot record", BootRecord.decode),
    ("suspect", "suspect mark", Suspect.decode),
    ("repair", "repair mark", RepairMark.decode),
)


def check_small_files(replica: LogReplica) -> Iterator[Violation]:
    """Yield a violation for each damaged or missing file. Raises SourceError if a file cannot be read."""
    if replica.directory is None or not Path(replica.directory).exists():  # gone meanwhile
        return
    shard = Path(replica.directory)
    for name, reason, position in (*_votes(shard), *_marks(shard)):
        yield Violation(
            ViolationKind.DAMAGED_FILE, replica.shard, replica.source, reason, position=position, path=str(shard / name)
        )


def _votes(shard: Path) -> Iterator[tuple[str, str, int]]:
    path = shard / "vote"
    if PosixReadOnlyDisk().exists(path):
        flaws = [Flaw.of(error) for error in examined(PosixReadOnlyDisk(), path)[1]]
        yield from (("vote", flaw.reason, flaw.position) for flaw in flaws)
    else:
        yield "vote", "the vote file is missing: without it the node might vote twice in a term", 0


def _marks(shard: Path) -> Iterator[tuple[str, str, int]]:
    disk = PosixReadOnlyDisk()
    for name, what, decode in _MARKS:
        if not disk.exists(shard / name):
            continue
        try:
            decode(read_file(disk, shard / name))
        except ValueError as error:
            yield name, f"this is not a {what} ({error})", 0
        except StoreError as error:
            if disk.exists(shard / name):  # a running node removes marks
                raise SourceError(str(error)) from error
