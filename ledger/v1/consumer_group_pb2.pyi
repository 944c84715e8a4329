from ledger.v1 import broker_pb2 as _broker_pb2
from ledger.v1 import error_pb2 as _error_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Subscription(_message.Message):
    __slots__ = ("topic_id", "queues")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queues: int
    def __init__(self, topic_id: _Optional[int] = ..., queues: _Optional[int] = ...) -> None: ...

class FindCoordinatorRequest(_message.Message):
    __slots__ = ("consumer_group",)
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    def __init__(self, consumer_group: _Optional[str] = ...) -> None: ...

class FindCoordinatorResponse(_message.Message):
    __slots__ = ("error", "shard")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    shard: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., shard: _Optional[int] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("shard", "consumer_group", "member", "client_id", "subscriptions", "strategy", "room", "session_timeout_ms", "configured", "rooms")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    ROOMS_FIELD_NUMBER: _ClassVar[int]
    shard: int
    consumer_group: str
    member: str
    client_id: str
    subscriptions: _containers.RepeatedCompositeFieldContainer[Subscription]
    strategy: str
    room: str
    session_timeout_ms: int
    configured: _containers.RepeatedCompositeFieldContainer[QueueEpoch]
    rooms: _containers.RepeatedCompositeFieldContainer[RoomOfShard]
    def __init__(self, shard: _Optional[int] = ..., consumer_group: _Optional[str] = ..., member: _Optional[str] = ..., client_id: _Optional[str] = ..., subscriptions: _Optional[_Iterable[_Union[Subscription, _Mapping]]] = ..., strategy: _Optional[str] = ..., room: _Optional[str] = ..., session_timeout_ms: _Optional[int] = ..., configured: _Optional[_Iterable[_Union[QueueEpoch, _Mapping]]] = ..., rooms: _Optional[_Iterable[_Union[RoomOfShard, _Mapping]]] = ...) -> None: ...

class RoomOfShard(_message.Message):
    __slots__ = ("shard", "room")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    shard: int
    room: str
    def __init__(self, shard: _Optional[int] = ..., room: _Optional[str] = ...) -> None: ...

class JoinResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class AwaitAssignmentRequest(_message.Message):
    __slots__ = ("shard", "consumer_group", "member", "version", "max_wait_ms")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    shard: int
    consumer_group: str
    member: str
    version: int
    max_wait_ms: int
    def __init__(self, shard: _Optional[int] = ..., consumer_group: _Optional[str] = ..., member: _Optional[str] = ..., version: _Optional[int] = ..., max_wait_ms: _Optional[int] = ...) -> None: ...

class AwaitAssignmentResponse(_message.Message):
    __slots__ = ("error", "version", "queues")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    version: int
    queues: _containers.RepeatedCompositeFieldContainer[OwnedQueue]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., version: _Optional[int] = ..., queues: _Optional[_Iterable[_Union[OwnedQueue, _Mapping]]] = ...) -> None: ...

class OwnedQueue(_message.Message):
    __slots__ = ("topic_id", "queue", "epoch", "leaving")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    epoch: int
    leaving: bool
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., epoch: _Optional[int] = ..., leaving: _Optional[bool] = ...) -> None: ...

class QueueEpoch(_message.Message):
    __slots__ = ("topic_id", "queue", "epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    epoch: int
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("shard", "consumer_group", "member", "queues")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    shard: int
    consumer_group: str
    member: str
    queues: _containers.RepeatedCompositeFieldContainer[QueueEpoch]
    def __init__(self, shard: _Optional[int] = ..., consumer_group: _Optional[str] = ..., member: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[QueueEpoch, _Mapping]]] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("shard", "consumer_group", "member")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    shard: int
    consumer_group: str
    member: str
    def __init__(self, shard: _Optional[int] = ..., consumer_group: _Optional[str] = ..., member: _Optional[str] = ...) -> None: ...

class LeaveResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class ClaimRequest(_message.Message):
    __slots__ = ("shard", "consumer_group", "queues")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    shard: int
    consumer_group: str
    queues: _containers.RepeatedCompositeFieldContainer[QueueClaim]
    def __init__(self, shard: _Optional[int] = ..., consumer_group: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[QueueClaim, _Mapping]]] = ...) -> None: ...

