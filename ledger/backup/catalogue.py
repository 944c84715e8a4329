"""The backups in a target: which there are, and which objects no backup uses any more."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from ledger.backup.errors import BackupError, DamagedBackupError
from ledger.backup.manifest import (
    Manifest,
    ShardBackup,
    backup_of,
    decode_manifest,
    manifest_name,
    piece_name,
    snapshot_name,
)
from ledger.backup.progress import UNFINISHED
from ledger.backup.targets.target import BackupTarget

log = logging.getLogger("ledgermq.backup")

_SHARDS = "shards/"


def backups_in(target: BackupTarget) -> list[str]:
    """Return the names of the backups that have a manifest, the oldest first. Raises BackupError."""
    return sorted(name for each in target.list("manifests/") if (name := backup_of(each.name)) is not None)


def load_manifest(target: BackupTarget, backup: str) -> Manifest:
    """Return the manifest of a backup. Raises BackupError, and DamagedBackupError if the manifest is damaged."""
    name = manifest_name(backup)
    content = target.get(name)
    if content is None:
        known = backups_in(target)
        hint = f"there are {', '.join(known)}" if known else "there is no whole backup"
        raise BackupError(f"{target.title} has no backup {backup}: {hint}")
    manifest = decode_manifest(content, name)
    if manifest.name != backup:
        raise BackupError(f"{name} is the manifest of {manifest.name}: it was renamed; give it its name again")
    return manifest


def newest_backup(target: BackupTarget) -> str:
    """Return the name of the newest backup. Its manifest may be damaged. Raises BackupError if there is no backup."""
    known = backups_in(target)
    if not known:
        raise BackupError(f"{target.title} has no whole backup: make one with `ledgermq backup create`")
    return known[-1]


def chosen_manifest(target: BackupTarget, backup: str | None) -> Manifest:
    """Return the manifest of this backup, or of the newest one. Raises BackupError. If the manifest of the newest
    backup is damaged, the user decides whether an older backup is good enough."""
    try:
        return load_manifest(target, backup or newest_backup(target))
    except DamagedBackupError as damage:
        others, _ = manifests_in(target, backups_in(target))
        hint = f"choose another one, for example {others[-1].name}" if others else "there is no other whole one"
        raise DamagedBackupError(f"{damage}, so its backup cannot be used: {hint}") from damage


def manifests_in(target: BackupTarget, backups: Iterable[str]) -> tuple[list[Manifest], dict[str, str]]:
    """Return the whole manifests of these backups in order, and what is wrong with each damaged one, by the name of
    its backup. Raises BackupError."""
    whole, damaged = [], {}
    for name in backups:
        try:
            whole.append(load_manifest(target, name))
        except DamagedBackupError as damage:
            damaged[name] = str(damage)
    return whole, damaged


def last_whole_manifest(target: BackupTarget) -> Manifest | None:
    """Return the newest manifest that is whole, or None. Log a warning for each newer one. Raises BackupError."""
    for name in reversed(backups_in(target)):
        try:
            return load_manifest(target, name)
        except DamagedBackupError as damage:
            log.warning("%s. What only this backup has is copied again. %s.", damage, _way_out(target, name))
    return None


def stored_parts(target: BackupTarget, shards: Mapping[int, ShardBackup]) -> dict[int, ShardBackup]:
    """Return of each shard what the target still has without a gap. Log a warning for each shard with a gap. The bytes
    of the objects are not read. Raises BackupError."""
    sizes = {each.name: each.size for each in target.list(_SHARDS)}
    parts = {number: _stored_part(sizes, shard) for number, shard in shards.items()}
    return {number: part for number, part in parts.items() if part is not None}


def _stored_part(sizes: Mapping[str, int], shard: ShardBackup) -> ShardBackup | None:
    """Return the shard up to the first object that is missing or too short, or None if it has no snapshot any more.
    `sizes` has the sizes of all objects. An encrypted object is larger than what is in it."""
    snapshot = shard.snapshot
    if snapshot is not None and sizes.get(name := snapshot_name(shard.shard, snapshot), -1) < snapshot.length:
        _warn_of_gap(name)
        return None
    for number, piece in enumerate(shard.pieces):
        if sizes.get(name := piece_name(shard.shard, piece), -1) < piece.length:
            _warn_of_gap(name)
            return replace(shard, pieces=shard.pieces[:number])
    return shard


def _warn_of_gap(name: str) -> None:
    log.warning(
        "%s is missing in the target, or is too short: the entries from there on are copied again. Earlier backups "
        "that need this file cannot be restored.",
        name,
    )


def prune(target: BackupTarget, keep: int) -> tuple[list[str], int]:
    """Remove all backups but the newest `keep` ones, and all objects that no backup uses. Return the names of the
    removed backups and the number of freed bytes. The caller holds the lock of the target. Raises BackupError, and
    removes nothing, if the manifest of a backup that is kept is damaged: any object may belong to this backup."""
    known = backups_in(target)
    removed = known[: max(0, len(known) - keep)]
    kept, damaged = manifests_in(target, known[len(removed) :])
    if damaged:
        raise DamagedBackupError(
            f"{'; '.join(damaged.values())}. Nothing was removed, because a damaged manifest does not tell which files "
            f"its backup needs. {_way_out(target, *damaged)}, then prune again"
        )
    # An unfinished backup may use pieces that no manifest names. Without it, the next backup copies them again.
    target.delete(UNFINISHED)
    for name in removed:
        target.delete(manifest_name(name))
    return removed, _remove_unused(target, set().union(*(each.objects() for each in kept)))


def _way_out(target: BackupTarget, *damaged: str) -> str:
    """Return what to do about the damaged manifests of these backups: a sentence without its full stop."""
    files = " and ".join(f"{target.title}/{manifest_name(name)}" for name in damaged)
    return f"Put the manifest back from a copy of the target, or give up the backup: remove {files}"


def _remove_unused(target: BackupTarget, used: Collection[str]) -> int:
    freed = 0
    for each in target.list(_SHARDS):
        if each.name not in used:
            target.delete(each.name)
            freed += each.size
    return freed
