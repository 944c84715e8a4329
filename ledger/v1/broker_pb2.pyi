from ledger.v1 import error_pb2 as _error_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TopicType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MIXED: _ClassVar[TopicType]
    NORMAL: _ClassVar[TopicType]
    FIFO: _ClassVar[TopicType]
    DELAY: _ClassVar[TopicType]
    TRANSACTION: _ClassVar[TopicType]
MIXED: TopicType
NORMAL: TopicType
FIFO: TopicType
DELAY: TopicType
TRANSACTION: TopicType

class ProduceRequest(_message.Message):
    __slots__ = ("batches", "traceparent")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedScalarFieldContainer[bytes]
    traceparent: str
    def __init__(self, batches: _Optional[_Iterable[bytes]] = ..., traceparent: _Optional[str] = ...) -> None: ...

class ProduceResponse(_message.Message):
    __slots__ = ("results", "configuration_index")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_INDEX_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ProduceResult]
    configuration_index: int
    def __init__(self, results: _Optional[_Iterable[_Union[ProduceResult, _Mapping]]] = ..., configuration_index: _Optional[int] = ...) -> None: ...

class ProduceResult(_message.Message):
    __slots__ = ("error", "base_offset", "term", "append_time_ms", "duplicate")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    APPEND_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    base_offset: int
    term: int
    append_time_ms: int
    duplicate: bool
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., base_offset: _Optional[int] = ..., term: _Optional[int] = ..., append_time_ms: _Optional[int] = ..., duplicate: _Optional[bool] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("queues", "max_wait_ms", "max_bytes", "accepts_cut_batches")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_CUT_BATCHES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[QueueFetch]
    max_wait_ms: int
    max_bytes: int
    accepts_cut_batches: bool
    def __init__(self, queues: _Optional[_Iterable[_Union[QueueFetch, _Mapping]]] = ..., max_wait_ms: _Optional[int] = ..., max_bytes: _Optional[int] = ..., accepts_cut_batches: _Optional[bool] = ...) -> None: ...

class QueueFetch(_message.Message):
    __slots__ = ("topic_id", "queue", "offset", "tag_hashes")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TAG_HASHES_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    offset: int
    tag_hashes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., offset: _Optional[int] = ..., tag_hashes: _Optional[_Iterable[int]] = ...) -> None: ...

class FetchResponse(_message.Message):
    __slots__ = ("queues", "configuration_index")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_INDEX_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[FetchedQueue]
    configuration_index: int
    def __init__(self, queues: _Optional[_Iterable[_Union[FetchedQueue, _Mapping]]] = ..., configuration_index: _Optional[int] = ...) -> None: ...

class FetchedQueue(_message.Message):
    __slots__ = ("topic_id", "queue", "error", "batches", "next_offset", "first_offset", "end_offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    error: _error_pb2.Error
    batches: _containers.RepeatedCompositeFieldContainer[FetchedBatch]
    next_offset: int
    first_offset: int
    end_offset: int
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., batches: _Optional[_Iterable[_Union[FetchedBatch, _Mapping]]] = ..., next_offset: _Optional[int] = ..., first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class FetchedBatch(_message.Message):
    __slots__ = ("base_offset", "append_time_ms", "term", "body")
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    APPEND_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    base_offset: int
    append_time_ms: int
    term: int
    body: bytes
    def __init__(self, base_offset: _Optional[int] = ..., append_time_ms: _Optional[int] = ..., term: _Optional[int] = ..., body: _Optional[bytes] = ...) -> None: ...

class ListOffsetsRequest(_message.Message):
    __slots__ = ("topic_id", "queues", "linearizable", "time_ms", "sizes")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    LINEARIZABLE_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    SIZES_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queues: _containers.RepeatedScalarFieldContainer[int]
    linearizable: bool
    time_ms: int
    sizes: bool
    def __init__(self, topic_id: _Optional[int] = ..., queues: _Optional[_Iterable[int]] = ..., linearizable: _Optional[bool] = ..., time_ms: _Optional[int] = ..., sizes: _Optional[bool] = ...) -> None: ...

class ListOffsetsResponse(_message.Message):
    __slots__ = ("error", "queues")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    queues: _containers.RepeatedCompositeFieldContainer[QueueOffsets]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., queues: _Optional[_Iterable[_Union[QueueOffsets, _Mapping]]] = ...) -> None: ...

