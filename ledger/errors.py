"""Every error that a client or a broker of the ledger can meet, each with a type, a stable code and a sentence.

The one idea: an error on the wire is a number, a sentence and a few facts (``ledger.v1.Error``); in Python it is a type
that a caller can catch. `to_wire` and `from_wire` are the only places where one becomes the other.

It must not know who raises what: no broker, no client, no store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ledger.v1 import error_pb2


class LedgerError(Exception):
    """Base of all errors here.

    `code` is the name of the wire code, empty for errors that only a client meets; `retriable` says that the same
    request may succeed later or elsewhere. The attributes are None where they do not apply.
    """

    code: str = ""
    retriable: bool = False
    # Of a `send_many` that failed in part: the `RecordRange`s that were acknowledged all the same, in order.
    acknowledged: Sequence[Any] = ()

    def __init__(
        self,
        message: str = "",
        *,
        leader: int | None = None,
        leader_address: str | None = None,
        first_offset: int | None = None,
        end_offset: int | None = None,
        throttle_ms: int | None = None,
        next_sequence: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.leader = leader
        self.leader_address = leader_address
        self.first_offset = first_offset
        self.end_offset = end_offset
        self.throttle_ms = throttle_ms
        self.next_sequence = next_sequence


# --- The request is wrong: the same request will be refused again. ---------------------------------------------------


class InvalidArgumentError(LedgerError, ValueError):
    """A field of the request has a value that no broker accepts."""

    code = "INVALID_ARGUMENT"


class InvalidTopicNameError(LedgerError, ValueError):
    """The name cannot be a topic's."""

    code = "INVALID_TOPIC_NAME"


class UnknownTopicError(LedgerError):
    """No topic has this name or id."""

    code = "UNKNOWN_TOPIC"


class UnknownQueueError(LedgerError):
    """The topic exists, but has no queue of this number."""

    code = "UNKNOWN_QUEUE"


class TopicExistsError(LedgerError):
    """A topic of this name is there already."""

    code = "TOPIC_EXISTS"


class MessageTooLargeError(LedgerError):
    """A message is larger than the cluster's limit."""

    code = "MESSAGE_TOO_LARGE"


class TooManyHeadersError(LedgerError):
    """A message has more headers than any may have."""

    code = "TOO_MANY_HEADERS"


class HeadersTooLargeError(LedgerError):
    """Names and values of a message's headers take more bytes than they may."""

    code = "HEADERS_TOO_LARGE"


class CorruptBatchError(LedgerError):
    """The bytes of a batch contradict themselves or their CRC."""

    code = "CORRUPT_BATCH"


class UnsupportedBatchError(LedgerError):
    """The batch has a version, codec or column that this program does not know."""

    code = "UNSUPPORTED_BATCH"


class OffsetOutOfRangeError(LedgerError):
    """The offset lies outside [first_offset, end_offset], which the error carries."""


class OffsetTooLowError(OffsetOutOfRangeError):
    """The offset lies before the first message that is still kept."""

    code = "OFFSET_TOO_LOW"


class OffsetBeyondEndError(OffsetOutOfRangeError):
    """The offset lies behind the end of the queue."""

    code = "OFFSET_BEYOND_END"


def out_of_range(sentence: str, offset: int, first: int, end: int) -> OffsetOutOfRangeError:
    """Why that offset, which lies before `first` or behind `end`, cannot be had: the sentence, and what is valid."""
    kind = OffsetTooLowError if offset < first else OffsetBeyondEndError
    return kind(f"{sentence}: valid are {first} to {end}", first_offset=first, end_offset=end)


class ProducerFencedError(LedgerError):
    """Another producer with the same id and a newer epoch has written to this queue."""

    code = "PRODUCER_FENCED"


class DuplicateForgottenError(LedgerError):
    """The batch repeats one that was committed so long ago that its offsets are no longer remembered. The error carries
    the `next_sequence` of its producer in its queue."""

    code = "DUPLICATE_FORGOTTEN"


class InvalidGroupNameError(LedgerError, ValueError):
    """The name cannot be a consumer group's."""

    code = "INVALID_GROUP_NAME"


