from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Command(_message.Message):
    __slots__ = ("create_topic", "hold_log", "release_log", "forget_holds", "add_shard", "alter_topic", "open_topic", "topic_opened", "delete_topic", "join_consumer_group", "leave_consumer_group", "assign_queues", "release_queues", "claim_queues", "acknowledge_offsets", "reset_offsets", "forget_consumer_group", "renew_queues", "place_coordinator", "host_group", "close_group", "raise_feature_level", "pin_leader", "unpin_leader", "begin_access", "add_user", "rotate_user", "remove_user", "grant_rules", "revoke_rules", "delegate_token", "set_rocketmq_secret", "settle_timed", "cancel_timed", "commit_transaction", "roll_back_halves", "confirm_halves", "count_unknown", "create_consumer_group", "change_leases", "set_replicas", "pause_placement", "drain_node", "end_drain", "begin_replica_move", "end_replica_move", "balance_replicas")
    CREATE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    HOLD_LOG_FIELD_NUMBER: _ClassVar[int]
    RELEASE_LOG_FIELD_NUMBER: _ClassVar[int]
    FORGET_HOLDS_FIELD_NUMBER: _ClassVar[int]
    ADD_SHARD_FIELD_NUMBER: _ClassVar[int]
    ALTER_TOPIC_FIELD_NUMBER: _ClassVar[int]
    OPEN_TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_OPENED_FIELD_NUMBER: _ClassVar[int]
    DELETE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    JOIN_CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    LEAVE_CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    ASSIGN_QUEUES_FIELD_NUMBER: _ClassVar[int]
    RELEASE_QUEUES_FIELD_NUMBER: _ClassVar[int]
    CLAIM_QUEUES_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    RESET_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    FORGET_CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    RENEW_QUEUES_FIELD_NUMBER: _ClassVar[int]
    PLACE_COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    HOST_GROUP_FIELD_NUMBER: _ClassVar[int]
    CLOSE_GROUP_FIELD_NUMBER: _ClassVar[int]
    RAISE_FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    PIN_LEADER_FIELD_NUMBER: _ClassVar[int]
    UNPIN_LEADER_FIELD_NUMBER: _ClassVar[int]
    BEGIN_ACCESS_FIELD_NUMBER: _ClassVar[int]
    ADD_USER_FIELD_NUMBER: _ClassVar[int]
    ROTATE_USER_FIELD_NUMBER: _ClassVar[int]
    REMOVE_USER_FIELD_NUMBER: _ClassVar[int]
    GRANT_RULES_FIELD_NUMBER: _ClassVar[int]
    REVOKE_RULES_FIELD_NUMBER: _ClassVar[int]
    DELEGATE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SET_ROCKETMQ_SECRET_FIELD_NUMBER: _ClassVar[int]
    SETTLE_TIMED_FIELD_NUMBER: _ClassVar[int]
    CANCEL_TIMED_FIELD_NUMBER: _ClassVar[int]
    COMMIT_TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    ROLL_BACK_HALVES_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_HALVES_FIELD_NUMBER: _ClassVar[int]
    COUNT_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    CREATE_CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    CHANGE_LEASES_FIELD_NUMBER: _ClassVar[int]
    SET_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    PAUSE_PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    DRAIN_NODE_FIELD_NUMBER: _ClassVar[int]
    END_DRAIN_FIELD_NUMBER: _ClassVar[int]
    BEGIN_REPLICA_MOVE_FIELD_NUMBER: _ClassVar[int]
    END_REPLICA_MOVE_FIELD_NUMBER: _ClassVar[int]
    BALANCE_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    create_topic: CreateTopic
    hold_log: HoldLog
    release_log: ReleaseLog
    forget_holds: ForgetHolds
    add_shard: AddShard
    alter_topic: AlterTopic
    open_topic: OpenTopic
    topic_opened: TopicOpened
    delete_topic: DeleteTopic
    join_consumer_group: JoinConsumerGroup
    leave_consumer_group: LeaveConsumerGroup
    assign_queues: AssignQueues
    release_queues: ReleaseQueues
    claim_queues: ClaimQueues
    acknowledge_offsets: AcknowledgeOffsets
    reset_offsets: ResetOffsets
    forget_consumer_group: ForgetConsumerGroup
    renew_queues: RenewQueues
    place_coordinator: PlaceCoordinator
    host_group: HostGroup
    close_group: CloseGroup
    raise_feature_level: RaiseFeatureLevel
    pin_leader: PinLeader
    unpin_leader: UnpinLeader
    begin_access: BeginAccess
    add_user: AddUser
    rotate_user: RotateUser
    remove_user: RemoveUser
    grant_rules: GrantRules
    revoke_rules: RevokeRules
    delegate_token: DelegateToken
    set_rocketmq_secret: SetRocketmqSecret
    settle_timed: SettleTimed
    cancel_timed: CancelTimed
    commit_transaction: CommitTransaction
    roll_back_halves: RollBackHalves
    confirm_halves: ConfirmHalves
    count_unknown: CountUnknown
    create_consumer_group: CreateConsumerGroup
    change_leases: ChangeLeases
    set_replicas: SetReplicas
    pause_placement: PausePlacement
    drain_node: DrainNode
    end_drain: EndDrain
    begin_replica_move: BeginReplicaMove
    end_replica_move: EndReplicaMove
    balance_replicas: BalanceReplicas
    def __init__(self, create_topic: _Optional[_Union[CreateTopic, _Mapping]] = ..., hold_log: _Optional[_Union[HoldLog, _Mapping]] = ..., release_log: _Optional[_Union[ReleaseLog, _Mapping]] = ..., forget_holds: _Optional[_Union[ForgetHolds, _Mapping]] = ..., add_shard: _Optional[_Union[AddShard, _Mapping]] = ..., alter_topic: _Optional[_Union[AlterTopic, _Mapping]] = ..., open_topic: _Optional[_Union[OpenTopic, _Mapping]] = ..., topic_opened: _Optional[_Union[TopicOpened, _Mapping]] = ..., delete_topic: _Optional[_Union[DeleteTopic, _Mapping]] = ..., join_consumer_group: _Optional[_Union[JoinConsumerGroup, _Mapping]] = ..., leave_consumer_group: _Optional[_Union[LeaveConsumerGroup, _Mapping]] = ..., assign_queues: _Optional[_Union[AssignQueues, _Mapping]] = ..., release_queues: _Optional[_Union[ReleaseQueues, _Mapping]] = ..., claim_queues: _Optional[_Union[ClaimQueues, _Mapping]] = ..., acknowledge_offsets: _Optional[_Union[AcknowledgeOffsets, _Mapping]] = ..., reset_offsets: _Optional[_Union[ResetOffsets, _Mapping]] = ..., forget_consumer_group: _Optional[_Union[ForgetConsumerGroup, _Mapping]] = ..., renew_queues: _Optional[_Union[RenewQueues, _Mapping]] = ..., place_coordinator: _Optional[_Union[PlaceCoordinator, _Mapping]] = ..., host_group: _Optional[_Union[HostGroup, _Mapping]] = ..., close_group: _Optional[_Union[CloseGroup, _Mapping]] = ..., raise_feature_level: _Optional[_Union[RaiseFeatureLevel, _Mapping]] = ..., pin_leader: _Optional[_Union[PinLeader, _Mapping]] = ..., unpin_leader: _Optional[_Union[UnpinLeader, _Mapping]] = ..., begin_access: _Optional[_Union[BeginAccess, _Mapping]] = ..., add_user: _Optional[_Union[AddUser, _Mapping]] = ..., rotate_user: _Optional[_Union[RotateUser, _Mapping]] = ..., remove_user: _Optional[_Union[RemoveUser, _Mapping]] = ..., grant_rules: _Optional[_Union[GrantRules, _Mapping]] = ..., revoke_rules: _Optional[_Union[RevokeRules, _Mapping]] = ..., delegate_token: _Optional[_Union[DelegateToken, _Mapping]] = ..., set_rocketmq_secret: _Optional[_Union[SetRocketmqSecret, _Mapping]] = ..., settle_timed: _Optional[_Union[SettleTimed, _Mapping]] = ..., cancel_timed: _Optional[_Union[CancelTimed, _Mapping]] = ..., commit_transaction: _Optional[_Union[CommitTransaction, _Mapping]] = ..., roll_back_halves: _Optional[_Union[RollBackHalves, _Mapping]] = ..., confirm_halves: _Optional[_Union[ConfirmHalves, _Mapping]] = ..., count_unknown: _Optional[_Union[CountUnknown, _Mapping]] = ..., create_consumer_group: _Optional[_Union[CreateConsumerGroup, _Mapping]] = ..., change_leases: _Optional[_Union[ChangeLeases, _Mapping]] = ..., set_replicas: _Optional[_Union[SetReplicas, _Mapping]] = ..., pause_placement: _Optional[_Union[PausePlacement, _Mapping]] = ..., drain_node: _Optional[_Union[DrainNode, _Mapping]] = ..., end_drain: _Optional[_Union[EndDrain, _Mapping]] = ..., begin_replica_move: _Optional[_Union[BeginReplicaMove, _Mapping]] = ..., end_replica_move: _Optional[_Union[EndReplicaMove, _Mapping]] = ..., balance_replicas: _Optional[_Union[BalanceReplicas, _Mapping]] = ...) -> None: ...

