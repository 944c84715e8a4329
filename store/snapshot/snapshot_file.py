"""The snapshot file: the snapshot at which a shard's log begins, and whether a reset to it is under way.

    <shard>/snapshot       the base of the log; none while the log begins at entry 1
    <shard>/snapshot.next      only while a reset is under way: the base of the log to come

The log start moves on:      replace(base)      ->  log.drop_before(base)
The log begins elsewhere:    begin_reset(base)  ->  log.reset(base)        ->  finish_reset()

A name is the decision. While there is no `snapshot.next`, the old log counts, with the old base; from the
moment that it is there (a rename, synced), the old log is void, and every start removes what is left of it until
`finish_reset` has put the new base in the place of the old one. So a log is never read with the base of another one.
"""

from __future__ import annotations

from pathlib import Path

from store.disk.disk import Disk, read_file, replace_file
from store.errors import DamagedError, StoreError
from store.snapshot.snapshot import Snapshot


class SnapshotFile:
    def __init__(self, disk: Disk, path: Path) -> None:
        """Reads the snapshot file. Raises `DamagedError` if the bytes are no snapshot."""
        self._disk = disk
        self._path = path
        self._next_path = path.with_name(path.name + ".next")
        self._is_resetting = disk.exists(self._next_path)
        self._snapshot = self._read(self._next_path if self._is_resetting else path)

    @property
    def snapshot(self) -> Snapshot | None:
        """Where the log begins; None: at entry 1."""
        return self._snapshot

    @property
    def is_resetting(self) -> bool:
        """Whether the log's segments, as far as there are any, are void: what `CommitLog.open` takes as `reset`."""
        return self._is_resetting

    def replace(self, snapshot: Snapshot, kept: Path) -> None:
        """Durably: the log, which holds entry `base.index`, begins behind it. The file `kept` holds `base`, durably
        too, and gets this name: that works on a full disk. A power loss in the midst of this may leave neither the new
        base nor `kept`; the log begins where it did then."""
        assert not self._is_resetting
        assert self._snapshot is None or snapshot.index >= self._snapshot.index, "the log start never moves back"
        self._disk.rename(kept, self._path)
        self._disk.sync_directory(self._path.parent)
        self._disk.sync_directory(kept.parent)
        self._snapshot = snapshot

    def begin_reset(self, snapshot: Snapshot) -> None:
        """Durably: the log is void, and one without entries begins behind `base`. After an error `is_resetting` says
        whether that has come about."""
        try:
            replace_file(self._disk, self._next_path, snapshot.encode())
        except StoreError:
            self._is_resetting = self._disk.exists(self._next_path)
            raise
        self._snapshot, self._is_resetting = snapshot, True

    def finish_reset(self) -> None:
        """Durably, once the old log is removed, and before anything is written to the new one. Without a reset under
        way it does nothing."""
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