class QueueClaim(_message.Message):
    __slots__ = ("topic_id", "queue", "epoch", "start_offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    epoch: int
    start_offset: int
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., epoch: _Optional[int] = ..., start_offset: _Optional[int] = ...) -> None: ...

class ClaimResponse(_message.Message):
    __slots__ = ("error", "queues")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    queues: _containers.RepeatedCompositeFieldContainer[QueueProgress]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., queues: _Optional[_Iterable[_Union[QueueProgress, _Mapping]]] = ...) -> None: ...

class QueueProgress(_message.Message):
    __slots__ = ("error", "offset", "settled", "epoch", "resets")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RESETS_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    offset: int
    settled: _containers.RepeatedScalarFieldContainer[int]
    epoch: int
    resets: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., offset: _Optional[int] = ..., settled: _Optional[_Iterable[int]] = ..., epoch: _Optional[int] = ..., resets: _Optional[int] = ...) -> None: ...

class AcknowledgeRequest(_message.Message):
    __slots__ = ("shard", "consumer_group", "queues")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    shard: int
    consumer_group: str
    queues: _containers.RepeatedCompositeFieldContainer[QueueAcknowledgement]
    def __init__(self, shard: _Optional[int] = ..., consumer_group: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[QueueAcknowledgement, _Mapping]]] = ...) -> None: ...

class QueueAcknowledgement(_message.Message):
    __slots__ = ("topic_id", "queue", "epoch", "offset", "resets")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    RESETS_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    epoch: int
    offset: int
    resets: int
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., epoch: _Optional[int] = ..., offset: _Optional[int] = ..., resets: _Optional[int] = ...) -> None: ...

class AcknowledgeResponse(_message.Message):
    __slots__ = ("error", "queues")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    queues: _containers.RepeatedCompositeFieldContainer[QueueProgress]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., queues: _Optional[_Iterable[_Union[QueueProgress, _Mapping]]] = ...) -> None: ...

class MoveRequest(_message.Message):
    __slots__ = ("shard", "consumer_group", "topic_id", "queue", "epoch", "offset", "attempt", "give_up", "resets", "lease")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    GIVE_UP_FIELD_NUMBER: _ClassVar[int]
    RESETS_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    shard: int
    consumer_group: str
    topic_id: int
    queue: int
    epoch: int
    offset: int
    attempt: int
    give_up: bool
    resets: int
    lease: int
    def __init__(self, shard: _Optional[int] = ..., consumer_group: _Optional[str] = ..., topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., epoch: _Optional[int] = ..., offset: _Optional[int] = ..., attempt: _Optional[int] = ..., give_up: _Optional[bool] = ..., resets: _Optional[int] = ..., lease: _Optional[int] = ...) -> None: ...

class MoveResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class PrepareRetriesRequest(_message.Message):
    __slots__ = ("consumer_group",)
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    def __init__(self, consumer_group: _Optional[str] = ...) -> None: ...

class PrepareRetriesResponse(_message.Message):
    __slots__ = ("error", "retry", "dead_letters")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    retry: _broker_pb2.TopicRoute
    dead_letters: _broker_pb2.TopicRoute
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., retry: _Optional[_Union[_broker_pb2.TopicRoute, _Mapping]] = ..., dead_letters: _Optional[_Union[_broker_pb2.TopicRoute, _Mapping]] = ...) -> None: ...

class ShareRequest(_message.Message):
    __slots__ = ("number", "opening", "changes", "receive", "cancelled")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    OPENING_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    RECEIVE_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    number: int
    opening: ShareOpening
    changes: _containers.RepeatedCompositeFieldContainer[WantedChange]
    receive: Receive
    cancelled: int
    def __init__(self, number: _Optional[int] = ..., opening: _Optional[_Union[ShareOpening, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[WantedChange, _Mapping]]] = ..., receive: _Optional[_Union[Receive, _Mapping]] = ..., cancelled: _Optional[int] = ...) -> None: ...

