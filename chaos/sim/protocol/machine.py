"""The replicated state of a node in the protocol world, and what a broker does with it: the real `ledger.state`.

As `ledger.broker.broker_replica` does it, without bodies, futures or streams. `ProduceDecisions` decides about each
batch, here and in the broker; this module acts on the decision. It implements `raft.interfaces.Machine`.

Must not know: how anything gets here, or who asks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, NoReturn, Protocol

from chaos.sim.protocol.log import NO_SNAPSHOTS
from chaos.sim.stack.deliveries import Span, Stream
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
    DuplicateForgottenError,
    LedgerError,
    NoLeaderError,
    SequenceGapError,
    TopicExistsError,
    UnknownTopicError,
)
from ledger.state import BatchRecord, Projected, State
from ledger.v1 import command_pb2
from raft.core import NotLeader, Refusal, RoleChange
from raft.driver import Driver
from store import EntryDraft, EntryKind, Header, Snapshot, StoreError

_BODY = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True)
class Batch:
    """So many messages of a stream, from `sequence` on. Implements
    `ledger.broker.produce.produce_decisions.ProducedBatch`."""

    stream: Stream
    sequence: int
    messages: int
    size: int
    """Of the body, in bytes."""

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
        return 0  # producers of this world have one epoch only

    @property
    def first_sequence(self) -> int:
        return self.sequence

    @property
    def count(self) -> int:
        return self.messages

    def draft(self, offset: int) -> EntryDraft:
        stream = self.stream
        body = _BODY.pack(stream.producer, self.sequence).ljust(self.size, b"\0")
        return EntryDraft(EntryKind.BATCH, body, stream.topic, stream.queue, offset, self.messages)


def span_of(header: Header, body: bytes | memoryview) -> Span:
    """What a batch's entry says."""
    producer, sequence = _BODY.unpack_from(body)
    return Span(Stream(producer, header.topic_id, header.queue), sequence, header.count, header.base_offset)


class Verdict(Enum):
    DONE = "done"
    NOT_LEADER = "not leader"
    BUSY = "busy"
    GAP = "gap"
    NO_TOPIC = "no topic"
    FORGOTTEN = "forgotten"


_VERDICTS: dict[type[LedgerError], Verdict] = {
    NoLeaderError: Verdict.BUSY,
    UnknownTopicError: Verdict.NO_TOPIC,
    SequenceGapError: Verdict.GAP,
    DuplicateForgottenError: Verdict.FORGOTTEN,
}


def _verdict_of(refusal: Refuse) -> Verdict:
    """Every other refusal would be a bug: there is one epoch, all queues exist, and no disk is nearly full."""
    verdict = _VERDICTS.get(refusal.kind)
    assert verdict is not None, f"this world knows no such refusal: {refusal}"
    return verdict


class Answer(NamedTuple):
    verdict: Verdict
    offset: int = 0
    leader: int = 0
    """Where to ask instead; 0 when nobody knows."""


Reply = Callable[[Answer], None]


class _Proposal:
    """Implements `raft.interfaces.Proposal`."""

    __slots__ = ("draft", "machine", "record", "replies")

    def __init__(self, machine: SimMachine, draft: EntryDraft, record: BatchRecord | None, reply: Reply) -> None:
        self.machine = machine
        self.draft = draft
        self.record = record
        """None for a command."""
        self.replies = [reply]

    def appended(self, header: Header) -> None:
        if self.record is not None:
            self.machine.appended(self.record, header)

    def settled(self, committed: bool) -> None:
        self.machine.settled(self, committed)


class Applied(Protocol):
    def __call__(self, index: int, digest: Callable[[], int]) -> None: ...


