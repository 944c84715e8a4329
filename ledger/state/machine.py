"""The replicated state: topics, next offsets, producers, consumer groups, progress, holds, and in shard 0 the shards.

The state is a pure function of the committed entries in their order. Replicas that have applied the same entries have
equal states, and `digest` shows it. There is no clock, randomness or I/O; append times are in the entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import xxhash
from google.protobuf.message import DecodeError

from ledger.errors import InternalError, InvalidArgumentError, LedgerError
from ledger.holds import validate_hold
from ledger.state.consumption import Consumption, QueueResults
from ledger.state.encoding import decode_state, encode_state
from ledger.state.hold_table import Hold, HoldTable
from ledger.state.producers import ProducerLimits, ProducerQueue, Producers
from ledger.state.progress_table import ConsumedQueue
from ledger.state.sequence import BatchRecord, Decision
from ledger.state.shard_table import ShardTable
from ledger.state.topic_table import Topic, TopicTable
from ledger.topics import validate_queue_count, validate_stored_name
from ledger.v1 import command_pb2


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """A topic as it was before it was deleted."""

    topic: Topic


CommandResult = Topic | DeletedTopic | Hold | QueueResults | bool | int | None | LedgerError


class State:
    """What the committed entries say. See the module."""

    def __init__(self, limits: ProducerLimits | None = None) -> None:
        self.topics = TopicTable()
        self.producers = Producers(limits or ProducerLimits())
        self.holds = HoldTable()
        self.shards = ShardTable()
        self.consumption = Consumption()
        # Queues that have messages: topic id and queue -> offset of the next one, > 0.
        self._next_offsets: dict[tuple[int, int], int] = {}

    def next_offset(self, topic_id: int, queue: int) -> int:
        """The offset that the queue's next message gets: its end. 0 for a queue without messages."""
        return self._next_offsets.get((topic_id, queue), 0)

    def ends(self) -> Iterator[tuple[int, int, int]]:
        """(topic id, queue, next offset) of each queue that has had messages."""
        for (topic_id, queue), offset in self._next_offsets.items():
            yield topic_id, queue, offset

    def check(
        self, *, topic_id: int, queue: int, producer_id: int, epoch: int, first_sequence: int, count: int
    ) -> Decision:
        """What is to be done with a batch, as far as committed entries tell; changes nothing."""
        return self.producers.check(ProducerQueue(producer_id, topic_id, queue), epoch, first_sequence, count)

    def apply_batch(
        self,
        *,
        topic_id: int,
        queue: int,
        base_offset: int,
        count: int,
        append_time_ms: int,
        index: int,
        term: int,
        producer_id: int,
        epoch: int,
        first_sequence: int,
    ) -> None:
        """Apply a committed batch. Whether it was acceptable the leader decided before it appended it."""
        self.holds.expire(append_time_ms)
        topic = self.topics.get(topic_id)
        assert topic is not None, f"batch at index {index} is of topic {topic_id}, which was never created"
        assert queue < topic.queues, f"batch at index {index} is of queue {queue}; {topic.name} has {topic.queues}"
        expected = self.next_offset(topic_id, queue)
        assert base_offset == expected, f"batch at index {index} has base offset {base_offset}, not {expected}"
        self._next_offsets[topic_id, queue] = base_offset + count
        record = BatchRecord(first_sequence, count, base_offset, append_time_ms, index, term)
        self.producers.add(ProducerQueue(producer_id, topic_id, queue), epoch, record)

    def put_end(self, topic_id: int, queue: int, offset: int) -> None:
        """The queue ends there, whatever came before: for whoever replays without all batches."""
        self._next_offsets[topic_id, queue] = offset

    def apply_move(self, consumer_group: str, topic_id: int, queue: int, offset: int) -> None:
        """With the batch of a committed entry that message came to a topic of the consumer group's own, where it is
        from now on."""
        self.consumption.progress.settle(ConsumedQueue(consumer_group, topic_id, queue), offset)

    def apply_command(self, body: bytes | memoryview, append_time_ms: int, *, index: int) -> CommandResult:
        """Apply the committed command of entry `index`; what it made, or why it could not (the same on every replica):
        the Topic, the DeletedTopic, the Hold, what became of each queue, whether there was anything to do, or None.

        InternalError where this program does not know the command: going on would part it from the other replicas.
        """
        try:
            command = command_pb2.Command.FromString(bytes(body))
        except DecodeError as error:
            raise InternalError("A committed command cannot be read: the log holds what no leader writes.") from error
        self.producers.expire(append_time_ms)
        self.holds.expire(append_time_ms)
        try:
            return self._apply(command, append_time_ms, index)
        except LedgerError as refusal:
            if isinstance(refusal, InternalError):
                raise
            return refusal

    def digest(self) -> int:
        """A 64-bit hash of the whole state: equal on replicas that have applied the same entries."""
        return xxhash.xxh3_64_intdigest(self.encode())

    def encode(self) -> bytes:
        """The whole state as bytes, which are equal where the states are."""
        return encode_state(self.topics, self._next_offsets, self.producers, self.holds, self.shards, self.consumption)

    @staticmethod
    def decode(data: bytes, limits: ProducerLimits | None = None) -> State:
        """The state that `encode` gave. The limits are no part of it. InternalError when the bytes are no state."""
        state = State(limits)
        parts = decode_state(data, limits or ProducerLimits())
        state.topics, state._next_offsets, state.producers, state.holds, state.shards, state.consumption = parts
        return state

    def _apply(self, command: command_pb2.Command, now_ms: int, index: int) -> CommandResult:
        """Raises LedgerError where it cannot be done."""
        match command.WhichOneof("command"):
            case "create_topic" | "alter_topic" | "open_topic" | "topic_opened" | "delete_topic":
                changed = self._apply_to_topics(command, now_ms, index)
                self.topics.changed_at = index
                return changed
            case "add_shard":
                added = command.add_shard
                self.shards.add(added.shard, added.nodes, added.incarnations)
                return None
            case "hold_log":
                return self._hold_log(command.hold_log, now_ms, index)
            case "release_log":
                return self.holds.release(command.release_log.name)
            case "join_consumer_group":
                return self.consumption.join(command.join_consumer_group, index, self.topics.was_deleted)
            case "leave_consumer_group":
                return self.consumption.leave(command.leave_consumer_group, index)
            case "assign_queues":
                return self.consumption.assign(command.assign_queues, index)
            case "release_queues":
                return self.consumption.release(command.release_queues, index)
            case "claim_queues":
                return self.consumption.claim(command.claim_queues, self._end_of, index)
            case "acknowledge_offsets":
                return self.consumption.acknowledge(command.acknowledge_offsets, self._end_of)
            case "reset_offsets":
                return self.consumption.reset(command.reset_offsets, self._end_of)
            case "forget_consumer_group":
                return self.consumption.forget(command.forget_consumer_group.consumer_group)
            case "renew_queues":
                return self.consumption.renew(command.renew_queues, index)
            case "forget_holds":
                return None
            case _:
                raise InternalError("A committed command is unknown to this program: upgrade this node.")

    def _apply_to_topics(self, command: command_pb2.Command, now_ms: int, index: int) -> Topic | DeletedTopic | None:
        match command.WhichOneof("command"):
            case "create_topic":
                return self._create_topic(command.create_topic, now_ms)
            case "alter_topic":
                self._check_shards(command.alter_topic.shards)
                return self.topics.extend(command.alter_topic.topic_id, command.alter_topic.shards)
            case "open_topic":
                opened = command.open_topic
                return self.topics.open(opened.topic_id, opened.name, opened.shards, opened.created_ms)
            case "topic_opened":
                return self.topics.opened(command.topic_opened.topic_id, command.topic_opened.queues)
            case _:
                return self._delete_topic(command.delete_topic.topic_id, index)

    def _delete_topic(self, topic_id: int, index: int) -> DeletedTopic | None:
        """With all that is known of it here; None where it is not here."""
        topic = self.topics.delete(topic_id)
        if topic is None:
            return None
        for queue in range(topic.queues):
            self._next_offsets.pop((topic_id, queue), None)
        self.producers.forget_topic(topic_id)
        self.consumption.forget_topic(topic_id, index)
        return DeletedTopic(topic)

    def _create_topic(self, wanted: command_pb2.CreateTopic, now_ms: int) -> Topic:
        validate_stored_name(wanted.name)
        validate_queue_count(wanted.queues)
        shards = wanted.shards or (0,) * wanted.queues
        if len(shards) != wanted.queues:
            raise InvalidArgumentError(f"{wanted.queues} queues cannot live in {len(shards)} places.")
        self._check_shards(shards)
        return self.topics.create(wanted.name, shards, now_ms)

    def _hold_log(self, wanted: command_pb2.HoldLog, now_ms: int, index: int) -> Hold:
        validate_hold(wanted.name, wanted.ttl_ms)
        return self.holds.take(wanted.name, index=index, now_ms=now_ms, ttl_ms=wanted.ttl_ms)

    def _end_of(self, topic_id: int, queue: int) -> int:
        """Raises UnknownTopicError, UnknownQueueError."""
        self.topics.require(topic_id, queue)
        return self.next_offset(topic_id, queue)

    def _check_shards(self, shards: Iterable[int]) -> None:
        for shard in shards:
            if shard not in self.shards:
                raise InvalidArgumentError(f"There is no shard {shard}: the last one is {self.shards.numbers[-1]}.")
