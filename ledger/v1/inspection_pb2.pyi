from ledger.v1 import error_pb2 as _error_pb2
from ledger.v1 import message_trace_pb2 as _message_trace_pb2
from ledger.v1 import slow_requests_pb2 as _slow_requests_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetEventsRequest(_message.Message):
    __slots__ = ("after", "run")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    after: int
    run: int
    def __init__(self, after: _Optional[int] = ..., run: _Optional[int] = ...) -> None: ...

class GetEventsResponse(_message.Message):
    __slots__ = ("error", "run", "events")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    run: int
    events: _containers.RepeatedCompositeFieldContainer[NodeEvent]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., run: _Optional[int] = ..., events: _Optional[_Iterable[_Union[NodeEvent, _Mapping]]] = ...) -> None: ...

class NodeEvent(_message.Message):
    __slots__ = ("number", "time_ms", "shard", "kind", "text", "term", "subject")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    number: int
    time_ms: int
    shard: int
    kind: str
    text: str
    term: int
    subject: int
    def __init__(self, number: _Optional[int] = ..., time_ms: _Optional[int] = ..., shard: _Optional[int] = ..., kind: _Optional[str] = ..., text: _Optional[str] = ..., term: _Optional[int] = ..., subject: _Optional[int] = ...) -> None: ...

class ListEntriesRequest(_message.Message):
    __slots__ = ("shard", "last", "count")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    shard: int
    last: int
    count: int
    def __init__(self, shard: _Optional[int] = ..., last: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class ListEntriesResponse(_message.Message):
    __slots__ = ("error", "first_index", "last_index", "commit", "applied", "entries")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    first_index: int
    last_index: int
    commit: int
    applied: int
    entries: _containers.RepeatedCompositeFieldContainer[ListedEntry]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., first_index: _Optional[int] = ..., last_index: _Optional[int] = ..., commit: _Optional[int] = ..., applied: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[ListedEntry, _Mapping]]] = ...) -> None: ...

class ListedEntry(_message.Message):
    __slots__ = ("index", "term", "kind", "position", "size", "append_time_ms", "crc", "chain", "count", "topic_id", "queue", "base_offset")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    APPEND_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    index: int
    term: int
    kind: str
    position: int
    size: int
    append_time_ms: int
    crc: int
    chain: int
    count: int
    topic_id: int
    queue: int
    base_offset: int
    def __init__(self, index: _Optional[int] = ..., term: _Optional[int] = ..., kind: _Optional[str] = ..., position: _Optional[int] = ..., size: _Optional[int] = ..., append_time_ms: _Optional[int] = ..., crc: _Optional[int] = ..., chain: _Optional[int] = ..., count: _Optional[int] = ..., topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., base_offset: _Optional[int] = ...) -> None: ...

class GetTrafficRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetTrafficResponse(_message.Message):
    __slots__ = ("error", "topics", "disk_use_ratio")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    DISK_USE_RATIO_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    topics: _containers.RepeatedCompositeFieldContainer[TopicTraffic]
    disk_use_ratio: float
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[TopicTraffic, _Mapping]]] = ..., disk_use_ratio: _Optional[float] = ...) -> None: ...

class TopicTraffic(_message.Message):
    __slots__ = ("topic", "messages_in", "bytes_in", "messages_out", "bytes_out")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_IN_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_OUT_FIELD_NUMBER: _ClassVar[int]
    BYTES_OUT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int
    def __init__(self, topic: _Optional[str] = ..., messages_in: _Optional[int] = ..., bytes_in: _Optional[int] = ..., messages_out: _Optional[int] = ..., bytes_out: _Optional[int] = ...) -> None: ...

class GetAuditLogRequest(_message.Message):
    __slots__ = ("after",)
    AFTER_FIELD_NUMBER: _ClassVar[int]
    after: int
    def __init__(self, after: _Optional[int] = ...) -> None: ...

class GetAuditLogResponse(_message.Message):
    __slots__ = ("error", "lines")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    lines: _containers.RepeatedCompositeFieldContainer[AuditLine]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., lines: _Optional[_Iterable[_Union[AuditLine, _Mapping]]] = ...) -> None: ...

class GetNodeReportRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetNodeReportResponse(_message.Message):
    __slots__ = ("error", "settings", "log_lines", "versions")
    class VersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    LOG_LINES_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    settings: str
    log_lines: _containers.RepeatedScalarFieldContainer[str]
    versions: _containers.ScalarMap[str, str]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., settings: _Optional[str] = ..., log_lines: _Optional[_Iterable[str]] = ..., versions: _Optional[_Mapping[str, str]] = ...) -> None: ...

class AuditLine(_message.Message):
    __slots__ = ("number", "time_ms", "text")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    number: int
    time_ms: int
    text: str
    def __init__(self, number: _Optional[int] = ..., time_ms: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...
