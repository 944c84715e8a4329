from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Code(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CODE_UNSPECIFIED: _ClassVar[Code]
    INVALID_ARGUMENT: _ClassVar[Code]
    INVALID_TOPIC_NAME: _ClassVar[Code]
    UNKNOWN_TOPIC: _ClassVar[Code]
    UNKNOWN_QUEUE: _ClassVar[Code]
    TOPIC_EXISTS: _ClassVar[Code]
    MESSAGE_TOO_LARGE: _ClassVar[Code]
    CORRUPT_BATCH: _ClassVar[Code]
    UNSUPPORTED_BATCH: _ClassVar[Code]
    OFFSET_TOO_LOW: _ClassVar[Code]
    OFFSET_BEYOND_END: _ClassVar[Code]
    PRODUCER_FENCED: _ClassVar[Code]
    DUPLICATE_FORGOTTEN: _ClassVar[Code]
    INVALID_GROUP_NAME: _ClassVar[Code]
    UNKNOWN_MEMBER: _ClassVar[Code]
    CONSUMER_FENCED: _ClassVar[Code]
    GROUP_CONFLICT: _ClassVar[Code]
    GROUP_FULL: _ClassVar[Code]
    COORDINATED_ELSEWHERE: _ClassVar[Code]
    TOO_MANY_HEADERS: _ClassVar[Code]
    HEADERS_TOO_LARGE: _ClassVar[Code]
    TRANSACTION_ENDED: _ClassVar[Code]
    UNKNOWN_TRANSACTION: _ClassVar[Code]
    REPEATED_MESSAGES: _ClassVar[Code]
    NOT_LEADER: _ClassVar[Code]
    NO_LEADER: _ClassVar[Code]
    BUSY: _ClassVar[Code]
    SEQUENCE_GAP: _ClassVar[Code]
    REPLICA_BEHIND: _ClassVar[Code]
    TIMED_OUT: _ClassVar[Code]
    UNAVAILABLE: _ClassVar[Code]
    CHANGE_IN_PROGRESS: _ClassVar[Code]
    THROTTLED: _ClassVar[Code]
    STORAGE_FAILED: _ClassVar[Code]
    DISK_FULL: _ClassVar[Code]
    INTERNAL: _ClassVar[Code]
    DIVERGED: _ClassVar[Code]
    UNKNOWN_NODE: _ClassVar[Code]
    NODE_EXISTS: _ClassVar[Code]
    NODE_REFUSED: _ClassVar[Code]
    NODE_BEHIND: _ClassVar[Code]
    LAST_VOTER: _ClassVar[Code]
    TRANSFER_REFUSED: _ClassVar[Code]
    NOT_SUSPECT: _ClassVar[Code]
    RECOVERY_REFUSED: _ClassVar[Code]
    LOG_HELD: _ClassVar[Code]
    SHARD_SHORT: _ClassVar[Code]
    NODE_SILENT: _ClassVar[Code]
    GROUP_NOT_EMPTY: _ClassVar[Code]
    UNKNOWN_GROUP: _ClassVar[Code]
    UNAUTHENTICATED: _ClassVar[Code]
    PERMISSION_DENIED: _ClassVar[Code]
    UNKNOWN_USER: _ClassVar[Code]
    USER_EXISTS: _ClassVar[Code]
CODE_UNSPECIFIED: Code
INVALID_ARGUMENT: Code
INVALID_TOPIC_NAME: Code
UNKNOWN_TOPIC: Code
UNKNOWN_QUEUE: Code
TOPIC_EXISTS: Code
MESSAGE_TOO_LARGE: Code
CORRUPT_BATCH: Code
UNSUPPORTED_BATCH: Code
OFFSET_TOO_LOW: Code
OFFSET_BEYOND_END: Code
PRODUCER_FENCED: Code
DUPLICATE_FORGOTTEN: Code
INVALID_GROUP_NAME: Code
UNKNOWN_MEMBER: Code
CONSUMER_FENCED: Code
GROUP_CONFLICT: Code
GROUP_FULL: Code
COORDINATED_ELSEWHERE: Code
TOO_MANY_HEADERS: Code
HEADERS_TOO_LARGE: Code
TRANSACTION_ENDED: Code
UNKNOWN_TRANSACTION: Code
REPEATED_MESSAGES: Code
NOT_LEADER: Code
NO_LEADER: Code
BUSY: Code
SEQUENCE_GAP: Code
REPLICA_BEHIND: Code
TIMED_OUT: Code
UNAVAILABLE: Code
CHANGE_IN_PROGRESS: Code
THROTTLED: Code
STORAGE_FAILED: Code
DISK_FULL: Code
INTERNAL: Code
DIVERGED: Code
UNKNOWN_NODE: Code
NODE_EXISTS: Code
NODE_REFUSED: Code
NODE_BEHIND: Code
LAST_VOTER: Code
TRANSFER_REFUSED: Code
NOT_SUSPECT: Code
RECOVERY_REFUSED: Code
LOG_HELD: Code
SHARD_SHORT: Code
NODE_SILENT: Code
GROUP_NOT_EMPTY: Code
UNKNOWN_GROUP: Code
UNAUTHENTICATED: Code
PERMISSION_DENIED: Code
UNKNOWN_USER: Code
USER_EXISTS: Code

class Error(_message.Message):
    __slots__ = ("code", "message", "leader", "leader_address", "first_offset", "end_offset", "throttle_ms", "next_sequence", "repeats", "places", "not_appended")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    THROTTLE_MS_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REPEATS_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    NOT_APPENDED_FIELD_NUMBER: _ClassVar[int]
    code: Code
    message: str
    leader: int
    leader_address: str
    first_offset: int
    end_offset: int
    throttle_ms: int
    next_sequence: int
    repeats: _containers.RepeatedCompositeFieldContainer[RepeatedMessage]
    places: _containers.RepeatedScalarFieldContainer[int]
    not_appended: bool
    def __init__(self, code: _Optional[_Union[Code, str]] = ..., message: _Optional[str] = ..., leader: _Optional[int] = ..., leader_address: _Optional[str] = ..., first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., throttle_ms: _Optional[int] = ..., next_sequence: _Optional[int] = ..., repeats: _Optional[_Iterable[_Union[RepeatedMessage, _Mapping]]] = ..., places: _Optional[_Iterable[int]] = ..., not_appended: _Optional[bool] = ...) -> None: ...

class RepeatedMessage(_message.Message):
    __slots__ = ("place", "queue", "offset", "append_time_ms")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    APPEND_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    place: int
    queue: int
    offset: int
    append_time_ms: int
    def __init__(self, place: _Optional[int] = ..., queue: _Optional[int] = ..., offset: _Optional[int] = ..., append_time_ms: _Optional[int] = ...) -> None: ...
