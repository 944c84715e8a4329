"""The log start of a shard (section 7): how it moves, and how a replica that lacks earlier entries gets a snapshot.

    the machine passes the start of a segment ──> a base is kept: place and chain of the log there, members, state
    an entry says "begin behind index i"      ──> the base kept there is made durable, then whole segments go
    a follower lacks entries from before that ──> it gets the base in pieces, checks it, and begins there itself;
                                                  the retained log follows by the usual way

The log *is* the data, so a base never replaces it; it only stands for what is not kept any more. The log
start moves by an entry of its own, so all replicas keep the same; one that has no base at that place keeps more.
"""

from __future__ import annotations

import logging
import struct

import google_crc32c

from raft.interfaces import Log, Machine
from raft.snapshot_piece import Piece
from store import EntryDraft, EntryKind, Header, Snapshot, SnapshotOffer, Snapshots

log = logging.getLogger("ledgermq.raft.log_start")

PIECE_BYTES = 256 << 10
_INDEX = struct.Struct("<Q")


def log_start_draft(index: int) -> EntryDraft:
    """The entry by which the log begins behind `index`."""
    return EntryDraft(EntryKind.LOG_START, _INDEX.pack(index))


class LogStart:
    """One shard's. Its calls write to the disk, and are rare."""

    def __init__(self, log: Log, snapshots: Snapshots, machine: Machine, resumed: Snapshot | None) -> None:
        """`resumed`: what the machine begins with; None: nothing."""
        self.configuration = resumed.configuration if resumed else b""
        """The body of the newest configuration that is applied."""
        self._log = log
        self._snapshots = snapshots
        self._machine = machine
        self.dropped_bytes = 0
        """Of the entries that were let go since this process began."""
        self._kept = set(snapshots.candidates())
        self._encoded: tuple[Snapshot, bytes] | None = None

    @property
    def snapshot(self) -> Snapshot | None:
        return self._snapshots.snapshot

    def candidates(self) -> list[int]:
        """Behind which entries the log may begin now, ascending."""
        return self._snapshots.candidates()

    def candidate(self, index: int) -> Snapshot | None:
        """The base that is kept there; None where it is missing or damaged."""
        return self._snapshots.candidate(index)

    # -- the own log moves on

    def passes(self, header: Header, body: memoryview) -> None:
        """That entry is about to be applied."""
        if header.index > self._log.first_index and self._log.begins_segment(header.index):
            self._keep(header.index - 1)
        if header.kind is EntryKind.CONFIGURATION:
            self.configuration = bytes(body)

    def _keep(self, index: int) -> None:
        if index not in self._kept:  # in an earlier run of this node it was
            state = self._machine.encoded_state()
            self._snapshots.keep(self._log.snapshot_at(index, configuration=self.configuration, state=state))
            self._kept.add(index)

    def move(self, body: memoryview) -> Snapshot | None:
        """An entry that moves the log start is applied. Returns the new base; None where nothing moves here."""
        (index,) = _INDEX.unpack(body)
        if index < self._log.first_index:
            return None
        snapshot = self._snapshots.candidate(index)
        if snapshot is None:
            log.warning("the log could begin after entry %d, but no snapshot was kept there; nothing goes", index)
            return None
        before = self._snapshots.snapshot
        entries, size = snapshot.index + 1 - self._log.first_index, snapshot.end - (before.end if before else 0)
        self._snapshots.begin_behind(snapshot)
        self._log.drop_before(snapshot)
        self.dropped_bytes += size
        log.info("the log now begins after entry %d: %d entries, %d bytes go", snapshot.index, entries, size)
        return snapshot

    # -- to others

    def piece(self, offset: int) -> Piece:
        """Of the present base, from that byte on."""
        snapshot = self._snapshots.snapshot
        assert snapshot is not None, "only a log that begins later has a base to send"
        if self._encoded is None or self._encoded[0] is not snapshot:
            self._encoded = (snapshot, snapshot.encode())
        data = self._encoded[1]
        piece = data[offset : offset + PIECE_BYTES]
        return Piece(SnapshotOffer.of(snapshot, data), piece, google_crc32c.value(piece))

    # -- from others

    @property
    def is_installing(self) -> bool:
        """Whether the log that was here is void, and the new one has not begun yet."""
        return self._snapshots.is_resetting

    def receive(self, offset: int, piece: Piece) -> int | Snapshot:
        """Returns how many bytes of it are here, or the whole base."""
        return self._snapshots.receive(piece.offer, offset, piece.data, piece.crc)

    def install(self, snapshot: Snapshot) -> None:
        """Begin behind that base, without anything that was here before. The next start ends what a kill cut off. After
        an error nothing has happened unless `is_installing`."""
        self._snapshots.begin_reset(snapshot)
        self._log.reset(snapshot)
        self._snapshots.finish_reset()
        self._snapshots.forget_incoming()
        self._kept.clear()
        self.configuration = snapshot.configuration
        self._machine.restore(snapshot)
