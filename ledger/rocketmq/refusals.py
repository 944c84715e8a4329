"""What a RocketMQ client is told when its request is refused: a code of the protocol, and a sentence."""

from __future__ import annotations

from grpc import StatusCode

from ledger import errors
from ledger.rocketmq.v2 import definition_pb2 as pb

# The code of each error, the first class that fits. Errors that are not here are INTERNAL_SERVER_ERROR.
_CODES: tuple[tuple[type[errors.LedgerError], pb.Code], ...] = (
    (errors.UnknownTopicError, pb.TOPIC_NOT_FOUND),
    (errors.UnknownQueueError, pb.TOPIC_NOT_FOUND),
    (errors.InvalidTopicNameError, pb.ILLEGAL_TOPIC),
    (errors.UnknownGroupError, pb.CONSUMER_GROUP_NOT_FOUND),
    (errors.InvalidGroupNameError, pb.ILLEGAL_CONSUMER_GROUP),
    (errors.MessageTooLargeError, pb.MESSAGE_BODY_TOO_LARGE),
    (errors.TooManyHeadersError, pb.MESSAGE_PROPERTIES_TOO_LARGE),
    (errors.HeadersTooLargeError, pb.MESSAGE_PROPERTIES_TOO_LARGE),
    (errors.UnknownTransactionError, pb.INVALID_TRANSACTION_ID),
    (errors.TransactionEndedError, pb.INVALID_TRANSACTION_ID),
    (errors.OffsetOutOfRangeError, pb.ILLEGAL_OFFSET),
    (errors.AuthenticationError, pb.UNAUTHORIZED),
    (errors.PermissionDeniedError, pb.FORBIDDEN),
    (errors.ThrottledError, pb.TOO_MANY_REQUESTS),
    (errors.BufferFullError, pb.TOO_MANY_REQUESTS),
    (errors.BusyError, pb.TOO_MANY_REQUESTS),
    (errors.GroupFullError, pb.TOO_MANY_REQUESTS),
    (errors.DeliveryTimeoutError, pb.PROXY_TIMEOUT),
    (errors.RequestTimeoutError, pb.PROXY_TIMEOUT),
    (errors.NotLeaderError, pb.HA_NOT_AVAILABLE),
    (errors.NoLeaderError, pb.HA_NOT_AVAILABLE),
    (errors.UnavailableError, pb.HA_NOT_AVAILABLE),
    (errors.StorageFailedError, pb.HA_NOT_AVAILABLE),
    (errors.DiskFullError, pb.HA_NOT_AVAILABLE),
    (errors.ClosedError, pb.HA_NOT_AVAILABLE),
    (errors.InvalidArgumentError, pb.BAD_REQUEST),
    (errors.GroupConflictError, pb.BAD_REQUEST),
    (errors.ConsumerFencedError, pb.BAD_REQUEST),
)
# The codes of requests that another node or a moment later can serve.
_UNAVAILABLE = (pb.HA_NOT_AVAILABLE, pb.PROXY_TIMEOUT)


class FrontRefusal(Exception):  # noqa: N818 - it is an answer, and no failure of the node
    """A request of a RocketMQ client is refused with this code."""

    def __init__(self, code: pb.Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> pb.Status:
        return pb.Status(code=self.code, message=self.message)

    @property
    def stream_status(self) -> StatusCode:
        """The status of gRPC with which a telemetry stream ends."""
        if self.code in _UNAVAILABLE:
            return StatusCode.UNAVAILABLE
        return StatusCode.INVALID_ARGUMENT if self.code // 10_000 == 4 else StatusCode.INTERNAL


def refusal_of(error: errors.LedgerError) -> FrontRefusal:
    """Return what a client is told about this error."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), pb.INTERNAL_SERVER_ERROR)
    return FrontRefusal(code, error.message or str(error))


def ok() -> pb.Status:
    return pb.Status(code=pb.OK, message="OK")
