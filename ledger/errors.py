"""The errors that a client or a broker can raise. Each error has a type, a stable code and a message for people.

On the wire, an error consists of a code, a message and a few facts (``ledger.v1.Error``). In Python an error is an
exception that a caller can catch. `to_wire` converts an exception to the message that is sent, and `from_wire`
converts it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from ledger.v1 import error_pb2


class RepeatedMessage(NamedTuple):
    """A message of a batch that was sent before with the same message id. `place` is its place in the batch, from 0.
    The first message has `offset` in `queue` of the topic to which the batch was sent, and was appended at
    `append_time_ms`, in ms since 1970."""

    place: int
    queue: int
    offset: int
    append_time_ms: int


class LedgerError(Exception):
    """Base class of all errors of this product.

        code            the name of the code on the wire; empty for errors that only clients raise
        retriable       True: the same request may succeed later or on another node. The clients repeat such a request
                        until its timeout; a program that receives the error may try again later
        message         the message for people
        leader, leader_address
                        the number and address of the shard's leader
        first_offset, end_offset
                        the valid offsets of the queue: from `first_offset` to `end_offset`
        throttle_ms     how long the client should wait, in milliseconds
        next_sequence   the next sequence number of this producer in this queue
        acknowledged    if a `send_many` failed in part: the `RecordRange`s of the messages that were acknowledged,
                        in order
        repeats         the `RepeatedMessage`s of a batch that were sent before with the same message ids
        places          the places in their batch, from 0, of the messages because of which a broker refused the batch;
                        empty if the error concerns the whole batch
        not_appended    True: the broker refused a batch before it appended it, so this attempt left nothing in a log.
                        False: not told

    The attributes from `leader` to `next_sequence` are None if they do not apply to the error.
    """

    code: str = ""
    retriable: bool = False
    acknowledged: Sequence[Any] = ()
    repeats: Sequence[Any] = ()
    places: Sequence[int] = ()
    not_appended: bool = False

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
        repeats: Sequence[Any] = (),
        places: Sequence[int] = (),
        not_appended: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.leader = leader
        self.leader_address = leader_address
        self.first_offset = first_offset
        self.end_offset = end_offset
        self.throttle_ms = throttle_ms
        self.next_sequence = next_sequence
        if repeats:
            self.repeats = repeats
        if places:
            self.places = places
        if not_appended:
            self.not_appended = True


# --- The request is wrong: the same request will be refused again. ---------------------------------------------------


class InvalidArgumentError(LedgerError, ValueError):
    """An argument or a field of a request has a value that is not allowed. Correct the value that the message names."""

    code = "INVALID_ARGUMENT"


class InvalidTopicNameError(LedgerError, ValueError):
    """The name is not a valid topic name, or is reserved for the broker. Choose another name."""

    code = "INVALID_TOPIC_NAME"


class UnknownTopicError(LedgerError):
    """No topic has this name or id. The topic was never created, or it was deleted."""

    code = "UNKNOWN_TOPIC"


class UnknownQueueError(LedgerError):
    """The topic exists, but it has no queue with this number."""

    code = "UNKNOWN_QUEUE"


class TopicExistsError(LedgerError):
    """A topic with this name exists already. Use the existing topic, or choose another name."""

    code = "TOPIC_EXISTS"


class MessageTooLargeError(LedgerError):
    """A message is larger than the cluster's limit (`max_message_bytes`). Send smaller messages or raise the limit."""

    code = "MESSAGE_TOO_LARGE"


class TooManyHeadersError(LedgerError):
    """A message has more than 128 headers. Combine headers, or put the data into the message's value."""

    code = "TOO_MANY_HEADERS"


class HeadersTooLargeError(LedgerError):
    """The names and values of a message's headers take more than 16 KiB. Put large data into the message's value."""

    code = "HEADERS_TOO_LARGE"


class TransactionEndedError(LedgerError):
    """The transaction has ended before, and not as it was asked for now. The message says how it ended."""

    code = "TRANSACTION_ENDED"


class UnknownTransactionError(LedgerError):
    """There is no transaction with this id. The id is of another cluster, or was changed."""

    code = "UNKNOWN_TRANSACTION"


class RepeatedMessagesError(LedgerError):
    """Messages of the batch were sent before, with the same message ids. The attribute `repeats` has these messages.
    Nothing of the batch was appended. Producers take the result of the first message, and send the others again."""

    code = "REPEATED_MESSAGES"


