"""`AppliedState` applies committed entries to the replicated state and to the indexes of one replica.

Only committed entries change the state and the indexes, in the order of the log. Neither the state nor the indexes are
ever rolled back, because a committed entry never changes.
"""

from __future__ import annotations

from ledger.batch import (
    Batch,
    BatchHeader,
    indexed_hashes,
    message_ids,
    read_in,
    tag_hashes,
)
from ledger.batch.check import check_header
from ledger.batch.header import DECIDED
from ledger.broker.fetch.fetch_waiters import FetchWaiters
from ledger.broker.timed.applied_timed import AppliedTimed, FiredMessages
from ledger.broker.transactions.applied_transactions import transaction_step
from ledger.retries import consumer_group_of, place_before
from ledger.state import CommandResult, CommittedBatch, DeletedTopic, State, Topic
from ledger.state.feature_levels import LATEST_LEVEL
from ledger.state.timed_table import TimedCursor, UndeliveredMessages
from ledger.timed import TIMED_TOPIC
from store import CommitLog, ConsumeQueues, Header, KeyIndex, Snapshot, TimedIndex

# What a command gives to the caller that proposed it: the result of the state. `CancelTimed` gives for each message
# whether it was cancelled.
AppliedResult = CommandResult


class AppliedState:
    """The state and the indexes of one replica, after the last entry that the replica has applied."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        keys: KeyIndex,
        timed: TimedIndex,
        fetch_waiters: FetchWaiters | None = None,
        latest_level: int = LATEST_LEVEL,
    ) -> None:
        """When a batch is applied, the fetches in `fetch_waiters` that wait for its queue are woken. All shards of
        a node can share one FetchWaiters object, because topic ids are equal in all shards. `latest_level` is the
        highest feature level that this program knows."""
        self.log = commit_log
        self.queues = queues
        self.keys = keys
        self.timed = AppliedTimed(timed)
        self.fetch_waiters = fetch_waiters or FetchWaiters()
        self.state = State(latest_level=latest_level)

    def apply_batch(self, header: Header, body: memoryview) -> None:
        """Apply a committed batch to the indexes and the state, and wake the fetches that wait for it. Raise
        LedgerError, and change nothing, if this program cannot read the batch, or if the batch contradicts the
        state."""
        batch = BatchHeader.parse(body)
        check_header(batch, len(body))
        self.state.check_batch(header.topic_id, header.queue, header.base_offset, header.index)
        fired = FiredMessages.of(body, batch, header.index)
        if fired is not None:
            fired.check(self.state)
        step = transaction_step(header, batch, body)
        if step is not None:
            step.check(self.state)
        ids = message_ids(body, batch)
        if ids is not None:
            self.state.check_message_ids(header.index)
        topic = self.state.topics.get(header.topic_id)
        name = "" if topic is None else topic.name
        # Indexes whose `put` may be repeated come first: if a later step fails, the entry is applied again.
        if name == TIMED_TOPIC:
            self.timed.put(header, batch, body)
        if (hashes := indexed_hashes(body, batch)) is not None:
            self.keys.put(header.topic_id, header.position, header.size, header.append_time_ms, hashes)
        self.queues.get(header.topic_id, header.queue).put(
            header.base_offset, header.position, header.size, tag_hashes(body, batch), header.count
        )
        # The dead letters of a transaction are no copies of moved messages. Their payload is not read here: a stored
        # header name may not be UTF-8, and a replica may lack the library of the codec.
        if not batch.columns & DECIDED and (consumer_group := consumer_group_of(name)) is not None:
            self._apply_move(consumer_group, body)
        # Before `apply_batch`, which forgets old outcomes, as the entry's append time demands. One of them may be the
        # outcome on which `step.check` has relied.
        if step is not None:
            step.apply(self.state)
        self.state.apply_batch(
            CommittedBatch(
                topic_id=header.topic_id,
                queue=header.queue,
                base_offset=header.base_offset,
                count=header.count,
                append_time_ms=header.append_time_ms,
                index=header.index,
                term=header.term,
                producer_id=batch.producer_id,
                epoch=batch.epoch,
                first_sequence=batch.first_sequence,
            )
        )
        if fired is not None:
            fired.apply(self.state)
        if ids is not None:
            place, base_offset = (header.topic_id, header.queue), header.base_offset
            self.state.apply_message_ids(read_in(body, batch), ids, place, base_offset, header.append_time_ms)
        self.fetch_waiters.announce(header.topic_id, header.queue)

    def apply_command(self, header: Header, body: memoryview) -> AppliedResult:
        """Apply a committed command, and return its result."""
        result = self.state.apply_command(body, header.append_time_ms, index=header.index)
        match result:
            case DeletedTopic(topic):
                self._drop(topic)
            case UndeliveredMessages():
                return self.timed.cancel(result)
            case TimedCursor():
                self.timed.settle(self.state)
        return result

    def resume(self, snapshot: Snapshot) -> None:
        """Load the state of a checkpoint when the node starts. The indexes on disk belong to the same checkpoint."""
        self.state = self.decoded(snapshot)
        self.state.message_ids.prepare()

    def decoded(self, snapshot: Snapshot) -> State:
        """Return the state of a snapshot. Raises LedgerError if this program cannot read the state."""
        return State.decode(snapshot.state, latest_level=self.state.latest_level)

    def restore(self, state: State, position: int) -> None:
        """Replace the state by the state of a received snapshot, and empty the indexes. `position` is the new log
        start."""
        self.state = state
        self.state.message_ids.prepare()
        self.queues.wipe()
        self.keys.wipe()
        self.timed.index.wipe()
        self._drop_before(position, state)

    def log_starts(self, snapshot: Snapshot) -> None:
        """Drop the index records of the entries before a new log start. `snapshot` has the state at the new log
        start."""
        self._drop_before(snapshot.end, self.decoded(snapshot))

    def _apply_move(self, consumer_group: str, body: memoryview) -> None:
        """If this batch contains the copy of a moved message, settle the original message in its queue. The batch
        is in a retry topic or dead-letter topic of `consumer_group`."""
        place = place_before(Batch(bytes(body), check_crc=False).headers()[0])
        if place is not None:
            self.state.apply_move(consumer_group, *place)

    def _drop(self, topic: Topic) -> None:
        """Remove the ConsumeQueues of a deleted topic, and wake the fetches that wait for the topic, so that these
        fetches are refused."""
        self.queues.drop(topic.topic_id)
        for queue in range(topic.queues):
            self.fetch_waiters.announce(topic.topic_id, queue)

    def _drop_before(self, position: int, state: State) -> None:
        """Remove the records of entries before `position` from the key index and the ConsumeQueues. `state` is the
        replicated state after the last entry before `position`. Topics that were deleted after `position` are
        skipped."""
        self.keys.drop_before(position)
        for topic_id, queue, offset in state.ends():
            if self.state.topics.get(topic_id) is not None:
                self.queues.get(topic_id, queue).begin_at(offset)
