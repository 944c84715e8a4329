"""The snapshots of one shard: where its log begins, where it may begin later, and a snapshot that is being received.

    <shard>/snapshot, snapshot.next         where the log begins (snapshot_file.py)
    <shard>/snapshots/<20-digit index>   where it may begin: made as the state machine passed the start of a segment
    <shard>/incoming                   on its way from another node (incoming_snapshot.py)
    <shard>/checkpoint                 where the next start of this node goes on (checkpoint.py)

The state at a place in the log is known only when the machine passes there, so a base is made for every
segment then; the log start moves later, to one of them. One that is missing or damaged is no loss: the log of this node
then begins earlier than it might.
"""

from __future__ import annotations

import threading
from pathlib import Path

from store.disk.disk import Disk, read_file, replace_file
from store.disk.numbered import name_of, numbers_of
from store.errors import CorruptSnapshotError
from store.snapshot.checkpoint import Checkpoint
from store.snapshot.incoming_snapshot import IncomingSnapshot, Offer
from store.snapshot.snapshot import Snapshot
from store.snapshot.snapshot_file import SnapshotFile


class Snapshots:
    def __init__(self, disk: Disk, directory: Path) -> None:
        """Of the shard in `directory`. Raises `DamagedError` when the present base cannot be read."""
        self._disk = disk
        self._candidates = directory / "snapshots"
        self._incoming_path = directory / "incoming"
        self._checkpoint_path = directory / "checkpoint"
        self._file = SnapshotFile(disk, directory / "snapshot")
        # What is of the log that is here now: a checkpoint may be on its way to the disk while that is replaced.
        self._log_number = 0
        self._one_checkpoint = threading.Lock()
        disk.make_directory(self._candidates)

    @property
    def snapshot(self) -> Snapshot | None:
        """Where the log begins; None: at entry 1."""
        return self._file.snapshot

    @property
    def is_resetting(self) -> bool:
        """Whether a reset has begun: what `CommitLog.open` takes as `reset`; call `finish_reset` once it is open."""
        return self._file.is_resetting

    # Where the log may begin.

    def keep(self, snapshot: Snapshot) -> None:
        """The log may begin behind `base` some day."""
        replace_file(self._disk, self._path(snapshot.index), snapshot.encode())

    def candidates(self) -> list[int]:
        """The indexes of the bases that are kept, ascending."""
        return numbers_of(self._disk.list(self._candidates))

    def candidate(self, index: int) -> Snapshot | None:
        """The base that was kept at that index; None where it is missing or damaged."""
        path = self._path(index)
        if not self._disk.exists(path):
            return None
        try:
            return Snapshot.decode(read_file(self._disk, path))
        except ValueError:
            return None

    # Where the next start goes on.

    @property
    def log_number(self) -> int:
        """Counts up when the log is replaced by another one."""
        return self._log_number

    def save(self, checkpoint: Checkpoint, log_number: int) -> None:
        """Durably; unless it is of a log that was replaced meanwhile. May be called from another thread."""
        with self._one_checkpoint:
            if log_number == self._log_number:
                replace_file(self._disk, self._checkpoint_path, checkpoint.encode())

    def forget_checkpoint(self) -> None:
        """Durably: the next start reads the whole log."""
        if self._disk.exists(self._checkpoint_path):
            self._disk.unlink(self._checkpoint_path)
            self._disk.sync_directory(self._checkpoint_path.parent)

    def checkpoint(self) -> Checkpoint | None:
        """The one that was saved last; None where there is none that is of any use."""
        if self.is_resetting or not self._disk.exists(self._checkpoint_path):
            return None
        try:
            checkpoint = Checkpoint.decode(read_file(self._disk, self._checkpoint_path))
        except ValueError:
            return None
        return checkpoint if self.snapshot is None or checkpoint.index >= self.snapshot.index else None

    # The log start moves, here or to a place that is not here.

    def begin_behind(self, snapshot: Snapshot) -> None:
        """Durably, by the base that was kept there; `CommitLog.drop_before` comes after it. It takes no room: to drop
        what is old must work on a full disk."""
        self._file.replace(snapshot, self._path(snapshot.index))
        self._forget_up_to(snapshot.index)

    def begin_reset(self, snapshot: Snapshot) -> None:
        """Durably: the log is void, and begins behind `base`; `CommitLog.reset` and `finish_reset` come after it."""
        with self._one_checkpoint:
            self._log_number += 1
            self.forget_checkpoint()
        self._file.begin_reset(snapshot)

    def finish_reset(self) -> None:
        """Durably, if one is under way; with the candidates, which are of the old log."""
        if self._file.is_resetting:
            for index in self.candidates():
                self._disk.unlink(self._path(index))
            self._disk.sync_directory(self._candidates)
        self._file.finish_reset()

    # From another node.

    def receive(self, offer: Offer, offset: int, piece: bytes, crc: int) -> int | Snapshot:
        """Take a piece of the base that is offered. Returns how much of it is here (what is not right does not count),
        or the base, once it is complete and right."""
        incoming = IncomingSnapshot.open(self._disk, self._incoming_path, offer)
        try:
            if not incoming.is_complete and offset == incoming.received:
                incoming.append(offset, piece, crc)
            return incoming.complete() if incoming.is_complete else incoming.received
        except CorruptSnapshotError:
            return 0 if incoming.is_complete else incoming.received
        finally:
            incoming.close()

    def forget_incoming(self) -> None:
        if self._disk.exists(self._incoming_path):
            self._disk.unlink(self._incoming_path)

    def _forget_up_to(self, index: int) -> None:
        for each in self.candidates():
            if each <= index:
                self._disk.unlink(self._path(each))

    def _path(self, index: int) -> Path:
        return self._candidates / name_of(index)
