"""Checkpoints of one shard: what an earlier run found out need not be found out again.

    start    checkpoint, files of indexes as its marks say ──> go on from there; anything else ──> read all, rebuild all
    running  every 10 s, and at an orderly stop: place, state and marks (in the loop)
                 ──> log flushed, positions written, checkpoint replaced (on a helper thread)

A checkpoint costs a snapshot of the state and a small file, and a start costs what came after it. It is believed as a
whole or not at all, and no index is believed against the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from ledger.broker.broker_replica import BrokerReplica
from ledger.state import State
from store import Checkpoint, CommitLog, ConsumeQueues, KeyIndex, KnownEntries, PositionFiles, QueueSpan, Snapshots
from store.index.file_mark import marks_in

log = logging.getLogger("ledgermq.node.checkpoints")

INTERVAL_S = 10.0
POSITIONS, QUEUES, KEYS = "positions", "queues", "keys"


@dataclass(frozen=True, slots=True)
class Draft:
    """A checkpoint on its way: all of it is known but for the marks of the positions, which are still to be written."""

    checkpoint: Checkpoint
    first: int
    """Index of the first entry whose position is to be written."""
    units: bytes
    log_begins: int
    """Index of the first entry of the log."""
    log_number: int
    dropped: list[str]
    """Queues for whose files the last checkpoint still vouches, and this one does not."""


class Checkpoints:
    """One thread at a time may call `write`, and no other method meanwhile but `draft` and `found`."""

    def __init__(self, snapshots: Snapshots, positions: PositionFiles, queues: ConsumeQueues, keys: KeyIndex) -> None:
        """Adopts what the last run left, or wipes it."""
        self._snapshots = snapshots
        self._positions = positions
        self._queues = queues
        self._keys = keys
        self._log_number = snapshots.log_number
        """Of the log that the positions are of."""
        self.found = snapshots.checkpoint()
        """Where this start goes on; None: at the beginning of the log, or its base."""
        self.known: KnownEntries | None = None
        """What need not be read again of the log."""
        if self.found is not None and not self._adopt(self.found):
            log.warning("the indexes are not as they were at the last checkpoint: all are rebuilt from the log")
            self.found = self.known = None
        if self.found is None:
            first = 1 if snapshots.snapshot is None else snapshots.snapshot.index + 1
            positions.wipe(first)
            queues.wipe()
            keys.wipe()
        self._last = self.found.index if self.found else 0

    def _adopt(self, checkpoint: Checkpoint) -> bool:
        start, place = self._snapshots.snapshot, checkpoint.snapshot
        positions = self._positions.load(
            start.tail if start else None, place.index, marks_in(POSITIONS, checkpoint.marks)
        )
        if positions is None:
            return False
        self.known = KnownEntries(place.tail, positions)
        ends = State.decode(place.state).ends()
        firsts = {(topic, queue): end for topic, queue, end in (State.decode(start.state).ends() if start else ())}
        spans = [QueueSpan(topic, queue, firsts.get((topic, queue), 0), end) for topic, queue, end in ends]
        return self._queues.adopt(spans, marks_in(QUEUES, checkpoint.marks)) and self._adopt_keys(checkpoint)

    def _adopt_keys(self, checkpoint: Checkpoint) -> bool:
        if not self._keys.adopt(marks_in(KEYS, checkpoint.marks)):
            return False
        if self._snapshots.snapshot is not None:
            self._keys.drop_before(self._snapshots.snapshot.end)
        return True

    # -- new ones

    def draft(self, replica: BrokerReplica) -> Draft | None:
        """What to `write`, as of this moment; None where nothing has come since the last one."""
        driver, commit_log, index = replica.driver, replica.log, replica.driver.applied
        if driver.log_start is None or index in (self._last, commit_log.first_index - 1):
            return None
        first = self._first_to_write(commit_log)
        configuration = driver.log_start.configuration
        snapshot = commit_log.snapshot_at(index, configuration=configuration, state=replica.encoded_state())
        marks = (
            *(mark.inside(QUEUES) for mark in self._queues.marks()),
            *(mark.inside(KEYS) for mark in self._keys.marks()),
        )
        self._last = index
        return Draft(
            Checkpoint(snapshot, replica.membership.index, replica.membership.is_removed, marks),
            first,
            commit_log.reading.position_units(first, index),
            commit_log.first_index,
            self._snapshots.log_number,
            self._queues.take_dropped(),
        )

    def _first_to_write(self, commit_log: CommitLog) -> int:
        continues = (
            self._log_number == self._snapshots.log_number and self._positions.next_index >= commit_log.first_index
        )
        return self._positions.next_index if continues else commit_log.first_index

    def write(self, draft: Draft, flush: Callable[[], object]) -> None:
        """Durably. `flush` makes the log durable, which the checkpoint vouches for."""
        flush()
        if draft.first != self._positions.next_index or draft.log_number != self._log_number:
            self._positions.wipe(draft.first)
            self._log_number = draft.log_number
        self._positions.begin_at(draft.log_begins)
        marks = (mark.inside(POSITIONS) for mark in self._positions.add(draft.units))
        self._snapshots.save(replace(draft.checkpoint, marks=(*marks, *draft.checkpoint.marks)), draft.log_number)
        self._queues.remove(draft.dropped)

    def close(self) -> None:
        self._positions.close()
