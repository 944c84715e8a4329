from ledger.v1 import consumer_group_pb2 as _consumer_group_pb2
from ledger.v1 import error_pb2 as _error_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MoveCoordinatorRequest(_message.Message):
    __slots__ = ("consumer_group", "shard")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    shard: int
    def __init__(self, consumer_group: _Optional[str] = ..., shard: _Optional[int] = ...) -> None: ...

class MoveCoordinatorResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class ListConsumerGroupsRequest(_message.Message):
    __slots__ = ("shard",)
    SHARD_FIELD_NUMBER: _ClassVar[int]
    shard: int
    def __init__(self, shard: _Optional[int] = ...) -> None: ...

class ListConsumerGroupsResponse(_message.Message):
    __slots__ = ("error", "consumer_groups", "now_ms")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUPS_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    consumer_groups: _containers.RepeatedCompositeFieldContainer[ConsumerGroupSummary]
    now_ms: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., consumer_groups: _Optional[_Iterable[_Union[ConsumerGroupSummary, _Mapping]]] = ..., now_ms: _Optional[int] = ...) -> None: ...

class ConsumerGroupSummary(_message.Message):
    __slots__ = ("name", "members", "strategy", "queues", "lag_messages", "waiting_since_ms", "retry_messages", "dead_letters", "shared")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    LAG_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    WAITING_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    RETRY_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    name: str
    members: int
    strategy: str
    queues: int
    lag_messages: int
    waiting_since_ms: int
    retry_messages: int
    dead_letters: int
    shared: bool
    def __init__(self, name: _Optional[str] = ..., members: _Optional[int] = ..., strategy: _Optional[str] = ..., queues: _Optional[int] = ..., lag_messages: _Optional[int] = ..., waiting_since_ms: _Optional[int] = ..., retry_messages: _Optional[int] = ..., dead_letters: _Optional[int] = ..., shared: _Optional[bool] = ...) -> None: ...

class CreateConsumerGroupRequest(_message.Message):
    __slots__ = ("shard", "consumer_group", "mode")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    shard: int
    consumer_group: str
    mode: GroupMode
    def __init__(self, shard: _Optional[int] = ..., consumer_group: _Optional[str] = ..., mode: _Optional[_Union[GroupMode, _Mapping]] = ...) -> None: ...

class CreateConsumerGroupResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class GroupMode(_message.Message):
    __slots__ = ("shared", "by_key", "max_attempts")
    SHARED_FIELD_NUMBER: _ClassVar[int]
    BY_KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    shared: bool
    by_key: bool
    max_attempts: int
    def __init__(self, shared: _Optional[bool] = ..., by_key: _Optional[bool] = ..., max_attempts: _Optional[int] = ...) -> None: ...

class DescribeConsumerGroupRequest(_message.Message):
    __slots__ = ("shard", "consumer_group")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    shard: int
    consumer_group: str
    def __init__(self, shard: _Optional[int] = ..., consumer_group: _Optional[str] = ...) -> None: ...

class DescribeConsumerGroupResponse(_message.Message):
    __slots__ = ("error", "strategy", "rebalancing", "members", "shares", "queues", "now_ms", "mode", "shared_members", "coordinator")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    REBALANCING_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SHARED_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    strategy: str
    rebalancing: bool
    members: _containers.RepeatedCompositeFieldContainer[GroupMember]
    shares: _containers.RepeatedCompositeFieldContainer[QueueShare]
    queues: _containers.RepeatedCompositeFieldContainer[ConsumedQueue]
    now_ms: int
    mode: GroupMode
    shared_members: int
    coordinator: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., strategy: _Optional[str] = ..., rebalancing: _Optional[bool] = ..., members: _Optional[_Iterable[_Union[GroupMember, _Mapping]]] = ..., shares: _Optional[_Iterable[_Union[QueueShare, _Mapping]]] = ..., queues: _Optional[_Iterable[_Union[ConsumedQueue, _Mapping]]] = ..., now_ms: _Optional[int] = ..., mode: _Optional[_Union[GroupMode, _Mapping]] = ..., shared_members: _Optional[int] = ..., coordinator: _Optional[int] = ...) -> None: ...

