"""The backups in a target: which there are, and which objects no backup uses any more."""

from __future__ import annotations

from collections.abc import Collection

from ledger.backup.errors import BackupError
from ledger.backup.manifest import Manifest, backup_of, decode_manifest, manifest_name
from ledger.backup.progress import UNFINISHED
from ledger.backup.targets.target import BackupTarget

_SHARDS = "shards/"


def backups_in(target: BackupTarget) -> list[str]:
    """Return the names of the whole backups, the oldest first. Raises BackupError."""
    return sorted(name for each in target.list("manifests/") if (name := backup_of(each.name)) is not None)


def load_manifest(target: BackupTarget, backup: str) -> Manifest:
    """Return the manifest of a backup. Raises BackupError."""
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


def chosen_manifest(target: BackupTarget, backup: str | None) -> Manifest:
    """Return the manifest of this backup, or of the newest one. Raises BackupError."""
    if backup is None:
        known = backups_in(target)
        if not known:
            raise BackupError(f"{target.title} has no whole backup: make one with `ledgermq backup create`")
        backup = known[-1]
    return load_manifest(target, backup)


def prune(target: BackupTarget, keep: int) -> tuple[list[str], int]:
    """Remove all backups but the newest `keep` ones, and all objects that no backup uses. Return the names of the
    removed backups and the number of freed bytes. The caller holds the lock of the target. Raises BackupError."""
    known = backups_in(target)
    removed = known[: max(0, len(known) - keep)]
    kept = [load_manifest(target, name) for name in known[len(removed) :]]
    # An unfinished backup may use pieces that no manifest names. Without it, the next backup copies them again.
    target.delete(UNFINISHED)
    for name in removed:
        target.delete(manifest_name(name))
    return removed, _remove_unused(target, set().union(*(each.objects() for each in kept)))


def _remove_unused(target: BackupTarget, used: Collection[str]) -> int:
    freed = 0
    for each in target.list(_SHARDS):
        if each.name not in used:
            target.delete(each.name)
            freed += each.size
    return freed
