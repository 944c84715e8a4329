from ledger.v1 import error_pb2 as _error_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetMembersRequest(_message.Message):
    __slots__ = ("shard",)
    SHARD_FIELD_NUMBER: _ClassVar[int]
    shard: int
    def __init__(self, shard: _Optional[int] = ...) -> None: ...

class GetMembersResponse(_message.Message):
    __slots__ = ("error", "cluster", "term", "leader", "transferring_to", "last_index", "commit", "configuration_index", "members", "preferred_leader", "pinned_leader", "preference_ms")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    TRANSFERRING_TO_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_INDEX_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_LEADER_FIELD_NUMBER: _ClassVar[int]
    PINNED_LEADER_FIELD_NUMBER: _ClassVar[int]
    PREFERENCE_MS_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    cluster: str
    term: int
    leader: int
    transferring_to: int
    last_index: int
    commit: int
    configuration_index: int
    members: _containers.RepeatedCompositeFieldContainer[Member]
    preferred_leader: int
    pinned_leader: int
    preference_ms: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., cluster: _Optional[str] = ..., term: _Optional[int] = ..., leader: _Optional[int] = ..., transferring_to: _Optional[int] = ..., last_index: _Optional[int] = ..., commit: _Optional[int] = ..., configuration_index: _Optional[int] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., preferred_leader: _Optional[int] = ..., pinned_leader: _Optional[int] = ..., preference_ms: _Optional[int] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("node", "address", "incarnation", "voter", "suspect", "lag_entries", "lag_bytes", "caught_up")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    VOTER_FIELD_NUMBER: _ClassVar[int]
    SUSPECT_FIELD_NUMBER: _ClassVar[int]
    LAG_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    LAG_BYTES_FIELD_NUMBER: _ClassVar[int]
    CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    node: int
    address: str
    incarnation: bytes
    voter: bool
    suspect: bool
    lag_entries: int
    lag_bytes: int
    caught_up: bool
    def __init__(self, node: _Optional[int] = ..., address: _Optional[str] = ..., incarnation: _Optional[bytes] = ..., voter: _Optional[bool] = ..., suspect: _Optional[bool] = ..., lag_entries: _Optional[int] = ..., lag_bytes: _Optional[int] = ..., caught_up: _Optional[bool] = ...) -> None: ...

class AddNodeRequest(_message.Message):
    __slots__ = ("shard", "node", "address", "wait")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    shard: int
    node: int
    address: str
    wait: bool
    def __init__(self, shard: _Optional[int] = ..., node: _Optional[int] = ..., address: _Optional[str] = ..., wait: _Optional[bool] = ...) -> None: ...

class PromoteNodeRequest(_message.Message):
    __slots__ = ("shard", "node", "wait")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    shard: int
    node: int
    wait: bool
    def __init__(self, shard: _Optional[int] = ..., node: _Optional[int] = ..., wait: _Optional[bool] = ...) -> None: ...

class RemoveNodeRequest(_message.Message):
    __slots__ = ("shard", "node", "wait")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    shard: int
    node: int
    wait: bool
    def __init__(self, shard: _Optional[int] = ..., node: _Optional[int] = ..., wait: _Optional[bool] = ...) -> None: ...

class ChangeResponse(_message.Message):
    __slots__ = ("error", "index")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    index: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...

class TransferLeadershipRequest(_message.Message):
    __slots__ = ("shard", "to", "from_node")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    FROM_NODE_FIELD_NUMBER: _ClassVar[int]
    shard: int
    to: int
    from_node: int
    def __init__(self, shard: _Optional[int] = ..., to: _Optional[int] = ..., from_node: _Optional[int] = ...) -> None: ...

class TransferLeadershipResponse(_message.Message):
    __slots__ = ("error", "to")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    to: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., to: _Optional[int] = ...) -> None: ...

class PinLeaderRequest(_message.Message):
    __slots__ = ("shard", "node")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    shard: int
    node: int
    def __init__(self, shard: _Optional[int] = ..., node: _Optional[int] = ...) -> None: ...

class PinLeaderResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class RecoverNodeRequest(_message.Message):
    __slots__ = ("shard", "node", "accept_loss")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_LOSS_FIELD_NUMBER: _ClassVar[int]
    shard: int
    node: int
    accept_loss: bool
    def __init__(self, shard: _Optional[int] = ..., node: _Optional[int] = ..., accept_loss: _Optional[bool] = ...) -> None: ...