class CorruptBatchError(LedgerError):
    """The bytes of a batch do not match the batch's CRC, or contradict each other. A consumer can read the batch from
    another node, or seek to the offset after the batch.
    """

    code = "CORRUPT_BATCH"


class UnsupportedBatchError(LedgerError):
    """The batch has a version, codec or column that this program does not know. Read the batch with a newer version of
    ledgermq.
    """

    code = "UNSUPPORTED_BATCH"


class OffsetOutOfRangeError(LedgerError):
    """The offset lies outside the queue's valid offsets, `first_offset` to `end_offset`. Seek to a valid offset."""


class OffsetTooLowError(OffsetOutOfRangeError):
    """The offset is lower than `first_offset`: retention or a trim has removed the messages before `first_offset`."""

    code = "OFFSET_TOO_LOW"


class OffsetBeyondEndError(OffsetOutOfRangeError):
    """The offset is higher than `end_offset`, the offset that the queue's next message will get."""

    code = "OFFSET_BEYOND_END"


def out_of_range(sentence: str, offset: int, first: int, end: int) -> OffsetOutOfRangeError:
    """Return the error for an offset below `first` or above `end`. The message of the error consists of `sentence`
    and the valid offsets."""
    kind = OffsetTooLowError if offset < first else OffsetBeyondEndError
    return kind(f"{sentence}: valid are {first} to {end}", first_offset=first, end_offset=end)


class ProducerFencedError(LedgerError):
    """A producer with the same id and a newer epoch has written to this queue. The older producer can no longer write
    to the queue.
    """

    code = "PRODUCER_FENCED"


class DuplicateForgottenError(LedgerError):
    """The batch repeats an old committed batch whose offsets the broker no longer remembers. Do not send the batch
    again: its messages are in the queue.

    The error carries `next_sequence`, the next sequence number of this producer in this queue.
    """

    code = "DUPLICATE_FORGOTTEN"


class InvalidGroupNameError(LedgerError, ValueError):
    """The name is not a valid consumer group name. Choose another name."""

    code = "INVALID_GROUP_NAME"


class UnknownMemberError(LedgerError):
    """The consumer group has no member of this name, for example because the coordinator received no heartbeat of the
    member for longer than its session timeout. A group consumer that receives this error joins the consumer group
    again by itself.
    """

    code = "UNKNOWN_MEMBER"


class CoordinatedElsewhereError(UnknownMemberError):
    """Another shard coordinates the consumer group. A group consumer that receives this error asks shard 0 where, and
    joins there by itself.
    """

    code = "COORDINATED_ELSEWHERE"