class UnknownMemberError(LedgerError):
    """The consumer group has no such member (any more): nothing was heard of it for too long. It may join again."""

    code = "UNKNOWN_MEMBER"


class ConsumerFencedError(LedgerError):
    """The queue has been given to another member, or its offset was set anew: what this one did with it meanwhile does
    not count."""

    code = "CONSUMER_FENCED"


class GroupConflictError(LedgerError):
    """The other members of the consumer group assign queues by another strategy."""

    code = "GROUP_CONFLICT"


class GroupFullError(LedgerError):
    """There are as many consumer groups, members or subscriptions as there may be."""

    code = "GROUP_FULL"


# --- Try again, perhaps elsewhere, perhaps later. --------------------------------------------------------------------


class NotLeaderError(LedgerError):
    """The node asked is not the leader; `leader` and `leader_address` say who is, where known."""

    code = "NOT_LEADER"
    retriable = True


class NoLeaderError(LedgerError):
    """The shard has no leader at this moment."""

    code = "NO_LEADER"
    retriable = True


class BusyError(LedgerError):
    """The node has as much unfinished work as it takes on."""

    code = "BUSY"
    retriable = True


class ThrottledError(LedgerError):
    """This client has had its share of the node: it is to wait for `throttle_ms`. Nothing was done."""

    code = "THROTTLED"
    retriable = True


class SequenceGapError(LedgerError):
    """Earlier batches of this producer and queue have not arrived: send them again, in order."""

    code = "SEQUENCE_GAP"
    retriable = True


class ReplicaBehindError(LedgerError):
    """The node asked has not applied as much yet as the request needs."""

    code = "REPLICA_BEHIND"
    retriable = True


class RequestTimeoutError(LedgerError, TimeoutError):
    """The request was not answered in time. What it asked for may still happen."""

    code = "TIMED_OUT"
    retriable = True


class UnavailableError(LedgerError):
    """The node cannot be reached, or is starting or stopping."""

    code = "UNAVAILABLE"
    retriable = True


class ChangeInProgressError(LedgerError):
    """An earlier change of the members, or the leader's first entry, is not committed yet."""

    code = "CHANGE_IN_PROGRESS"
    retriable = True


# --- The node is in trouble. -----------------------------------------------------------------------------------------


class StorageFailedError(LedgerError):
    """The node's disk failed. It steps down, so the request may succeed with the next leader."""

    code = "STORAGE_FAILED"
    retriable = True


class DiskFullError(LedgerError):
    """The node's disk is full. It steps down, so the request may succeed with the next leader."""

    code = "DISK_FULL"
    retriable = True


class InternalError(LedgerError):
    """The node met a fault of its own; its log says more."""

    code = "INTERNAL"


# --- What an operator asked for cannot be done as things are. --------------------------------------------------------


class OperationError(LedgerError):
    """Base: the sentence says what stands in the way, and what to do first."""


class UnknownNodeError(OperationError):
    """No member of the shard has this number."""

    code = "UNKNOWN_NODE"


class NodeExistsError(OperationError):
    """The number, or the address, is that of another member."""

    code = "NODE_EXISTS"


class NodeRefusedError(OperationError):
    """The node to be added does not answer, is not empty, or is set up for something else."""

    code = "NODE_REFUSED"


class NodeBehindError(OperationError):
    """A learner lacks too much of the log to vote."""

    code = "NODE_BEHIND"


class LastVoterError(OperationError):
    """A shard needs a voter."""

    code = "LAST_VOTER"


class TransferRefusedError(OperationError):
    """That node cannot lead now; the leader goes on."""

    code = "TRANSFER_REFUSED"


class NotSuspectError(OperationError):
    """There is nothing to recover from: this node has not lost anything that is known of."""

    code = "NOT_SUSPECT"


class RecoveryRefusedError(OperationError):
    """What this node lost need not be given up: it is being given back."""

    code = "RECOVERY_REFUSED"


class LogHeldError(OperationError):
    """Nothing of the log may go now: somebody holds it."""

    code = "LOG_HELD"


class GroupNotEmptyError(OperationError):
    """The consumer group has members."""

    code = "GROUP_NOT_EMPTY"


class UnknownGroupError(OperationError):
    """No consumer group of this name has members, or has ever begun with a queue."""

    code = "UNKNOWN_GROUP"


