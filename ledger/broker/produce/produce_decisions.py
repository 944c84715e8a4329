"""The leader's decision about a batch that a producer sent: append it, repeat an earlier result, or refuse it.

The broker (`BrokerReplica.produce`) and the simulator both use the decisions of this module. A decision depends only
on its arguments, and changes nothing. The rules are checked in the order of this table, and the first rule that
matches the batch is applied:

    the bytes are damaged, unknown or over a limit           Refuse (`ProduceDecisions.read`)
    the batch has columns that only the broker makes         Refuse(InvalidArgumentError) (`ProduceDecisions.read`)
    the topic is internal to the broker                      Refuse(InvalidTopicNameError)
    messages with delivery times are not for %TIMED          Refuse(InvalidArgumentError)
    messages of a transaction are not for %HALF              Refuse(InvalidArgumentError)
    the driver reports an obstacle                           Unavailable
    the leader has not applied its no-op yet                 Refuse(NoLeaderError)
    the disk is nearly full                                  Refuse(DiskFullError)
    the topic or queue does not exist, or is being deleted   Refuse(UnknownTopicError, UnknownQueueError)
    the producer's sequence has a gap                        Refuse(SequenceGapError)
    a newer epoch of the producer exists                     Refuse(ProducerFencedError)
    the batch repeats a batch that is no longer remembered   Refuse(DuplicateForgottenError)
    the batch repeats a batch that is not committed yet      AwaitFirst
    the batch repeats a committed batch                      RepeatResult
    the shard's feature level is too low for the columns     Refuse (column_levels.py)
    the type of the topic does not take the messages         Refuse(InvalidArgumentError) (type_admission.py)
    the delivery times or their target are refused           Refuse (timed_admission.py)
    the transaction or the target is refused                 Refuse (transaction_admission.py)
    message ids are not new                                  Refuse (id_admission.py)
    otherwise                                                AppendBatch
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Protocol

from ledger.batch import BatchHeader, HalfColumn, TimedColumn, check
from ledger.broker.produce.column_levels import check_level
from ledger.broker.produce.id_admission import check_ids
from ledger.broker.produce.timed_admission import check_columns, check_timed, check_topic
from ledger.broker.produce.timed_limits import DEFAULT_ROOM, TimedRoom
from ledger.broker.produce.transaction_admission import check_half, check_half_topic
from ledger.broker.produce.type_admission import check_type, target_topic
from ledger.errors import DiskFullError, LedgerError, NoLeaderError, RepeatedMessage
from ledger.state import Accept, BatchRecord, Duplicate, Projected, State
from ledger.state.shard_table import ShardTable
from ledger.topics import TopicType
from raft.core import Refusal
from store import StoreError

# What a driver raises if it cannot take a proposal.
Obstacle = Refusal | StoreError


@dataclass(frozen=True, slots=True)
class AppendBatch:
    """The decision to append the batch, because it continues its producer's sequence."""


@dataclass(frozen=True, slots=True)
class RepeatResult:
    """The decision to send the earlier result again, because the same batch is already committed. The committed
    batch starts at `record.base_offset`."""

    record: BatchRecord


@dataclass(frozen=True, slots=True)
class AwaitFirst:
    """The decision to answer later, because the same batch was sent before and is not committed yet. The answer is
    sent when the first batch is committed."""

    record: BatchRecord


@dataclass(frozen=True, slots=True)
class Refuse:
    """The decision to refuse the batch with an error. `Refuse` stores the fields of the error and not the error
    object. The decision is not the error itself: an error object that a stack frame refers to and raises forms a
    reference cycle. The cycle would keep the bytes of the batch in memory until the next garbage collection.
    """

    kind: type[LedgerError]
    message: str
    next_sequence: int | None = None
    repeats: tuple[RepeatedMessage, ...] = ()
    places: tuple[int, ...] = ()

    @classmethod
    def of(cls, error: LedgerError) -> Refuse:
        """Return a `Refuse` with the fields of this error."""
        return cls(type(error), error.message, error.next_sequence, tuple(error.repeats), tuple(error.places))

    def error(self) -> LedgerError:
        """Return a new error object to raise."""
        return self.kind(self.message, next_sequence=self.next_sequence, repeats=self.repeats, places=self.places)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The reason why this replica cannot propose at the moment: the driver's refusal, or the failure of its disk."""

    obstacle: Obstacle


Decision = AppendBatch | RepeatResult | AwaitFirst | Refuse | Unavailable