class DeserializationError(LedgerError):
    """The `deserializer` of a consumer raised an exception, which is the cause of this error, for the message at
    `offset` of `queue` of `topic`. Until seek() moves the consumer to another offset, each read raises the error.
    """

    def __init__(self, message: str = "", *, topic: str = "", queue: int = 0, offset: int = 0, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.topic = topic
        self.queue = queue
        self.offset = offset


class ConsumerFencedError(LedgerError):
    """The queue was given to another member, or its offset was reset, so the request of the earlier owner is rejected.
    The next owner receives the messages that were not acknowledged.
    """

    code = "CONSUMER_FENCED"


class GroupConflictError(LedgerError):
    """The other members of the consumer group use a different assignment strategy. Use the same `strategy` for all
    members.
    """

    code = "GROUP_CONFLICT"


class GroupFullError(LedgerError):
    """A limit on consumer groups, members or subscribed topics is reached. The message names the limit."""

    code = "GROUP_FULL"


# --- Try again, perhaps elsewhere, perhaps later. --------------------------------------------------------------------


class NotLeaderError(LedgerError):
    """The node is not the shard's leader. `leader` and `leader_address` name the leader if the node knows the leader.
    Clients repeat the request at the leader.
    """

    code = "NOT_LEADER"
    retriable = True


class NoLeaderError(LedgerError):
    """The shard has no leader at this moment. Clients wait for an election and repeat the request."""

    code = "NO_LEADER"
    retriable = True


class BusyError(LedgerError):
    """The node cannot accept this request now, for example because it has reached its limit of unfinished requests.
    Try again later."""

    code = "BUSY"
    retriable = True


class ThrottledError(LedgerError):
    """This client has used up its quota on the node. The node has not carried out the request; the client should wait
    `throttle_ms` milliseconds.
    """

    code = "THROTTLED"
    retriable = True


class SequenceGapError(LedgerError):
    """Earlier batches of this producer for this queue have not arrived. The producer sends the earlier batches
    again, in order."""

    code = "SEQUENCE_GAP"
    retriable = True


class ReplicaBehindError(LedgerError):
    """The node has not yet applied the entries that the request needs. Try again, or ask the leader."""

    code = "REPLICA_BEHIND"
    retriable = True


class RequestTimeoutError(LedgerError, TimeoutError):
    """The request was not answered in time. The request may still take effect."""

    code = "TIMED_OUT"
    retriable = True


class UnavailableError(LedgerError):
    """The node cannot be reached, or it is starting or stopping. Check that the node runs and that its address is
    right.
    """

    code = "UNAVAILABLE"
    retriable = True


class ChangeInProgressError(LedgerError):
    """An earlier change of the shard's members, or the first entry of the leader's term, is not committed yet. Try
    again later.
    """

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


class DivergedError(LedgerError):
    """The nodes of the shard have different logs, and one of the two logs was committed. For example, a majority of
    the nodes was put back to an old copy of its data. The shard takes no writes until an operator has removed the nodes
    with the wrong log.
    """

    code = "DIVERGED"


class InternalError(LedgerError):
    """The node or the client failed in a way that is a defect of ledgermq. The log output has the details."""

    code = "INTERNAL"


# --- The state of the cluster does not allow an operator's request. --------------------------------------------------


class OperationError(LedgerError):
    """Base class of errors of an operator's request. The message says what prevents the operation and what to do
    first.
    """


class UnknownNodeError(OperationError):
    """The shard has no member with this node number."""

    code = "UNKNOWN_NODE"


class NodeExistsError(OperationError):
    """Another member has this node number or this address already. Choose another number or address."""

    code = "NODE_EXISTS"


class NodeRefusedError(OperationError):
    """The new node has data already, is configured for a different cluster, or does not answer. Start the new node
    with `join = true` and an empty data directory, then add it again.
    """

    code = "NODE_REFUSED"


class NodeSilentError(NodeRefusedError):
    """No node answers at the address of the new node. Start the new node with `join = true`, then add it again."""

    code = "NODE_SILENT"


class NodeBehindError(OperationError):
    """The learner lacks too many entries of the log to become a voter. Wait until the learner has caught up, then
    promote it."""

    code = "NODE_BEHIND"


class LastVoterError(OperationError):
    """The node is the last voter of the shard, so it cannot be removed. Promote another node first."""

    code = "LAST_VOTER"


class ShardShortError(OperationError):
    """Without the node, a shard would have fewer replicas than it shall have, or a majority of its voters would not
    answer. Add a node first, or force the removal. The message names the shards."""

    code = "SHARD_SHORT"


class TransferRefusedError(OperationError):
    """The node that the request names cannot lead now. The present leader continues to lead. The message gives the
    reason for the refusal."""

    code = "TRANSFER_REFUSED"


class NotSuspectError(OperationError):
    """The node is not suspect, so there is no loss to accept."""

    code = "NOT_SUSPECT"


class RecoveryRefusedError(OperationError):
    """The operator does not have to accept the loss, because the leader is restoring the entries that this node lost.
    Or the loss cannot be accepted, because the disk of this node has failed: restart the node."""

    code = "RECOVERY_REFUSED"


class LogHeldError(OperationError):
    """A hold keeps the log, so nothing can be removed from it now. Wait until the hold expires, or release the
    hold."""

    code = "LOG_HELD"


class GroupNotEmptyError(OperationError):
    """The consumer group still has members. Stop the members before you delete the group."""

    code = "GROUP_NOT_EMPTY"


class UnknownGroupError(OperationError):
    """No consumer group has this name: no member has joined it, and it has no offset in any queue."""

    code = "UNKNOWN_GROUP"


# --- Who the caller is, and what it may do. --------------------------------------------------------------------------


class AuthenticationError(LedgerError):
    """The node does not know who the caller is: no credentials, wrong credentials, or a token that has ended. Give the
    client the right `user` and `password`, or the right client certificate."""

    code = "UNAUTHENTICATED"


class PermissionDeniedError(LedgerError):
    """The user has no right to do this. An administrator grants rights with `ledgermq acl grant`. The error does not
    say whether the topic or the consumer group exists."""

    code = "PERMISSION_DENIED"


class UnknownUserError(OperationError):
    """There is no user with this name. `ledgermq user list` shows the users."""

    code = "UNKNOWN_USER"


class UserExistsError(OperationError):
    """There is a user with this name already. To replace the password, use `ledgermq user rotate`."""

    code = "USER_EXISTS"


# --- Raised by clients only: these have no code on the wire. ---------------------------------------------------------


class DeliveryTimeoutError(LedgerError, TimeoutError):
    """The message was not acknowledged within the delivery timeout or within the allowed attempts. Or an attempt had no
    answer, and the next one was refused; `__cause__` is the refusal.

    If `maybe_committed` is True, the result is unknown: the message may be in the queue now or appear there later. If
    `maybe_committed` is False, the message is not in the queue and will not appear there.
    """

    def __init__(self, message: str = "", *, maybe_committed: bool) -> None:
        super().__init__(message)
        self.maybe_committed = maybe_committed

    def __reduce__(self) -> tuple[Any, ...]:
        """Let the error be pickled, so that it can come from another process."""
        return partial(type(self), maybe_committed=self.maybe_committed), self.args, vars(self)


class ResponderFailedError(LedgerError):
    """The handler of a responder failed for this request, or took too long. The message says why."""


class TransferFailedError(OperationError):
    """The chosen node did not take over leadership in time. The message names the node that leads now."""


class OperationTimeoutError(OperationError, TimeoutError):
    """The operation was not complete in time. The cluster may still complete the operation. Operations are idempotent,
    so the same call may be repeated.
    """


class BufferFullError(LedgerError):
    """The producer's buffer is full. Wait until messages are acknowledged, then send again."""

    retriable = True


class ClosedError(LedgerError):
    """The client was stopped, so it cannot be used any more. Make a new client."""


# error.proto groups the codes: any code in this range, also one of a newer broker, means "try again".
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
    TransactionEndedError,
    UnknownTransactionError,
    RepeatedMessagesError,
    CorruptBatchError,
    UnsupportedBatchError,
    OffsetTooLowError,
    OffsetBeyondEndError,
    ProducerFencedError,
    DuplicateForgottenError,
    InvalidGroupNameError,
    UnknownMemberError,
    CoordinatedElsewhereError,
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
    DivergedError,
    InternalError,
    ChangeInProgressError,
    UnknownNodeError,
    NodeExistsError,
    NodeRefusedError,
    NodeSilentError,
    NodeBehindError,
    LastVoterError,
    ShardShortError,
    TransferRefusedError,
    NotSuspectError,
    RecoveryRefusedError,
    LogHeldError,
    GroupNotEmptyError,
    UnknownGroupError,
    AuthenticationError,
    PermissionDeniedError,
    UnknownUserError,
    UserExistsError,
)
_TYPE_OF_CODE: dict[int, type[LedgerError]] = {error_pb2.Code.Value(kind.code): kind for kind in _TYPES}


