"""What can go wrong with bytes on disk: one type for each thing that a caller can do about it.

A broken invariant of this package is an assert, never one of these. Each message says what happened, to what, and what
to do. The operating system's error stays reachable as `__cause__`.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import ClassVar


class StoreError(Exception):
    """Base of all operating errors of the store."""

    retriable: ClassVar[bool] = False


class DiskFullError(StoreError):
    """No space, or no quota, is left; the write had no visible effect and can be repeated once there is room."""

    retriable = True

    def __init__(self, path: Path) -> None:
        super().__init__(f"No space is left on the disk of {path}. Free some, or enlarge it; then write again.")
        self.path = path


class OutOfFilesError(StoreError):
    """A file could not be opened, since too many are; nothing was written, and it can be tried again."""

    retriable = True

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} cannot be opened: too many files are open. Allow this process more (`ulimit -n`, LimitNOFILE); it "
            "goes on by itself then."
        )
        self.path = path


class DiskFailedError(StoreError):
    """The disk refused an operation for any other reason than lack of space: I/O error, read-only, permissions."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"The disk of {path} failed: {what}. Check disk and permissions, then restart the node.")
        self.path = path


class DamagedError(StoreError):
    """Bytes that were once whole are not any more. Nothing was cut or repaired."""

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
    """A CommitLog is damaged, in a way that another replica's entries can heal."""

    way_out = (
        "Nothing was changed by finding this. The node repairs its log from the other replicas; where there are none, "
        "restore the file."
    )


class RangeDamagedError(StoreError):
    """What was asked for lies where the log is damaged. All else can be read, and this once it is repaired."""

    retriable = True

    def __init__(self, path: Path, first: int, end: int) -> None:
        super().__init__(
            f"{path} is damaged between the positions {first} and {end}: nothing is read there until this is repaired "
            "from the other replicas. They have it: ask one of them."
        )
        self.path = path
        self.first = first
        self.end = end


class IndexDamagedError(StoreError):
    """An index contradicts itself or the CommitLog. Nothing is lost: it is built from the log."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"The index {path} is damaged: {reason}. Restart the node: it builds the index anew.")
        self.path = path
        self.reason = reason


class DirectoryInUseError(StoreError):
    """Another process (or another part of this one) holds the directory's lock."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is locked by {holder}. One process per data directory: stop it, or use another one.")
        self.path = path
        self.holder = holder


class WrongDirectoryError(StoreError):
    """The data directory belongs to another node or cluster, or to a version that this one cannot read."""

    def __init__(self, path: Path, found: str, expected: str) -> None:
        super().__init__(f"{path} belongs to {found}, not to {expected}. Correct the settings or use another one.")
        self.path = path
        self.found = found
        self.expected = expected


class DirectoryUpgradeError(StoreError):
    """The directory has the names of an older format, and they cannot be changed to today's."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} cannot be upgraded to format 2: {reason}. Find out which of them holds the node's data, move the "
            "other one out of this directory, and start the node again."
        )
        self.path = path
        self.reason = reason


class CorruptRangeError(StoreError):
    """A received range of entries is bad in itself. Nothing of it was written; it may be asked for again."""

    retriable = True

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"A received range of the log is bad at position {position}: {reason}. It was not written.")
        self.position = position
        self.reason = reason


class CorruptSnapshotError(StoreError):
    """A received base snapshot, or a piece of one, is bad. What was not taken may be asked for again."""

    retriable = True

    def __init__(self, reason: str) -> None:
        super().__init__(f"A received base snapshot is bad: {reason}. It was not taken.")
        self.reason = reason


class OffsetDroppedError(StoreError):
    """An offset was asked for that lies before the first one that the queue still has."""

    def __init__(self, offset: int, first_offset: int) -> None:
        super().__init__(f"Offset {offset} is not kept any more: the queue begins at {first_offset}. Go on from there.")
        self.offset = offset
        self.first_offset = first_offset


class ForkedError(StoreError):
    """A received range is sound, yet its chain does not continue ours: index and term agree, the bytes do not."""

    def __init__(self, index: int, expected_chain: int, found_chain: int) -> None:
        super().__init__(
            f"The log forks at index {index}: the entry's chain is {found_chain:#010x}, ours leads to "
            f"{expected_chain:#010x}. One of the two logs is not what was agreed; compare the replicas before going on."
        )
        self.index = index


def translated(error: OSError, path: Path) -> StoreError:
    """The typed error for what the operating system said; raise it `from` the original."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(path)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return OutOfFilesError(path)
    return DiskFailedError(path, error.strerror or str(error))
