from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Command(_message.Message):
    __slots__ = ("create_topic", "hold_log", "release_log", "forget_holds", "add_group", "alter_topic", "open_topic", "topic_opened")
    CREATE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    HOLD_LOG_FIELD_NUMBER: _ClassVar[int]
    RELEASE_LOG_FIELD_NUMBER: _ClassVar[int]
    FORGET_HOLDS_FIELD_NUMBER: _ClassVar[int]
    ADD_GROUP_FIELD_NUMBER: _ClassVar[int]
    ALTER_TOPIC_FIELD_NUMBER: _ClassVar[int]
    OPEN_TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_OPENED_FIELD_NUMBER: _ClassVar[int]
    create_topic: CreateTopic
    hold_log: HoldLog
    release_log: ReleaseLog
    forget_holds: ForgetHolds
    add_group: AddGroup
    alter_topic: AlterTopic
    open_topic: OpenTopic
    topic_opened: TopicOpened
    def __init__(self, create_topic: _Optional[_Union[CreateTopic, _Mapping]] = ..., hold_log: _Optional[_Union[HoldLog, _Mapping]] = ..., release_log: _Optional[_Union[ReleaseLog, _Mapping]] = ..., forget_holds: _Optional[_Union[ForgetHolds, _Mapping]] = ..., add_group: _Optional[_Union[AddGroup, _Mapping]] = ..., alter_topic: _Optional[_Union[AlterTopic, _Mapping]] = ..., open_topic: _Optional[_Union[OpenTopic, _Mapping]] = ..., topic_opened: _Optional[_Union[TopicOpened, _Mapping]] = ...) -> None: ...

class CreateTopic(_message.Message):
    __slots__ = ("name", "queues", "groups")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    name: str
    queues: int
    groups: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., queues: _Optional[int] = ..., groups: _Optional[_Iterable[int]] = ...) -> None: ...

class AddGroup(_message.Message):
    __slots__ = ("group", "nodes")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    group: int
    nodes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, group: _Optional[int] = ..., nodes: _Optional[_Iterable[int]] = ...) -> None: ...

class AlterTopic(_message.Message):
    __slots__ = ("topic_id", "groups")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    groups: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[int] = ..., groups: _Optional[_Iterable[int]] = ...) -> None: ...

class OpenTopic(_message.Message):
    __slots__ = ("topic_id", "name", "groups", "created_ms")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    name: str
    groups: _containers.RepeatedScalarFieldContainer[int]
    created_ms: int
    def __init__(self, topic_id: _Optional[int] = ..., name: _Optional[str] = ..., groups: _Optional[_Iterable[int]] = ..., created_ms: _Optional[int] = ...) -> None: ...

class TopicOpened(_message.Message):
    __slots__ = ("topic_id", "queues")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queues: int
    def __init__(self, topic_id: _Optional[int] = ..., queues: _Optional[int] = ...) -> None: ...

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
