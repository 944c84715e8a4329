from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ConsumptionState(_message.Message):
    __slots__ = ("groups", "progress")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[ConsumerGroupState]
    progress: _containers.RepeatedCompositeFieldContainer[ProgressState]
    def __init__(self, groups: _Optional[_Iterable[_Union[ConsumerGroupState, _Mapping]]] = ..., progress: _Optional[_Iterable[_Union[ProgressState, _Mapping]]] = ...) -> None: ...

class ConsumerGroupState(_message.Message):
    __slots__ = ("name", "strategy", "generation", "assigned", "members", "shares", "rooms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    ROOMS_FIELD_NUMBER: _ClassVar[int]
    name: str
    strategy: str
    generation: int
    assigned: int
    members: _containers.RepeatedCompositeFieldContainer[MemberState]
    shares: _containers.RepeatedCompositeFieldContainer[ShareState]
    rooms: _containers.RepeatedCompositeFieldContainer[RoomState]
    def __init__(self, name: _Optional[str] = ..., strategy: _Optional[str] = ..., generation: _Optional[int] = ..., assigned: _Optional[int] = ..., members: _Optional[_Iterable[_Union[MemberState, _Mapping]]] = ..., shares: _Optional[_Iterable[_Union[ShareState, _Mapping]]] = ..., rooms: _Optional[_Iterable[_Union[RoomState, _Mapping]]] = ...) -> None: ...

class RoomState(_message.Message):
    __slots__ = ("shard", "room")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    shard: int
    room: str
    def __init__(self, shard: _Optional[int] = ..., room: _Optional[str] = ...) -> None: ...

class MemberState(_message.Message):
    __slots__ = ("member", "client_id", "room", "session_timeout_ms", "version", "subscriptions", "configured")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    member: str
    client_id: str
    room: str
    session_timeout_ms: int
    version: int
    subscriptions: _containers.RepeatedScalarFieldContainer[int]
    configured: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, member: _Optional[str] = ..., client_id: _Optional[str] = ..., room: _Optional[str] = ..., session_timeout_ms: _Optional[int] = ..., version: _Optional[int] = ..., subscriptions: _Optional[_Iterable[int]] = ..., configured: _Optional[_Iterable[int]] = ...) -> None: ...

class ShareState(_message.Message):
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

class ProgressState(_message.Message):
    __slots__ = ("consumer_group", "topic_id", "queue", "epoch", "offset", "resets", "settled")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    RESETS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    topic_id: int
    queue: int
    epoch: int
    offset: int
    resets: int
    settled: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, consumer_group: _Optional[str] = ..., topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., epoch: _Optional[int] = ..., offset: _Optional[int] = ..., resets: _Optional[int] = ..., settled: _Optional[_Iterable[int]] = ...) -> None: ...