class RaiseFeatureLevel(_message.Message):
    __slots__ = ("level",)
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    level: int
    def __init__(self, level: _Optional[int] = ...) -> None: ...

class PinLeader(_message.Message):
    __slots__ = ("node", "incarnation", "balances")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    BALANCES_FIELD_NUMBER: _ClassVar[int]
    node: int
    incarnation: bytes
    balances: bool
    def __init__(self, node: _Optional[int] = ..., incarnation: _Optional[bytes] = ..., balances: _Optional[bool] = ...) -> None: ...

class UnpinLeader(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CreateTopic(_message.Message):
    __slots__ = ("name", "queues", "shards", "type")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    queues: int
    shards: _containers.RepeatedScalarFieldContainer[int]
    type: int
    def __init__(self, name: _Optional[str] = ..., queues: _Optional[int] = ..., shards: _Optional[_Iterable[int]] = ..., type: _Optional[int] = ...) -> None: ...

class AddShard(_message.Message):
    __slots__ = ("shard", "nodes", "incarnations")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    INCARNATIONS_FIELD_NUMBER: _ClassVar[int]
    shard: int
    nodes: _containers.RepeatedScalarFieldContainer[int]
    incarnations: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, shard: _Optional[int] = ..., nodes: _Optional[_Iterable[int]] = ..., incarnations: _Optional[_Iterable[bytes]] = ...) -> None: ...

