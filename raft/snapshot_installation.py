"""Receives a snapshot from the leader in pieces. When the snapshot is complete, this module replaces the log and
the state by the snapshot (section 7 of the Raft paper)."""

from __future__ import annotations

from raft.applier import Applier
from raft.configuration_entry import decode_configuration
from raft.core import Raft, SnapshotChunk
from raft.errors import CutFailedError
from raft.log_start import LogStart
from raft.snapshot_piece import SnapshotPiece
from store import Snapshot, StoreError


class SnapshotInstallation:
    """Receives and installs the snapshot of one replica."""

    def __init__(self, raft: Raft, log_start: LogStart | None, applier: Applier) -> None:
        # The bytes of the SnapshotChunk that the core is looking at.
        self.piece: SnapshotPiece | None = None
        self._raft = raft
        self._log_start = log_start
        self._applier = applier

    def take(self, chunk: SnapshotChunk) -> None:
        """Store the piece of the snapshot in this chunk, and install the snapshot if the piece completes it.

        Raise StoreError if the disk fails, or CutFailedError if only a restart can complete the installation."""
        assert self._log_start is not None, "a snapshot came to a shard whose log always begins with entry 1"
        assert self.piece is not None, "the core asks for a chunk only while its piece is here"
        taken = self._log_start.receive(chunk.offset, self.piece)
        if isinstance(taken, int):
            self._raft.snapshot_received(chunk, taken)
        else:
            self._install(self._log_start, chunk, taken)

    def _install(self, log_start: LogStart, chunk: SnapshotChunk, snapshot: Snapshot) -> None:
        try:
            log_start.install(snapshot)
        except StoreError as failure:
            if failure.retriable and not log_start.is_installing:
                raise  # log and state are unchanged, and the leader sends the snapshot again
            raise CutFailedError(snapshot.index) from failure
        self._applier.installed(snapshot)
        self._raft.installed(chunk, snapshot.term, decode_configuration(snapshot.configuration).core)
