from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Command(_message.Message):
    __slots__ = ("create_topic", "hold_log", "release_log", "forget_holds")
    CREATE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    HOLD_LOG_FIELD_NUMBER: _ClassVar[int]
    RELEASE_LOG_FIELD_NUMBER: _ClassVar[int]
    FORGET_HOLDS_FIELD_NUMBER: _ClassVar[int]
    create_topic: CreateTopic
    hold_log: HoldLog
    release_log: ReleaseLog
    forget_holds: ForgetHolds
    def __init__(self, create_topic: _Optional[_Union[CreateTopic, _Mapping]] = ..., hold_log: _Optional[_Union[HoldLog, _Mapping]] = ..., release_log: _Optional[_Union[ReleaseLog, _Mapping]] = ..., forget_holds: _Optional[_Union[ForgetHolds, _Mapping]] = ...) -> None: ...

class CreateTopic(_message.Message):
    __slots__ = ("name", "queues")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    name: str
    queues: int
    def __init__(self, name: _Optional[str] = ..., queues: _Optional[int] = ...) -> None: ...

class HoldLog(_message.Message):
    __slots__ = ("name", "ttl_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    ttl_ms: int
    def __init__(self, name: _Optional[str] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class ReleaseLog(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ForgetHolds(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