# --- Met by clients only: these have no code on the wire. ------------------------------------------------------------


class DeliveryTimeoutError(LedgerError, TimeoutError):
    """The message was not acknowledged in time, or by as many attempts as there may be.

    With `maybe_committed` its fate is unknown: it may be in the queue, now or later. Without, it was never sent.
    """

    def __init__(self, message: str = "", *, maybe_committed: bool) -> None:
        super().__init__(message)
        self.maybe_committed = maybe_committed


class TransferFailedError(OperationError):
    """Leadership was to be handed over, and the node did not take it in time."""


class OperationTimeoutError(OperationError, TimeoutError):
    """What was asked for is under way, but not complete in time; it goes on."""


class BufferFullError(LedgerError):
    """The producer's buffer holds as much as it may; wait for messages to be acknowledged."""

    retriable = True


class ClosedError(LedgerError):
    """The client has been closed."""


# As error.proto shards them: a newer broker's code of this range means "try again".
_RETRIABLE_CODES = range(200, 300)
_FACTS: tuple[str, ...] = ("leader", "leader_address", "first_offset", "end_offset", "throttle_ms", "next_sequence")
_TYPES: tuple[type[LedgerError], ...] = (
    InvalidArgumentError,
    InvalidTopicNameError,
    UnknownTopicError,
    UnknownQueueError,
    TopicExistsError,
    MessageTooLargeError,
    TooManyHeadersError,
    HeadersTooLargeError,
    CorruptBatchError,
    UnsupportedBatchError,
    OffsetTooLowError,
    OffsetBeyondEndError,
    ProducerFencedError,
    DuplicateForgottenError,
    InvalidGroupNameError,
    UnknownMemberError,
    ConsumerFencedError,
    GroupConflictError,
    GroupFullError,
    NotLeaderError,
    NoLeaderError,
    BusyError,
    ThrottledError,
    SequenceGapError,
    ReplicaBehindError,
    RequestTimeoutError,
    UnavailableError,
    StorageFailedError,
    DiskFullError,
    InternalError,
    ChangeInProgressError,
    UnknownNodeError,
    NodeExistsError,
    NodeRefusedError,
    NodeBehindError,
    LastVoterError,
    TransferRefusedError,
    NotSuspectError,
    RecoveryRefusedError,
    LogHeldError,
    GroupNotEmptyError,
    UnknownGroupError,
)
_TYPE_OF_CODE: dict[int, type[LedgerError]] = {error_pb2.Code.Value(kind.code): kind for kind in _TYPES}


def to_wire(error: LedgerError) -> error_pb2.Error:
    """The wire form of an error that a broker answers with. An error without a code of its own is INTERNAL."""
    wire = error_pb2.Error(code=_number(error.code), message=error.message)
    for fact in _FACTS:
        value = getattr(error, fact)
        if value is not None:
            setattr(wire, fact, value)
    return wire


def from_wire(wire: error_pb2.Error) -> LedgerError:
    """The exception for a broker's answer.

    A code that this program does not know keeps its number as `code`, its sentence, and what its range says about
    trying again.
    """
    kind = _TYPE_OF_CODE.get(wire.code, LedgerError)
    ranged = issubclass(kind, OffsetOutOfRangeError)
    error = kind(
        wire.message,
        leader=wire.leader or None,
        leader_address=wire.leader_address or None,
        first_offset=wire.first_offset if ranged else None,
        end_offset=wire.end_offset if ranged else None,
        throttle_ms=wire.throttle_ms or None,
        next_sequence=wire.next_sequence or None,
    )
    if kind is LedgerError:
        error.code = str(wire.code)
        error.retriable = wire.code in _RETRIABLE_CODES
    return error


def told_of(error: LedgerError | OSError) -> str:
    """The sentence for a person: of an error of the operating system, the file and what is wrong with it."""
    if isinstance(error, LedgerError):
        return str(error)
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"


def _number(code: str) -> error_pb2.Code:
    if code.isdecimal():  # it came over the wire from a newer program
        return cast("error_pb2.Code", int(code))
    return cast("error_pb2.Code", error_pb2.Code.Value(code or "INTERNAL"))
