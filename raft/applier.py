"""Applies committed entries to the state machine, in order, a limited number in each turn."""

from __future__ import annotations

from raft.core import Raft, Role
from raft.errors import CannotApplyError
from raft.interfaces import DriverDisk, Log, Machine
from raft.log_start import LogStart
from raft.proposals import WaitingProposals
from store import EntryKind, Snapshot

# Limits for one turn of the event loop. A longer turn would delay heartbeats.
APPLY_ENTRIES_PER_TURN = 128
APPLY_BYTES_PER_TURN = 4 << 20
# A byte of a command takes about as long as so many bytes of a batch: a batch stays as it is, and a command can name
# thousands of queues or messages.
COMMAND_WEIGHT = 128


class Applier:
    """Applies the committed entries of one replica, and knows the index of the last applied entry."""

    def __init__(
        self,
        raft: Raft,
        log: Log,
        log_start: LogStart | None,
        *,
        applied: int,
        machine: Machine,
        disk: DriverDisk,
        proposals: WaitingProposals,
    ) -> None:
        # log.first_index - 1 <= applied <= raft.commit <= log.last_index.
        self.applied = applied
        self._raft = raft
        self._log = log
        self._log_start = log_start
        self._machine = machine
        self._disk = disk
        self._proposals = proposals
        # The body of an applied entry that moves the log start, while the move is not finished; otherwise None.
        self._moving: bytes | None = None
        # The snapshot at the new log start, until the state machine knows it; otherwise None.
        self._moved: Snapshot | None = None
        # Why this replica applies no more entries; None while it applies entries.
        self.stopped: CannotApplyError | None = None
        # The term for which `machine.leading` was called last.
        self._led_term = 0

    @property
    def has_work(self) -> bool:
        """Return True if committed entries wait to be applied, or a move of the log start waits to be finished."""
        return self.stopped is None and (self.applied < self._raft.commit or self._has_unfinished_move)

    @property
    def _has_unfinished_move(self) -> bool:
        return self._moving is not None or self._moved is not None

    def apply(self) -> None:
        """Apply committed entries up to the limits of one turn.

        Raises StoreError if an entry cannot be read or an index cannot be written. After a StoreError, the next call of
        `apply` continues with the same entry. If this entry moves the log start, the next call finishes the move first.
        Raises CannotApplyError, once, if the state machine cannot apply an entry; later calls of `apply` do nothing."""
        if self.stopped is not None:
            return
        try:
            self._apply_some()
        except CannotApplyError as reason:
            self.stopped = reason
            raise

    def _apply_some(self) -> None:
        if self._has_unfinished_move:
            self._finish_move()
            self._proposals.applied(self.applied)
        budget = APPLY_BYTES_PER_TURN
        last = min(self._raft.commit, self.applied + APPLY_ENTRIES_PER_TURN)
        while self.applied < last and budget > 0:
            header, body = self._log.entry(self.applied + 1)
            if self._log_start:
                self._log_start.passes(header, body)
            self._machine.apply(header, body)
            self.applied = header.index
            if header.kind is EntryKind.LOG_START:
                self._moving = bytes(body)
                self._finish_move()
            budget -= header.size * (COMMAND_WEIGHT if header.kind is EntryKind.COMMAND else 1)
            self._proposals.applied(header.index)
            self._announce_leading(header.term)

    def installed(self, snapshot: Snapshot) -> None:
        """Record that a received snapshot has replaced log and state."""
        self.applied = snapshot.index
        self._moving = self._moved = None
        self.stopped = None  # the snapshot contains the entry, in a state that this program can read

    def _finish_move(self) -> None:
        """Move the log start, or finish a move that a StoreError has interrupted."""
        if self._moving is not None:
            self._moved = self._log_start.move(self._moving) if self._log_start else None
            self._moving = None
            if self._moved is not None:
                self._raft.log_starts_behind(self._moved.index)
        if self._moved is not None:
            self._machine.log_starts(self._moved)
            self._moved = None
            self._disk.tidy()

    def _announce_leading(self, term: int) -> None:
        """Tell the state machine once that this node leads, when the first entry of this leader's term is applied.

        When that entry is applied, all entries of earlier leaders are applied too."""
        if self._raft.role is Role.LEADER and term == self._raft.term and self._led_term != term:
            self._led_term = term
            self._machine.leading(term)