class QueueOffsets(_message.Message):
    __slots__ = ("queue", "first_offset", "end_offset", "time_offset", "about_bytes")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIME_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ABOUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    queue: int
    first_offset: int
    end_offset: int
    time_offset: int
    about_bytes: int
    def __init__(self, queue: _Optional[int] = ..., first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., time_offset: _Optional[int] = ..., about_bytes: _Optional[int] = ...) -> None: ...

class QueryMessagesRequest(_message.Message):
    __slots__ = ("shard", "topic_id", "key", "begin_ms", "end_ms", "max_messages", "before_position", "linearizable")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    BEGIN_MS_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BEFORE_POSITION_FIELD_NUMBER: _ClassVar[int]
    LINEARIZABLE_FIELD_NUMBER: _ClassVar[int]
    shard: int
    topic_id: int
    key: bytes
    begin_ms: int
    end_ms: int
    max_messages: int
    before_position: int
    linearizable: bool
    def __init__(self, shard: _Optional[int] = ..., topic_id: _Optional[int] = ..., key: _Optional[bytes] = ..., begin_ms: _Optional[int] = ..., end_ms: _Optional[int] = ..., max_messages: _Optional[int] = ..., before_position: _Optional[int] = ..., linearizable: _Optional[bool] = ...) -> None: ...

class QueryMessagesResponse(_message.Message):
    __slots__ = ("error", "batches", "next_before_position")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    NEXT_BEFORE_POSITION_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    batches: _containers.RepeatedCompositeFieldContainer[FoundBatch]
    next_before_position: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., batches: _Optional[_Iterable[_Union[FoundBatch, _Mapping]]] = ..., next_before_position: _Optional[int] = ...) -> None: ...

class FoundBatch(_message.Message):
    __slots__ = ("queue", "batch")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    queue: int
    batch: FetchedBatch
    def __init__(self, queue: _Optional[int] = ..., batch: _Optional[_Union[FetchedBatch, _Mapping]] = ...) -> None: ...

class GetRouteRequest(_message.Message):
    __slots__ = ("topics", "linearizable")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    LINEARIZABLE_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    linearizable: bool
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., linearizable: _Optional[bool] = ...) -> None: ...

class GetRouteResponse(_message.Message):
    __slots__ = ("error", "cluster", "nodes", "shards", "topics", "max_message_bytes", "configuration_index", "coordinators", "topics_index", "node", "nodes_only")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_INDEX_FIELD_NUMBER: _ClassVar[int]
    COORDINATORS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_INDEX_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    NODES_ONLY_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    cluster: str
    nodes: _containers.RepeatedCompositeFieldContainer[NodeRoute]
    shards: _containers.RepeatedCompositeFieldContainer[ShardRoute]
    topics: _containers.RepeatedCompositeFieldContainer[TopicRoute]
    max_message_bytes: int
    configuration_index: int
    coordinators: int
    topics_index: int
    node: int
    nodes_only: bool
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., cluster: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[NodeRoute, _Mapping]]] = ..., shards: _Optional[_Iterable[_Union[ShardRoute, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[TopicRoute, _Mapping]]] = ..., max_message_bytes: _Optional[int] = ..., configuration_index: _Optional[int] = ..., coordinators: _Optional[int] = ..., topics_index: _Optional[int] = ..., node: _Optional[int] = ..., nodes_only: _Optional[bool] = ...) -> None: ...

class NodeRoute(_message.Message):
    __slots__ = ("node", "address", "room", "outside_address", "rocketmq_address", "rocketmq_tls_address", "rocketmq_outside_host")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ROCKETMQ_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ROCKETMQ_TLS_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ROCKETMQ_OUTSIDE_HOST_FIELD_NUMBER: _ClassVar[int]
    node: int
    address: str
    room: str
    outside_address: str
    rocketmq_address: str
    rocketmq_tls_address: str
    rocketmq_outside_host: str
    def __init__(self, node: _Optional[int] = ..., address: _Optional[str] = ..., room: _Optional[str] = ..., outside_address: _Optional[str] = ..., rocketmq_address: _Optional[str] = ..., rocketmq_tls_address: _Optional[str] = ..., rocketmq_outside_host: _Optional[str] = ...) -> None: ...

class ShardRoute(_message.Message):
    __slots__ = ("shard", "term", "leader")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    shard: int
    term: int
    leader: int
    def __init__(self, shard: _Optional[int] = ..., term: _Optional[int] = ..., leader: _Optional[int] = ...) -> None: ...

