"""What the leader knows ahead of commit: the applied state, and on top of it what it has appended itself.

An overlay: it holds only the queues, producers and topic names that uncommitted entries touch, and falls
through to the applied state for all else; when an entry is applied, what it had put there goes. A new leader starts
with an empty one once its no-op is applied, and drops it when it steps down: nothing is ever rolled back.

    check  ->  admit_batch  ->  (the entry is appended)  ->  appended  ->  (committed, applied)  ->  settle

The applied state is never changed here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ledger.errors import TopicExistsError, UnknownTopicError
from ledger.state.machine import State
from ledger.state.producers import ProducerQueue
from ledger.state.sequence import BatchRecord, Decision, Sequence
from ledger.topics import validate_queue_count, validate_stored_name


class Projected:
    """The state as it will be when everything that this leader has appended is committed."""

    def __init__(self, state: State) -> None:
        self._state = state
        # Admitted and not settled, in the order of admission; their indexes rise, those at the end may still be 0.
        self._pending: deque[tuple[ProducerQueue, BatchRecord]] = deque()
        # What the pending ones touched, and nothing else: topic id and queue -> next offset, producer -> sequence.
        self._next_offsets: dict[tuple[int, int], int] = {}
        self._sequences: dict[ProducerQueue, Sequence] = {}
        # Topics to come, and the shards of their queues.
        self._new_topics: dict[str, tuple[int, ...]] = {}
        # Ids of topics that are to go (a dict, because a set has no order).
        self._going: dict[int, None] = {}

    def next_offset(self, topic_id: int, queue: int) -> int:
        """The offset that the queue's next message will get."""
        offset = self._next_offsets.get((topic_id, queue))
        return self._state.next_offset(topic_id, queue) if offset is None else offset

    def require(self, topic_id: int, queue: int) -> None:
        """Raise UnknownTopic- or UnknownQueueError where nothing can be appended to that queue any more, or yet."""
        if topic_id in self._going:
            raise UnknownTopicError(f"Topic {topic_id} is being deleted.")
        self._state.topics.require(topic_id, queue)

    def check(
        self, *, topic_id: int, queue: int, producer_id: int, epoch: int, first_sequence: int, count: int
    ) -> Decision:
        """What is to be done with a batch; changes nothing. UnknownTopic- or UnknownQueueError where it has no place.

        The record of a Duplicate says at which index the first one lies: its result holds once that is committed.
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
        """Give a batch that `check` accepted its base offset. The record is to be completed with `appended`. Raises as
        `require` does."""
        self.require(topic_id, queue)
        key = ProducerQueue(producer_id, topic_id, queue)
        record = BatchRecord(first_sequence, count, base_offset=self.next_offset(topic_id, queue))
        self._next_offsets[topic_id, queue] = record.base_offset + count
        self._sequence(key, epoch).add(epoch, record)
        self._pending.append((key, record))
        return record

    def appended(self, record: BatchRecord, *, index: int, term: int, append_time_ms: int) -> None:
        """Say where the entry of an admitted batch lies."""
        assert record.index == 0, f"the batch at index {record.index} was appended again at {index}"
        record.index, record.term, record.append_time_ms = index, term, append_time_ms

    def placed(self) -> Iterator[int]:
        """The shard of each queue that there is, or will be."""
        for topic in self._state.topics:
            yield from topic.shards
        for shards in self._new_topics.values():
            yield from shards

    def admit_topic(self, name: str, queues: int, shards: tuple[int, ...] = ()) -> None:
        """Take the creation of a topic, which is appended next; or say why it cannot be created."""
        validate_stored_name(name)
        validate_queue_count(queues)
        self._state.topics.check_free(name)
        if name in self._new_topics:
            raise TopicExistsError(f"Topic {name!r} is being created already: wait for it, or choose another name.")
        self._new_topics[name] = shards

    def admit_deletion(self, topic_id: int) -> None:
        """Take the deletion of a topic, which is appended next: nothing of that topic may come behind it."""
        self._going[topic_id] = None

    def settle(self, applied: int) -> None:
        """Drop what the applied state, which has come to this index, now says itself."""
        while self._pending and 0 < self._pending[0][1].index <= applied:
            self._drop(*self._pending.popleft())
        if self._new_topics:
            topics = self._state.topics
            self._new_topics = {name: shards for name, shards in self._new_topics.items() if topics.named(name) is None}
        if self._going:
            self._going = {topic_id: None for topic_id in self._going if self._state.topics.get(topic_id) is not None}

    def _sequence(self, key: ProducerQueue, epoch: int) -> Sequence:
        sequence = self._sequences.get(key)
        if sequence is None:
            applied = self._state.producers.get(key)
            sequence = self._sequences[key] = Sequence(epoch) if applied is None else applied.copy()
        return sequence

    def _drop(self, key: ProducerQueue, record: BatchRecord) -> None:
        """Forget what this record touched, unless a later one touched it too."""
        queue = (key.topic_id, key.queue)
        if self._next_offsets.get(queue) == record.base_offset + record.count:
            del self._next_offsets[queue]
        if self._sequences[key].records[-1] is record:
            del self._sequences[key]
