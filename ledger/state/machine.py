"""The replicated state of a shard: topics, next offsets, producers, consumer groups, progress, holds, transactions, and
which waiting messages were delivered. The state of shard 0 also contains the list of shards, and the users with their
rights.

The state is a pure function of the committed entries in their order. Replicas that have applied the same entries have
equal states and equal digests. This module uses no clock, no randomness and no I/O; append times are in the entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import xxhash

from ledger.errors import InternalError, InvalidArgumentError, InvalidTopicNameError, LedgerError
from ledger.holds import validate_hold
from ledger.state.access_table import AccessTable, DelegatedToken, User
from ledger.state.command_checks import check_values
from ledger.state.command_encoding import decode_command
from ledger.state.commands import (
    AccessCommand,
    AcknowledgeOffsets,
    AddShard,
    AddUser,
    AlterTopic,
    AssignQueues,
    BalanceReplicas,
    BeginAccess,
    BeginReplicaMove,
    CancelTimed,
    ChangeLeases,
    ClaimQueues,
    CloseGroup,
    Command,
    CommitTransaction,
    ConfirmHalves,
    CoordinatorCommand,
    CountUnknown,
    CreateConsumerGroup,
    CreateTopic,
    DelegateToken,
    DeleteTopic,
    DrainNode,
    EndDrain,
    EndReplicaMove,
    ForgetConsumerGroup,
    ForgetHolds,
    GrantRules,
    GroupCommand,
    HoldLog,
    HostGroup,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    LogCommand,
    OpenTopic,
    PausePlacement,
    PinLeader,
    PlaceCoordinator,
    PlacementCommand,
    ProgressCommand,
    RaiseFeatureLevel,
    ReleaseLog,
    ReleaseQueues,
    RemoveUser,
    RenewQueues,
    ResetOffsets,
    RevokeRules,
    RollBackHalves,
    RotateUser,
    SetReplicas,
    SetRocketmqSecret,
    SettleTimed,
    SharedCommand,
    TimedCommand,
    TopicCommand,
    TopicOpened,
    TransactionCommand,
    UnpinLeader,
)
from ledger.state.consumer_group_table import TopicQueueId
from ledger.state.consumption import Consumption, QueueResults, elsewhere
from ledger.state.coordinator_table import CoordinatorPlace, CoordinatorTable
from ledger.state.encoding import StateParts, decode_state, encode_state
from ledger.state.feature_levels import (
    ACCESS_CONTROL,
    CHECKED_COMMANDS,
    LATEST_LEVEL,
    MESSAGE_IDS,
    PINNED_LEADERS,
    PLACED_COORDINATORS,
    PLACEMENT,
    SHARED_GROUPS,
    TIMED,
    TOPIC_TYPES,
    TRANSACTIONS,
)
from ledger.state.group_modes import GroupMode
from ledger.state.hold_table import Hold, HoldTable
from ledger.state.lease_table import LeaseResults
from ledger.state.message_ids import MessageIds
from ledger.state.pinned_leader import PinnedLeader
from ledger.state.placement_table import NodeDrain, PlacementTable, ReplicaMove
from ledger.state.producers import ProducerLimits, ProducerQueue, Producers
from ledger.state.progress_table import ConsumedQueue
from ledger.state.sequence import BatchRecord, Decision
from ledger.state.shard_table import ShardTable
from ledger.state.shared_groups import SharedGroups, is_queue_group
from ledger.state.timed_table import TimedCursor, TimedTable, UndeliveredMessages
from ledger.state.topic_table import Topic, TopicTable
from ledger.state.transaction_table import HERE, HalfBatch, TransactionTable
from ledger.timed import TIMED_TOPIC
from ledger.topics import TOPICS_SHARD, TopicType, validate_queue_count, validate_stored_name
from ledger.transactions import HALF_TOPIC, TransactionOutcome


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """The result of the deletion of a topic. `topic` is the topic as it was before the deletion."""

    topic: Topic


@dataclass(slots=True)
class CommittedBatch:
    """The fields of a committed batch that the state needs. `append_time_ms` is in ms since 1970. Do not change the
    fields. The class is not `frozen`, because one object is created for each applied batch."""

    topic_id: int
    queue: int
    base_offset: int
    count: int
    append_time_ms: int
    index: int
    term: int
    producer_id: int
    epoch: int
    first_sequence: int


@dataclass(frozen=True, slots=True)
class PreparedHalf:
    """What a committed half batch says about its transaction. `ledger.batch.HalfColumn` explains the first fields.
    `half_queue` and `number` are its queue and its offset in `%HALF`, `count` its messages, `size` its bytes, and
    `append_time_ms` its append time, in ms since 1970."""

    topic_id: int
    queue: int
    shard: int
    group: str
    transaction: int | None
    copy_of: int | None
    half_queue: int
    number: int
    count: int
    size: int
    append_time_ms: int


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a committed decided batch, in the queue `queue` of the topic `topic_id`, says. `ledger.batch.DecidedColumn`
    explains the other fields."""

    topic_id: int
    queue: int
    half: int
    transaction: int
    shard: int
    decides: bool
    dead: bool
    append_time_ms: int


