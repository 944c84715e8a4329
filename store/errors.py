"""Defines the errors of the store. Each type of error calls for another action of the caller.

Broken invariants of this package are found by assert statements, and are not reported by errors of this module. If the
operating system reported an `OSError`, this `OSError` is the `__cause__` of the store's error.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import ClassVar


class StoreError(Exception):
    """Base class of the errors that operations of the store raise. If `retriable` is true, the caller may repeat
    the operation."""

    retriable: ClassVar[bool] = False


class NoSpaceError(StoreError):
    """The disk or the quota is full, or the file system has no inode left for another file. The failed write had no
    visible effect. The caller may repeat the write when there is space."""

    retriable = True

    def __init__(self, path: Path, *, only_inodes: bool = False) -> None:
        """With `only_inodes`, the disk has free space, and no inode."""
        super().__init__(
            f"No inode is left on the disk of {path}, although it has free space (`df -i`): it can have no more files. "
            "Remove files, or use a file system with more inodes."
            if only_inodes
            else f"No space is left on the disk of {path}. Free space or enlarge the disk, then write again."
        )
        self.path = path


class OutOfFilesError(StoreError):
    """A file could not be opened because too many files are open. Nothing was written, and the caller may repeat
    the operation."""

    retriable = True

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} cannot be opened: too many files are open. Raise the limit of this process (`ulimit -n`, "
            "LimitNOFILE). The node tries again by itself."
        )
        self.path = path


class DiskFailedError(StoreError):
    """The disk refused an operation: I/O error, read-only file system, missing permission, or similar."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"The disk of {path} failed: {what}. Check disk and permissions, then restart the node.")
        self.path = path


class DamagedError(StoreError):
    """A file is damaged. The damaged file was neither cut nor repaired."""

    way_out: ClassVar[str] = (
        "Nothing was changed; restore the file, or wipe this node's data directory and add the node to its cluster "
        "again."
    )

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at position {position}: {reason}. {self.way_out}")
        self.path = path
        self.position = position
        self.reason = reason


class LogDamagedError(DamagedError):
    """A CommitLog is damaged, and entries of another replica can repair it."""

    way_out = (
        "Nothing was changed. The node repairs its log from the other replicas; if the shard has no other replica, "
        "restore the file."
    )


class RangeDamagedError(StoreError):
    """The requested entries are in a damaged range of the log. After a scrub repair of the range, the entries can
    be read again."""

    retriable = True

    def __init__(self, path: Path, first: int, end: int) -> None:
        super().__init__(
            f"{path} is damaged between the positions {first} and {end}: entries there cannot be read until they are "
            "repaired from the other replicas. Read from another replica."
        )
        self.path = path
        self.first = first
        self.end = end


class IndexDamagedError(StoreError):
    """An index contradicts itself or the CommitLog. No data is lost: the index can be built again from the log."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"The index {path} is damaged: {reason}. Restart the node: it builds the index anew.")
        self.path = path
        self.reason = reason


class DirectoryInUseError(StoreError):
    """The directory's lock is held by another process, or is already held by this process."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is locked by {holder}. Stop that process, or use another data directory.")
        self.path = path
        self.holder = holder


class WrongDirectoryError(StoreError):
    """The data directory belongs to another node or cluster, or has a format that this version cannot read."""

    def __init__(self, path: Path, found: str, expected: str) -> None:
        super().__init__(
            f"{path} belongs to {found}, not to {expected}. Correct the settings, or use another directory."
        )
        self.path = path
        self.found = found
        self.expected = expected


class DirectoryUpgradeError(StoreError):
    """The directory has names of format 1 that cannot be changed to the names of format 2."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} cannot be upgraded to format 2: {reason}. Find out which of the two directories holds the node's "
            "data, move the other directory away, and start the node again."
        )
        self.path = path
        self.reason = reason


class CorruptRangeError(StoreError):
    """A received range of entries is damaged. No byte of the range was written; the caller may request the range
    again."""

    retriable = True

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(
            f"A received range of entries is damaged at position {position}: {reason}. Nothing was written; request "
            "the range again."
        )
        self.position = position
        self.reason = reason


class CorruptSnapshotError(StoreError):
    """A received snapshot, or one piece of it, is damaged. The caller may request the rejected bytes again."""

    retriable = True

    def __init__(self, reason: str) -> None:
        super().__init__(f"A received snapshot is damaged: {reason}. It was not used; request the snapshot again.")
        self.reason = reason


class OffsetDroppedError(StoreError):
    """The requested offset is before the first offset that the queue still holds."""

    def __init__(self, offset: int, first_offset: int) -> None:
        super().__init__(f"Offset {offset} was removed: the queue begins at {first_offset}. Continue from there.")
        self.offset = offset
        self.first_offset = first_offset


class ForkedError(StoreError):
    """A received range is sound, but its chain does not continue the chain of this log. An entry with the same index
    and term has different bytes on the two replicas."""

    def __init__(self, index: int, expected_chain: int, found_chain: int) -> None:
        super().__init__(
            f"Two replicas differ at index {index}: the received entry has chain {found_chain:#010x}, this log expects "
            f"{expected_chain:#010x}. Compare the replicas with `ledgermq log diff` before you continue."
        )
        self.index = index
        self.found_chain = found_chain


def translated(error: OSError, path: Path) -> StoreError:
    """Return the typed error for an `OSError`. The caller raises the returned error `from` the original error."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpaceError(path)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return OutOfFilesError(path)
    return DiskFailedError(path, error.strerror or str(error))
