"""Opens the target that a user names: a path."""

from __future__ import annotations

from pathlib import Path

from ledger.backup.errors import BackupError
from ledger.backup.targets.directory_target import DirectoryTarget
from ledger.backup.targets.target import Target


def open_target(name: str) -> Target:
    """Return the target. Raises BackupError if the name is not the name of a target."""
    if "://" in name:
        raise BackupError(f"{name} is no target: name a directory")
    return DirectoryTarget(Path(name))