class AlterTopic(_message.Message):
    __slots__ = ("topic_id", "shards", "type")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    shards: _containers.RepeatedScalarFieldContainer[int]
    type: int
    def __init__(self, topic_id: _Optional[int] = ..., shards: _Optional[_Iterable[int]] = ..., type: _Optional[int] = ...) -> None: ...

class OpenTopic(_message.Message):
    __slots__ = ("topic_id", "name", "shards", "created_ms")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    name: str
    shards: _containers.RepeatedScalarFieldContainer[int]
    created_ms: int
    def __init__(self, topic_id: _Optional[int] = ..., name: _Optional[str] = ..., shards: _Optional[_Iterable[int]] = ..., created_ms: _Optional[int] = ...) -> None: ...

class TopicOpened(_message.Message):
    __slots__ = ("topic_id", "queues")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queues: int
    def __init__(self, topic_id: _Optional[int] = ..., queues: _Optional[int] = ...) -> None: ...

class DeleteTopic(_message.Message):
    __slots__ = ("topic_id",)
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    def __init__(self, topic_id: _Optional[int] = ...) -> None: ...

class SetReplicas(_message.Message):
    __slots__ = ("replicas", "shard")
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    replicas: int
    shard: int
    def __init__(self, replicas: _Optional[int] = ..., shard: _Optional[int] = ...) -> None: ...

class PausePlacement(_message.Message):
    __slots__ = ("paused",)
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    paused: bool
    def __init__(self, paused: _Optional[bool] = ...) -> None: ...

class BalanceReplicas(_message.Message):
    __slots__ = ("begins",)
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    begins: bool
    def __init__(self, begins: _Optional[bool] = ...) -> None: ...

class DrainNode(_message.Message):
    __slots__ = ("node", "removes")
    NODE_FIELD_NUMBER: _ClassVar[int]
    REMOVES_FIELD_NUMBER: _ClassVar[int]
    node: int
    removes: bool
    def __init__(self, node: _Optional[int] = ..., removes: _Optional[bool] = ...) -> None: ...

