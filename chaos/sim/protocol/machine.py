"""Defines the state machine of a node in the protocol world. The state machine consists of the real `ledger.state` and
a simplified broker that handles batches.

`SimMachine` behaves like `ledger.broker.broker_replica`, but has no message bodies, futures or streams. The production
class `ProduceDecisions` decides whether to append, repeat or refuse each batch, and `SimMachine` carries out the
decision. Implements `raft.interfaces.Machine`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, NoReturn, Protocol

from chaos.sim.protocol.log import NO_SNAPSHOTS
from chaos.sim.stack.deliveries import MessageSpan, Stream
from ledger.broker.produce.produce_decisions import (
    AppendBatch,
    AwaitFirst,
    Obstacle,
    ProduceDecisions,
    Refuse,
    RepeatResult,
    Unavailable,
)
from ledger.errors import (
    DiskFullError,
    DuplicateForgottenError,
    LedgerError,
    NoLeaderError,
    SequenceGapError,
    TopicExistsError,
    UnknownTopicError,
)
from ledger.state import BatchRecord, CommittedBatch, Projected, State
from ledger.v1 import command_pb2
from raft.core import Divergences, NotLeader, Refusal, RoleChange
from raft.driver import Driver
from raft.errors import CannotApplyError
from store import EntryDraft, EntryKind, Header, Snapshot, StoreError

_BODY = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True)
class SimBatch:
    """A batch of messages that one producer sends to one queue. The first message of the batch has the sequence
    number `sequence`. Implements `ledger.broker.produce.produce_decisions.ProducedBatch`."""

    stream: Stream
    sequence: int
    messages: int
    # Size of the body in bytes.
    size: int

    @property
    def topic_id(self) -> int:
        return self.stream.topic

    @property
    def queue(self) -> int:
        return self.stream.queue

    @property
    def producer_id(self) -> int:
        return self.stream.producer

    @property
    def epoch(self) -> int:
        return 0  # producers in this world have only one epoch

    @property
    def first_sequence(self) -> int:
        return self.sequence

    @property
    def count(self) -> int:
        return self.messages

    def draft(self, offset: int) -> EntryDraft:
        """Return the entry that stores this batch. The first message of the batch gets the offset `offset`."""
        stream = self.stream
        body = _BODY.pack(stream.producer, self.sequence).ljust(self.size, b"\0")
        return EntryDraft(EntryKind.BATCH, body, stream.topic, stream.queue, offset, self.messages)


def span_of(header: Header, body: bytes | memoryview) -> MessageSpan:
    """Return the range of offsets of the messages in the entry of a batch."""
    producer, sequence = _BODY.unpack_from(body)
    return MessageSpan(Stream(producer, header.topic_id, header.queue), sequence, header.count, header.base_offset)


class SimVerdict(Enum):
    DONE = "done"
    NOT_LEADER = "not leader"
    BUSY = "busy"
    GAP = "gap"
    NO_TOPIC = "no topic"
    FORGOTTEN = "forgotten"


_VERDICTS: dict[type[LedgerError], SimVerdict] = {
    DiskFullError: SimVerdict.BUSY,
    NoLeaderError: SimVerdict.BUSY,
    UnknownTopicError: SimVerdict.NO_TOPIC,
    SequenceGapError: SimVerdict.GAP,
    DuplicateForgottenError: SimVerdict.FORGOTTEN,
}


def _verdict_of(refusal: Refuse) -> SimVerdict:
    """Return the verdict that a client receives for this refusal of a batch. A refusal that is not in `_VERDICTS`
    is a bug, because all queues exist."""
    verdict = _VERDICTS.get(refusal.kind)
    assert verdict is not None, f"a refusal that cannot occur in this world: {refusal}"
    return verdict


class SimAnswer(NamedTuple):
    verdict: SimVerdict
    offset: int = 0
    # The node to ask instead; 0 if it is not known.
    leader: int = 0


Reply = Callable[[SimAnswer], None]


class _Proposal:
    """A proposed entry with the callbacks that are called when the entry is committed or fails. Implements
    `raft.interfaces.Proposal`."""

    __slots__ = ("draft", "machine", "record", "replies")

    def __init__(self, machine: SimMachine, draft: EntryDraft, record: BatchRecord | None, reply: Reply) -> None:
        self.machine = machine
        self.draft = draft
        # The batch's record; None for a command.
        self.record = record
        self.replies = [reply]

    def appended(self, header: Header) -> None:
        if self.record is not None:
            self.machine.appended(self.record, header)

    def settled(self, committed: bool) -> None:
        self.machine.settled(self, committed)


class Applied(Protocol):
    def __call__(self, index: int, digest: Callable[[], int]) -> None: ...


class SimMachine:
    """The state machine of one process of a node. The node must set the attribute `driver` before it uses the state
    machine."""

    driver: Driver

    def __init__(
        self,
        on_applied: Applied,
        on_failed: Callable[[StoreError], None],
        on_loss: Callable[[], None],
        on_diverged: Callable[[Divergences], None],
    ) -> None:
        """The callback `on_loss` is called when this node is elected after all voters have accepted a loss, and
        `on_diverged` when the set of nodes from which this node diverges has changed."""
        self.state = State()
        # Messages that can be fetched, by topic and queue.
        self.queues: dict[tuple[int, int], list[MessageSpan]] = {}
        self.repeats = 0
        # Whether the disk has room for new data of clients.
        self.has_room = True
        self._on_applied = on_applied
        self._on_failed = on_failed
        self._on_loss = on_loss
        self._on_diverged = on_diverged
        self._projected: Projected | None = None
        # Batches that are proposed and not committed, by id() of their record. Never iterated: the order could differ.
        self._pending: dict[int, _Proposal] = {}

    # -- called by the driver

    def apply(self, header: Header, body: memoryview) -> None:
        if header.kind is EntryKind.BATCH:
            self._apply_batch(header, span_of(header, body))
        elif header.kind is EntryKind.COMMAND:
            self.state.apply_command(body, header.append_time_ms, index=header.index)
        if self._projected is not None:
            self._projected.settle(header.index)
        self._on_applied(header.index, self.state.digest)

    def role_changed(self, change: RoleChange) -> None:
        if not self.driver.leads:
            self._projected = None
        elif change.accepts_loss:
            self._on_loss()

    def leading(self, term: int) -> None:
        self._projected = Projected(self.state)

    def stopped_applying(self, reason: CannotApplyError) -> NoReturn:
        raise AssertionError(f"all programs in a simulation are equal: {reason}")

    def failed(self, failure: StoreError) -> None:
        self._on_failed(failure)

    def diverged(self, divergences: Divergences) -> None:
        self._on_diverged(divergences)

    def unacknowledged(self, peer: int) -> None:
        """Do nothing: the network of a simulation loses messages."""

    def encoded_state(self) -> NoReturn:
        raise AssertionError(NO_SNAPSHOTS)

    def flaw_of(self, snapshot: Snapshot) -> NoReturn:
        raise AssertionError(NO_SNAPSHOTS)

    def restore(self, snapshot: Snapshot) -> NoReturn:
        raise AssertionError(NO_SNAPSHOTS)

    def log_starts(self, snapshot: Snapshot) -> NoReturn:
        raise AssertionError(NO_SNAPSHOTS)

    # -- called by clients

    def produce(self, batch: SimBatch, reply: Reply) -> None:
        """Append a batch to the log. If the batch is a repetition of an earlier batch, reply with the result of the
        earlier batch. The callback `reply` is called when the result is known, either now or later."""
        obstacle = self._obstacle(batch.size)
        projected = self._projected
        no_room = "" if self.has_room else "the disk is nearly full"
        match ProduceDecisions.decide(batch, self.state, projected, self._pending, obstacle, no_room):
            case AppendBatch():
                assert projected is not None, "only a ready leader appends"
                self._append(projected, batch, reply)
            case RepeatResult() | AwaitFirst() as repeat:
                self._repeated(repeat, reply)
            case Refuse() as refusal:
                reply(SimAnswer(_verdict_of(refusal)))
            case Unavailable(obstacle):
                reply(self._unavailable(obstacle))

    def _append(self, projected: Projected, batch: SimBatch, reply: Reply) -> None:
        record = projected.admit_batch(
            topic_id=batch.topic_id,
            queue=batch.queue,
            producer_id=batch.producer_id,
            epoch=batch.epoch,
            first_sequence=batch.first_sequence,
            count=batch.count,
        )
        self._propose(batch.draft(record.base_offset), record, reply)

    def create_topic(self, name: str, queues: int, reply: Reply) -> None:
        command = command_pb2.Command(create_topic=command_pb2.CreateTopic(name=name, queues=queues))
        body = command.SerializeToString(deterministic=True)
        if (refusal := self._refusal(len(body))) is not None:
            reply(refusal)
            return
        assert self._projected is not None
        try:
            self._projected.admit_topic(name, queues)
        except TopicExistsError:
            done = self.state.topics.named(name) is not None
            reply(SimAnswer(SimVerdict.DONE if done else SimVerdict.BUSY))
            return
        self._propose(EntryDraft(EntryKind.COMMAND, body), None, reply)

    def _refusal(self, size: int) -> SimAnswer | None:
        obstacle = self._obstacle(size)
        if obstacle is not None:
            return self._unavailable(obstacle)
        return None if self._projected is not None else SimAnswer(SimVerdict.BUSY)

    def _obstacle(self, size: int) -> Obstacle | None:
        try:
            self.driver.check_room(size)
        except (Refusal, StoreError) as obstacle:
            return obstacle.with_traceback(None)
        return None

    def _unavailable(self, obstacle: Obstacle) -> SimAnswer:
        return self._not_leading() if isinstance(obstacle, NotLeader | StoreError) else SimAnswer(SimVerdict.BUSY)

    def _propose(self, draft: EntryDraft, record: BatchRecord | None, reply: Reply) -> None:
        proposal = _Proposal(self, draft, record, reply)
        if record is not None:
            self._pending[id(record)] = proposal
        self.driver.propose(proposal)

    def _repeated(self, repeat: RepeatResult | AwaitFirst, reply: Reply) -> None:
        """Reply to a repeated batch with the result of its first attempt, as soon as this attempt is committed."""
        self.repeats += 1
        if isinstance(repeat, AwaitFirst):
            self._pending[id(repeat.record)].replies.append(reply)
        else:
            reply(SimAnswer(SimVerdict.DONE, repeat.record.base_offset))

    def _not_leading(self) -> SimAnswer:
        leader = self.driver.raft.leader
        return SimAnswer(SimVerdict.NOT_LEADER, leader=0 if self.driver.leads else leader)

    # -- called by proposals

    def appended(self, record: BatchRecord, header: Header) -> None:
        assert self._projected is not None, "an entry was appended on a node that does not lead"
        self._projected.appended(record, index=header.index, term=header.term, append_time_ms=header.append_time_ms)

    def settled(self, proposal: _Proposal, committed: bool) -> None:
        record = proposal.record
        if record is not None:
            del self._pending[id(record)]
        answer = self._not_leading()
        if committed:
            answer = SimAnswer(SimVerdict.DONE, record.base_offset if record is not None else 0)
        for reply in proposal.replies:
            reply(answer)

    def _apply_batch(self, header: Header, span: MessageSpan) -> None:
        stream = span.stream
        self.queues.setdefault((stream.topic, stream.queue), []).append(span)
        self.state.apply_batch(
            CommittedBatch(
                topic_id=stream.topic,
                queue=stream.queue,
                base_offset=span.offset,
                count=span.messages,
                append_time_ms=header.append_time_ms,
                index=header.index,
                term=header.term,
                producer_id=stream.producer,
                epoch=0,
                first_sequence=span.sequence,
            )
        )
