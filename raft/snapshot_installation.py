"""Receives a snapshot from the leader in pieces. When the snapshot is complete and of this shard, this module replaces
the log and the state by the snapshot (section 7 of the Raft paper)."""

from __future__ import annotations

from raft.applier import Applier
from raft.configuration_entry import InvalidConfigurationError, ShardConfiguration, decode_configuration
from raft.core import InvalidMessage, Raft, SnapshotChunk
from raft.errors import CutFailedError
from raft.interfaces import Log, Machine
from raft.log_start import LogStart
from raft.snapshot_piece import SnapshotPiece
from store import Snapshot, StoreError
from store.log.entry import ALIGNMENT

# A snapshot contains no messages. A node holds it in memory as a whole.
MAX_SNAPSHOT_BYTES = 1 << 30
# No log gets as long as this. Later positions must still fit in 63 bits.
MAX_POSITION = 1 << 62


class SnapshotInstallation:
    """Receives and installs the snapshot of one replica."""

    def __init__(self, raft: Raft, log: Log, log_start: LogStart | None, machine: Machine, applier: Applier) -> None:
        # The bytes of the SnapshotChunk that the core is looking at.
        self.piece: SnapshotPiece | None = None
        self._raft = raft
        self._log = log
        self._log_start = log_start
        self._machine = machine
        self._applier = applier
        # Why the last piece was refused; None if it was not.
        self._refused: InvalidMessage | None = None

    def check_piece(self, chunk: SnapshotChunk, piece: SnapshotPiece) -> None:
        """Raise InvalidMessage if this replica takes no snapshot, or if the snapshot is too large."""
        if self._log_start is None:
            raise InvalidMessage(chunk.sender, "a snapshot of a shard whose log always begins with entry 1")
        if not 0 <= chunk.offset <= piece.offer.size <= MAX_SNAPSHOT_BYTES:
            raise InvalidMessage(
                chunk.sender,
                f"a piece at byte {chunk.offset} of a snapshot of {piece.offer.size} bytes, of at most "
                f"{MAX_SNAPSHOT_BYTES}",
            )

    def take(self, chunk: SnapshotChunk) -> None:
        """Store the piece of the snapshot in this chunk, and install the snapshot if the piece completes it. If the
        complete snapshot is not of this shard, remove it; `take_refusal` then returns the reason.

        Raise StoreError if the disk fails, or CutFailedError if only a restart can complete the installation."""
        assert self._log_start is not None, "check_piece refuses the piece"
        assert self.piece is not None, "the core asks for a chunk only while its piece is here"
        taken = self._log_start.receive(chunk.offset, self.piece)
        if isinstance(taken, int):
            self._raft.snapshot_received(chunk, taken)
            return
        try:
            configuration = self._checked(self._log_start, chunk, taken)
        except InvalidMessage as refused:
            self._refused = refused
            self._log_start.forget_incoming()
            return
        self._install(self._log_start, chunk, taken, configuration)

    def take_refusal(self) -> InvalidMessage | None:
        """Return why the last piece was refused, and forget it. Return None if it was not refused."""
        refused, self._refused = self._refused, None
        return refused

    def _checked(self, log_start: LogStart, chunk: SnapshotChunk, snapshot: Snapshot) -> ShardConfiguration:
        """Return the configuration in the snapshot. Raise InvalidMessage if the snapshot cannot be of this shard.
        Nothing has been replaced yet."""
        try:
            configuration = decode_configuration(snapshot.configuration)
            own = decode_configuration(log_start.configuration) if log_start.configuration else configuration
        except InvalidConfigurationError as error:
            raise InvalidMessage(chunk.sender, f"a snapshot with an impossible configuration: {error}") from error
        if _fixed(configuration) != _fixed(own):
            raise InvalidMessage(
                chunk.sender, f"a snapshot for {_fixed(configuration)}, and this shard has {_fixed(own)}"
            )
        if not 0 < snapshot.term <= chunk.term:
            raise InvalidMessage(chunk.sender, f"a snapshot of term {snapshot.term} from a leader of term {chunk.term}")
        if snapshot.end % ALIGNMENT or not 0 < snapshot.end <= MAX_POSITION:
            raise InvalidMessage(chunk.sender, f"a snapshot whose last entry ends at position {snapshot.end}")
        if self._raft.log.holds(snapshot.index, snapshot.term):
            chain = self._log.chain(snapshot.index)
            if chain != snapshot.chain:
                raise InvalidMessage(
                    chunk.sender,
                    f"a snapshot whose chain at entry {snapshot.index} is {snapshot.chain:#010x}, and here it is "
                    f"{chain:#010x}",
                )
        if flaw := self._machine.flaw_of(snapshot):
            raise InvalidMessage(chunk.sender, f"a snapshot whose state cannot be read: {flaw}")
        return configuration

    def _install(
        self, log_start: LogStart, chunk: SnapshotChunk, snapshot: Snapshot, configuration: ShardConfiguration
    ) -> None:
        try:
            log_start.install(snapshot)
        except StoreError as failure:
            if failure.retriable and not log_start.has_replaced_log(snapshot):
                raise  # log and state are unchanged, and the leader sends the snapshot again
            raise CutFailedError(snapshot.index) from failure
        self._applier.installed(snapshot)
        self._raft.installed(chunk, snapshot.term, configuration.core_of(self._raft.settings))


def _fixed(configuration: ShardConfiguration) -> str:
    """Return what never changes in a shard: the two sizes of its log. The name of the cluster changes when the cluster
    is restored from a backup, and the transport checks it for each stream."""
    return (
        f"segments of {configuration.segment_bytes} bytes and entries of at most {configuration.max_entry_bytes} bytes"
    )
