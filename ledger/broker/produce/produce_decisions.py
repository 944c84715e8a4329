"""The leader's decision about a batch that a producer sent: append it, repeat an earlier result, or refuse it.

Both the broker (`BrokerReplica.produce`) and the simulator act on these decisions. Everything a decision depends on is
an argument, and a decision changes nothing. The first rule that matches decides:

    the bytes are damaged, unknown or over a limit           Refuse (`ProduceDecisions.read`)
    the topic is internal to the broker                      Refuse(InvalidTopicNameError)
    the driver reports an obstacle                           Unavailable
    the leader has not applied its no-op yet                 Refuse(NoLeaderError)
    the disk is nearly full                                  Refuse(DiskFullError)
    the topic or queue does not exist, or is being deleted   Refuse(UnknownTopicError, UnknownQueueError)
    the producer's sequence has a gap                        Refuse(SequenceGapError)
    a newer epoch of the producer exists                     Refuse(ProducerFencedError)
    the batch repeats a batch that is no longer remembered   Refuse(DuplicateForgottenError)
    the batch repeats a batch that is not committed yet      AwaitFirst
    the batch repeats a committed batch                      RepeatResult
    otherwise                                                AppendBatch
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Protocol

from ledger.batch import BatchHeader, check
from ledger.errors import DiskFullError, InvalidTopicNameError, LedgerError, NoLeaderError
from ledger.state import Accept, BatchRecord, Duplicate, Projected, State
from ledger.topics import is_system_topic
from raft.core import Refusal
from store import StoreError

# What a driver raises if it cannot take a proposal.
Obstacle = Refusal | StoreError


@dataclass(frozen=True, slots=True)
class AppendBatch:
    """The batch continues its producer's sequence: append it."""


@dataclass(frozen=True, slots=True)
class RepeatResult:
    """The batch was committed before: answer with the result of that batch, which starts at `record.base_offset`."""

    record: BatchRecord


@dataclass(frozen=True, slots=True)
class AwaitFirst:
    """The same batch was sent before and is not committed yet: answer when that batch is committed."""

    record: BatchRecord


@dataclass(frozen=True, slots=True)
class Refuse:
    """The batch is not appended, and the producer gets this error.

    These are the parts of the error and not the error itself: a frame that holds the error it raises is a cycle, which
    would keep the bytes of the batch until the next garbage collection.
    """

    kind: type[LedgerError]
    message: str
    next_sequence: int | None = None

    @classmethod
    def of(cls, error: LedgerError) -> Refuse:
        """The refusal that gives the producer such an error."""
        return cls(type(error), error.message, error.next_sequence)

    def error(self) -> LedgerError:
        """A new error to raise."""
        return self.kind(self.message, next_sequence=self.next_sequence)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """This replica cannot propose at the moment: the driver's refusal, or the failure of its disk."""

    obstacle: Obstacle


Decision = AppendBatch | RepeatResult | AwaitFirst | Refuse | Unavailable

_APPEND = AppendBatch()


class ProducedBatch(Protocol):
    """The fields of a batch that a decision reads: a `BatchHeader` has them."""

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
    """The rules, as functions of the facts that they are given."""

    @staticmethod
    def read(batch: bytes, max_message_bytes: int) -> BatchHeader | Refuse:
        """The header of a batch, or a refusal if the bytes are damaged, of an unknown format, or over a limit. This
        rule comes before all others. A message may have `max_message_bytes`."""
        try:
            return check(batch, max_message_bytes)
        except LedgerError as error:
            return Refuse.of(error)

    @staticmethod
    def decide(
        batch: ProducedBatch,
        state: State,
        projected: Projected | None,
        pending: Container[int],
        obstacle: Obstacle | None,
        no_room: str = "",
    ) -> Decision:
        """Decide what happens to a batch whose bytes are intact.

        `state` is the applied state. `projected` is the state with the leader's uncommitted entries, None before the
        leader has applied its no-op. `pending` holds the `id` of every BatchRecord whose batch waits for its commit.
        `obstacle` is the driver's answer to a proposal of this size. `no_room` says why a nearly full disk takes no
        batch; it is empty if the disk has room.
        """
        topic = state.topics.get(batch.topic_id)
        if topic is not None and is_system_topic(topic.name):
            return Refuse(InvalidTopicNameError, f"topic {topic.name!r} is internal: only the broker writes to it")
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
    """The error of a leader that does not know yet what earlier leaders committed."""
    return NoLeaderError("this node has just been elected and is not ready yet: try again shortly")