class EndDrain(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: int
    def __init__(self, node: _Optional[int] = ...) -> None: ...

class BeginReplicaMove(_message.Message):
    __slots__ = ("shard", "to", "source", "reason")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    shard: int
    to: int
    source: int
    reason: int
    def __init__(self, shard: _Optional[int] = ..., to: _Optional[int] = ..., source: _Optional[int] = ..., reason: _Optional[int] = ...) -> None: ...

class EndReplicaMove(_message.Message):
    __slots__ = ("shard",)
    SHARD_FIELD_NUMBER: _ClassVar[int]
    shard: int
    def __init__(self, shard: _Optional[int] = ...) -> None: ...

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

class JoinConsumerGroup(_message.Message):
    __slots__ = ("consumer_group", "member", "client_id", "strategy", "room", "session_timeout_ms", "subscriptions", "configured", "rooms", "number")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    ROOMS_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    member: str
    client_id: str
    strategy: str
    room: str
    session_timeout_ms: int
    subscriptions: _containers.RepeatedCompositeFieldContainer[QueueCount]
    configured: _containers.RepeatedCompositeFieldContainer[QueueRef]
    rooms: _containers.RepeatedCompositeFieldContainer[ShardRoom]
    number: int
    def __init__(self, consumer_group: _Optional[str] = ..., member: _Optional[str] = ..., client_id: _Optional[str] = ..., strategy: _Optional[str] = ..., room: _Optional[str] = ..., session_timeout_ms: _Optional[int] = ..., subscriptions: _Optional[_Iterable[_Union[QueueCount, _Mapping]]] = ..., configured: _Optional[_Iterable[_Union[QueueRef, _Mapping]]] = ..., rooms: _Optional[_Iterable[_Union[ShardRoom, _Mapping]]] = ..., number: _Optional[int] = ...) -> None: ...

class ShardRoom(_message.Message):
    __slots__ = ("shard", "room")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    shard: int
    room: str
    def __init__(self, shard: _Optional[int] = ..., room: _Optional[str] = ...) -> None: ...

class QueueCount(_message.Message):
    __slots__ = ("topic_id", "queues")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queues: int
    def __init__(self, topic_id: _Optional[int] = ..., queues: _Optional[int] = ...) -> None: ...

class QueueRef(_message.Message):
    __slots__ = ("topic_id", "queue")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ...) -> None: ...

class LeaveConsumerGroup(_message.Message):
    __slots__ = ("consumer_group", "members")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, consumer_group: _Optional[str] = ..., members: _Optional[_Iterable[str]] = ...) -> None: ...

class AssignQueues(_message.Message):
    __slots__ = ("consumer_group", "generation", "targets", "goes_on")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    GOES_ON_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    generation: int
    targets: _containers.RepeatedCompositeFieldContainer[QueueTarget]
    goes_on: bool
    def __init__(self, consumer_group: _Optional[str] = ..., generation: _Optional[int] = ..., targets: _Optional[_Iterable[_Union[QueueTarget, _Mapping]]] = ..., goes_on: _Optional[bool] = ...) -> None: ...

class QueueTarget(_message.Message):
    __slots__ = ("topic_id", "queue", "member")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    member: str
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., member: _Optional[str] = ...) -> None: ...

class ReleaseQueues(_message.Message):
    __slots__ = ("consumer_group", "member", "queues")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    member: str
    queues: _containers.RepeatedCompositeFieldContainer[OwnedEpoch]
    def __init__(self, consumer_group: _Optional[str] = ..., member: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[OwnedEpoch, _Mapping]]] = ...) -> None: ...

class OwnedEpoch(_message.Message):
    __slots__ = ("topic_id", "queue", "epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    epoch: int
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class ClaimQueues(_message.Message):
    __slots__ = ("consumer_group", "queues")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    queues: _containers.RepeatedCompositeFieldContainer[ClaimedQueue]
    def __init__(self, consumer_group: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[ClaimedQueue, _Mapping]]] = ...) -> None: ...

class ClaimedQueue(_message.Message):
    __slots__ = ("topic_id", "queue", "epoch", "start_offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    epoch: int
    start_offset: int
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., epoch: _Optional[int] = ..., start_offset: _Optional[int] = ...) -> None: ...

class AcknowledgeOffsets(_message.Message):
    __slots__ = ("consumer_group", "offsets")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    offsets: _containers.RepeatedCompositeFieldContainer[AcknowledgedOffset]
    def __init__(self, consumer_group: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[AcknowledgedOffset, _Mapping]]] = ...) -> None: ...