CommandResult = (
    Topic
    | DeletedTopic
    | UndeliveredMessages
    | TimedCursor
    | Hold
    | QueueResults
    | tuple[bool, ...]
    | GroupMode
    | CoordinatorPlace
    | LeaseResults
    | bool
    | int
    | None
    | LedgerError
)


# The topics of the broker that exist from a feature level on, and cannot be deleted.
_LEVEL_OF_TOPIC = {TIMED_TOPIC: TIMED, HALF_TOPIC: TRANSACTIONS}


class State:
    """The result of all committed entries that this replica has applied."""

    def __init__(self, limits: ProducerLimits | None = None, latest_level: int = LATEST_LEVEL) -> None:
        """`latest_level` is the highest feature level that this program knows."""
        self.latest_level = latest_level
        self.topics = TopicTable()
        self.producers = Producers(limits or ProducerLimits())
        self.holds = HoldTable()
        self.shards = ShardTable()
        self.consumption = Consumption()
        self.access = AccessTable()
        self.timed = TimedTable()
        self.transactions = TransactionTable()
        self.shared = SharedGroups()
        self.message_ids = MessageIds()
        self.placement = PlacementTable()
        # The voter that an operator wants to lead this shard; None: no voter is pinned.
        self.pinned_leader: PinnedLeader | None = None
        self.coordinators = CoordinatorTable()
        # The rules by which this state applies entries (feature_levels.py).
        self.feature_level = 0
        # Queues that have had messages: (topic id, queue) -> offset of the next message, > 0.
        self._next_offsets: dict[tuple[int, int], int] = {}

    def next_offset(self, topic_id: int, queue: int) -> int:
        """Return the offset that the queue's next message gets, which is the end of the queue. For a queue without
        messages return 0."""
        return self._next_offsets.get((topic_id, queue), 0)

    def ends(self) -> Iterator[tuple[int, int, int]]:
        """Yield (topic id, queue, next offset) of each queue that has had messages."""
        for (topic_id, queue), offset in self._next_offsets.items():
            yield topic_id, queue, offset

    def check(
        self, *, topic_id: int, queue: int, producer_id: int, epoch: int, first_sequence: int, count: int
    ) -> Decision:
        """Decide whether a batch is acceptable, from the committed entries only. Changes nothing."""
        return self.producers.check(ProducerQueue(producer_id, topic_id, queue), epoch, first_sequence, count)

    def apply_batch(self, batch: CommittedBatch) -> None:
        """Apply a committed batch. Raises InternalError if the batch contradicts this state: the leader checked the
        batch before the append, so the leader or this replica is faulty. After this error the replica must not apply
        later entries."""
        topic_id, queue, index, base_offset = batch.topic_id, batch.queue, batch.index, batch.base_offset
        self.check_batch(topic_id, queue, base_offset, index)
        self.holds.expire(batch.append_time_ms)
        self.transactions.expire(batch.append_time_ms)
        self._next_offsets[topic_id, queue] = base_offset + batch.count
        record = BatchRecord(batch.first_sequence, batch.count, base_offset, batch.append_time_ms, index, batch.term)
        self.producers.add(ProducerQueue(batch.producer_id, topic_id, queue), batch.epoch, record)

    def check_batch(self, topic_id: int, queue: int, base_offset: int, index: int) -> None:
        """Raise InternalError if the committed batch of entry `index` contradicts this state."""
        topic = self.topics.get(topic_id)
        if topic is None:
            raise InternalError(f"The batch at index {index} is of topic {topic_id}, which was never created.")
        if queue >= topic.queues:
            raise InternalError(f"The batch at index {index} is of queue {queue}; {topic.name} has {topic.queues}.")
        expected = self.next_offset(topic_id, queue)
        if base_offset != expected:
            raise InternalError(f"The batch at index {index} has base offset {base_offset}, not {expected}.")

    def put_end(self, topic_id: int, queue: int, offset: int) -> None:
        """Set the next offset of a queue, for a replay that does not apply all batches."""
        self._next_offsets[topic_id, queue] = offset

    def apply_move(self, consumer_group: str, topic_id: int, queue: int, offset: int) -> None:
        """Settle the original of a moved message. A committed batch contains the copy of the message in a retry
        topic or dead-letter topic."""
        self.consumption.progress.settle(ConsumedQueue(consumer_group, topic_id, queue), offset)
        self.shared.leases.settle(consumer_group, TopicQueueId(topic_id, queue), offset)

    def require_timed(self) -> None:
        """Raise InvalidArgumentError if this shard has no waiting messages, because its feature level is too low."""
        if self.feature_level < TIMED:
            raise InvalidArgumentError(
                f"This shard has feature level {self.feature_level}, and timed messages need level {TIMED}: some nodes "
                "run an older version, upgrade them (`ledgermq cluster info`)."
            )

    def check_deletion(self, topic_id: int) -> None:
        """Raise InvalidArgumentError if the topic is that of waiting messages or of half batches: its offsets would
        begin again at 0, and so would the identities of waiting messages and the numbers of half batches."""
        topic = self.topics.get(topic_id)
        if topic is not None and self.feature_level >= _LEVEL_OF_TOPIC.get(topic.name, self.feature_level + 1):
            raise InvalidArgumentError(f"{topic.name} cannot be deleted: messages of the cluster may wait in it.")

    def check_delivery(self, identities: Sequence[int], times: Sequence[int], index: int) -> None:
        """Raise InternalError if the batch of entry `index` cannot deliver these waiting messages. `times` has their
        delivery times, in ms since 1970."""
        if self.feature_level < TIMED:
            raise InternalError(f"The batch at index {index} delivers waiting messages below feature level {TIMED}.")
        newest, end = max(identities, default=-1), self.timed_end()
        if newest >= end:
            raise InternalError(
                f"The batch at index {index} delivers the waiting message {newest}, and {TIMED_TOPIC} ends at {end}."
            )
        self.timed.check_delivery(identities, times)

    def apply_delivery(self, identities: Sequence[int], times: Sequence[int], index: int) -> None:
        """Open the waiting messages that the batch of entry `index` delivers. The batch itself is applied by
        `apply_batch`. Raises InternalError like `check_delivery`, and changes nothing then."""
        self.check_delivery(identities, times, index)
        self.timed.deliver(identities, times)

    def require_topic_types(self) -> None:
        """Raise InvalidArgumentError if topics cannot have types, because the feature level of this shard is too
        low."""
        if self.feature_level < TOPIC_TYPES:
            raise InvalidArgumentError(
                f"This shard has feature level {self.feature_level}, and types of topics need level {TOPIC_TYPES}: "
                "some nodes run an older version, upgrade them (`ledgermq cluster info`)."
            )

    def require_pinned_leaders(self) -> None:
        """Raise InvalidArgumentError if no leader can be pinned, because the feature level of this shard is too low."""
        if self.feature_level < PINNED_LEADERS:
            raise InvalidArgumentError(
                f"This shard has feature level {self.feature_level}, and pinned leaders need level {PINNED_LEADERS}: "
                "some nodes run an older version, upgrade them (`ledgermq cluster info`)."
            )

    def check_message_ids(self, index: int) -> None:
        """Raise InternalError if the batch of entry `index` cannot have message ids."""
        if self.feature_level < MESSAGE_IDS:
            raise InternalError(f"The batch at index {index} has message ids below feature level {MESSAGE_IDS}.")

    def apply_message_ids(
        self, topic_id: int, ids: Sequence[bytes], place: tuple[int, int], base_offset: int, append_time_ms: int
    ) -> None:
        """Remember the ids of a committed batch, as `MessageIds.remember` explains. The batch itself is applied by
        `apply_batch`. `check_message_ids` must have accepted the batch."""
        self.message_ids.remember(topic_id, ids, place, base_offset, append_time_ms)

    # -- transactions

    def require_transactions(self) -> None:
        """Raise InvalidArgumentError if this shard has no transactions, because its feature level is too low."""
        if self.feature_level < TRANSACTIONS:
            raise InvalidArgumentError(
                f"This shard has feature level {self.feature_level}, and transactions need level {TRANSACTIONS}: some "
                "nodes run an older version, upgrade them (`ledgermq cluster info`)."
            )

    def check_half(self, half: PreparedHalf, half_topic_id: int, index: int) -> None:
        """Raise InternalError if the half batch of entry `index`, of the topic `half_topic_id`, contradicts this
        state."""
        if self.feature_level < TRANSACTIONS:
            raise InternalError(f"The batch at index {index} is a half batch below feature level {TRANSACTIONS}.")
        topic = self.topics.get(half_topic_id)
        if topic is None or topic.name != HALF_TOPIC:
            raise InternalError(f"The half batch at index {index} is not in {HALF_TOPIC}.")

    def apply_half(self, half: PreparedHalf, half_topic_id: int, index: int) -> None:
        """Let the half batch of entry `index` wait. The batch itself is applied by `apply_batch`. Raises InternalError
        like `check_half`, and changes nothing then."""
        self.check_half(half, half_topic_id, index)
        if half.copy_of is not None:
            self.transactions.move(half.copy_of, half.number)
            return
        topic = self.topics.get(half_topic_id)
        assert topic is not None, "checked above"
        begins = half.transaction is None
        shard = HERE if begins or half.shard == topic.shards[half.half_queue] else half.shard
        self.transactions.put(
            HalfBatch(
                number=half.number,
                place=half.number,
                shard=shard,
                transaction=half.number if half.transaction is None else half.transaction,
                topic_id=half.topic_id,
                queue=half.queue,
                group=half.group,
                count=half.count,
                size=half.size,
                since_ms=half.append_time_ms,
            )
        )

    def check_settlement(self, settled: Settlement, index: int) -> None:
        """Raise InternalError if the decided batch of entry `index` contradicts this state."""
        if self.feature_level < TRANSACTIONS:
            raise InternalError(f"The batch at index {index} settles a half batch below feature level {TRANSACTIONS}.")
        topic = self.topics.require(settled.topic_id, settled.queue)
        shard = HERE if settled.shard == topic.shards[settled.queue] else settled.shard
        half = self.transactions.check_settlement(settled.half, settled.transaction, shard, decides=settled.decides)
        if not settled.dead and (half.topic_id, half.queue) != (settled.topic_id, settled.queue):
            raise InternalError(
                f"The batch at index {index} is of queue {settled.queue} of topic {settled.topic_id}, and its half "
                f"batch is for queue {half.queue} of topic {half.topic_id}."
            )

    def apply_settlement(self, settled: Settlement, index: int) -> None:
        """Settle the half batch whose messages the decided batch of entry `index` has. Raises InternalError like
        `check_settlement`, and changes nothing then."""
        self.check_settlement(settled, index)
        outcome = TransactionOutcome.DEAD_LETTERS if settled.dead else TransactionOutcome.COMMITTED
        ended = outcome if settled.decides else None
        self.transactions.settle(settled.half, ended=ended, now_ms=settled.append_time_ms)

    def half_end(self) -> int:
        """Return the end of this shard's queue of half batches, or 0 if this shard has none."""
        return self._end_here(HALF_TOPIC)

    def apply_command(self, body: bytes | memoryview, append_time_ms: int, *, index: int) -> CommandResult:
        """Apply the committed command of entry `index`.

        Return the result of the command: a Topic, a DeletedTopic, UndeliveredMessages, a TimedCursor, a Hold, one
        result for each queue or half batch, a bool, a count, or None. If the command is refused, return the
        Return the result of the command: a Topic, a DeletedTopic, UndeliveredMessages, a TimedCursor, a Hold, a
        GroupMode, one result for each queue, a bool, a count, or None. If the command is refused, return the
        LedgerError, which is equal on every replica. Raises InternalError if this program does not know the command.
        After this error the replica must not apply later entries, because its state would differ from the state of the
        other replicas.
        """
        command = decode_command(body)
        self.producers.expire(append_time_ms)
        self.holds.expire(append_time_ms)
        self.transactions.expire(append_time_ms)
        try:
            return self._apply(command, append_time_ms, index)
        except LedgerError as refusal:
            if isinstance(refusal, InternalError):
                raise
            return refusal

    def digest(self) -> int:
        """Return a 64-bit hash of the whole state. Equal states have equal digests."""
        return xxhash.xxh3_64_intdigest(self.encode())

    def encode(self) -> bytes:
        """Return the whole state as bytes. Equal states have equal bytes."""
        parts = StateParts(
            self.topics,
            self._next_offsets,
            self.producers,
            self.holds,
            self.shards,
            self.consumption,
            self.feature_level,
            self.access,
            self.timed,
            self.transactions,
            self.shared,
            self.message_ids,
            self.placement,
            self.pinned_leader,
            self.coordinators,
        )
        return encode_state(parts)

    @staticmethod
    def decode(data: bytes, limits: ProducerLimits | None = None, latest_level: int = LATEST_LEVEL) -> State:
        """Return the state that `data`, a result of `encode`, contains. The bytes do not contain the producer
        limits. Raises InternalError if the bytes are not a state."""
        state = State(limits, latest_level)
        parts = decode_state(data, limits or ProducerLimits(), latest_level)
        state.topics, state._next_offsets, state.producers, state.holds, state.shards, state.consumption = parts[:6]
        state.feature_level, state.access, state.timed = parts.feature_level, parts.access, parts.timed
        state.transactions = parts.transactions
        state.shared = parts.shared
        state.message_ids = parts.message_ids
        state.placement = parts.placement
        state.pinned_leader = parts.pinned_leader
        state.coordinators = parts.coordinators
        return state

    def _apply(self, command: Command, now_ms: int, index: int) -> CommandResult:
        """Apply a command. Raise LedgerError if the command is refused."""
        if self.feature_level >= CHECKED_COMMANDS:
            check_values(command)
        self._check_name(command)
        match command:
            case CreateTopic() | AlterTopic() | OpenTopic() | TopicOpened() | DeleteTopic():
                changed = self._apply_to_topics(command, now_ms, index)
                self.topics.changed_at = index
                return changed
            case (
                RaiseFeatureLevel()
                | PinLeader()
                | UnpinLeader()
                | AddShard()
                | HoldLog()
                | ReleaseLog()
                | ForgetHolds()
            ):
                return self._apply_to_log(command, now_ms, index)
            case (
                SetReplicas()
                | PausePlacement()
                | BalanceReplicas()
                | DrainNode()
                | EndDrain()
                | BeginReplicaMove()
                | EndReplicaMove()
            ):
                return self._apply_to_placement(command, now_ms)
            case JoinConsumerGroup() | LeaveConsumerGroup() | AssignQueues() | ReleaseQueues() | RenewQueues():
                return self._apply_to_group(command, index)
            case PlaceCoordinator() | HostGroup() | CloseGroup():
                return self._apply_to_coordinators(command, index)
            case ClaimQueues() | AcknowledgeOffsets() | ResetOffsets() | ForgetConsumerGroup():
                return self._apply_to_progress(command, index)
            case SettleTimed() | CancelTimed():
                return self._apply_to_timed(command)
            case CommitTransaction() | RollBackHalves() | ConfirmHalves() | CountUnknown():
                return self._apply_to_transactions(command, now_ms)
            case CreateConsumerGroup() | ChangeLeases():
                return self._apply_to_shared(command, index)
            case _:
                return self._apply_to_access(command, now_ms, index)

    def _check_name(self, command: Command) -> None:
        """Raise InvalidTopicNameError for the topics of waiting messages and half batches below their feature levels.
        Programs that do not know the level refuse the name, but not in an `OpenTopic` of which they do not check the
        values."""
        if not isinstance(command, CreateTopic | OpenTopic):
            return
        level = _LEVEL_OF_TOPIC.get(command.name, 0)
        is_checked = isinstance(command, CreateTopic) or self.feature_level >= CHECKED_COMMANDS
        if is_checked and self.feature_level < level:
            raise InvalidTopicNameError(f"{command.name!r} is no topic name below feature level {level}.")

    def _apply_to_transactions(self, command: TransactionCommand, now_ms: int) -> CommandResult:
        self.require_transactions()
        match command:
            case CommitTransaction(transaction, halves):
                return self.transactions.commit(transaction, halves, now_ms)
            case RollBackHalves(numbers):
                return self.transactions.roll_back(numbers, now_ms)
            case ConfirmHalves(settled):
                for transaction, half in settled:
                    self.transactions.confirm(transaction, (half,))
                return None
            case CountUnknown(transactions):
                return self.transactions.count_unknown(transactions)

    def _apply_to_timed(self, command: TimedCommand) -> UndeliveredMessages | TimedCursor:
        self.require_timed()
        match command:
            case SettleTimed(through_ms, through_identity, seen, settled):
                if seen > (end := self.timed_end()):
                    raise InvalidArgumentError(f"{TIMED_TOPIC} ends at {end}, so no turn can have seen up to {seen}.")
                self.timed.settle(TimedCursor(through_ms, through_identity, seen), settled)
                return self.timed.cursor
            case CancelTimed(items):
                return UndeliveredMessages(items, tuple(self.timed.waits(time, identity) for identity, time in items))

    def require_shared_groups(self) -> None:
        """Raise InvalidArgumentError if this shard has no shared consumer groups, because its feature level is too
        low."""
        if self.feature_level < SHARED_GROUPS:
            raise InvalidArgumentError(
                f"This shard has feature level {self.feature_level}, and shared consumer groups need level "
                f"{SHARED_GROUPS}: some nodes run an older version, upgrade them (`ledgermq cluster info`)."
            )

    def _apply_to_shared(self, command: SharedCommand, index: int) -> GroupMode | LeaseResults:
        self.require_shared_groups()
        match command:
            case CreateConsumerGroup(mode):
                if mode.is_shared and self.coordinators.get(mode.consumer_group) is not None:
                    raise is_queue_group(mode.consumer_group)
                return self.shared.create(command, self.consumption, index)
            case ChangeLeases():
                return self.shared.change(command, self.consumption, self._end_of, index=index)

    def timed_end(self) -> int:
        """Return the end of this shard's queue of waiting messages, or 0 if this shard has none."""
        return self._end_here(TIMED_TOPIC)

    def _end_here(self, name: str) -> int:
        """Return the end of this shard's queue of a topic with one queue in each shard, or 0 if there is none. Other
        queues of the topic are in other shards, so this state knows no messages of them."""
        if (topic := self.topics.named(name)) is None:
            return 0
        return max((self.next_offset(topic.topic_id, queue) for queue in range(topic.queues)), default=0)

    def _apply_to_topics(self, command: TopicCommand, now_ms: int, index: int) -> Topic | DeletedTopic | None:
        match command:
            case CreateTopic():
                return self._create_topic(command, now_ms)
            case AlterTopic(topic_id, shards, topic_type):
                self._check_shards(shards)
                if topic_type is not None and self.feature_level >= TOPIC_TYPES:
                    self.topics.retype(topic_id, TopicType(topic_type))
                return self.topics.extend(topic_id, shards)
            case OpenTopic(topic_id, name, shards, created_ms):
                return self.topics.open(topic_id, name, shards, created_ms)
            case TopicOpened(topic_id, queues):
                return self.topics.opened(topic_id, queues)
            case DeleteTopic(topic_id):
                return self._delete_topic(topic_id, now_ms, index)

    def _apply_to_log(self, command: LogCommand, now_ms: int, index: int) -> CommandResult:
        match command:
            case RaiseFeatureLevel(level):
                self._raise_feature_level(level)
                return None
            case PinLeader(node, incarnation, balances):
                self.require_pinned_leaders()
                pinned = self.pinned_leader
                if not balances or pinned is None or pinned.balances:
                    self.pinned_leader = PinnedLeader(node, incarnation, balances)
                return None
            case UnpinLeader():
                self.require_pinned_leaders()
                self.pinned_leader = None
                return None
            case AddShard(shard, nodes, incarnations):
                self.shards.add(shard, nodes, incarnations)
                return None
            case HoldLog(name, ttl_ms):
                validate_hold(name, ttl_ms)
                return self.holds.take(name, index=index, now_ms=now_ms, ttl_ms=ttl_ms)
            case ReleaseLog(name):
                return self.holds.release(name)
            case ForgetHolds():
                return None

    def require_placement(self) -> None:
        """Raise InvalidArgumentError if this shard has no placement of replicas, because its feature level is too
        low."""
        if self.feature_level < PLACEMENT:
            raise InvalidArgumentError(
                f"This shard has feature level {self.feature_level}, and the placement of replicas needs level "
                f"{PLACEMENT}: some nodes run an older version, upgrade them (`ledgermq cluster info`)."
            )

    def _apply_to_placement(self, command: PlacementCommand, now_ms: int) -> bool | None:
        self.require_placement()
        match command:
            case SetReplicas(replicas, shard):
                if shard:
                    self._check_shards((shard,))
                self.placement.set_replicas(replicas, shard)
            case PausePlacement(paused):
                self.placement.is_paused = paused
            case BalanceReplicas(begins):
                self.placement.is_balancing = begins
            case DrainNode(node, removes):
                self.placement.drain(NodeDrain(node, removes))
            case EndDrain(node):
                return self.placement.end_drain(node)
            case BeginReplicaMove(shard, to, source, reason):
                self._check_shards((shard,))
                self.placement.begin(ReplicaMove(shard, to, source, reason, now_ms))
            case EndReplicaMove(shard):
                return self.placement.end(shard)
        return None

    def require_coordinators(self) -> None:
        """Raise InvalidArgumentError if coordinators have no places, because the feature level of this shard is too
        low."""
        if self.feature_level < PLACED_COORDINATORS:
            raise InvalidArgumentError(
                f"This shard has feature level {self.feature_level}, and coordinators in other shards need level "
                f"{PLACED_COORDINATORS}: some nodes run an older version, upgrade them (`ledgermq cluster info`)."
            )

    def _apply_to_coordinators(self, command: CoordinatorCommand, index: int) -> CoordinatorPlace | bool | None:
        self.require_coordinators()
        coordinators, groups = self.coordinators, self.consumption.groups
        match command:
            case PlaceCoordinator(name, shard, only_new):
                return self._place_coordinator(name, shard, index, only_new=only_new)
            case HostGroup(name, number, placed_at):
                self.shared.check_queue_group(name)
                # Members under an earlier number have epochs that are too low.
                return coordinators.host(name, number, placed_at) and (groups.remove(name) or True)
            case CloseGroup(name, number):
                return coordinators.close(name, number) and groups.remove(name)

    def _place_coordinator(self, name: str, shard: int, index: int, *, only_new: bool) -> CoordinatorPlace | None:
        """Apply `PlaceCoordinator`. Return the place of the group; None: it has members in shard 0 and stays there."""
        known, groups = self.coordinators.get(name), self.consumption.groups
        if known is not None and (only_new or known.shard == shard):
            return known
        if only_new and groups.get(name) is not None:
            return None
        self._check_shards((shard,))
        self.shared.check_queue_group(name)
        place = self.coordinators.place(name, shard, index)
        if shard != TOPICS_SHARD:
            groups.remove(name)
        return place

    def check_coordinates(self, command: JoinConsumerGroup) -> None:
        """Raise CoordinatedElsewhereError if this shard does not coordinate the group under the number that the leader
        saw when it proposed the command."""
        if self.feature_level < PLACED_COORDINATORS:
            return
        name, place = command.consumer_group, self.coordinators.get(command.consumer_group)
        is_elsewhere = place is not None and place.shard != TOPICS_SHARD
        if is_elsewhere or command.number != self.coordinators.number(name):
            raise elsewhere(name, place.shard if place is not None and is_elsewhere else None)

    def _apply_to_group(self, command: GroupCommand, index: int) -> bool:
        hosted = self.coordinators.hosted(command.consumer_group)
        index += self.coordinators.floor(command.consumer_group)
        match command:
            case JoinConsumerGroup():
                self.shared.modes.check_queue_group(command.consumer_group)
                self.check_coordinates(command)
                # Only shard 0 knows which topics were deleted.
                was_deleted = self.topics.was_deleted if hosted is None else _nothing_was_deleted
                return self.consumption.join(command, index, was_deleted)
            case LeaveConsumerGroup():
                return self.consumption.leave(command, index)
            case AssignQueues():
                return self.consumption.assign(command, index)
            case ReleaseQueues():
                return self.consumption.release(command, index)
            case RenewQueues():
                return self.consumption.renew(command, index)

    def _apply_to_progress(self, command: ProgressCommand, index: int) -> QueueResults | int:
        match command:
            case ClaimQueues():
                self.shared.check_queue_group(command.consumer_group)
                return self.consumption.claim(command, self._end_of, index)
            case AcknowledgeOffsets():
                return self.consumption.acknowledge(command, self._end_of)
            case ResetOffsets():
                results = self.shared.reset(command, self._end_of)
                return self.consumption.reset(command, self._end_of) if results is None else results
            case ForgetConsumerGroup(consumer_group):
                forgotten = self.consumption.forget(consumer_group)
                self.coordinators.forget(consumer_group)
                return forgotten + self.shared.forget(consumer_group)

    def _apply_to_access(self, command: AccessCommand, now_ms: int, index: int) -> int | None:
        if self.feature_level < ACCESS_CONTROL:
            raise InvalidArgumentError("This shard has no users yet: some nodes run an older version, upgrade them.")
        access = self.access
        access.expire(now_ms)
        match command:
            case BeginAccess(name, verifier, salt_key):
                access.begin(User(name, verifier, index), salt_key)
            case AddUser(name, user_verifier):
                access.add(User(name, user_verifier, index))
            case RotateUser(name, user_verifier):
                access.rotate(User(name, user_verifier, index))
            case RemoveUser(name):
                access.remove(name, index)
            case GrantRules(rules):
                access.grant(rules, index)
            case RevokeRules(rules):
                return access.revoke(rules, index)
            case DelegateToken(digest, user, rules, ttl_ms):
                since = access.require(user).since
                access.delegate(DelegatedToken(digest, user, since, rules, now_ms + ttl_ms), index)
            case SetRocketmqSecret(name, encrypted):
                access.set_rocketmq_secret(name, encrypted, index)
        return None

    def _raise_feature_level(self, level: int) -> None:
        """Apply the rules of `level` from now on. Raises InternalError if this program does not know the rules."""
        if level > self.latest_level:
            raise InternalError(
                f"This shard has feature level {level}, and this program knows levels up to {self.latest_level}: "
                "install the version of ledgermq that the other nodes run."
            )
        self.feature_level = max(self.feature_level, level)

    def _delete_topic(self, topic_id: int, now_ms: int, index: int) -> DeletedTopic | None:
        """Remove the topic and all its data from this state. Return None if this state does not have the topic."""
        self.check_deletion(topic_id)
        topic = self.topics.delete(topic_id)
        if topic is None:
            return None
        for queue in range(topic.queues):
            self._next_offsets.pop((topic_id, queue), None)
        self.producers.forget_topic(topic_id)
        self.consumption.forget_topic(topic_id, lambda name: index + self.coordinators.floor(name))
        self.transactions.forget_topic(topic_id, now_ms)
        self.shared.leases.forget_topic(topic_id)
        return DeletedTopic(topic)

    def _create_topic(self, wanted: CreateTopic, now_ms: int) -> Topic:
        validate_stored_name(wanted.name)
        validate_queue_count(wanted.queues)
        shards = wanted.shards or (0,) * wanted.queues
        if len(shards) != wanted.queues:
            raise InvalidArgumentError(
                f"{len(shards)} shards were given for {wanted.queues} queues: give one for each."
            )
        self._check_shards(shards)
        topic_type = TopicType(wanted.type) if self.feature_level >= TOPIC_TYPES else TopicType.MIXED
        return self.topics.create(wanted.name, shards, now_ms, topic_type)

    def _end_of(self, topic_id: int, queue: int) -> int:
        """Return the offset that the queue's next message gets. Raises UnknownTopicError, UnknownQueueError."""
        self.topics.require(topic_id, queue)
        return self.next_offset(topic_id, queue)

    def _check_shards(self, shards: Iterable[int]) -> None:
        for shard in shards:
            if shard not in self.shards:
                raise InvalidArgumentError(f"There is no shard {shard}: the last shard is {self.shards.numbers[-1]}.")


def _nothing_was_deleted(_: int) -> bool:
    """Return False for each topic, in a shard that does not know which topics were deleted."""
    return False
