"""Reads replicas from a backup (ledger/backup/), without restoring it.

    backup:/mnt/backups                            the newest backup in a target
    backup:s3://backups/orders#20261126T210000.123Z    another one

The replicas look like those of a running node: all entries are committed, and there are no indexes. The key file of an
encrypted backup is in the variable LEDGERMQ_BACKUP_KEY_FILE, so that no plan of Spark has its name.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from pathlib import Path

from ledger.backup.catalogue import chosen_manifest
from ledger.backup.errors import BackupError
from ledger.backup.manifest import BackupPiece, Manifest, ShardBackup, snapshot_name
from ledger.backup.reading import read_piece
from ledger.backup.targets.open_target import open_target
from ledger.backup.targets.target import BackupTarget
from ledger.validation.sources.errors import SourceError
from ledger.validation.sources.replica import LogReplica, Segment

SCHEME = "backup:"
KEY_FILE_VARIABLE = "LEDGERMQ_BACKUP_KEY_FILE"
# The name of a backup (ledger/backup/create.py). A `#` before anything else belongs to the target.
_CHOSEN = re.compile(r"(.*)#(\d{8}T\d{6}\.\d{3}Z)", re.ASCII | re.DOTALL)
# Pieces that stay in memory. A reader goes from one to the next.
_KEPT = 2


def is_backup(source: str) -> bool:
    return source.startswith(SCHEME)


def replicas_in(source: str, largest_entry: int) -> list[LogReplica]:
    """Return the shards of a backup as replicas. Raises SourceError."""
    target, backup = _parts(source)
    _, manifest = _opened(source, target, backup)
    inner = f"{SCHEME}{target}#{manifest.name}"
    return [_replica(source, inner, manifest, shard, largest_entry) for shard in manifest.shards]


class BackupAccess:
    """Access to the segments and snapshots of one backup. A path is the source with the number of a shard:
    "backup:TARGET#NAME#SHARD"."""

    def __init__(self, path: str) -> None:
        """Raises SourceError."""
        self._path = path
        source = path.rpartition("#")[0]
        target, _, backup = source.removeprefix(SCHEME).rpartition("#")
        self._target, self._manifest = _opened(source, target, backup)
        self._pieces: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    def read(self, segment: Segment, begin: int, end: int) -> bytes:
        shard = self._shard(segment.path)
        parts = [
            self._content(shard.shard, piece)[max(0, begin - piece.position) : end - piece.position]
            for piece in shard.pieces
            if piece.position < end and piece.end > begin
        ]
        return b"".join(parts)

    def file(self, path: str) -> bytes | None:
        shard = self._shard(path)
        if shard.snapshot is None:
            return None
        try:
            return self._target.get(snapshot_name(shard.shard, shard.snapshot))
        except BackupError as error:
            raise SourceError(str(error)) from error

    def _shard(self, path: str) -> ShardBackup:
        shard = self._manifest.shard(int(path.rpartition("#")[2]))
        if shard is None:
            raise SourceError(f"{path}: the backup has no such shard")
        return shard

    def _content(self, shard: int, piece: BackupPiece) -> bytes:
        key = (shard, piece.position)
        if key not in self._pieces:
            try:
                self._pieces[key] = read_piece(self._target, shard, piece)
            except BackupError as error:
                raise SourceError(f"{self._path}: {error}") from error
            if len(self._pieces) > _KEPT:
                self._pieces.popitem(last=False)
        return self._pieces[key]


def _replica(source: str, inner: str, manifest: Manifest, shard: ShardBackup, largest_entry: int) -> LogReplica:
    path = f"{inner}#{shard.shard}"
    ends: dict[int, int] = {}
    for piece in shard.pieces:
        base = piece.position - piece.position % shard.segment_bytes
        ends[base] = piece.end
    return LogReplica(
        number=0,
        source=source,
        shard=shard.shard,
        node=None,
        cluster=manifest.cluster,
        segments=tuple(Segment(path, base, end - base) for base, end in ends.items()),
        segment_bytes=shard.segment_bytes,
        largest_entry=largest_entry,
        start=shard.start,
        base=path if shard.snapshot is not None else None,
        is_running=True,
        told_commit=shard.tail.index,
    )


def _parts(source: str) -> tuple[str, str | None]:
    """Return the target that a user names, and the name of a backup, or None if the user names no backup."""
    rest = source.removeprefix(SCHEME)
    chosen = _CHOSEN.fullmatch(rest)
    return (rest, None) if chosen is None else (chosen[1], chosen[2])


def _opened(source: str, target: str, backup: str | None) -> tuple[BackupTarget, Manifest]:
    """Return the target and the manifest of the backup, or of the newest one. Raises SourceError, which names the
    source."""
    key = os.environ.get(KEY_FILE_VARIABLE)
    try:
        opened = open_target(target, Path(key) if key else None)
        return opened, chosen_manifest(opened, backup)
    except BackupError as error:
        raise SourceError(f"{source}: {error}") from error
