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

class AccessState(_message.Message):
    __slots__ = ("has_begun", "salt_key", "changed_at", "users", "tokens")
    HAS_BEGUN_FIELD_NUMBER: _ClassVar[int]
    SALT_KEY_FIELD_NUMBER: _ClassVar[int]
    CHANGED_AT_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    has_begun: bool
    salt_key: bytes
    changed_at: int
    users: _containers.RepeatedCompositeFieldContainer[UserState]
    tokens: _containers.RepeatedCompositeFieldContainer[DelegatedTokenState]
    def __init__(self, has_begun: _Optional[bool] = ..., salt_key: _Optional[bytes] = ..., changed_at: _Optional[int] = ..., users: _Optional[_Iterable[_Union[UserState, _Mapping]]] = ..., tokens: _Optional[_Iterable[_Union[DelegatedTokenState, _Mapping]]] = ...) -> None: ...

class UserState(_message.Message):
    __slots__ = ("name", "since", "verifier", "rules", "rocketmq_secret")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    ROCKETMQ_SECRET_FIELD_NUMBER: _ClassVar[int]
    name: str
    since: int
    verifier: VerifierState
    rules: _containers.RepeatedCompositeFieldContainer[RuleState]
    rocketmq_secret: bytes
    def __init__(self, name: _Optional[str] = ..., since: _Optional[int] = ..., verifier: _Optional[_Union[VerifierState, _Mapping]] = ..., rules: _Optional[_Iterable[_Union[RuleState, _Mapping]]] = ..., rocketmq_secret: _Optional[bytes] = ...) -> None: ...

class VerifierState(_message.Message):
    __slots__ = ("salt", "iterations", "stored_key", "server_key")
    SALT_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    STORED_KEY_FIELD_NUMBER: _ClassVar[int]
    SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes
    def __init__(self, salt: _Optional[bytes] = ..., iterations: _Optional[int] = ..., stored_key: _Optional[bytes] = ..., server_key: _Optional[bytes] = ...) -> None: ...

class RuleState(_message.Message):
    __slots__ = ("action", "resource", "deny")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    DENY_FIELD_NUMBER: _ClassVar[int]
    action: str
    resource: str
    deny: bool
    def __init__(self, action: _Optional[str] = ..., resource: _Optional[str] = ..., deny: _Optional[bool] = ...) -> None: ...

class DelegatedTokenState(_message.Message):
    __slots__ = ("digest", "user", "since", "rules", "expires_ms")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    user: str
    since: int
    rules: _containers.RepeatedCompositeFieldContainer[RuleState]
    expires_ms: int
    def __init__(self, digest: _Optional[bytes] = ..., user: _Optional[str] = ..., since: _Optional[int] = ..., rules: _Optional[_Iterable[_Union[RuleState, _Mapping]]] = ..., expires_ms: _Optional[int] = ...) -> None: ...
