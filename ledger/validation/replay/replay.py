"""Replays the replicated state of one replica from its snapshot and its log, and keeps the digest of the state at some
indexes.

    base ── steps of span 0 ── steps of span 1 ── ... ──>   digests at cuts, topics, where queues end, what did not fit

The replay applies steps (spans/steps.py) to `ledger.state.State`, the state machine of nodes. Before each step, the
replay checks the conditions that the state machine asserts. If a condition does not hold, the replay records a
`Misfit`. After missing entries the state is unknown. After the first missing entries, the replay checks only offsets
and sequences. For each queue, the check of offsets and sequences begins with the queue's first batch after the missing
entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import xxhash
from google.protobuf.message import DecodeError

from ledger.errors import InternalError, LedgerError
from ledger.retries import consumer_group_of
from ledger.state import BatchRecord, DeletedTopic, ProducerLimits, ProducerQueue, State, Topic
from ledger.state.command_encoding import decode_command
from ledger.state.commands import SettleTimed
from ledger.state.lease_table import LeaseResults
from ledger.state.timed_table import TimedCursor, UndeliveredMessages
from ledger.timed import TIMED_TOPIC, moment
from ledger.v1 import command_pb2
from ledger.validation.judging.bound import Bound
from ledger.validation.judging.violation import ViolationKind
from ledger.validation.naming import Sentence, TopicText
from ledger.validation.replay.lease_record import LeaseFault, LeaseRecord
from ledger.validation.replay.timed_index_check import WaitingAt
from ledger.validation.replay.timed_record import TimedRecord
from ledger.validation.spans.batches import Facts
from ledger.validation.spans.continuity import (
    BROKER,
    Misfit,
    offset_misfit,
    sequence_misfit,
    unknown_producer_misfit,
)
from ledger.validation.spans.steps import (
    BatchesApplied,
    CommandApplied,
    Configured,
    Copied,
    HalfPrepared,
    HalfSettled,
    IdsGiven,
    Moved,
    RunBegins,
    RunEnds,
    StateCut,
    Step,
    TimedDelivered,
    Waited,
)
from ledger.validation.spans.waiting_columns import WaitingColumns
from ledger.words import counted
from store import LogTail


@dataclass(frozen=True, slots=True)
class PlacedMisfit:
    """A `Misfit`, with the place of its batch in the log."""

    kind: ViolationKind
    reason: Sentence
    index: int
    position: int
    topic_id: int
    queue: int
    offset: int


@dataclass(slots=True)
class Replayed:
    """The result of the replay of one replica."""

    replica: int
    # Digests of the state and of the newest configuration, by index.
    states: dict[int, tuple[int, int]] = field(default_factory=dict)
    # The entries at these indexes.
    tails: dict[int, LogTail] = field(default_factory=dict)
    # The first offset, by topic id and queue, of queues with messages before the log start.
    begins: dict[tuple[int, int], int] = field(default_factory=dict)
    # Topic names by id, also of topics that were deleted later.
    topics: dict[int, str] = field(default_factory=dict)
    deleted: frozenset[int] = frozenset()
    # The next offset, by topic id and queue, if it is known.
    ends: dict[tuple[int, int], int] = field(default_factory=dict)
    told: list[PlacedMisfit] = field(default_factory=list)
    # How many misfits are not in `told`, by kind.
    left_out: Counter[str] = field(default_factory=Counter)
    # The newest configuration, encoded.
    configuration: bytes = b""
    # Whether the state is known up to the end of the log.
    is_known: bool = True
    # Whether no entry is missing after the log start.
    is_continuous: bool = True
    # The waiting messages at the checkpoint, if the state there is known.
    waiting: WaitingAt | None = None


class Replay:
    def __init__(
        self, replica: int, *, state: State | None, start: LogTail | None, configuration: bytes, checkpoint: int = 0
    ) -> None:
        """`state` is the state after the entry `start`, or None if the state is not known. The waiting messages after
        the entry `checkpoint` are part of the result."""
        self._checkpoint = checkpoint
        self._result = Replayed(replica, configuration=configuration)
        self._state = state
        self._index = start.index if start is not None else -1
        self._deleted: set[int] = set()
        self._ends: dict[tuple[int, int], int] = {}
        self._bound = Bound()
        # The waiting messages, if the state is known.
        self._timed = TimedRecord(state.timed_end() if state is not None else 0)
        self._leases = LeaseRecord(state.shared.leases if state is not None else None)
        # The hash of the messages of each half batch that the replay has seen and that waits, by its number.
        self._half_contents: dict[int, int] = {}
        # The entry that moved the cursor of waiting messages last.
        self._settled_at = 0
        if state is not None:
            self._ends = {(topic, queue): end for topic, queue, end in state.ends()}
            self._result.topics = {topic.topic_id: topic.name for topic in state.topics}
            self._result.begins = dict(self._ends)
        if start is not None:
            self._cut(start.index, start)

    def take(self, steps: Iterable[Step], *, end: int | None = None) -> None:
        """Apply the next steps. Runs that begin at the position `end` or later do not belong to the log, so the
        replay ignores them."""
        skipping = False
        for step in steps:
            if isinstance(step, RunBegins):
                skipping = end is not None and step.position >= end
            if not skipping:
                self._take(step)

    def finish(self) -> None:
        """Compare the leases at the end, and tell the waiting messages that were passed over."""
        if self._state is None:
            return
        self._compare_leases(self._index)
        cursor = self._state.timed.cursor
        for identity, time_ms, (topic_id, queue) in self._timed.passed(cursor):
            reason = TopicText(
                (
                    f"the waiting message {identity} for queue {queue} of ",
                    topic_id,
                    f", due at {moment(time_ms).isoformat()}, was neither delivered nor cancelled, and the turns of "
                    "its shard have passed it",
                )
            )
            self._tell_waiting(ViolationKind.DELIVERY_MISSING, reason, self._settled_at, 0, topic_id, queue, 0)

    def result(self) -> Replayed:
        self._result.deleted = frozenset(self._deleted)
        self._result.ends = {key: value for key, value in self._ends.items() if key[0] not in self._deleted}
        self._result.left_out = self._bound.left_out()
        self._result.is_known = self._state is not None
        return self._result

    def _cut(self, index: int, tail: LogTail, *, is_reached: bool = True) -> None:
        self._result.tails[index] = tail
        if self._state is not None and is_reached:
            configuration = xxhash.xxh3_64_intdigest(self._result.configuration)
            self._result.states[index] = (self._state.digest(), configuration)
            self._compare_leases(index)
            if index == self._checkpoint:
                timed = self._state.timed
                waiting = self._timed.waiting(timed.cursor)
                self._result.waiting = WaitingAt(index, *waiting, tuple(timed.open), timed.cursor)

    def _take(self, step: Step) -> None:
        match step:
            case RunBegins():
                self._begin(step)
            case RunEnds(index):
                self._index = index
            case BatchesApplied(facts):
                self._apply(facts)
            case CommandApplied():
                self._command(step)
            case Configured(_, body):
                self._result.configuration = body
            case Moved():
                self._move(step)
            case Waited(columns):
                self._wait(columns)
            case Copied():
                self._copy(step)
            case TimedDelivered():
                self._deliver(step)
            case HalfPrepared():
                self._prepare(step)
            case HalfSettled():
                self._settle_half(step)
            case IdsGiven():
                self._remember(step)
            case StateCut():
                self._cut(step.index, step.tail, is_reached=step.is_reached)

    def _begin(self, run: RunBegins) -> None:
        if run.index != self._index + 1:  # told as missing entries already
            self._state, self._result.is_continuous = None, False
            self._ends.clear()
        for number in range(len(run.queue_heads)):
            self._check_offset(run.queue_heads, number)
        if self._state is not None:
            for number in range(len(run.producer_heads)):
                self._check_sequence(run.producer_heads, number, self._state)

    def _check_offset(self, heads: Facts, number: int) -> None:
        fact = heads[number]
        key = (int(fact["topic_id"]), int(fact["queue"]))
        known = self._ends.get(key, 0 if self._state is not None else None)
        if known is not None and known != fact["base_offset"]:
            self._tell(heads, offset_misfit(heads, number, known))

    def _check_sequence(self, heads: Facts, number: int, state: State) -> None:
        fact = heads[number]
        if fact["producer_id"] == BROKER:
            return
        known = state.producers.get(_producer(fact))
        crowded = len(state.producers) >= ProducerLimits().most
        if known is None:
            misfit = None if crowded else unknown_producer_misfit(heads, number)
        else:
            due, epoch, used = known.next_sequence, known.epoch, known.last_append_time_ms
            misfit = sequence_misfit(heads, number, due, epoch, used, may_be_forgotten=crowded)
        if misfit is not None:
            self._tell(heads, misfit)

    def _apply(self, facts: Facts) -> None:
        rows = facts.tolist()
        names = facts.dtype.names
        assert names is not None
        at = {name: number for number, name in enumerate(names)}
        for number, row in enumerate(rows):
            key = (row[at["topic_id"]], row[at["queue"]])
            end = row[at["base_offset"]] + row[at["count"]]
            self._ends[key] = end
            if self._state is None or not self._is_open(facts, number, self._state, *key):
                continue
            state = self._state
            record = BatchRecord(
                row[at["first_sequence"]], row[at["count"]], row[at["base_offset"]], row[at["append_time_ms"]],
                row[at["index"]], row[at["term"]],
            )  # fmt: skip
            self._add(state, ProducerQueue(row[at["producer_id"]], *key), row[at["epoch"]], record)
            state.put_end(*key, end)

    @staticmethod
    def _add(state: State, key: ProducerQueue, epoch: int, record: BatchRecord) -> None:
        """Add a batch to the state. If a producer begins at sequence 0 again in the same epoch, the nodes had
        forgotten the producer."""
        known = state.producers.get(key)
        if known is not None and record.first_sequence == 0 and epoch == known.epoch and known.next_sequence:
            state.producers.forget(key)
        state.holds.expire(record.append_time_ms)
        state.transactions.expire(record.append_time_ms)
        state.producers.add(key, epoch, record)

    def _is_open(self, facts: Facts, number: int, state: State, topic_id: int, queue: int) -> bool:
        topic = state.topics.get(topic_id)
        if topic is not None and queue < topic.queues:
            return True
        what = " was never created" if topic is None else f" has {counted(topic.queues, 'queue')}"
        if topic_id in self._deleted:
            what = " was deleted before"
        reason = TopicText((f"there is a batch for queue {queue} of ", topic_id, ", but ", topic_id, what))
        self._tell(facts, Misfit(ViolationKind.UNKNOWN_QUEUE, number, reason))
        return False

    def _command(self, step: CommandApplied) -> None:
        state = self._state
        if state is None:
            self._forget(deleted_topic(step.body))
            return
        try:
            result = state.apply_command(step.body, step.append_time_ms, index=step.index)
        except InternalError as error:
            self._stop(step.index, error)
            return
        match result:
            case UndeliveredMessages(items, may_wait):
                for (identity, time_ms), may in zip(items, may_wait, strict=True):
                    if may:
                        self._timed.cancel(identity, time_ms)
            case TimedCursor():
                self._settle(step, state)
            case LeaseResults(queues):
                for fault in self._leases.change(step.body, queues, step.index, self._ends):
                    self._tell_lease(fault, step.index)
        if not self._leases.is_empty:
            self._leases.follow(step.body, result)
        if isinstance(result, DeletedTopic):
            self._forget(result.topic.topic_id)
        if isinstance(result, Topic):
            self._result.topics[result.topic_id] = result.name

    def _compare_leases(self, index: int) -> None:
        if self._state is not None:
            for fault in self._leases.differences(self._state.shared.leases, index):
                self._tell_lease(fault, index)

    def _tell_lease(self, fault: LeaseFault, index: int) -> None:
        kind = ViolationKind.LEASED_TWICE if fault.is_twice else ViolationKind.LEASES_DIFFER
        self._tell_waiting(kind, fault.reason, index, 0, fault.topic_id, fault.queue, fault.offset)

    def _wait(self, columns: WaitingColumns) -> None:
        if self._state is not None and (topic := self._state.topics.named(TIMED_TOPIC)) is not None:
            own = columns.of_topic(topic.topic_id)
            self._timed.wait(own, self._state.timed.cursor)

    def _copy(self, step: Copied) -> None:
        if self._state is None:
            return
        target = (step.target_topic_id, step.target_queue)
        if (wrong := self._timed.copy(step.identities, step.times, target, step.contents, step.position)) is not None:
            place = (step.topic_id, step.queue, step.offset)
            self._tell_waiting(ViolationKind.WRONG_DELIVERY, wrong, step.index, step.position, *place)

    def _deliver(self, step: TimedDelivered) -> None:
        if self._state is None:
            return
        target = (step.topic_id, step.queue)
        if (wrong := self._timed.deliver(step.identities, step.times, target, step.contents)) is not None:
            self._tell_waiting(ViolationKind.WRONG_DELIVERY, wrong, step.index, step.position, *target, step.offset)
        try:
            self._state.apply_delivery(step.identities, step.times, step.index)
        except InternalError as error:
            self._stop(step.index, error)

    def _prepare(self, step: HalfPrepared) -> None:
        if self._state is None:
            return
        try:
            self._state.apply_half(step.half, step.half_topic_id, step.index)
        except InternalError as error:
            self._stop(step.index, error)
            return
        number = step.half.number if step.half.copy_of is None else step.half.copy_of
        if number in self._state.transactions.waiting:
            self._compare(
                step.index, 0, step.half_topic_id, step.half.half_queue, step.half.number, number, step.contents
            )
            self._half_contents[number] = step.contents

    def _settle_half(self, step: HalfSettled) -> None:
        if self._state is None:
            return
        settled = step.settled
        if not settled.dead:  # dead letters have other headers
            self._compare(
                step.index, step.position, settled.topic_id, settled.queue, step.offset, settled.half, step.contents
            )
        try:
            self._state.apply_settlement(settled, step.index)
        except LedgerError as error:
            self._stop(step.index, error)
        self._half_contents.pop(settled.half, None)

    def _remember(self, step: IdsGiven) -> None:
        """Tell the messages whose ids the state remembers from earlier messages, and remember those of the batch."""
        if self._state is None:
            return
        try:
            self._state.check_message_ids(step.index)
        except InternalError as error:
            self._stop(step.index, error)
            return
        repeated = self._state.message_ids.known(step.read_in, step.ids, step.append_time_ms)
        firsts: dict[bytes, int] = {}
        twins = [number for number, each in enumerate(step.ids) if firsts.setdefault(each, number) != number]
        for number in sorted({*twins, *(number for number, _ in repeated)}):
            reason = TopicText(("a message with the same message id was sent before to ", step.read_in))
            at = (step.position, step.topic_id, step.queue, step.offset + number)
            self._tell_waiting(ViolationKind.MESSAGE_REPEATED, reason, step.index, *at)
        self._state.apply_message_ids(
            step.read_in, step.ids, (step.topic_id, step.queue), step.offset, step.append_time_ms
        )

    def _compare(
        self, index: int, position: int, topic_id: int, queue: int, offset: int, number: int, contents: int
    ) -> None:
        """Tell a batch whose messages are not those of the half batch `number`."""
        if self._half_contents.get(number, contents) != contents:
            reason = TopicText(
                (f"a batch for queue {queue} of ", topic_id, f" has other messages than the half batch {number}")
            )
            self._tell_waiting(ViolationKind.DECISION_ALTERED, reason, index, position, topic_id, queue, offset)

    def _settle(self, step: CommandApplied, state: State) -> None:
        """Tell the messages that a turn settles without a delivery although their target queue exists."""
        self._settled_at = step.index
        command = decode_command(step.body)
        settled = command.settled if isinstance(command, SettleTimed) else ()
        for identity, (topic_id, queue) in self._timed.settle(settled):
            topic = state.topics.get(topic_id)
            if topic is not None and queue < topic.queues:
                reason = TopicText(
                    (f"a turn settles the waiting message {identity} without a delivery, and ", topic_id, " exists")
                )
                self._tell_waiting(ViolationKind.DELIVERY_MISSING, reason, step.index, 0, topic_id, queue, 0)

    def _tell_waiting(
        self, kind: ViolationKind, reason: Sentence, index: int, position: int, topic_id: int, queue: int, offset: int
    ) -> None:
        if self._bound.takes(kind):
            self._result.told.append(PlacedMisfit(kind, reason, index, position, topic_id, queue, offset))

    def _stop(self, index: int, error: LedgerError) -> None:
        """Tell that no replica can apply the entry `index`. The state is unknown from this entry on."""
        self._result.told.append(PlacedMisfit(ViolationKind.UNKNOWN_ENTRY, str(error), index, 0, 0, 0, 0))
        self._state = None

    def _forget(self, topic_id: int | None) -> None:
        if topic_id is not None:
            self._deleted.add(topic_id)
            self._ends = {key: end for key, end in self._ends.items() if key[0] != topic_id}

    def _move(self, step: Moved) -> None:
        if self._state is None:
            return
        topic = self._state.topics.get(step.topic_id)
        if topic is not None and (consumer_group := consumer_group_of(topic.name)) is not None:
            self._state.apply_move(consumer_group, *step.before)
            self._leases.settle(consumer_group, *step.before)

    def _tell(self, facts: Facts, misfit: Misfit) -> None:
        if self._bound.takes(misfit.kind):
            self._result.told.append(placed(facts, misfit))


def placed(facts: Facts, misfit: Misfit) -> PlacedMisfit:
    """Return the misfit, together with the log index, position, topic and queue of its batch."""
    fact = facts[misfit.fact]
    return PlacedMisfit(
        misfit.kind,
        misfit.reason,
        int(fact["index"]),
        int(fact["position"]),
        int(fact["topic_id"]),
        int(fact["queue"]),
        int(fact["base_offset"]),
    )


def deleted_topic(command: bytes) -> int | None:
    """Return the id of the topic that the command deletes, or None if the command deletes no topic."""
    try:
        parsed = command_pb2.Command.FromString(command)
    except DecodeError:
        return None
    return parsed.delete_topic.topic_id if parsed.HasField("delete_topic") else None


def _producer(fact: np.void) -> ProducerQueue:
    return ProducerQueue(int(fact["producer_id"]), int(fact["topic_id"]), int(fact["queue"]))
