"""The errors that a client or a broker can raise: each has a type, a stable code and a sentence.

On the wire an error is a code, a sentence and a few facts (``ledger.v1.Error``). In Python it is an exception that a
caller can catch. `to_wire` and `from_wire` convert between the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ledger.v1 import error_pb2


class LedgerError(Exception):
    """Base class of all errors of this product.

    `code` is the name of the code on the wire; it is empty for errors that only clients raise. `retriable` says that
    the same request may succeed later or on another node. An attribute that does not apply is None.
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
    """The name is not a valid topic name."""

    code = "INVALID_TOPIC_NAME"


class UnknownTopicError(LedgerError):
    """No topic has this name or id."""

    code = "UNKNOWN_TOPIC"


class UnknownQueueError(LedgerError):
    """The topic exists, but it has no queue with this number."""

    code = "UNKNOWN_QUEUE"


class TopicExistsError(LedgerError):
    """A topic with this name exists already."""

    code = "TOPIC_EXISTS"


class MessageTooLargeError(LedgerError):
    """A message is larger than the cluster's limit."""

    code = "MESSAGE_TOO_LARGE"


class TooManyHeadersError(LedgerError):
    """A message has more headers than the limit allows."""

    code = "TOO_MANY_HEADERS"


class HeadersTooLargeError(LedgerError):
    """The names and values of a message's headers take more bytes than the limit allows."""

    code = "HEADERS_TOO_LARGE"


class CorruptBatchError(LedgerError):
    """The bytes of a batch contradict each other or the batch's CRC."""

    code = "CORRUPT_BATCH"


class UnsupportedBatchError(LedgerError):
    """The batch has a version, codec or column that this program does not know. A newer program can read it."""

    code = "UNSUPPORTED_BATCH"


class OffsetOutOfRangeError(LedgerError):
    """The offset lies outside of [first_offset, end_offset]. The error carries both limits."""


class OffsetTooLowError(OffsetOutOfRangeError):
    """The offset lies before the first message that is still kept."""

    code = "OFFSET_TOO_LOW"


class OffsetBeyondEndError(OffsetOutOfRangeError):
    """The offset lies after the end of the queue."""

    code = "OFFSET_BEYOND_END"


def out_of_range(sentence: str, offset: int, first: int, end: int) -> OffsetOutOfRangeError:
    """Return the error for an offset before `first` or after `end`: the sentence, followed by the valid offsets."""
    kind = OffsetTooLowError if offset < first else OffsetBeyondEndError
    return kind(f"{sentence}: valid are {first} to {end}", first_offset=first, end_offset=end)


class ProducerFencedError(LedgerError):
    """A producer with the same id and a newer epoch has written to this queue. The older producer cannot write any
    more.
    """

    code = "PRODUCER_FENCED"


class DuplicateForgottenError(LedgerError):
    """The batch repeats an old committed batch whose offsets the broker no longer remembers.

    The error carries `next_sequence`, the next number of this producer in this queue.
    """

    code = "DUPLICATE_FORGOTTEN"


class InvalidGroupNameError(LedgerError, ValueError):
    """The name is not a valid consumer group name."""

    code = "INVALID_GROUP_NAME"


class UnknownMemberError(LedgerError):
    """The consumer group does not know this member, for example because the member was silent for longer than its
    session timeout. The member may join again.
    """

    code = "UNKNOWN_MEMBER"


class ConsumerFencedError(LedgerError):
    """The queue was given to another member, or its offset was reset. The acknowledgement of the earlier owner is
    rejected.
    """

    code = "CONSUMER_FENCED"


class GroupConflictError(LedgerError):
    """The other members of the consumer group use a different assignment strategy."""

    code = "GROUP_CONFLICT"


class GroupFullError(LedgerError):
    """The limit on consumer groups, members or subscriptions is reached."""

    code = "GROUP_FULL"


# --- Try again, perhaps elsewhere, perhaps later. --------------------------------------------------------------------


class NotLeaderError(LedgerError):
    """The node that was asked is not the leader. `leader` and `leader_address` name the leader if the node knows it."""

    code = "NOT_LEADER"
    retriable = True


class NoLeaderError(LedgerError):
    """The shard has no leader at this moment."""

    code = "NO_LEADER"
    retriable = True


class BusyError(LedgerError):
    """The node has reached its limit of unfinished work and refused the request."""

    code = "BUSY"
    retriable = True


class ThrottledError(LedgerError):
    """This client has used up its quota on the node. Nothing was done; the client should wait `throttle_ms`
    milliseconds.
    """

    code = "THROTTLED"
    retriable = True


class SequenceGapError(LedgerError):
    """Earlier batches of this producer for this queue have not arrived. Send them again, in order."""

    code = "SEQUENCE_GAP"
    retriable = True