class TopicRoute(_message.Message):
    __slots__ = ("name", "topic_id", "shards", "created_ms", "type")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: int
    shards: _containers.RepeatedScalarFieldContainer[int]
    created_ms: int
    type: TopicType
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[int] = ..., shards: _Optional[_Iterable[int]] = ..., created_ms: _Optional[int] = ..., type: _Optional[_Union[TopicType, str]] = ...) -> None: ...

class CreateTopicRequest(_message.Message):
    __slots__ = ("name", "queues", "type", "replicas")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    name: str
    queues: int
    type: TopicType
    replicas: int
    def __init__(self, name: _Optional[str] = ..., queues: _Optional[int] = ..., type: _Optional[_Union[TopicType, str]] = ..., replicas: _Optional[int] = ...) -> None: ...

class CreateTopicResponse(_message.Message):
    __slots__ = ("error", "topic")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    topic: TopicRoute
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., topic: _Optional[_Union[TopicRoute, _Mapping]] = ...) -> None: ...

class AlterTopicRequest(_message.Message):
    __slots__ = ("name", "queues", "type")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    queues: int
    type: TopicType
    def __init__(self, name: _Optional[str] = ..., queues: _Optional[int] = ..., type: _Optional[_Union[TopicType, str]] = ...) -> None: ...

class AlterTopicResponse(_message.Message):
    __slots__ = ("error", "topic")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    topic: TopicRoute
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., topic: _Optional[_Union[TopicRoute, _Mapping]] = ...) -> None: ...

class DeleteTopicRequest(_message.Message):
    __slots__ = ("topic_id",)
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    def __init__(self, topic_id: _Optional[int] = ...) -> None: ...

class DeleteTopicResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class PrepareTimedRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PrepareTimedResponse(_message.Message):
    __slots__ = ("error", "topic")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    topic: TopicRoute
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., topic: _Optional[_Union[TopicRoute, _Mapping]] = ...) -> None: ...

class CancelTimedRequest(_message.Message):
    __slots__ = ("shard", "messages")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    shard: int
    messages: _containers.RepeatedCompositeFieldContainer[WaitingMessage]
    def __init__(self, shard: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[WaitingMessage, _Mapping]]] = ...) -> None: ...

class WaitingMessage(_message.Message):
    __slots__ = ("topic_id", "identity", "delivery_ms")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_MS_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    identity: int
    delivery_ms: int
    def __init__(self, topic_id: _Optional[int] = ..., identity: _Optional[int] = ..., delivery_ms: _Optional[int] = ...) -> None: ...

class CancelTimedResponse(_message.Message):
    __slots__ = ("error", "cancelled")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    cancelled: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., cancelled: _Optional[_Iterable[bool]] = ...) -> None: ...

class ListTimedRequest(_message.Message):
    __slots__ = ("shard", "topic_id", "from_ms", "to_ms", "limit", "after", "with_values")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_MS_FIELD_NUMBER: _ClassVar[int]
    TO_MS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    WITH_VALUES_FIELD_NUMBER: _ClassVar[int]
    shard: int
    topic_id: int
    from_ms: int
    to_ms: int
    limit: int
    after: WaitingPlace
    with_values: bool
    def __init__(self, shard: _Optional[int] = ..., topic_id: _Optional[int] = ..., from_ms: _Optional[int] = ..., to_ms: _Optional[int] = ..., limit: _Optional[int] = ..., after: _Optional[_Union[WaitingPlace, _Mapping]] = ..., with_values: _Optional[bool] = ...) -> None: ...

class WaitingPlace(_message.Message):
    __slots__ = ("delivery_ms", "identity")
    DELIVERY_MS_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    delivery_ms: int
    identity: int
    def __init__(self, delivery_ms: _Optional[int] = ..., identity: _Optional[int] = ...) -> None: ...

class ListTimedResponse(_message.Message):
    __slots__ = ("error", "messages", "next", "waiting", "waiting_bytes")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    WAITING_BYTES_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    messages: _containers.RepeatedCompositeFieldContainer[ListedMessage]
    next: WaitingPlace
    waiting: int
    waiting_bytes: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., messages: _Optional[_Iterable[_Union[ListedMessage, _Mapping]]] = ..., next: _Optional[_Union[WaitingPlace, _Mapping]] = ..., waiting: _Optional[int] = ..., waiting_bytes: _Optional[int] = ...) -> None: ...

