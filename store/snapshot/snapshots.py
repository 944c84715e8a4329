"""Keeps the snapshots of one shard: the snapshot at the log start, the candidates for a later log start, and an
incoming snapshot.

    <shard>/snapshot, snapshot.next      the log start (snapshot_file.py)
    <shard>/snapshots/<20-digit index>   candidates, made when the state machine passed the start of a segment
    <shard>/incoming                     a snapshot that arrives from another node (incoming_snapshot.py)
    <shard>/checkpoint                   the place where the next start of this node continues (checkpoint.py)

The state after an entry is known only when the state machine has just applied that entry. For this reason, the node
stores one snapshot for each segment as a candidate. When the log start moves, it moves to one of the candidates. If a
candidate is missing or damaged, the log of this node begins earlier than it could, and nothing else happens.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path

from store.disk.disk import Disk, read_file, remove_file, replace_file, sync_file
from store.disk.numbered import name_of, numbers_of
from store.errors import CorruptSnapshotError, StoreError
from store.snapshot.checkpoint import Checkpoint
from store.snapshot.incoming_snapshot import IncomingSnapshot, SnapshotOffer, TransferPosition
from store.snapshot.snapshot import Snapshot
from store.snapshot.snapshot_file import SnapshotFile

log = logging.getLogger("ledgermq.store.snapshots")


class Snapshots:
    def __init__(self, disk: Disk, directory: Path) -> None:
        """Read the snapshot of the shard in `directory`. Raise `DamagedError` if the snapshot at the log start cannot
        be read."""
        self._disk = disk
        self._candidates = directory / "snapshots"
        self._incoming_path = directory / "incoming"
        self._checkpoint_path = directory / "checkpoint"
        self._file = SnapshotFile(disk, directory / "snapshot")
        # The candidates that may not be durable yet.
        self._unsynced: deque[int] = deque()
        # Identifies the present log. A checkpoint of the earlier log may still be on its way to the disk when the log
        # is replaced.
        self._log_number = 0
        # Why the last call of `checkpoint` found no checkpoint, if its file is damaged; else empty.
        self.checkpoint_flaw = ""
        self._one_checkpoint = threading.Lock()
        # The transfer under way, and where its next piece belongs. None if this process has stored no piece.
        self._transfer: tuple[SnapshotOffer, TransferPosition] | None = None
        disk.make_directory(self._candidates)

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot at which the log begins; None if the log begins at entry 1."""
        return self._file.snapshot

    @property
    def is_resetting(self) -> bool:
        """Whether a reset of the log has begun. Pass this value to `CommitLog.open` as `reset`, and call
        `finish_reset` after the log is open."""
        return self._file.is_resetting

    # Candidates for the log start.

    def keep(self, snapshot: Snapshot) -> None:
        """Write `snapshot` as a candidate for a later log start. The caller does not wait for the disk: the next
        checkpoint makes the candidate durable. After a power loss before that, it may be missing or damaged."""
        replace_file(self._disk, self._path(snapshot.index), snapshot.encode(), durably=False)
        self._unsynced.append(snapshot.index)

    def candidates(self) -> list[int]:
        """Return the indexes of all candidates, ascending."""
        return numbers_of(self._disk.list(self._candidates))

    def candidate(self, index: int) -> Snapshot | None:
        """Return the candidate at `index`; None if it is missing or damaged."""
        path = self._path(index)
        if not self._disk.exists(path):
            return None
        try:
            return Snapshot.decode(read_file(self._disk, path))
        except ValueError:
            return None

    # The checkpoint.

    @property
    def log_number(self) -> int:
        """The number of the present log. The number rises when the log is replaced."""
        return self._log_number

    def save(self, checkpoint: Checkpoint, log_number: int) -> None:
        """Write the checkpoint durably, unless the log of the checkpoint was replaced meanwhile. Before it, make the
        candidates durable. Another thread may call `save`."""
        with self._one_checkpoint:
            if log_number == self._log_number:
                self._sync_candidates()
                replace_file(self._disk, self._checkpoint_path, checkpoint.encode())

    def _sync_candidates(self) -> None:
        if not self._unsynced:
            return
        while self._unsynced:
            path = self._path(self._unsynced[0])
            try:
                sync_file(self._disk, path)
            except StoreError:
                if self._disk.exists(path):  # otherwise the log start has moved behind it
                    raise
            self._unsynced.popleft()
        self._disk.sync_directory(self._candidates)

    def forget_checkpoint(self) -> None:
        """Remove the checkpoint durably. The next start then reads the whole log."""
        if self._disk.exists(self._checkpoint_path):
            self._disk.unlink(self._checkpoint_path)
            self._disk.sync_directory(self._checkpoint_path.parent)

    def checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint that was saved last; None if it is missing, damaged or before the log start. The damage
        is logged: without a checkpoint, the start reads the whole log and builds state and indexes anew."""
        if self.is_resetting or not self._disk.exists(self._checkpoint_path):
            return None
        try:
            checkpoint = Checkpoint.decode(read_file(self._disk, self._checkpoint_path))
        except ValueError as damage:
            self.checkpoint_flaw = f"the checkpoint was damaged: {damage}"
            log.warning(
                "the checkpoint %s is damaged, so it is ignored, and state and indexes are built anew from the log: %s",
                self._checkpoint_path,
                damage,
            )
            return None
        return checkpoint if self.snapshot is None or checkpoint.index >= self.snapshot.index else None

    # The log start moves, in this log or to a new log.

    def begin_behind(self, snapshot: Snapshot) -> None:
        """Durably make the candidate `snapshot` the log start; call `CommitLog.drop_before` next. `begin_behind`
        needs no disk space, because removing old entries must work on a full disk. After an error, the caller may
        repeat the call with the same `snapshot` object."""
        self._file.replace(snapshot, self._path(snapshot.index))
        with suppress(StoreError):  # old candidates harm nothing, and the next call removes them
            self._forget_up_to(snapshot.index)

    def begin_reset(self, snapshot: Snapshot) -> None:
        """Durably mark the old log as invalid, so that a new, empty log begins after `snapshot`. Call
        `CommitLog.reset` and `finish_reset` next."""
        with self._one_checkpoint:
            self._log_number += 1
            self.forget_checkpoint()
        self._file.begin_reset(snapshot)

    def finish_reset(self) -> None:
        """Durably end a reset, if one is in progress. The candidate snapshots of the old log are removed."""
        if self._file.is_resetting:
            for index in self.candidates():
                self._disk.unlink(self._path(index))
            self._disk.sync_directory(self._candidates)
        self._file.finish_reset()

    # A snapshot from another node.

    def receive(self, offer: SnapshotOffer, offset: int, piece: bytes, crc: int) -> int | Snapshot:
        """Add a piece to the snapshot that another node offers. If this piece completes the snapshot and the
        snapshot is valid, return the snapshot. If the snapshot is not complete, return the number of bytes received
        so far, without rejected bytes."""
        known = self._transfer[1] if self._transfer is not None and self._transfer[0] == offer else None
        incoming = IncomingSnapshot.open(self._disk, self._incoming_path, offer, known)
        try:
            if not incoming.is_complete and offset == incoming.received:
                incoming.append(offset, piece, crc)
            return incoming.complete() if incoming.is_complete else incoming.received
        except CorruptSnapshotError:
            return 0 if incoming.is_complete else incoming.received
        finally:
            self._transfer = (offer, incoming.position)
            incoming.close()

    def forget_incoming(self) -> None:
        self._transfer = None
        remove_file(self._disk, self._incoming_path)

    def _forget_up_to(self, index: int) -> None:
        for each in self.candidates():
            if each <= index:
                self._disk.unlink(self._path(each))

    def _path(self, index: int) -> Path:
        return self._candidates / name_of(index)