class ReplicaBehindError(LedgerError):
    """The node that was asked has not yet applied the entries that the request needs."""

    code = "REPLICA_BEHIND"
    retriable = True


class RequestTimeoutError(LedgerError, TimeoutError):
    """The request was not answered in time. It may still take effect."""

    code = "TIMED_OUT"
    retriable = True


class UnavailableError(LedgerError):
    """The node cannot be reached, or it is starting or stopping."""

    code = "UNAVAILABLE"
    retriable = True


class ChangeInProgressError(LedgerError):
    """An earlier change of the members, or the first entry of the leader's term, is not committed yet."""

    code = "CHANGE_IN_PROGRESS"
    retriable = True


# --- The node is in trouble. -----------------------------------------------------------------------------------------


class StorageFailedError(LedgerError):
    """The disk of the node failed. The node gives up leadership, so the request may succeed with the next leader."""

    code = "STORAGE_FAILED"
    retriable = True


class DiskFullError(LedgerError):
    """The disk of the node is full. The node gives up leadership, so the request may succeed with the next leader."""

    code = "DISK_FULL"
    retriable = True


class InternalError(LedgerError):
    """The node met an internal fault. The log of the node has the details."""

    code = "INTERNAL"


# --- What an operator asked for cannot be done as things are. --------------------------------------------------------


class OperationError(LedgerError):
    """Base class of errors of an operator's request. The sentence says what prevents the operation, and what to do
    first.
    """


class UnknownNodeError(OperationError):
    """The shard has no member with this node number."""

    code = "UNKNOWN_NODE"


class NodeExistsError(OperationError):
    """A different member has this node number or this address already."""

    code = "NODE_EXISTS"


class NodeRefusedError(OperationError):
    """The node to be added does not answer, has data already, or is configured for a different cluster."""

    code = "NODE_REFUSED"


class NodeBehindError(OperationError):
    """The learner lacks too many entries of the log to become a voter."""

    code = "NODE_BEHIND"


class LastVoterError(OperationError):
    """The last voter of a shard cannot be removed."""

    code = "LAST_VOTER"


class TransferRefusedError(OperationError):
    """The named node cannot lead now. The present leader continues."""

    code = "TRANSFER_REFUSED"


class NotSuspectError(OperationError):
    """The node is not suspect, so there is no loss to accept."""

    code = "NOT_SUSPECT"


class RecoveryRefusedError(OperationError):
    """The entries that this node lost are being restored from other nodes, so the loss need not be accepted."""

    code = "RECOVERY_REFUSED"


class LogHeldError(OperationError):
    """A hold keeps the log, so nothing can be removed from it now."""

    code = "LOG_HELD"


class GroupNotEmptyError(OperationError):
    """The consumer group still has members."""

    code = "GROUP_NOT_EMPTY"


class UnknownGroupError(OperationError):
    """No consumer group of this name has members or has consumed a queue."""

    code = "UNKNOWN_GROUP"


# --- Met by clients only: these have no code on the wire. ------------------------------------------------------------


class DeliveryTimeoutError(LedgerError, TimeoutError):
    """The message was not acknowledged within the delivery timeout or within the allowed attempts.

    If `maybe_committed` is true, the result is unknown: the message may be in the queue now or appear later. If it is
    false, the message is surely not in the queue.
    """

    def __init__(self, message: str = "", *, maybe_committed: bool) -> None:
        super().__init__(message)
        self.maybe_committed = maybe_committed


class TransferFailedError(OperationError):
    """The chosen node did not take over leadership in time."""


class OperationTimeoutError(OperationError, TimeoutError):
    """The operation was not complete in time. It continues in the cluster."""


class BufferFullError(LedgerError):
    """The producer's buffer is full. Wait until messages are acknowledged, then send again."""

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
    """Return the wire form of an error. An error without a code of its own becomes INTERNAL."""
    wire = error_pb2.Error(code=_number(error.code), message=error.message)
    for fact in _FACTS:
        value = getattr(error, fact)
        if value is not None:
            setattr(wire, fact, value)
    return wire


def from_wire(wire: error_pb2.Error) -> LedgerError:
    """Return the exception for an error that a broker sent.

    A code that this program does not know becomes a plain `LedgerError`. It keeps the number as `code`, the sentence,
    and `retriable` as the range of the code says.
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
    """Return the sentence to show to a user. For an error of the operating system it names the file and the reason."""
    if isinstance(error, LedgerError):
        return str(error)
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"


def _number(code: str) -> error_pb2.Code:
    if code.isdecimal():  # it came over the wire from a newer program
        return cast("error_pb2.Code", int(code))
    return cast("error_pb2.Code", error_pb2.Code.Value(code or "INTERNAL"))