class SimMachine:
    """Of one process. Set `driver` before anything else."""

    driver: Driver

    def __init__(
        self, on_applied: Applied, on_failed: Callable[[StoreError], None], on_loss: Callable[[], None]
    ) -> None:
        """`on_loss` is called when this node is elected over a loss that all voters accept."""
        self.state = State()
        self.queues: dict[tuple[int, int], list[Span]] = {}
        """What can be fetched."""
        self.repeats = 0
        self._on_applied = on_applied
        self._on_failed = on_failed
        self._on_loss = on_loss
        self._projected: Projected | None = None
        self._pending: dict[int, _Proposal] = {}
        """By id of their BatchRecord: looked up, never walked through."""

    # -- as the driver sees it

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

    def failed(self, failure: StoreError) -> None:
        self._on_failed(failure)

    def encoded_state(self) -> NoReturn:
        raise AssertionError(NO_SNAPSHOTS)

    def restore(self, snapshot: Snapshot) -> NoReturn:
        raise AssertionError(NO_SNAPSHOTS)

    def log_starts(self, snapshot: Snapshot) -> NoReturn:
        raise AssertionError(NO_SNAPSHOTS)

    # -- as clients see it

    def produce(self, batch: Batch, reply: Reply) -> None:
        """Appends a batch, or finds it appended; replies once it is known which, now or later."""
        obstacle = self._obstacle(batch.size)
        projected = self._projected
        match ProduceDecisions.decide(batch, self.state, projected, self._pending, obstacle):
            case AppendBatch():
                assert projected is not None, "only a leader that is ready appends"
                self._append(projected, batch, reply)
            case RepeatResult() | AwaitFirst() as repeat:
                self._repeated(repeat, reply)
            case Refuse() as refusal:
                reply(Answer(_verdict_of(refusal)))
            case Unavailable(obstacle):
                reply(self._unavailable(obstacle))

    def _append(self, projected: Projected, batch: Batch, reply: Reply) -> None:
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
            reply(Answer(Verdict.DONE if done else Verdict.BUSY))
            return
        self._propose(EntryDraft(EntryKind.COMMAND, body), None, reply)

    def _refusal(self, size: int) -> Answer | None:
        obstacle = self._obstacle(size)
        if obstacle is not None:
            return self._unavailable(obstacle)
        return None if self._projected is not None else Answer(Verdict.BUSY)

    def _obstacle(self, size: int) -> Obstacle | None:
        try:
            self.driver.check_room(size)
        except (Refusal, StoreError) as obstacle:
            return obstacle.with_traceback(None)
        return None

    def _unavailable(self, obstacle: Obstacle) -> Answer:
        return self._not_leading() if isinstance(obstacle, NotLeader | StoreError) else Answer(Verdict.BUSY)

    def _propose(self, draft: EntryDraft, record: BatchRecord | None, reply: Reply) -> None:
        proposal = _Proposal(self, draft, record, reply)
        if record is not None:
            self._pending[id(record)] = proposal
        self.driver.propose(proposal)

    def _repeated(self, repeat: RepeatResult | AwaitFirst, reply: Reply) -> None:
        """Replies with the first result, once that is committed."""
        self.repeats += 1
        if isinstance(repeat, AwaitFirst):
            self._pending[id(repeat.record)].replies.append(reply)
        else:
            reply(Answer(Verdict.DONE, repeat.record.base_offset))

    def _not_leading(self) -> Answer:
        leader = self.driver.raft.leader
        return Answer(Verdict.NOT_LEADER, leader=0 if self.driver.leads else leader)

    # -- as proposals see it

    def appended(self, record: BatchRecord, header: Header) -> None:
        assert self._projected is not None, "an entry was appended while nothing is led here"
        self._projected.appended(record, index=header.index, term=header.term, append_time_ms=header.append_time_ms)

    def settled(self, proposal: _Proposal, committed: bool) -> None:
        record = proposal.record
        if record is not None:
            del self._pending[id(record)]
        answer = self._not_leading()
        if committed:
            answer = Answer(Verdict.DONE, record.base_offset if record is not None else 0)
        for reply in proposal.replies:
            reply(answer)

    def _apply_batch(self, header: Header, span: Span) -> None:
        stream = span.stream
        self.queues.setdefault((stream.topic, stream.queue), []).append(span)
        self.state.apply_batch(
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
