"""The projected state: the applied state with the leader's own entries that are not committed yet.

The projected state is an overlay over the applied state. The overlay stores only the queues, producers, topics,
waiting messages and half batches that uncommitted entries change. All values that the overlay does not have come from
the applied state. When an entry is applied, its changes are dropped from the overlay. A new leader starts with an empty
overlay after it has applied its no-op. A leader that stops leading drops its overlay, so the applied state is never
rolled back.

    check          decides whether a batch is accepted
    admit_batch    gives the batch its offsets, before its entry is appended
    appended       completes the record of the batch, when the entry is appended
    settle         drops the changes of the entry from the overlay, when the entry is applied

This module never changes the applied state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ledger.errors import InvalidArgumentError, TopicExistsError, UnknownTopicError
from ledger.state.machine import State
from ledger.state.producers import ProducerQueue
from ledger.state.projected_message_ids import ProjectedMessageIds
from ledger.state.projected_timed import PendingEntry, ProjectedTimed
from ledger.state.projected_transactions import ProjectedTransactions
from ledger.state.sequence import BatchRecord, Decision, Sequence
from ledger.timed import TIMED_TOPIC
from ledger.topics import (
    HIDDEN_TOPICS,
    MAX_ALL_QUEUES,
    MAX_GROUP_TOPICS,
    MAX_TOPICS,
    is_system_topic,
    validate_queue_count,
    validate_stored_name,
)
from ledger.transactions import HALF_TOPIC


class Projected:
    """The state that will result when every entry of this leader is committed."""

    def __init__(self, state: State) -> None:
        self._state = state
        # Admitted batches that are not applied yet, in the order of admission. Their indexes rise; at the end they may
        # still be 0, because the batch is not appended yet.
        self._pending: deque[tuple[ProducerQueue, BatchRecord]] = deque()
        # The queues and sequences that pending batches change: (topic id, queue) -> next offset, producer -> sequence.
        self._next_offsets: dict[tuple[int, int], int] = {}
        self._sequences: dict[ProducerQueue, Sequence] = {}
        # Topics whose creation is not applied yet: name -> the shards of their queues.
        self._new_topics: dict[str, tuple[int, ...]] = {}
        # Topics whose deletion is not applied yet: topic id -> the entry of its last deletion. A late `OpenTopic` may
        # bring a topic back between two deletions, so an earlier deletion does not end the last one.
        self._going: dict[int, PendingEntry] = {}
        # The waiting messages that uncommitted entries deliver or cancel.
        self.timed = ProjectedTimed(state.timed)
        # The half batches that uncommitted entries add or settle.
        self.transactions = ProjectedTransactions(state.transactions)
        # The message ids of uncommitted batches.
        self.message_ids = ProjectedMessageIds()

    def next_offset(self, topic_id: int, queue: int) -> int:
        """Return the offset that the next appended message of the queue gets."""
        offset = self._next_offsets.get((topic_id, queue))
        return self._state.next_offset(topic_id, queue) if offset is None else offset

    def require(self, topic_id: int, queue: int) -> None:
        """Raise UnknownTopicError or UnknownQueueError if the queue does not exist or its topic is being deleted."""
        if self.is_being_deleted(topic_id):
            raise UnknownTopicError(f"Topic {topic_id} is being deleted: no more messages can be sent to it.")
        self._state.topics.require(topic_id, queue)

    def is_being_deleted(self, topic_id: int) -> bool:
        """Return True if an entry on its way deletes the topic."""
        return topic_id in self._going

    def check(
        self, *, topic_id: int, queue: int, producer_id: int, epoch: int, first_sequence: int, count: int
    ) -> Decision:
        """Return the decision about a batch. Changes nothing. Raises UnknownTopicError, UnknownQueueError.

        If the decision is a Duplicate, its record contains the index of the entry with the original batch. The
        original batch has a result only after this entry is committed.
        """
        self.require(topic_id, queue)
        key = ProducerQueue(producer_id, topic_id, queue)
        sequence = self._sequences.get(key)
        if sequence is None:
            return self._state.producers.check(key, epoch, first_sequence, count)
        return sequence.check(epoch, first_sequence, count)

    def admit_batch(
        self, *, topic_id: int, queue: int, producer_id: int, epoch: int, first_sequence: int, count: int
    ) -> BatchRecord:
        """Assign the base offset to an accepted batch, and return the batch's record. `appended` later adds the
        index of the batch's entry to the record. Raises the errors of `require`."""
        self.require(topic_id, queue)
        key = ProducerQueue(producer_id, topic_id, queue)
        record = BatchRecord(first_sequence, count, base_offset=self.next_offset(topic_id, queue))
        self._next_offsets[topic_id, queue] = record.base_offset + count
        self._sequence(key, epoch).add(epoch, record)
        self._pending.append((key, record))
        return record

    def appended(self, record: BatchRecord, *, index: int, term: int, append_time_ms: int) -> None:
        """Complete the record of an admitted batch when its entry is appended."""
        assert record.index == 0, f"the batch at index {record.index} was appended again at {index}"
        record.index, record.term, record.append_time_ms = index, term, append_time_ms

    def placed(self) -> Iterator[int]:
        """Yield the shard of each queue, including the queues of topics that are being created."""
        for topic in self._state.topics:
            yield from topic.shards
        for shards in self._new_topics.values():
            yield from shards

    def admit_topic(self, name: str, queues: int, shards: tuple[int, ...] = ()) -> None:
        """Add a topic to the projected state, just before the command that creates the topic is appended. Raises
        LedgerError if the topic cannot be created."""
        validate_stored_name(name)
        validate_queue_count(queues)
        if name == TIMED_TOPIC:
            self._state.require_timed()
        if name == HALF_TOPIC:
            self._state.require_transactions()
        self._state.topics.check_free(name)
        if name in self._new_topics:
            raise TopicExistsError(f"Topic {name!r} is being created already: wait for it, or choose another name.")
        self._check_room(name, queues)
        self._new_topics[name] = shards

    def check_queues(self, more: int) -> None:
        """Raise InvalidArgumentError if the topics of users cannot have so many more queues together."""
        new = sum(len(shards) for name, shards in self._being_created() if not is_system_topic(name))
        if self._state.topics.queue_count + new + more > MAX_ALL_QUEUES:
            raise InvalidArgumentError(
                f"The topics of this cluster have {self._state.topics.queue_count + new:,} queues, and {more:,} more "
                f"would be over the limit of {MAX_ALL_QUEUES:,}: delete topics, or ask for fewer queues."
            )

    def _being_created(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the topics that the applied state does not have yet: the name, and the shards of the queues."""
        return (each for each in self._new_topics.items() if self._state.topics.named(each[0]) is None)

    def _check_room(self, name: str, queues: int) -> None:
        """Raise InvalidArgumentError if there is no room for another topic of this kind."""
        if name in HIDDEN_TOPICS:
            return
        is_system, topics = is_system_topic(name), self._state.topics
        there = topics.system_count if is_system else len(topics) - topics.system_count
        there += sum(is_system_topic(new) == is_system for new, _ in self._being_created())
        if is_system and there >= MAX_GROUP_TOPICS:
            raise InvalidArgumentError(
                f"This cluster has {there:,} retry topics and dead-letter topics, which is the limit: delete consumer "
                "groups that you no longer need."
            )
        if not is_system and there >= MAX_TOPICS:
            raise InvalidArgumentError(
                f"This cluster has {there:,} topics, which is the limit: delete topics that you no longer need."
            )
        if not is_system:
            self.check_queues(queues)

    def admit_deletion(self, topic_id: int, entry: PendingEntry) -> None:
        """Mark a topic as deleted, just before `entry`, which deletes the topic, is proposed. Until the entry is
        applied, the leader refuses batches of the topic. Raises InvalidArgumentError if the topic cannot be deleted.
        """
        self._state.check_deletion(topic_id)
        self._going[topic_id] = entry

    def settle(self, applied: int) -> None:
        """Drop from the overlay all changes that the applied state contains. `applied` is the index of the last
        applied entry."""
        while self._pending and 0 < self._pending[0][1].index <= applied:
            self._drop(*self._pending.popleft())
        self.timed.settle(applied)
        self.transactions.settle(applied)
        self.message_ids.settle(applied)
        if self._new_topics:
            topics = self._state.topics
            self._new_topics = {name: shards for name, shards in self._new_topics.items() if topics.named(name) is None}
        if self._going:
            self._going = {topic_id: entry for topic_id, entry in self._going.items() if not 0 < entry.index <= applied}

    def _sequence(self, key: ProducerQueue, epoch: int) -> Sequence:
        sequence = self._sequences.get(key)
        if sequence is None:
            applied = self._state.producers.get(key)
            sequence = self._sequences[key] = Sequence(epoch) if applied is None else applied.copy()
        return sequence

    def _drop(self, key: ProducerQueue, record: BatchRecord) -> None:
        """Drop the next offset and the sequence that this batch has set from the overlay. If a later pending batch
        has changed one of these values, keep the value."""
        queue = (key.topic_id, key.queue)
        if self._next_offsets.get(queue) == record.base_offset + record.count:
            del self._next_offsets[queue]
        if self._sequences[key].records[-1] is record:
            del self._sequences[key]