class RecoverNodeResponse(_message.Message):
    __slots__ = ("error", "reason", "since_ms", "last_index", "recovered")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    reason: str
    since_ms: int
    last_index: int
    recovered: bool
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., reason: _Optional[str] = ..., since_ms: _Optional[int] = ..., last_index: _Optional[int] = ..., recovered: _Optional[bool] = ...) -> None: ...

class TrimLogRequest(_message.Message):
    __slots__ = ("shard", "since_ms", "bytes", "place", "dry_run")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    shard: int
    since_ms: int
    bytes: int
    place: QueueOffset
    dry_run: bool
    def __init__(self, shard: _Optional[int] = ..., since_ms: _Optional[int] = ..., bytes: _Optional[int] = ..., place: _Optional[_Union[QueueOffset, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class QueueOffset(_message.Message):
    __slots__ = ("topic", "queue", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queue: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., queue: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class TrimLogResponse(_message.Message):
    __slots__ = ("error", "first_index", "entries", "bytes", "messages", "newest_ms", "bytes_kept", "held_by")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEWEST_MS_FIELD_NUMBER: _ClassVar[int]
    BYTES_KEPT_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    first_index: int
    entries: int
    bytes: int
    messages: int
    newest_ms: int
    bytes_kept: int
    held_by: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., first_index: _Optional[int] = ..., entries: _Optional[int] = ..., bytes: _Optional[int] = ..., messages: _Optional[int] = ..., newest_ms: _Optional[int] = ..., bytes_kept: _Optional[int] = ..., held_by: _Optional[_Iterable[str]] = ...) -> None: ...

class Hold(_message.Message):
    __slots__ = ("name", "index", "taken_ms", "expires_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TAKEN_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    index: int
    taken_ms: int
    expires_ms: int
    def __init__(self, name: _Optional[str] = ..., index: _Optional[int] = ..., taken_ms: _Optional[int] = ..., expires_ms: _Optional[int] = ...) -> None: ...

class HoldLogRequest(_message.Message):
    __slots__ = ("shard", "name", "ttl_ms")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    shard: int
    name: str
    ttl_ms: int
    def __init__(self, shard: _Optional[int] = ..., name: _Optional[str] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class HoldLogResponse(_message.Message):
    __slots__ = ("error", "hold", "first_index")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    hold: Hold
    first_index: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., hold: _Optional[_Union[Hold, _Mapping]] = ..., first_index: _Optional[int] = ...) -> None: ...

class ReleaseLogRequest(_message.Message):
    __slots__ = ("shard", "name")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    shard: int
    name: str
    def __init__(self, shard: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class ReleaseLogResponse(_message.Message):
    __slots__ = ("error", "released")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    released: bool
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., released: _Optional[bool] = ...) -> None: ...

class GetHoldsRequest(_message.Message):
    __slots__ = ("shard",)
    SHARD_FIELD_NUMBER: _ClassVar[int]
    shard: int
    def __init__(self, shard: _Optional[int] = ...) -> None: ...

class GetHoldsResponse(_message.Message):
    __slots__ = ("error", "holds")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    holds: _containers.RepeatedCompositeFieldContainer[Hold]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., holds: _Optional[_Iterable[_Union[Hold, _Mapping]]] = ...) -> None: ...

class AddShardRequest(_message.Message):
    __slots__ = ("nodes", "shards")
    NODES_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[int]
    shards: int
    def __init__(self, nodes: _Optional[_Iterable[int]] = ..., shards: _Optional[int] = ...) -> None: ...

class AddShardResponse(_message.Message):
    __slots__ = ("error", "shard", "nodes")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    shard: int
    nodes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., shard: _Optional[int] = ..., nodes: _Optional[_Iterable[int]] = ...) -> None: ...

class OpenTopicRequest(_message.Message):
    __slots__ = ("shard", "topic_id", "name", "shards", "created_ms")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    shard: int
    topic_id: int
    name: str
    shards: _containers.RepeatedScalarFieldContainer[int]
    created_ms: int
    def __init__(self, shard: _Optional[int] = ..., topic_id: _Optional[int] = ..., name: _Optional[str] = ..., shards: _Optional[_Iterable[int]] = ..., created_ms: _Optional[int] = ...) -> None: ...

class OpenTopicResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class DropTopicRequest(_message.Message):
    __slots__ = ("shard", "topic_id")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    shard: int
    topic_id: int
    def __init__(self, shard: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class DropTopicResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...