class ShareOpening(_message.Message):
    __slots__ = ("shard", "consumer_group", "member", "topics", "by_key", "only_changes")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    BY_KEY_FIELD_NUMBER: _ClassVar[int]
    ONLY_CHANGES_FIELD_NUMBER: _ClassVar[int]
    shard: int
    consumer_group: str
    member: str
    topics: _containers.RepeatedCompositeFieldContainer[SharedTopic]
    by_key: bool
    only_changes: bool
    def __init__(self, shard: _Optional[int] = ..., consumer_group: _Optional[str] = ..., member: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[SharedTopic, _Mapping]]] = ..., by_key: _Optional[bool] = ..., only_changes: _Optional[bool] = ...) -> None: ...

class SharedTopic(_message.Message):
    __slots__ = ("topic_id", "tag_hashes", "start_offset", "filter")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TAG_HASHES_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    tag_hashes: _containers.RepeatedScalarFieldContainer[int]
    start_offset: int
    filter: str
    def __init__(self, topic_id: _Optional[int] = ..., tag_hashes: _Optional[_Iterable[int]] = ..., start_offset: _Optional[int] = ..., filter: _Optional[str] = ...) -> None: ...

class WantedChange(_message.Message):
    __slots__ = ("kind", "topic_id", "queue", "first", "size", "lease", "resets", "duration_ms", "in_time")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    RESETS_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    IN_TIME_FIELD_NUMBER: _ClassVar[int]
    kind: int
    topic_id: int
    queue: int
    first: int
    size: int
    lease: int
    resets: int
    duration_ms: int
    in_time: bool
    def __init__(self, kind: _Optional[int] = ..., topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., first: _Optional[int] = ..., size: _Optional[int] = ..., lease: _Optional[int] = ..., resets: _Optional[int] = ..., duration_ms: _Optional[int] = ..., in_time: _Optional[bool] = ...) -> None: ...

class Receive(_message.Message):
    __slots__ = ("max_messages", "max_bytes", "lease_ms", "max_wait_ms", "attempt_id", "repeated_attempt")
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    REPEATED_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    max_messages: int
    max_bytes: int
    lease_ms: int
    max_wait_ms: int
    attempt_id: int
    repeated_attempt: bool
    def __init__(self, max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., lease_ms: _Optional[int] = ..., max_wait_ms: _Optional[int] = ..., attempt_id: _Optional[int] = ..., repeated_attempt: _Optional[bool] = ...) -> None: ...

class ShareResponse(_message.Message):
    __slots__ = ("number", "error", "has_changed", "changed", "has_received", "batches", "lease_left_ms", "filters", "settled", "waited_ms")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HAS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    HAS_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    LEASE_LEFT_MS_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    WAITED_MS_FIELD_NUMBER: _ClassVar[int]
    number: int
    error: _error_pb2.Error
    has_changed: bool
    changed: _containers.RepeatedScalarFieldContainer[int]
    has_received: bool
    batches: _containers.RepeatedCompositeFieldContainer[SharedBatch]
    lease_left_ms: int
    filters: bool
    settled: _containers.RepeatedScalarFieldContainer[int]
    waited_ms: int
    def __init__(self, number: _Optional[int] = ..., error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., has_changed: _Optional[bool] = ..., changed: _Optional[_Iterable[int]] = ..., has_received: _Optional[bool] = ..., batches: _Optional[_Iterable[_Union[SharedBatch, _Mapping]]] = ..., lease_left_ms: _Optional[int] = ..., filters: _Optional[bool] = ..., settled: _Optional[_Iterable[int]] = ..., waited_ms: _Optional[int] = ...) -> None: ...

class SharedBatch(_message.Message):
    __slots__ = ("topic_id", "queue", "base_offset", "append_time_ms", "body", "lease", "resets", "attempts")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    APPEND_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    RESETS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    base_offset: int
    append_time_ms: int
    body: bytes
    lease: int
    resets: int
    attempts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., base_offset: _Optional[int] = ..., append_time_ms: _Optional[int] = ..., body: _Optional[bytes] = ..., lease: _Optional[int] = ..., resets: _Optional[int] = ..., attempts: _Optional[_Iterable[int]] = ...) -> None: ...
