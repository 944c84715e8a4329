from ledger.v1 import error_pb2 as _error_pb2
from ledger.v1 import slow_requests_pb2 as _slow_requests_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TraceMessageRequest(_message.Message):
    __slots__ = ("shard", "topic_id", "place", "identity", "message_id", "from_index", "places")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_INDEX_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    shard: int
    topic_id: int
    place: QueuePlace
    identity: int
    message_id: bytes
    from_index: int
    places: _containers.RepeatedCompositeFieldContainer[TracedPlace]
    def __init__(self, shard: _Optional[int] = ..., topic_id: _Optional[int] = ..., place: _Optional[_Union[QueuePlace, _Mapping]] = ..., identity: _Optional[int] = ..., message_id: _Optional[bytes] = ..., from_index: _Optional[int] = ..., places: _Optional[_Iterable[_Union[TracedPlace, _Mapping]]] = ...) -> None: ...

class QueuePlace(_message.Message):
    __slots__ = ("queue", "offset")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    queue: int
    offset: int
    def __init__(self, queue: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class TracedPlace(_message.Message):
    __slots__ = ("topic_id", "queue", "offset", "topic")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    offset: int
    topic: str
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., offset: _Optional[int] = ..., topic: _Optional[str] = ...) -> None: ...

class TraceMessageResponse(_message.Message):
    __slots__ = ("error", "place", "entry", "times", "events", "places", "looked_through", "applied")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    LOOKED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    place: TracedPlace
    entry: TracedEntry
    times: ReplicaTimes
    events: _containers.RepeatedCompositeFieldContainer[TraceEvent]
    places: _containers.RepeatedCompositeFieldContainer[TracedPlace]
    looked_through: int
    applied: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., place: _Optional[_Union[TracedPlace, _Mapping]] = ..., entry: _Optional[_Union[TracedEntry, _Mapping]] = ..., times: _Optional[_Union[ReplicaTimes, _Mapping]] = ..., events: _Optional[_Iterable[_Union[TraceEvent, _Mapping]]] = ..., places: _Optional[_Iterable[_Union[TracedPlace, _Mapping]]] = ..., looked_through: _Optional[int] = ..., applied: _Optional[int] = ...) -> None: ...

class TracedEntry(_message.Message):
    __slots__ = ("index", "term", "append_time_ms", "count", "producer_id", "epoch", "sequence", "timestamp_ms", "client")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    APPEND_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    index: int
    term: int
    append_time_ms: int
    count: int
    producer_id: int
    epoch: int
    sequence: int
    timestamp_ms: int
    client: _slow_requests_pb2.CallingClient
    def __init__(self, index: _Optional[int] = ..., term: _Optional[int] = ..., append_time_ms: _Optional[int] = ..., count: _Optional[int] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., client: _Optional[_Union[_slow_requests_pb2.CallingClient, _Mapping]] = ...) -> None: ...

class ReplicaTimes(_message.Message):
    __slots__ = ("node", "written_ms", "flushed_ms", "committed_ms", "applied_ms", "acknowledged_ms", "leads", "note")
    class AcknowledgedMsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    NODE_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_MS_FIELD_NUMBER: _ClassVar[int]
    FLUSHED_MS_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_MS_FIELD_NUMBER: _ClassVar[int]
    APPLIED_MS_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_MS_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    node: int
    written_ms: int
    flushed_ms: int
    committed_ms: int
    applied_ms: int
    acknowledged_ms: _containers.ScalarMap[int, int]
    leads: bool
    note: str
    def __init__(self, node: _Optional[int] = ..., written_ms: _Optional[int] = ..., flushed_ms: _Optional[int] = ..., committed_ms: _Optional[int] = ..., applied_ms: _Optional[int] = ..., acknowledged_ms: _Optional[_Mapping[int, int]] = ..., leads: _Optional[bool] = ..., note: _Optional[str] = ...) -> None: ...

class TraceEvent(_message.Message):
    __slots__ = ("time_ms", "index", "kind", "group", "text", "at", "to")
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    time_ms: int
    index: int
    kind: str
    group: str
    text: str
    at: TracedPlace
    to: TracedPlace
    def __init__(self, time_ms: _Optional[int] = ..., index: _Optional[int] = ..., kind: _Optional[str] = ..., group: _Optional[str] = ..., text: _Optional[str] = ..., at: _Optional[_Union[TracedPlace, _Mapping]] = ..., to: _Optional[_Union[TracedPlace, _Mapping]] = ...) -> None: ...
