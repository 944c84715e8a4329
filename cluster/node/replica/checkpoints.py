"""Checkpoints of one shard: a start continues from the last checkpoint, and reads only the entries after it.

    start    the index files match the marks of the checkpoint ──> continue from the checkpoint
             no checkpoint, or any mark does not match         ──> read the whole log, rebuild all indexes
    running  every 10 s, and at an orderly stop: take index, state and marks (in the event loop)
                 ──> flush the log, write positions, replace the checkpoint (on a helper thread)

A checkpoint costs the encoding of a snapshot of the state, and one small file. If one index file does not match its
mark in the checkpoint, the whole checkpoint is ignored. If an index and the log disagree, the log is right.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from ledger.broker.broker_replica import BrokerReplica
from ledger.state import State
from store import (
    Checkpoint,
    CommitLog,
    ConsumeQueues,
    KeyIndex,
    KnownEntries,
    PositionFiles,
    QueueSpan,
    Snapshots,
    StoreError,
    TimedDraft,
    TimedIndex,
)
from store.index.file_mark import marks_in

log = logging.getLogger("ledgermq.node.checkpoints")

INTERVAL_S = 10.0
POSITIONS, QUEUES, KEYS, TIMED = "positions", "queues", "keys", "timed"


@dataclass(frozen=True, slots=True)
class CheckpointDraft:
    """A `CheckpointDraft` is a checkpoint that is not written yet. The draft lacks only the marks of the position
    files and of the timed index, which `write` adds."""

    checkpoint: Checkpoint
    # The index of the first entry whose position `write` must write.
    first: int
    # The positions of the entries from `first` on, encoded.
    units: bytes
    # The index of the first entry of the log.
    log_begins: int
    # The number of the log: it changes when a received snapshot replaces the log.
    log_number: int
    # Deleted queues of which earlier checkpoints have marks and this checkpoint does not. `write` removes their files.
    dropped: list[str]
    # What `write` must write of the timed index.
    timed: TimedDraft


class Checkpoints:
    """Writes and reads the checkpoints of one shard. Only one thread at a time is allowed to call `write`. While
    `write` runs, callers must use only `draft` and `found`."""

    def __init__(
        self, snapshots: Snapshots, positions: PositionFiles, queues: ConsumeQueues, keys: KeyIndex, timed: TimedIndex
    ) -> None:
        """Adopt the checkpoint and the indexes of the last run. If the indexes do not match the checkpoint, wipe
        the indexes."""
        self._snapshots = snapshots
        self._positions = positions
        self._queues = queues
        self._keys = keys
        self._timed = timed
        # The number of the log whose positions are in `positions`.
        self._log_number = snapshots.log_number
        # The checkpoint from which this start continues; None if it reads the log from its start.
        self.found = snapshots.checkpoint()
        # The part of the log that this start need not read.
        self.known: KnownEntries | None = None
        # Why this start does not continue from the last checkpoint, although there is one; else empty.
        self.flaw = snapshots.checkpoint_flaw
        if self.found is not None and not self._adopt(self.found):
            self.flaw = "index files did not match the checkpoint"
            log.warning("the index files do not match the last checkpoint: all indexes are rebuilt from the log")
            self.found = self.known = None
        if self.found is None:
            first = 1 if snapshots.snapshot is None else snapshots.snapshot.index + 1
            positions.wipe(first)
            queues.wipe()
            keys.wipe()
            timed.wipe()
        # The index of the last checkpoint that was written, or that failed so that only a new start helps.
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
        return (
            self._queues.adopt(spans, marks_in(QUEUES, checkpoint.marks))
            and self._adopt_keys(checkpoint)
            and self._timed.adopt(marks_in(TIMED, checkpoint.marks))
        )

    def _adopt_keys(self, checkpoint: Checkpoint) -> bool:
        if not self._keys.adopt(marks_in(KEYS, checkpoint.marks)):
            return False
        if self._snapshots.snapshot is not None:
            self._keys.drop_before(self._snapshots.snapshot.end)
        return True

    # -- new checkpoints

    def draft(self, replica: BrokerReplica) -> CheckpointDraft | None:
        """Return a draft of a checkpoint at the applied index. Return None if no entry was applied since the last
        checkpoint, or if the replica stopped at an entry, because this entry may have changed a part of the state."""
        driver, commit_log, index = replica.driver, replica.log, replica.driver.applied
        if driver.log_start is None or index in (self._last, commit_log.first_index - 1):
            return None
        if driver.cannot_apply is not None:
            return None
        first = self._first_to_write(commit_log)
        configuration = driver.log_start.configuration
        snapshot = commit_log.snapshot_at(index, configuration=configuration, state=replica.encoded_state())
        marks = (
            *(mark.inside(QUEUES) for mark in self._queues.marks()),
            *(mark.inside(KEYS) for mark in self._keys.marks()),
        )
        return CheckpointDraft(
            Checkpoint(snapshot, replica.membership.index, replica.membership.is_removed, marks),
            first,
            commit_log.reading.position_units(first, index),
            commit_log.first_index,
            self._snapshots.log_number,
            self._queues.dropped(),
            self._timed.draft(),
        )

    def _first_to_write(self, commit_log: CommitLog) -> int:
        continues = (
            self._log_number == self._snapshots.log_number and self._positions.next_index >= commit_log.first_index
        )
        return self._positions.next_index if continues else commit_log.first_index

    def write(self, draft: CheckpointDraft, flush: Callable[[], object]) -> None:
        """Write the checkpoint, make it durable, and remove the files that only older checkpoints need. `flush` must
        flush the log, because the checkpoint says that the entries before the checkpoint are on the disk. After a
        retriable failure, the next draft has everything again."""
        try:
            self._write(draft, flush)
        except StoreError as failure:
            if not failure.retriable:
                self._last = draft.checkpoint.index
            raise
        self._last = draft.checkpoint.index

    def _write(self, draft: CheckpointDraft, flush: Callable[[], object]) -> None:
        flush()
        if draft.first != self._positions.next_index or draft.log_number != self._log_number:
            self._positions.wipe(draft.first)
            self._log_number = draft.log_number
        self._positions.begin_at(draft.log_begins)
        marks = (
            *(mark.inside(POSITIONS) for mark in self._positions.add(draft.units)),
            *(mark.inside(TIMED) for mark in self._timed.write(draft.timed)),
        )
        self._snapshots.save(replace(draft.checkpoint, marks=(*marks, *draft.checkpoint.marks)), draft.log_number)
        if draft.log_number != self._snapshots.log_number:
            return  # a snapshot has replaced the log meanwhile, and the event loop wipes the indexes
        self._queues.remove(draft.dropped)
        self._timed.remove(draft.timed)

    def close(self) -> None:
        self._positions.close()
