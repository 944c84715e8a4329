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
    __slots__ = ("error", "cluster", "term", "leader", "transferring_to", "last_index", "commit", "configuration_index", "members", "preferred_leader", "pinned_leader", "preference_ms", "log_bytes")
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
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
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
    log_bytes: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., cluster: _Optional[str] = ..., term: _Optional[int] = ..., leader: _Optional[int] = ..., transferring_to: _Optional[int] = ..., last_index: _Optional[int] = ..., commit: _Optional[int] = ..., configuration_index: _Optional[int] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., preferred_leader: _Optional[int] = ..., pinned_leader: _Optional[int] = ..., preference_ms: _Optional[int] = ..., log_bytes: _Optional[int] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("node", "address", "incarnation", "voter", "suspect", "lag_entries", "lag_bytes", "caught_up", "answers")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    VOTER_FIELD_NUMBER: _ClassVar[int]
    SUSPECT_FIELD_NUMBER: _ClassVar[int]
    LAG_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    LAG_BYTES_FIELD_NUMBER: _ClassVar[int]
    CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    node: int
    address: str
    incarnation: bytes
    voter: bool
    suspect: bool
    lag_entries: int
    lag_bytes: int
    caught_up: bool
    answers: bool
    def __init__(self, node: _Optional[int] = ..., address: _Optional[str] = ..., incarnation: _Optional[bytes] = ..., voter: _Optional[bool] = ..., suspect: _Optional[bool] = ..., lag_entries: _Optional[int] = ..., lag_bytes: _Optional[int] = ..., caught_up: _Optional[bool] = ..., answers: _Optional[bool] = ...) -> None: ...

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
    __slots__ = ("shard", "node", "wait", "force")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    shard: int
    node: int
    wait: bool
    force: bool
    def __init__(self, shard: _Optional[int] = ..., node: _Optional[int] = ..., wait: _Optional[bool] = ..., force: _Optional[bool] = ...) -> None: ...

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
    __slots__ = ("shard", "node", "balances")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    BALANCES_FIELD_NUMBER: _ClassVar[int]
    shard: int
    node: int
    balances: bool
    def __init__(self, shard: _Optional[int] = ..., node: _Optional[int] = ..., balances: _Optional[bool] = ...) -> None: ...

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

class GetPlacementRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetPlacementResponse(_message.Message):
    __slots__ = ("error", "replicas", "replicas_set", "paused", "balancing", "nodes", "shards", "moves", "balance", "obstacles", "leader_changes")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_SET_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    BALANCING_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    BALANCE_FIELD_NUMBER: _ClassVar[int]
    OBSTACLES_FIELD_NUMBER: _ClassVar[int]
    LEADER_CHANGES_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    replicas: int
    replicas_set: bool
    paused: bool
    balancing: bool
    nodes: _containers.RepeatedCompositeFieldContainer[PlacedNode]
    shards: _containers.RepeatedCompositeFieldContainer[PlacedShard]
    moves: _containers.RepeatedCompositeFieldContainer[ReplicaMove]
    balance: _containers.RepeatedCompositeFieldContainer[ReplicaMove]
    obstacles: _containers.RepeatedScalarFieldContainer[str]
    leader_changes: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., replicas: _Optional[int] = ..., replicas_set: _Optional[bool] = ..., paused: _Optional[bool] = ..., balancing: _Optional[bool] = ..., nodes: _Optional[_Iterable[_Union[PlacedNode, _Mapping]]] = ..., shards: _Optional[_Iterable[_Union[PlacedShard, _Mapping]]] = ..., moves: _Optional[_Iterable[_Union[ReplicaMove, _Mapping]]] = ..., balance: _Optional[_Iterable[_Union[ReplicaMove, _Mapping]]] = ..., obstacles: _Optional[_Iterable[str]] = ..., leader_changes: _Optional[int] = ...) -> None: ...

class PlacedNode(_message.Message):
    __slots__ = ("node", "room", "silent_ms", "gone", "draining", "leaving")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    SILENT_MS_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    node: int
    room: str
    silent_ms: int
    gone: bool
    draining: bool
    leaving: bool
    def __init__(self, node: _Optional[int] = ..., room: _Optional[str] = ..., silent_ms: _Optional[int] = ..., gone: _Optional[bool] = ..., draining: _Optional[bool] = ..., leaving: _Optional[bool] = ...) -> None: ...

class PlacedShard(_message.Message):
    __slots__ = ("shard", "leader", "log_bytes", "replicas", "wanted")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    shard: int
    leader: int
    log_bytes: int
    replicas: _containers.RepeatedCompositeFieldContainer[PlacedReplica]
    wanted: int
    def __init__(self, shard: _Optional[int] = ..., leader: _Optional[int] = ..., log_bytes: _Optional[int] = ..., replicas: _Optional[_Iterable[_Union[PlacedReplica, _Mapping]]] = ..., wanted: _Optional[int] = ...) -> None: ...

class PlacedReplica(_message.Message):
    __slots__ = ("node", "voter", "answers", "lag_bytes")
    NODE_FIELD_NUMBER: _ClassVar[int]
    VOTER_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    LAG_BYTES_FIELD_NUMBER: _ClassVar[int]
    node: int
    voter: bool
    answers: bool
    lag_bytes: int
    def __init__(self, node: _Optional[int] = ..., voter: _Optional[bool] = ..., answers: _Optional[bool] = ..., lag_bytes: _Optional[int] = ...) -> None: ...

class ReplicaMove(_message.Message):
    __slots__ = ("shard", "to", "source", "reason", "begun_ms", "lag_bytes", "trouble")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BEGUN_MS_FIELD_NUMBER: _ClassVar[int]
    LAG_BYTES_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    shard: int
    to: int
    source: int
    reason: int
    begun_ms: int
    lag_bytes: int
    trouble: str
    def __init__(self, shard: _Optional[int] = ..., to: _Optional[int] = ..., source: _Optional[int] = ..., reason: _Optional[int] = ..., begun_ms: _Optional[int] = ..., lag_bytes: _Optional[int] = ..., trouble: _Optional[str] = ...) -> None: ...

class SetPlacementRequest(_message.Message):
    __slots__ = ("replicas", "paused", "balancing", "shard")
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    BALANCING_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    replicas: int
    paused: bool
    balancing: bool
    shard: int
    def __init__(self, replicas: _Optional[int] = ..., paused: _Optional[bool] = ..., balancing: _Optional[bool] = ..., shard: _Optional[int] = ...) -> None: ...

class SetPlacementResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ("node", "removes", "stop")
    NODE_FIELD_NUMBER: _ClassVar[int]
    REMOVES_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    node: int
    removes: bool
    stop: bool
    def __init__(self, node: _Optional[int] = ..., removes: _Optional[bool] = ..., stop: _Optional[bool] = ...) -> None: ...

class DrainNodeResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...
