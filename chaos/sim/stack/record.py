"""What is known of each shard of a full-stack world, whatever becomes of its replicas: what was committed in it.

A shard is a cluster of its own to Raft, so each has invariants of its own; all add to one list of violations. A shard
is known from the moment when anybody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chaos.sim.invariants import Invariants
from chaos.sim.world import SimNodeLog, Violation


@dataclass(frozen=True, slots=True)
class CommittedEntry:
    """What was committed at some index: implements `chaos.sim.world.EntryHeader`."""

    term: int
    chain: int


class Record:
    """Of one shard."""

    def __init__(self, shard: int, invariants: Invariants) -> None:
        self.shard = shard
        self.invariants = invariants
        # The newest index behind which its log was made to begin.
        self.log_start = 0
        # Those that are committed, by index, from 1 on.
        self._entries: list[CommittedEntry] = []

    def committed(self, entry: CommittedEntry) -> None:
        """The next one is."""
        self._entries.append(entry)

    def entry(self, index: int) -> CommittedEntry:
        """What was committed there, by whomever."""
        return self._entries[index - 1]


class Records:
    """By shard. `on_commit` is called once for each entry that is committed, with its shard, a log that holds it, and
    its index."""

    def __init__(self, now_ms: Callable[[], int], on_commit: Callable[[int, SimNodeLog, int], None]) -> None:
        self.violations: list[Violation] = []
        self._now_ms = now_ms
        self._on_commit = on_commit
        self._by_shard: dict[int, Record] = {}

    def of(self, shard: int) -> Record:
        record = self._by_shard.get(shard)
        if record is None:
            invariants = Invariants(self._now_ms, self.violations, shard)
            invariants.on_commit = lambda log, index: self._on_commit(shard, log, index)
            record = self._by_shard[shard] = Record(shard, invariants)
        return record

    def __iter__(self) -> Iterator[Record]:
        """By number."""
        return iter([self._by_shard[shard] for shard in sorted(self._by_shard)])

    def fail(self, invariant: str, what: str) -> None:
        """Of no shard in particular."""
        self.violations.append(Violation(self._now_ms(), invariant, what))
