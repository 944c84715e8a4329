from ledger.v1 import error_pb2 as _error_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetSlowRequestsRequest(_message.Message):
    __slots__ = ("threshold_ms",)
    THRESHOLD_MS_FIELD_NUMBER: _ClassVar[int]
    threshold_ms: float
    def __init__(self, threshold_ms: _Optional[float] = ...) -> None: ...

class GetSlowRequestsResponse(_message.Message):
    __slots__ = ("error", "recorded_from_ms", "requests")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FROM_MS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    recorded_from_ms: float
    requests: _containers.RepeatedCompositeFieldContainer[SlowRequest]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., recorded_from_ms: _Optional[float] = ..., requests: _Optional[_Iterable[_Union[SlowRequest, _Mapping]]] = ...) -> None: ...

class SlowRequest(_message.Message):
    __slots__ = ("began_ms", "total_ms", "method", "client", "parts", "error", "topic", "queue", "consumer_group", "count", "shard", "index", "flush_ms", "followers")
    BEGAN_MS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_MS_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    FLUSH_MS_FIELD_NUMBER: _ClassVar[int]
    FOLLOWERS_FIELD_NUMBER: _ClassVar[int]
    began_ms: int
    total_ms: float
    method: str
    client: CallingClient
    parts: _containers.RepeatedCompositeFieldContainer[RequestPart]
    error: str
    topic: str
    queue: int
    consumer_group: str
    count: int
    shard: int
    index: int
    flush_ms: float
    followers: _containers.RepeatedCompositeFieldContainer[FollowerPart]
    def __init__(self, began_ms: _Optional[int] = ..., total_ms: _Optional[float] = ..., method: _Optional[str] = ..., client: _Optional[_Union[CallingClient, _Mapping]] = ..., parts: _Optional[_Iterable[_Union[RequestPart, _Mapping]]] = ..., error: _Optional[str] = ..., topic: _Optional[str] = ..., queue: _Optional[int] = ..., consumer_group: _Optional[str] = ..., count: _Optional[int] = ..., shard: _Optional[int] = ..., index: _Optional[int] = ..., flush_ms: _Optional[float] = ..., followers: _Optional[_Iterable[_Union[FollowerPart, _Mapping]]] = ...) -> None: ...

class CallingClient(_message.Message):
    __slots__ = ("name", "peer", "user")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    name: str
    peer: str
    user: str
    def __init__(self, name: _Optional[str] = ..., peer: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class RequestPart(_message.Message):
    __slots__ = ("name", "ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    ms: float
    def __init__(self, name: _Optional[str] = ..., ms: _Optional[float] = ...) -> None: ...

class FollowerPart(_message.Message):
    __slots__ = ("node", "ms")
    NODE_FIELD_NUMBER: _ClassVar[int]
    MS_FIELD_NUMBER: _ClassVar[int]
    node: int
    ms: float
    def __init__(self, node: _Optional[int] = ..., ms: _Optional[float] = ...) -> None: ...
