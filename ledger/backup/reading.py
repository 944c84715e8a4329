"""Reads the entries of one shard in a backup, and checks every object and every entry on the way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from ledger.backup.errors import DamagedBackupError
from ledger.backup.manifest import BackupPiece, ShardBackup, StoredSnapshot, piece_name, snapshot_name
from ledger.backup.targets.target import BackupTarget
from store import CorruptRangeError, ForkedError, Header, Snapshot
from store.log.grid import Grid
from store.log.received_range import examined
from store.log.tail import LogTail


class EntryRange(NamedTuple):
    """Whole entries that follow each other in one segment."""

    content: memoryview
    headers: list[Header]
    # The entry before the first one.
    before: LogTail


def ranges_of(target: BackupTarget, backup: ShardBackup) -> Iterator[EntryRange]:
    """Yield all entries of a shard, in order. Raises DamagedBackupError at the first object that is missing or
    damaged, or that does not continue the one before it."""
    tail, grid = backup.start, Grid(backup.segment_bytes)
    for piece in backup.pieces:
        found = checked_range(backup.shard, piece, read_piece(target, backup.shard, piece), tail, grid)
        yield found
        tail = piece.tail


def checked_range(shard: int, piece: BackupPiece, content: bytes, tail: LogTail, grid: Grid) -> EntryRange:
    """Return the entries of a piece that follow `tail`. Raises DamagedBackupError."""
    name = piece_name(shard, piece)
    skipped = tail.end - piece.position if piece.first_index <= tail.index else 0
    if not 0 <= skipped < len(content) or (not skipped and piece.first_index != tail.index + 1):
        raise DamagedBackupError(f"{name} begins at entry {piece.first_index}, and entry {tail.index + 1} is missing")
    view = memoryview(content)[skipped:]
    try:
        headers = examined(view, tail, grid)
    except (CorruptRangeError, ForkedError) as error:
        raise DamagedBackupError(f"{name} does not continue entry {tail.index} of shard {shard}: {error}") from error
    if LogTail.of(headers[-1]) != piece.tail:
        raise DamagedBackupError(f"{name} ends at entry {headers[-1].index}, and the manifest says {piece.last_index}")
    return EntryRange(view, headers, tail)


def read_piece(target: BackupTarget, shard: int, piece: BackupPiece) -> bytes:
    """Return the bytes of a piece. Raises DamagedBackupError if they are not those of the manifest."""
    return _read(target, piece_name(shard, piece), piece.length, piece.sha256)


def read_snapshot(target: BackupTarget, shard: int, stored: StoredSnapshot) -> Snapshot:
    """Return the snapshot at the start of a shard. Raises DamagedBackupError."""
    name = snapshot_name(shard, stored)
    try:
        snapshot = Snapshot.decode(_read(target, name, stored.length, stored.sha256))
    except ValueError as error:
        raise DamagedBackupError(f"{name} is no snapshot ({error})") from error
    if snapshot.index != stored.index:
        raise DamagedBackupError(f"{name} is of entry {snapshot.index}, and the manifest says {stored.index}")
    return snapshot


def _read(target: BackupTarget, name: str, length: int, sha256: str) -> bytes:
    content = target.get(name)
    if content is None:
        raise DamagedBackupError(f"{name} is missing")
    if len(content) != length:
        raise DamagedBackupError(f"{name} has {len(content)} bytes, and the manifest says {length}")
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DamagedBackupError(f"{name} is damaged: its SHA-256 is not that of the manifest")
    return content
