"""Records which entries each shard has committed, in a run of the stack world. The record does not depend on the
shard's replicas.

Each shard is a separate Raft group, so each shard has its own invariants. The violations of all shards are in one
list. The record of a shard is created when the record is first requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chaos.sim.invariants import Invariants
from chaos.sim.stack.held_entries import HeldEntries
from chaos.sim.stack.log_starts import LogStarts
from chaos.sim.world import InvariantViolation, SimNodeLog


@dataclass(frozen=True, slots=True)
class RecordedEntry:
    """The term and the chain value of a committed entry. Implements `chaos.sim.world.EntryHeader`."""

    term: int
    chain: int


class ShardRecord:
    """Records the committed entries of one shard, and checks the invariants of the shard. The accounts judge only if
    `judges` is true."""

    def __init__(self, shard: int, invariants: Invariants, *, judges: bool) -> None:
        self.shard = shard
        # Records a violation that an account of the simulator has found.
        self.judge = invariants.fail if judges else _ignore_violation
        self.invariants = invariants
        # Node -> what it acknowledged, and what its disk lost.
        self.accounts: dict[int, HeldEntries] = {}
        # Where the log and its queues begin.
        self.starts = LogStarts(self.judge)
        # The newest log start that was ever set in this shard.
        self.log_start = 0
        # Committed entries: _entries[0] is that of index 1.
        self._entries: list[RecordedEntry] = []

    def committed(self, entry: RecordedEntry) -> None:
        """Record the next committed entry of the shard."""
        self._entries.append(entry)

    def entry(self, index: int) -> RecordedEntry:
        """Return the entry that was committed at this index."""
        return self._entries[index - 1]


class ShardRecords:
    """Holds one `ShardRecord` for each shard. The function `on_commit(shard, log, index)` is called once for each
    committed entry. `log` is a log that contains the entry."""

    def __init__(
        self, now_ms: Callable[[], int], on_commit: Callable[[int, SimNodeLog, int], None], *, judges: bool = True
    ) -> None:
        """`judges` is False in runs without faults. Their only purpose is to show that the code works."""
        self.violations: list[InvariantViolation] = []
        self._now_ms = now_ms
        self._on_commit = on_commit
        self._judges = judges
        self._by_shard: dict[int, ShardRecord] = {}

    def of(self, shard: int) -> ShardRecord:
        record = self._by_shard.get(shard)
        if record is None:
            invariants = Invariants(self._now_ms, self.violations, shard)
            invariants.on_commit = lambda log, index: self._on_commit(shard, log, index)
            record = self._by_shard[shard] = ShardRecord(shard, invariants, judges=self._judges)
        return record

    def __iter__(self) -> Iterator[ShardRecord]:
        """Return an iterator over the records of all shards, ordered by shard."""
        return iter([self._by_shard[shard] for shard in sorted(self._by_shard)])

    def fail(self, invariant: str, what: str) -> None:
        """Record a violation that does not belong to a single shard."""
        self.violations.append(InvariantViolation(self._now_ms(), invariant, what))


def _ignore_violation(invariant: str, what: str) -> None:
    """Do nothing, as the function that records violations in runs without faults."""