class ListedMessage(_message.Message):
    __slots__ = ("place", "topic_id", "queue", "timestamp_ms", "key", "tag", "size", "value", "headers", "unreadable", "look_up_keys")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    LOOK_UP_KEYS_FIELD_NUMBER: _ClassVar[int]
    place: WaitingPlace
    topic_id: int
    queue: int
    timestamp_ms: int
    key: bytes
    tag: str
    size: int
    value: bytes
    headers: _containers.RepeatedCompositeFieldContainer[ListedHeader]
    unreadable: str
    look_up_keys: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, place: _Optional[_Union[WaitingPlace, _Mapping]] = ..., topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., key: _Optional[bytes] = ..., tag: _Optional[str] = ..., size: _Optional[int] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[ListedHeader, _Mapping]]] = ..., unreadable: _Optional[str] = ..., look_up_keys: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ListedHeader(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("node", "cluster", "address", "http_address", "data_directory", "version", "shards")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HTTP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DATA_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    node: int
    cluster: str
    address: str
    http_address: str
    data_directory: str
    version: str
    shards: _containers.RepeatedCompositeFieldContainer[ShardStatus]
    def __init__(self, node: _Optional[int] = ..., cluster: _Optional[str] = ..., address: _Optional[str] = ..., http_address: _Optional[str] = ..., data_directory: _Optional[str] = ..., version: _Optional[str] = ..., shards: _Optional[_Iterable[_Union[ShardStatus, _Mapping]]] = ...) -> None: ...

class ShardStatus(_message.Message):
    __slots__ = ("shard", "role", "term", "leader", "last_index", "commit", "applied", "end_position", "chain", "suspect", "feature_level", "stopped", "diverged", "unacknowledged_by", "rebuilt", "no_writes", "clock_offsets_ms", "first_index", "start_position", "flushed_position", "commit_position", "applied_position", "voted_for", "pinned_leader", "preferred_leader")
    class ClockOffsetsMsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    END_POSITION_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    SUSPECT_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    DIVERGED_FIELD_NUMBER: _ClassVar[int]
    UNACKNOWLEDGED_BY_FIELD_NUMBER: _ClassVar[int]
    REBUILT_FIELD_NUMBER: _ClassVar[int]
    NO_WRITES_FIELD_NUMBER: _ClassVar[int]
    CLOCK_OFFSETS_MS_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    START_POSITION_FIELD_NUMBER: _ClassVar[int]
    FLUSHED_POSITION_FIELD_NUMBER: _ClassVar[int]
    COMMIT_POSITION_FIELD_NUMBER: _ClassVar[int]
    APPLIED_POSITION_FIELD_NUMBER: _ClassVar[int]
    VOTED_FOR_FIELD_NUMBER: _ClassVar[int]
    PINNED_LEADER_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_LEADER_FIELD_NUMBER: _ClassVar[int]
    shard: int
    role: str
    term: int
    leader: int
    last_index: int
    commit: int
    applied: int
    end_position: int
    chain: int
    suspect: bool
    feature_level: int
    stopped: str
    diverged: str
    unacknowledged_by: _containers.RepeatedScalarFieldContainer[int]
    rebuilt: str
    no_writes: str
    clock_offsets_ms: _containers.ScalarMap[int, int]
    first_index: int
    start_position: int
    flushed_position: int
    commit_position: int
    applied_position: int
    voted_for: int
    pinned_leader: int
    preferred_leader: int
    def __init__(self, shard: _Optional[int] = ..., role: _Optional[str] = ..., term: _Optional[int] = ..., leader: _Optional[int] = ..., last_index: _Optional[int] = ..., commit: _Optional[int] = ..., applied: _Optional[int] = ..., end_position: _Optional[int] = ..., chain: _Optional[int] = ..., suspect: _Optional[bool] = ..., feature_level: _Optional[int] = ..., stopped: _Optional[str] = ..., diverged: _Optional[str] = ..., unacknowledged_by: _Optional[_Iterable[int]] = ..., rebuilt: _Optional[str] = ..., no_writes: _Optional[str] = ..., clock_offsets_ms: _Optional[_Mapping[int, int]] = ..., first_index: _Optional[int] = ..., start_position: _Optional[int] = ..., flushed_position: _Optional[int] = ..., commit_position: _Optional[int] = ..., applied_position: _Optional[int] = ..., voted_for: _Optional[int] = ..., pinned_leader: _Optional[int] = ..., preferred_leader: _Optional[int] = ...) -> None: ...