def to_wire(error: LedgerError) -> error_pb2.Error:
    """Return the wire form of an error. An error whose `code` is empty is sent as INTERNAL."""
    wire = error_pb2.Error(code=_number(error.code), message=error.message, not_appended=error.not_appended)
    for fact in _FACTS:
        value = getattr(error, fact)
        if value is not None:
            setattr(wire, fact, value)
    for each in error.repeats:
        wire.repeats.add(**each._asdict())
    wire.places.extend(error.places)
    return wire


def from_wire(wire: error_pb2.Error) -> LedgerError:
    """Return the exception for an error that a broker sent.

    If this program does not know the code, the result is a plain `LedgerError` with the sent message. The `code` of
    the plain error is the sent code number in decimal digits. The range of the sent code number decides whether the
    plain `LedgerError` is retriable.
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
        repeats=[RepeatedMessage(each.place, each.queue, each.offset, each.append_time_ms) for each in wire.repeats],
        places=tuple(wire.places),
        not_appended=wire.not_appended,
    )
    if kind is LedgerError:
        error.code = str(wire.code)
        error.retriable = wire.code in _RETRIABLE_CODES
    return error


def told_of(error: LedgerError | OSError) -> str:
    """Return the message to show to a user. For an error of the operating system the message names the file and the
    reason."""
    if isinstance(error, LedgerError):
        return str(error)
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"


def _number(code: str) -> error_pb2.Code:
    if code.isdecimal():  # `from_wire` received this code from a newer program
        return cast("error_pb2.Code", int(code))
    return cast("error_pb2.Code", error_pb2.Code.Value(code or "INTERNAL"))