_APPEND = AppendBatch()


class ProducedBatch(Protocol):
    """The fields of a batch that a decision reads. `BatchHeader` has the same fields."""

    @property
    def topic_id(self) -> int: ...
    @property
    def queue(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def first_sequence(self) -> int: ...
    @property
    def count(self) -> int: ...


class ProduceDecisions:
    """Decides, without I/O, what the leader does with a batch that a producer sent."""

    @staticmethod
    def read(batch: bytes, max_message_bytes: int) -> BatchHeader | Refuse:
        """Return the header of a batch, or a refusal if the bytes are damaged, of an unknown format, or over a
        limit. The rule of `read` comes before all rules of `decide`. A message of more than `max_message_bytes` is
        over the limit."""
        try:
            header = check(batch, max_message_bytes)
            check_columns(header)
        except LedgerError as error:
            return Refuse.of(error)
        return header

    @staticmethod
    def decide(
        batch: ProducedBatch,
        state: State,
        projected: Projected | None,
        pending: Container[int],
        obstacle: Obstacle | None,
        no_room: str = "",
        timed: TimedColumn | None = None,
        now_ms: int = 0,
        room: TimedRoom = DEFAULT_ROOM,
        columns: int = 0,
        may_rise: bool = True,
        half: HalfColumn | None = None,
        topic_type: TopicType = TopicType.MIXED,
        without_key: Sequence[int] = (),
        ids: Sequence[bytes] | None = None,
        shards: ShardTable | None = None,
    ) -> Decision:
        """Return the decision about a batch that `read` has not refused.

        `state` is the applied state. `projected` is the state with the leader's uncommitted entries, or None before
        the leader has applied its no-op. `pending` holds the `id` of every BatchRecord whose batch waits for its
        commit. `obstacle` is the reason why the driver would refuse a proposal of this size, or None. `no_room` says
        why a nearly full disk accepts no batch, and is "" if the disk has room. `timed` is the batch's column of
        delivery times, if it has one, `now_ms` the leader's time, in ms since 1970, and `room` what the shard may still
        take of such messages. `columns` are the columns of the batch. `may_rise` is False if a member does not
        support the feature level that these columns need. `half` is the batch's column of its transaction, if it has
        one; then `room` says what the shard may take of half batches. `topic_type` is the type of the topic in which
        consumers will read the messages, and `without_key` are the places of those that have no key, if the type asks
        for keys. `ids` are the message ids of the batch, if it has some. `shards` are the shards of the cluster, as far
        as this node knows them; None: those of `state`, which is right in shard 0 only.
        """
        try:
            topic = state.topics.get(batch.topic_id)
            if half is None:
                check_topic(topic, timed)
            else:
                check_half_topic(topic)
        except LedgerError as error:
            return Refuse.of(error)
        if obstacle is not None:
            return Unavailable(obstacle)
        if projected is None:
            return Refuse.of(not_ready())
        if no_room:
            return Refuse(DiskFullError, no_room)
        try:
            verdict = projected.check(
                topic_id=batch.topic_id,
                queue=batch.queue,
                producer_id=batch.producer_id,
                epoch=batch.epoch,
                first_sequence=batch.first_sequence,
                count=batch.count,
            )
            if isinstance(verdict, Accept):
                check_level(columns, state.feature_level, may_rise=may_rise)
                target = state.topics.get(target_topic(batch.topic_id, timed, half))
                check_type(target, topic_type, timed, half, batch.count, without_key)
            if timed is not None and isinstance(verdict, Accept):
                check_timed(timed, batch.queue, state, projected, now_ms, room)
            if half is not None and isinstance(verdict, Accept):
                check_half(half, batch.queue, state, projected, room, state.shards if shards is None else shards)
            if ids is not None and isinstance(verdict, Accept):
                read_in = target_topic(batch.topic_id, timed, half)
                check_ids(batch.topic_id, read_in, ids, state, projected, now_ms)
        except LedgerError as error:
            return Refuse.of(error)
        match verdict:
            case Accept():
                return _APPEND
            case Duplicate(record):
                return AwaitFirst(record) if id(record) in pending else RepeatResult(record)
            case _:
                return Refuse.of(verdict.error())


def not_ready() -> NoLeaderError:
    """Return the error for a request to a new leader that has not applied its no-op yet."""
    return NoLeaderError("this node has just been elected and is not ready yet: try again shortly")
