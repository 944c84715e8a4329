"""The snapshot file holds the snapshot at which a shard's log begins, and shows whether a reset of the log to this
snapshot is in progress.

    <shard>/snapshot           the snapshot at the log start; missing while the log begins at entry 1
    <shard>/snapshot.next      exists only during a reset: the snapshot at the start of the new log

    The log start moves on:      replace(snapshot)      ->  log.drop_before(snapshot)
    The log is replaced:         begin_reset(snapshot)  ->  log.reset(snapshot)        ->  finish_reset()

The file name `snapshot.next` decides which log is valid. While `snapshot.next` does not exist, the old log is valid
with the old snapshot. As soon as `snapshot.next` exists (renamed from a temporary file and synced), the old log is
invalid. Every start then removes the rest of the old log, until `finish_reset` has renamed `snapshot.next` to
`snapshot`. This way, a log is never read together with another log's snapshot.
"""

from __future__ import annotations

from pathlib import Path

from store.disk.disk import Disk, read_file, replace_file, sync_file
from store.errors import DamagedError, StoreError
from store.snapshot.snapshot import Snapshot


class SnapshotFile:
    def __init__(self, disk: Disk, path: Path) -> None:
        """Read the snapshot file. Raise `DamagedError` if the bytes are no snapshot."""
        self._disk = disk
        self._path = path
        self._next_path = path.with_name(path.name + ".next")
        self._is_resetting = disk.exists(self._next_path)
        self._snapshot = self._read(self._next_path if self._is_resetting else path)
        # The snapshot that `replace` has renamed to the snapshot file. The new name may not be durable yet.
        self._renamed: Snapshot | None = None

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot at which the log begins; None if the log begins at entry 1."""
        return self._snapshot

    @property
    def is_resetting(self) -> bool:
        """Whether a reset is in progress. During a reset all segments of the log are void. Pass this value to
        `CommitLog.open` as `reset`."""
        return self._is_resetting

    def replace(self, snapshot: Snapshot, kept: Path) -> None:
        """Durably begin the log after `snapshot`, whose entry the log holds. The file `kept` holds this snapshot. It is
        made durable and renamed to the snapshot file, so `replace` works on a full disk. A power loss during the call
        may undo the rename and lose the file `kept`; then the log begins where it began before. After an error, the
        caller may repeat the call with the same `snapshot` object."""
        assert not self._is_resetting
        assert self._snapshot is None or snapshot.index >= self._snapshot.index, "the log start never moves back"
        if self._renamed is not snapshot:
            sync_file(self._disk, kept)
            self._disk.rename(kept, self._path)
            self._renamed = snapshot
        self._disk.sync_directory(self._path.parent)
        self._disk.sync_directory(kept.parent)
        self._snapshot = snapshot

    def begin_reset(self, snapshot: Snapshot) -> None:
        """Durably mark the old log as invalid. A new, empty log begins after `snapshot`. After an error,
        `is_resetting` says whether the reset has begun."""
        try:
            replace_file(self._disk, self._next_path, snapshot.encode())
        except StoreError:
            self._is_resetting = self._disk.exists(self._next_path)
            raise
        self._snapshot, self._is_resetting = snapshot, True

    def finish_reset(self) -> None:
        """Durably end the reset, after the old log was removed and before the first write to the new log. Do nothing if
        no reset is in progress."""
        if self._is_resetting:
            self._disk.rename(self._next_path, self._path)
            self._disk.sync_directory(self._path.parent)
            self._is_resetting = False

    def _read(self, path: Path) -> Snapshot | None:
        if not self._disk.exists(path):
            return None
        try:
            return Snapshot.decode(read_file(self._disk, path))
        except ValueError as error:
            raise DamagedError(path, 0, f"this is no snapshot ({error})") from error
