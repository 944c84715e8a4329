"""Moves the log start of a shard (section 7 of the Raft paper), and sends a snapshot to a replica that lacks entries
from before the log start.

    a replica reaches the start of a segment           ──> it keeps a snapshot: position, chain, members and state
    an entry says "the log begins after index i"       ──> the snapshot at i is made durable; whole segments are removed
    a follower lacks entries from before the log start ──> it receives the snapshot in pieces, checks it, and begins its
                                                           log after it; then the leader sends the retained entries

The log contains the messages themselves. A snapshot contains no messages, so it replaces only entries that retention
has removed. An entry in the log moves the log start, so all replicas remove the same entries. A replica that has no
snapshot at the new log start keeps more entries. On a full disk a replica goes on without a new snapshot, so that it
can apply a later entry that moves the log start and frees space.
"""

from __future__ import annotations

import logging
import struct

import google_crc32c

from raft.errors import CannotApplyError
from raft.interfaces import Log, Machine
from raft.snapshot_piece import SnapshotPiece
from store import EntryDraft, EntryKind, Header, NoSpaceError, Snapshot, SnapshotOffer, Snapshots

log = logging.getLogger("ledgermq.raft.log_start")

PIECE_BYTES = 256 << 10
_INDEX = struct.Struct("<Q")


def log_start_draft(index: int) -> EntryDraft:
    """Return the entry that moves the log start: the log begins after entry `index`."""
    return EntryDraft(EntryKind.LOG_START, _INDEX.pack(index))


class LogStart:
    """`LogStart` moves the log start of one shard on one replica. The methods of `LogStart` are called rarely. Some
    methods of `LogStart` write to the disk."""

    def __init__(self, log: Log, snapshots: Snapshots, machine: Machine, resumed: Snapshot | None) -> None:
        """`resumed` is the snapshot from which the state machine started, or None if it started empty."""
        # The body of the newest applied configuration entry.
        self.configuration = resumed.configuration if resumed else b""
        self._log = log
        self._snapshots = snapshots
        self._machine = machine
        # The snapshot behind which the log is to begin, and the number of bytes before it, while the move to it is not
        # finished; otherwise None.
        self._moving: tuple[Snapshot, int] | None = None
        # The bytes of all entries removed since this process started.
        self.dropped_bytes = 0
        # The indexes at which no snapshot need be kept: a run has kept it there, or found no space for it. A later one
        # than the state of this start may be damaged by a power loss, and is written again.
        self._kept = {index for index in snapshots.candidates() if resumed is not None and index <= resumed.index}
        self._encoded: tuple[Snapshot, bytes] | None = None

    @property
    def snapshot(self) -> Snapshot | None:
        """Return the snapshot at the log start, or None if the log begins with entry 1."""
        return self._snapshots.snapshot

    def candidates(self) -> list[int]:
        """Return, in ascending order, each index up to which the entries can be removed from the log."""
        return self._snapshots.candidates()

    def candidate(self, index: int) -> Snapshot | None:
        """Return the snapshot that is kept at `index`. Return None if the snapshot is missing or damaged."""
        return self._snapshots.candidate(index)

    # -- this replica's log

    def passes(self, header: Header, body: memoryview) -> None:
        """The applier calls `passes` before it applies the entry of `header` and `body`. If the entry is the first
        entry of a segment, store a snapshot of the state before the entry. If the disk has no space for the
        snapshot, continue without it."""
        if header.index > self._log.first_index and self._log.begins_segment(header.index):
            self._keep(header.index - 1)
        if header.kind is EntryKind.CONFIGURATION:
            self.configuration = bytes(body)

    def _keep(self, index: int) -> None:
        if index in self._kept:
            return
        state = self._machine.encoded_state()
        snapshot = self._log.snapshot_at(index, configuration=self.configuration, state=state)
        try:
            self._snapshots.keep(snapshot)
        except NoSpaceError as error:  # a later entry may move the log start, and so free space
            log.warning(
                "the snapshot after entry %d is not kept, so the log of this node cannot begin there: %s", index, error
            )
        self._kept.add(index)

    def move(self, body: bytes) -> Snapshot | None:
        """Apply an entry that moves the log start.

        Return the snapshot at the new log start, or None if this replica keeps its log start. After a StoreError, the
        caller calls `move` with the same entry again."""
        if len(body) != _INDEX.size:
            raise CannotApplyError(
                self._log.last_index, f"the body of a log start has {len(body)} bytes, not {_INDEX.size}"
            )
        (index,) = _INDEX.unpack(body)
        if index < self._log.first_index:
            return None
        if self._moving is None or self._moving[0].index != index:
            snapshot = self._snapshots.candidate(index)
            if snapshot is None:
                log.warning(
                    "the log could begin after entry %d, but no snapshot was kept there; no entry is removed", index
                )
                return None
            before = self._snapshots.snapshot
            self._moving = snapshot, snapshot.end - (before.end if before else 0)
        snapshot, size = self._moving
        entries = snapshot.index + 1 - self._log.first_index
        self._snapshots.begin_behind(snapshot)
        self._log.drop_before(snapshot)
        self._moving = None
        self.dropped_bytes += size
        log.info("the log now begins after entry %d: removed %d entries, %d bytes", snapshot.index, entries, size)
        return snapshot

    # -- to a follower

    def piece(self, offset: int) -> SnapshotPiece:
        """Return the piece of this replica's snapshot that begins at byte `offset`."""
        snapshot = self._snapshots.snapshot
        assert snapshot is not None, "a log that begins with entry 1 has no snapshot to send"
        if self._encoded is None or self._encoded[0] is not snapshot:
            self._encoded = (snapshot, snapshot.encode())
        data = self._encoded[1]
        piece = data[offset : offset + PIECE_BYTES]
        return SnapshotPiece(SnapshotOffer.of(snapshot, data), piece, google_crc32c.value(piece))

    # -- from the leader

    def has_replaced_log(self, snapshot: Snapshot) -> bool:
        """Return True if the installation of this snapshot has begun: the old log is invalid, even if the new log does
        not exist yet or the state is still the old state."""
        return self._snapshots.is_resetting or self._snapshots.snapshot is snapshot

    def receive(self, offset: int, piece: SnapshotPiece) -> int | Snapshot:
        """Store a piece of a snapshot from the leader. Return the number of bytes received so far, or the whole
        snapshot when it is complete."""
        return self._snapshots.receive(piece.offer, offset, piece.data, piece.crc)

    def forget_incoming(self) -> None:
        """Remove the received pieces of a snapshot that this replica refuses."""
        self._snapshots.forget_incoming()

    def install(self, snapshot: Snapshot) -> None:
        """Replace log and state by a received snapshot. After `install` the log begins after the snapshot. If the
        process is killed during the installation, the next start completes it. If the installation fails and
        `has_replaced_log` is False, log and state are unchanged."""
        self._snapshots.begin_reset(snapshot)
        self._log.reset(snapshot)
        self._snapshots.finish_reset()
        self._snapshots.forget_incoming()
        self._kept.clear()
        self._moving = None
        self.configuration = snapshot.configuration
        self._machine.restore(snapshot)