class GroupMember(_message.Message):
    __slots__ = ("member", "client_id", "room", "session_timeout_ms")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    member: str
    client_id: str
    room: str
    session_timeout_ms: int
    def __init__(self, member: _Optional[str] = ..., client_id: _Optional[str] = ..., room: _Optional[str] = ..., session_timeout_ms: _Optional[int] = ...) -> None: ...

class QueueShare(_message.Message):
    __slots__ = ("topic_id", "queue", "owner", "epoch", "target")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    owner: str
    epoch: int
    target: str
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., owner: _Optional[str] = ..., epoch: _Optional[int] = ..., target: _Optional[str] = ...) -> None: ...

class ConsumedQueue(_message.Message):
    __slots__ = ("topic_id", "queue", "first_offset", "end_offset", "offset", "settled", "epoch", "lag_messages", "waiting_since_ms", "leases")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAG_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    WAITING_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    first_offset: int
    end_offset: int
    offset: int
    settled: int
    epoch: int
    lag_messages: int
    waiting_since_ms: int
    leases: LeasesOfQueue
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., offset: _Optional[int] = ..., settled: _Optional[int] = ..., epoch: _Optional[int] = ..., lag_messages: _Optional[int] = ..., waiting_since_ms: _Optional[int] = ..., leases: _Optional[_Union[LeasesOfQueue, _Mapping]] = ...) -> None: ...

class LeasesOfQueue(_message.Message):
    __slots__ = ("leased", "waiting", "window", "lease_left_ms", "most_attempts")
    LEASED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    LEASE_LEFT_MS_FIELD_NUMBER: _ClassVar[int]
    MOST_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    leased: int
    waiting: int
    window: int
    lease_left_ms: int
    most_attempts: int
    def __init__(self, leased: _Optional[int] = ..., waiting: _Optional[int] = ..., window: _Optional[int] = ..., lease_left_ms: _Optional[int] = ..., most_attempts: _Optional[int] = ...) -> None: ...

class ResetOffsetsRequest(_message.Message):
    __slots__ = ("shard", "consumer_group", "queues", "shared")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    shard: int
    consumer_group: str
    queues: _containers.RepeatedCompositeFieldContainer[QueueReset]
    shared: bool
    def __init__(self, shard: _Optional[int] = ..., consumer_group: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[QueueReset, _Mapping]]] = ..., shared: _Optional[bool] = ...) -> None: ...

class QueueReset(_message.Message):
    __slots__ = ("topic_id", "queue", "offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    offset: int
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class ResetOffsetsResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class RenewQueuesRequest(_message.Message):
    __slots__ = ("shard", "consumer_group", "queues")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    shard: int
    consumer_group: str
    queues: _containers.RepeatedCompositeFieldContainer[_consumer_group_pb2.QueueEpoch]
    def __init__(self, shard: _Optional[int] = ..., consumer_group: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[_consumer_group_pb2.QueueEpoch, _Mapping]]] = ...) -> None: ...

class RenewQueuesResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class ForgetConsumerGroupRequest(_message.Message):
    __slots__ = ("shard", "consumer_group")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    shard: int
    consumer_group: str
    def __init__(self, shard: _Optional[int] = ..., consumer_group: _Optional[str] = ...) -> None: ...

class ForgetConsumerGroupResponse(_message.Message):
    __slots__ = ("error", "queues")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    queues: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., queues: _Optional[int] = ...) -> None: ...

class ForgetRetriesRequest(_message.Message):
    __slots__ = ("consumer_group", "is_empty")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    IS_EMPTY_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    is_empty: bool
    def __init__(self, consumer_group: _Optional[str] = ..., is_empty: _Optional[bool] = ...) -> None: ...

class ForgetRetriesResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...