class AcknowledgedOffset(_message.Message):
    __slots__ = ("topic_id", "queue", "epoch", "offset", "resets")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    RESETS_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    epoch: int
    offset: int
    resets: int
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., epoch: _Optional[int] = ..., offset: _Optional[int] = ..., resets: _Optional[int] = ...) -> None: ...

class ResetOffsets(_message.Message):
    __slots__ = ("consumer_group", "offsets")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    offsets: _containers.RepeatedCompositeFieldContainer[ResetOffset]
    def __init__(self, consumer_group: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[ResetOffset, _Mapping]]] = ...) -> None: ...

class ResetOffset(_message.Message):
    __slots__ = ("topic_id", "queue", "offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue: int
    offset: int
    def __init__(self, topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class ForgetConsumerGroup(_message.Message):
    __slots__ = ("consumer_group",)
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    def __init__(self, consumer_group: _Optional[str] = ...) -> None: ...

class RenewQueues(_message.Message):
    __slots__ = ("consumer_group", "queues")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    queues: _containers.RepeatedCompositeFieldContainer[QueueRef]
    def __init__(self, consumer_group: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[QueueRef, _Mapping]]] = ...) -> None: ...

class PlaceCoordinator(_message.Message):
    __slots__ = ("consumer_group", "shard", "only_new")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ONLY_NEW_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    shard: int
    only_new: bool
    def __init__(self, consumer_group: _Optional[str] = ..., shard: _Optional[int] = ..., only_new: _Optional[bool] = ...) -> None: ...

class HostGroup(_message.Message):
    __slots__ = ("consumer_group", "number", "placed_at")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PLACED_AT_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    number: int
    placed_at: int
    def __init__(self, consumer_group: _Optional[str] = ..., number: _Optional[int] = ..., placed_at: _Optional[int] = ...) -> None: ...

