"""The errors of backups. Each message says what failed, at which backup or object, and what to do next."""

from __future__ import annotations


class BackupError(Exception):
    """A backup cannot be made, read or restored."""


class DamagedBackupError(BackupError):
    """An object of a backup is missing, or does not have the bytes that the manifest says."""


class TargetBusyError(BackupError):
    """Another process makes a backup to the same target."""
