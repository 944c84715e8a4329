"""Checks a backup without restoring it: every object, every entry, and that the entries follow each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ledger.backup.cut import TopicsCut
from ledger.backup.errors import DamagedBackupError
from ledger.backup.manifest import Manifest, ShardBackup, missing_shards, snapshot_name
from ledger.backup.reading import checked_range, read_piece, read_snapshot
from ledger.backup.targets.target import BackupTarget
from ledger.errors import LedgerError
from ledger.state import State
from ledger.topics import TOPICS_SHARD
from store.log.grid import Grid

# Called with the bytes that were read.
OnRead = Callable[[int], None]


def flaws_of(target: BackupTarget, manifest: Manifest, on_read: OnRead = lambda _: None) -> Iterator[str]:
    """Yield one sentence for each object that is missing, damaged or does not continue the one before it, and for a
    shard that is missing. Raises BackupError if the target cannot be read."""
    for shard in manifest.shards:
        yield from _flaws_of_shard(target, manifest, shard, on_read)


def _flaws_of_shard(target: BackupTarget, manifest: Manifest, shard: ShardBackup, on_read: OnRead) -> Iterator[str]:
    snapshot = None
    if shard.snapshot is not None:
        try:
            snapshot = read_snapshot(target, shard.shard, shard.snapshot)
            State.decode(snapshot.state)
            if snapshot.tail != shard.start:
                yield f"{snapshot_name(shard.shard, shard.snapshot)} is not of the entry at which the log begins"
        except DamagedBackupError as damage:
            yield str(damage)
        except LedgerError as error:
            snapshot = None
            yield f"{snapshot_name(shard.shard, shard.snapshot)}: its state cannot be read: {error}"
        on_read(shard.snapshot.length)
    elif shard.start.index:
        yield f"shard {shard.shard} begins at entry {shard.start.index + 1}, and there is no snapshot"
    tail, grid = shard.start, Grid(shard.segment_bytes)
    topics = TopicsCut(None, 0, snapshot) if shard.shard == TOPICS_SHARD else None
    for piece in shard.pieces:
        try:
            entries = checked_range(shard.shard, piece, read_piece(target, shard.shard, piece), tail, grid)
            if topics is not None:
                topics.kept(entries)
        except DamagedBackupError as damage:
            yield str(damage)
        on_read(piece.length)
        tail = piece.tail
    if topics is not None and (flaw := missing_shards(manifest, topics.shards)):
        yield flaw