class CloseGroup(_message.Message):
    __slots__ = ("consumer_group", "number")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    number: int
    def __init__(self, consumer_group: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class BeginAccess(_message.Message):
    __slots__ = ("name", "verifier", "salt_key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    SALT_KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    verifier: Verifier
    salt_key: bytes
    def __init__(self, name: _Optional[str] = ..., verifier: _Optional[_Union[Verifier, _Mapping]] = ..., salt_key: _Optional[bytes] = ...) -> None: ...

class Verifier(_message.Message):
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

class AddUser(_message.Message):
    __slots__ = ("name", "verifier")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    name: str
    verifier: Verifier
    def __init__(self, name: _Optional[str] = ..., verifier: _Optional[_Union[Verifier, _Mapping]] = ...) -> None: ...

class RotateUser(_message.Message):
    __slots__ = ("name", "verifier")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    name: str
    verifier: Verifier
    def __init__(self, name: _Optional[str] = ..., verifier: _Optional[_Union[Verifier, _Mapping]] = ...) -> None: ...

class RemoveUser(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Rule(_message.Message):
    __slots__ = ("user", "action", "resource", "deny")
    USER_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    DENY_FIELD_NUMBER: _ClassVar[int]
    user: str
    action: str
    resource: str
    deny: bool
    def __init__(self, user: _Optional[str] = ..., action: _Optional[str] = ..., resource: _Optional[str] = ..., deny: _Optional[bool] = ...) -> None: ...

class SetRocketmqSecret(_message.Message):
    __slots__ = ("name", "encrypted")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENCRYPTED_FIELD_NUMBER: _ClassVar[int]
    name: str
    encrypted: bytes
    def __init__(self, name: _Optional[str] = ..., encrypted: _Optional[bytes] = ...) -> None: ...

class GrantRules(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[Rule]
    def __init__(self, rules: _Optional[_Iterable[_Union[Rule, _Mapping]]] = ...) -> None: ...

class RevokeRules(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[Rule]
    def __init__(self, rules: _Optional[_Iterable[_Union[Rule, _Mapping]]] = ...) -> None: ...

class DelegateToken(_message.Message):
    __slots__ = ("digest", "user", "rules", "ttl_ms")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    user: str
    rules: _containers.RepeatedCompositeFieldContainer[Rule]
    ttl_ms: int
    def __init__(self, digest: _Optional[bytes] = ..., user: _Optional[str] = ..., rules: _Optional[_Iterable[_Union[Rule, _Mapping]]] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class SettleTimed(_message.Message):
    __slots__ = ("through_ms", "through_identity", "seen", "settled")
    THROUGH_MS_FIELD_NUMBER: _ClassVar[int]
    THROUGH_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    through_ms: int
    through_identity: int
    seen: int
    settled: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, through_ms: _Optional[int] = ..., through_identity: _Optional[int] = ..., seen: _Optional[int] = ..., settled: _Optional[_Iterable[int]] = ...) -> None: ...

class CancelTimed(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[TimedMessage]
    def __init__(self, items: _Optional[_Iterable[_Union[TimedMessage, _Mapping]]] = ...) -> None: ...

class TimedMessage(_message.Message):
    __slots__ = ("identity", "delivery_ms")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_MS_FIELD_NUMBER: _ClassVar[int]
    identity: int
    delivery_ms: int
    def __init__(self, identity: _Optional[int] = ..., delivery_ms: _Optional[int] = ...) -> None: ...

class CommitTransaction(_message.Message):
    __slots__ = ("transaction", "halves")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    HALVES_FIELD_NUMBER: _ClassVar[int]
    transaction: int
    halves: _containers.RepeatedCompositeFieldContainer[HalfName]
    def __init__(self, transaction: _Optional[int] = ..., halves: _Optional[_Iterable[_Union[HalfName, _Mapping]]] = ...) -> None: ...

class HalfName(_message.Message):
    __slots__ = ("shard", "number")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    shard: int
    number: int
    def __init__(self, shard: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class RollBackHalves(_message.Message):
    __slots__ = ("numbers",)
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, numbers: _Optional[_Iterable[int]] = ...) -> None: ...

class ConfirmHalves(_message.Message):
    __slots__ = ("settled",)
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    settled: _containers.RepeatedCompositeFieldContainer[SettledHalf]
    def __init__(self, settled: _Optional[_Iterable[_Union[SettledHalf, _Mapping]]] = ...) -> None: ...

class SettledHalf(_message.Message):
    __slots__ = ("transaction", "half")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    HALF_FIELD_NUMBER: _ClassVar[int]
    transaction: int
    half: HalfName
    def __init__(self, transaction: _Optional[int] = ..., half: _Optional[_Union[HalfName, _Mapping]] = ...) -> None: ...

class CountUnknown(_message.Message):
    __slots__ = ("transactions",)
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, transactions: _Optional[_Iterable[int]] = ...) -> None: ...

class CreateConsumerGroup(_message.Message):
    __slots__ = ("consumer_group", "shared", "by_key", "max_attempts")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    BY_KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    shared: bool
    by_key: bool
    max_attempts: int
    def __init__(self, consumer_group: _Optional[str] = ..., shared: _Optional[bool] = ..., by_key: _Optional[bool] = ..., max_attempts: _Optional[int] = ...) -> None: ...

class ChangeLeases(_message.Message):
    __slots__ = ("queues", "time_ms")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[QueueLeases]
    time_ms: int
    def __init__(self, queues: _Optional[_Iterable[_Union[QueueLeases, _Mapping]]] = ..., time_ms: _Optional[int] = ...) -> None: ...

class QueueLeases(_message.Message):
    __slots__ = ("consumer_group", "created", "topic_id", "queue", "start_offset", "changes")
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    consumer_group: str
    created: int
    topic_id: int
    queue: int
    start_offset: int
    changes: _containers.RepeatedCompositeFieldContainer[LeaseChange]
    def __init__(self, consumer_group: _Optional[str] = ..., created: _Optional[int] = ..., topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., start_offset: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[LeaseChange, _Mapping]]] = ...) -> None: ...

class LeaseChange(_message.Message):
    __slots__ = ("kind", "first", "size", "lease", "resets", "duration_ms", "receipt")
    KIND_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    RESETS_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    kind: int
    first: int
    size: int
    lease: int
    resets: int
    duration_ms: int
    receipt: int
    def __init__(self, kind: _Optional[int] = ..., first: _Optional[int] = ..., size: _Optional[int] = ..., lease: _Optional[int] = ..., resets: _Optional[int] = ..., duration_ms: _Optional[int] = ..., receipt: _Optional[int] = ...) -> None: ...
