"""Encodes commands as the bodies of log entries, in protobuf (`ledger.v1.Command`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError, Message

from ledger.access.password import Verifier
from ledger.access.rules import Rule
from ledger.errors import InternalError
from ledger.state.commands import (
    AcknowledgedOffset,
    AcknowledgeOffsets,
    AddShard,
    AddUser,
    AlterTopic,
    AssignQueues,
    BalanceReplicas,
    BeginAccess,
    BeginReplicaMove,
    CancelTimed,
    ChangeLeases,
    ClaimedQueue,
    ClaimQueues,
    CloseGroup,
    Command,
    CommitTransaction,
    ConfirmHalves,
    CountUnknown,
    CreateConsumerGroup,
    CreateTopic,
    DelegateToken,
    DeleteTopic,
    DrainNode,
    EndDrain,
    EndReplicaMove,
    ForgetConsumerGroup,
    ForgetHolds,
    GrantRules,
    HoldLog,
    HostGroup,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    OpenTopic,
    PausePlacement,
    PinLeader,
    PlaceCoordinator,
    QueueEpoch,
    QueueLeases,
    QueueTarget,
    RaiseFeatureLevel,
    ReleaseLog,
    ReleaseQueues,
    RemoveUser,
    RenewQueues,
    ResetOffset,
    ResetOffsets,
    RevokeRules,
    RollBackHalves,
    RotateUser,
    SetReplicas,
    SetRocketmqSecret,
    SettledHalf,
    SettleTimed,
    TopicOpened,
    UnpinLeader,
)
from ledger.state.consumer_group_table import MemberDetails, TopicQueueId
from ledger.state.group_modes import GroupMode
from ledger.state.lease_table import ChangeKind, LeaseChange
from ledger.state.placement_table import MoveReason
from ledger.state.timed_table import TimedMessage
from ledger.state.transaction_table import HalfName
from ledger.v1 import command_pb2


def encode_command(command: Command) -> bytes:
    """Return the body of the log entry for a command. Equal commands have equal bytes."""
    kind = _BY_TYPE[type(command)]
    field: dict[str, Any] = {kind.field: kind.to_wire(command)}
    return command_pb2.Command(**field).SerializeToString(deterministic=True)


def decode_command(body: bytes | memoryview) -> Command:
    """Return the command that the body of a log entry contains. Raises InternalError if this program cannot read
    the command."""
    try:
        wire = command_pb2.Command.FromString(bytes(body))
    except DecodeError as error:
        raise InternalError("A committed command cannot be read: validate this replica's log.") from error
    kind = _BY_FIELD.get(wire.WhichOneof("command") or "")
    if kind is None:
        raise InternalError("A committed command is unknown to this program: upgrade this node.")
    command: Command = kind.from_wire(getattr(wire, kind.field))
    return command


def command_type(body: bytes | memoryview) -> type[Command] | None:
    """Return the type of the command that the body of a log entry contains, without decoding its values; None if this
    program cannot read the command."""
    try:
        kind = _BY_FIELD.get(command_pb2.Command.FromString(bytes(body)).WhichOneof("command") or "")
    except DecodeError:
        return None
    return None if kind is None else kind.type


class _Kind(NamedTuple):
    """One kind of command: its Python type, its field in the protobuf message `Command`, and the conversions in
    both directions."""

    type: type[Any]
    field: str
    to_wire: Callable[[Any], Message]
    from_wire: Callable[[Any], Any]


def _joining_to_wire(command: JoinConsumerGroup) -> command_pb2.JoinConsumerGroup:
    member = command.member
    return command_pb2.JoinConsumerGroup(
        consumer_group=command.consumer_group,
        member=member.member,
        client_id=member.client_id,
        strategy=command.strategy,
        room=member.room,
        session_timeout_ms=member.session_timeout_ms,
        subscriptions=[
            command_pb2.QueueCount(topic_id=topic_id, queues=queues) for topic_id, queues in member.subscriptions
        ],
        configured=_refs_to_wire(member.configured),
        rooms=[command_pb2.ShardRoom(shard=shard, room=room) for shard, room in command.rooms],
        number=command.number,
    )


def _joining_from_wire(wire: command_pb2.JoinConsumerGroup) -> JoinConsumerGroup:
    member = MemberDetails(
        wire.member,
        wire.client_id,
        wire.room,
        wire.session_timeout_ms,
        tuple((each.topic_id, each.queues) for each in wire.subscriptions),
        _refs_from_wire(wire.configured),
    )
    rooms = tuple((each.shard, each.room) for each in wire.rooms)
    return JoinConsumerGroup(wire.consumer_group, wire.strategy, member, rooms, wire.number)


def _assignment_to_wire(command: AssignQueues) -> command_pb2.AssignQueues:
    return command_pb2.AssignQueues(
        consumer_group=command.consumer_group,
        generation=command.generation,
        targets=[
            command_pb2.QueueTarget(topic_id=queue.topic_id, queue=queue.queue, member=member)
            for queue, member in command.targets
        ],
        goes_on=command.goes_on,
    )


def _assignment_from_wire(wire: command_pb2.AssignQueues) -> AssignQueues:
    targets = tuple(QueueTarget(TopicQueueId(each.topic_id, each.queue), each.member) for each in wire.targets)
    return AssignQueues(wire.consumer_group, wire.generation, targets, wire.goes_on)


def _release_to_wire(command: ReleaseQueues) -> command_pb2.ReleaseQueues:
    return command_pb2.ReleaseQueues(
        consumer_group=command.consumer_group,
        member=command.member,
        queues=[
            command_pb2.OwnedEpoch(topic_id=queue.topic_id, queue=queue.queue, epoch=epoch)
            for queue, epoch in command.queues
        ],
    )


def _release_from_wire(wire: command_pb2.ReleaseQueues) -> ReleaseQueues:
    queues = tuple(QueueEpoch(TopicQueueId(each.topic_id, each.queue), each.epoch) for each in wire.queues)
    return ReleaseQueues(wire.consumer_group, wire.member, queues)


def _refs_to_wire(queues: tuple[TopicQueueId, ...]) -> list[command_pb2.QueueRef]:
    return [command_pb2.QueueRef(topic_id=topic_id, queue=queue) for topic_id, queue in queues]


def _refs_from_wire(wire: Any) -> tuple[TopicQueueId, ...]:
    return tuple(TopicQueueId(each.topic_id, each.queue) for each in wire)


def _verifier_to_wire(verifier: Verifier | None) -> command_pb2.Verifier | None:
    if verifier is None:
        return None
    return command_pb2.Verifier(
        salt=verifier.salt,
        iterations=verifier.iterations,
        stored_key=verifier.stored_key,
        server_key=verifier.server_key,
    )


def _verifier_from_wire(wire: Any) -> Verifier | None:
    """Return the field `verifier` of a command, or None if it is not set."""
    if not wire.HasField("verifier"):
        return None
    return _verifier(wire.verifier)


def _verifier(wire: command_pb2.Verifier) -> Verifier:
    return Verifier(wire.salt, wire.iterations, wire.stored_key, wire.server_key)


def _rules_to_wire(rules: tuple[Rule, ...]) -> list[command_pb2.Rule]:
    return [
        command_pb2.Rule(user=each.user, action=each.action, resource=each.resource, deny=each.deny) for each in rules
    ]


def _rules_from_wire(wire: Any) -> tuple[Rule, ...]:
    return tuple(Rule(each.user, each.action, each.resource, each.deny) for each in wire)


def _half_to_wire(half: HalfName) -> command_pb2.HalfName:
    return command_pb2.HalfName(shard=half.shard, number=half.number)


def _half_from_wire(wire: Any) -> HalfName:
    return HalfName(wire.shard, wire.number)


def _leases_to_wire(command: ChangeLeases) -> command_pb2.ChangeLeases:
    return command_pb2.ChangeLeases(
        queues=[
            command_pb2.QueueLeases(
                consumer_group=each.consumer_group,
                created=each.created,
                topic_id=each.queue.topic_id,
                queue=each.queue.queue,
                start_offset=each.start_offset,
                changes=[command_pb2.LeaseChange(**change._asdict()) for change in each.changes],
            )
            for each in command.queues
        ],
        time_ms=command.time_ms,
    )


def _leases_from_wire(wire: command_pb2.ChangeLeases) -> ChangeLeases:
    return ChangeLeases(
        tuple(
            QueueLeases(
                each.consumer_group,
                each.created,
                TopicQueueId(each.topic_id, each.queue),
                each.start_offset,
                tuple(
                    LeaseChange(
                        _change_kind(one.kind), one.first, one.size, one.lease, one.resets, one.duration_ms, one.receipt
                    )
                    for one in each.changes
                ),
            )
            for each in wire.queues
        ),
        wire.time_ms,
    )


def _change_kind(number: int) -> ChangeKind:
    """Return the kind of a change of leases. Raises InternalError if this program does not know it."""
    try:
        return ChangeKind(number)
    except ValueError as error:
        raise InternalError(
            f"A committed change of leases has the kind {number}, which this program does not know: upgrade this node."
        ) from error


def _move_reason(number: int) -> MoveReason:
    """Return the reason of a move of a replica. Raises InternalError if this program does not know it."""
    try:
        return MoveReason(number)
    except ValueError as error:
        raise InternalError(
            f"A committed move of a replica has the reason {number}, which this program does not know: upgrade this "
            "node."
        ) from error


_KINDS = (
    _Kind(
        RaiseFeatureLevel,
        "raise_feature_level",
        lambda it: command_pb2.RaiseFeatureLevel(level=it.level),
        lambda wire: RaiseFeatureLevel(wire.level),
    ),
    _Kind(
        PinLeader,
        "pin_leader",
        lambda it: command_pb2.PinLeader(node=it.node, incarnation=it.incarnation, balances=it.balances),
        lambda wire: PinLeader(wire.node, wire.incarnation, wire.balances),
    ),
    _Kind(UnpinLeader, "unpin_leader", lambda it: command_pb2.UnpinLeader(), lambda wire: UnpinLeader()),
    _Kind(
        CreateTopic,
        "create_topic",
        lambda it: command_pb2.CreateTopic(name=it.name, queues=it.queues, shards=it.shards, type=it.type),
        lambda wire: CreateTopic(wire.name, wire.queues, tuple(wire.shards), wire.type),
    ),
    _Kind(
        AlterTopic,
        "alter_topic",
        lambda it: command_pb2.AlterTopic(topic_id=it.topic_id, shards=it.shards, type=it.type),
        lambda wire: AlterTopic(wire.topic_id, tuple(wire.shards), wire.type if wire.HasField("type") else None),
    ),
    _Kind(
        OpenTopic,
        "open_topic",
        lambda it: command_pb2.OpenTopic(
            topic_id=it.topic_id, name=it.name, shards=it.shards, created_ms=it.created_ms
        ),
        lambda wire: OpenTopic(wire.topic_id, wire.name, tuple(wire.shards), wire.created_ms),
    ),
    _Kind(
        TopicOpened,
        "topic_opened",
        lambda it: command_pb2.TopicOpened(topic_id=it.topic_id, queues=it.queues),
        lambda wire: TopicOpened(wire.topic_id, wire.queues),
    ),
    _Kind(
        DeleteTopic,
        "delete_topic",
        lambda it: command_pb2.DeleteTopic(topic_id=it.topic_id),
        lambda wire: DeleteTopic(wire.topic_id),
    ),
    _Kind(
        AddShard,
        "add_shard",
        lambda it: command_pb2.AddShard(shard=it.shard, nodes=it.nodes, incarnations=it.incarnations),
        lambda wire: AddShard(wire.shard, tuple(wire.nodes), tuple(wire.incarnations)),
    ),
    _Kind(
        HoldLog,
        "hold_log",
        lambda it: command_pb2.HoldLog(name=it.name, ttl_ms=it.ttl_ms),
        lambda wire: HoldLog(wire.name, wire.ttl_ms),
    ),
    _Kind(
        ReleaseLog,
        "release_log",
        lambda it: command_pb2.ReleaseLog(name=it.name),
        lambda wire: ReleaseLog(wire.name),
    ),
    _Kind(ForgetHolds, "forget_holds", lambda it: command_pb2.ForgetHolds(), lambda wire: ForgetHolds()),
    _Kind(JoinConsumerGroup, "join_consumer_group", _joining_to_wire, _joining_from_wire),
    _Kind(
        LeaveConsumerGroup,
        "leave_consumer_group",
        lambda it: command_pb2.LeaveConsumerGroup(consumer_group=it.consumer_group, members=it.members),
        lambda wire: LeaveConsumerGroup(wire.consumer_group, tuple(wire.members)),
    ),
    _Kind(AssignQueues, "assign_queues", _assignment_to_wire, _assignment_from_wire),
    _Kind(ReleaseQueues, "release_queues", _release_to_wire, _release_from_wire),
    _Kind(
        RenewQueues,
        "renew_queues",
        lambda it: command_pb2.RenewQueues(consumer_group=it.consumer_group, queues=_refs_to_wire(it.queues)),
        lambda wire: RenewQueues(wire.consumer_group, _refs_from_wire(wire.queues)),
    ),
    _Kind(
        PlaceCoordinator,
        "place_coordinator",
        lambda it: command_pb2.PlaceCoordinator(consumer_group=it.consumer_group, shard=it.shard, only_new=it.only_new),
        lambda wire: PlaceCoordinator(wire.consumer_group, wire.shard, wire.only_new),
    ),
    _Kind(
        HostGroup,
        "host_group",
        lambda it: command_pb2.HostGroup(consumer_group=it.consumer_group, number=it.number, placed_at=it.placed_at),
        lambda wire: HostGroup(wire.consumer_group, wire.number, wire.placed_at),
    ),
    _Kind(
        CloseGroup,
        "close_group",
        lambda it: command_pb2.CloseGroup(consumer_group=it.consumer_group, number=it.number),
        lambda wire: CloseGroup(wire.consumer_group, wire.number),
    ),
    _Kind(
        ClaimQueues,
        "claim_queues",
        lambda it: command_pb2.ClaimQueues(
            consumer_group=it.consumer_group, queues=[command_pb2.ClaimedQueue(**each._asdict()) for each in it.queues]
        ),
        lambda wire: ClaimQueues(
            wire.consumer_group,
            tuple(ClaimedQueue(each.topic_id, each.queue, each.epoch, each.start_offset) for each in wire.queues),
        ),
    ),
    _Kind(
        AcknowledgeOffsets,
        "acknowledge_offsets",
        lambda it: command_pb2.AcknowledgeOffsets(
            consumer_group=it.consumer_group,
            offsets=[
                command_pb2.AcknowledgedOffset(
                    topic_id=topic_id, queue=queue, epoch=epoch, resets=resets, offset=offset
                )
                for topic_id, queue, epoch, resets, offset in it.offsets
            ],
        ),
        lambda wire: AcknowledgeOffsets(
            wire.consumer_group,
            tuple(
                AcknowledgedOffset(each.topic_id, each.queue, each.epoch, each.resets, each.offset)
                for each in wire.offsets
            ),
        ),
    ),
    _Kind(
        ResetOffsets,
        "reset_offsets",
        lambda it: command_pb2.ResetOffsets(
            consumer_group=it.consumer_group, offsets=[command_pb2.ResetOffset(**each._asdict()) for each in it.offsets]
        ),
        lambda wire: ResetOffsets(
            wire.consumer_group, tuple(ResetOffset(each.topic_id, each.queue, each.offset) for each in wire.offsets)
        ),
    ),
    _Kind(
        ForgetConsumerGroup,
        "forget_consumer_group",
        lambda it: command_pb2.ForgetConsumerGroup(consumer_group=it.consumer_group),
        lambda wire: ForgetConsumerGroup(wire.consumer_group),
    ),
    _Kind(
        BeginAccess,
        "begin_access",
        lambda it: command_pb2.BeginAccess(name=it.name, verifier=_verifier_to_wire(it.verifier), salt_key=it.salt_key),
        lambda wire: BeginAccess(wire.name, _verifier(wire.verifier), wire.salt_key),
    ),
    _Kind(
        AddUser,
        "add_user",
        lambda it: command_pb2.AddUser(name=it.name, verifier=_verifier_to_wire(it.verifier)),
        lambda wire: AddUser(wire.name, _verifier_from_wire(wire)),
    ),
    _Kind(
        RotateUser,
        "rotate_user",
        lambda it: command_pb2.RotateUser(name=it.name, verifier=_verifier_to_wire(it.verifier)),
        lambda wire: RotateUser(wire.name, _verifier_from_wire(wire)),
    ),
    _Kind(
        RemoveUser,
        "remove_user",
        lambda it: command_pb2.RemoveUser(name=it.name),
        lambda wire: RemoveUser(wire.name),
    ),
    _Kind(
        GrantRules,
        "grant_rules",
        lambda it: command_pb2.GrantRules(rules=_rules_to_wire(it.rules)),
        lambda wire: GrantRules(_rules_from_wire(wire.rules)),
    ),
    _Kind(
        RevokeRules,
        "revoke_rules",
        lambda it: command_pb2.RevokeRules(rules=_rules_to_wire(it.rules)),
        lambda wire: RevokeRules(_rules_from_wire(wire.rules)),
    ),
    _Kind(
        DelegateToken,
        "delegate_token",
        lambda it: command_pb2.DelegateToken(
            digest=it.digest, user=it.user, rules=_rules_to_wire(it.rules), ttl_ms=it.ttl_ms
        ),
        lambda wire: DelegateToken(wire.digest, wire.user, _rules_from_wire(wire.rules), wire.ttl_ms),
    ),
    _Kind(
        SetRocketmqSecret,
        "set_rocketmq_secret",
        lambda it: command_pb2.SetRocketmqSecret(name=it.name, encrypted=it.encrypted),
        lambda wire: SetRocketmqSecret(wire.name, wire.encrypted),
    ),
    _Kind(
        SettleTimed,
        "settle_timed",
        lambda it: command_pb2.SettleTimed(
            through_ms=it.through_ms, through_identity=it.through_identity, seen=it.seen, settled=it.settled
        ),
        lambda wire: SettleTimed(wire.through_ms, wire.through_identity, wire.seen, tuple(wire.settled)),
    ),
    _Kind(
        CancelTimed,
        "cancel_timed",
        lambda it: command_pb2.CancelTimed(items=[command_pb2.TimedMessage(**each._asdict()) for each in it.items]),
        lambda wire: CancelTimed(tuple(TimedMessage(each.identity, each.delivery_ms) for each in wire.items)),
    ),
    _Kind(
        CommitTransaction,
        "commit_transaction",
        lambda it: command_pb2.CommitTransaction(
            transaction=it.transaction, halves=[_half_to_wire(half) for half in it.halves]
        ),
        lambda wire: CommitTransaction(wire.transaction, tuple(map(_half_from_wire, wire.halves))),
    ),
    _Kind(
        RollBackHalves,
        "roll_back_halves",
        lambda it: command_pb2.RollBackHalves(numbers=it.numbers),
        lambda wire: RollBackHalves(tuple(wire.numbers)),
    ),
    _Kind(
        ConfirmHalves,
        "confirm_halves",
        lambda it: command_pb2.ConfirmHalves(
            settled=[
                command_pb2.SettledHalf(transaction=each.transaction, half=_half_to_wire(each.half))
                for each in it.settled
            ]
        ),
        lambda wire: ConfirmHalves(
            tuple(SettledHalf(each.transaction, _half_from_wire(each.half)) for each in wire.settled)
        ),
    ),
    _Kind(
        CountUnknown,
        "count_unknown",
        lambda it: command_pb2.CountUnknown(transactions=it.transactions),
        lambda wire: CountUnknown(tuple(wire.transactions)),
    ),
    _Kind(
        CreateConsumerGroup,
        "create_consumer_group",
        lambda it: command_pb2.CreateConsumerGroup(
            consumer_group=it.mode.consumer_group,
            shared=it.mode.is_shared,
            by_key=it.mode.by_key,
            max_attempts=it.mode.max_attempts,
        ),
        lambda wire: CreateConsumerGroup(GroupMode(wire.consumer_group, wire.shared, wire.by_key, wire.max_attempts)),
    ),
    _Kind(ChangeLeases, "change_leases", _leases_to_wire, _leases_from_wire),
    _Kind(
        SetReplicas,
        "set_replicas",
        lambda it: command_pb2.SetReplicas(replicas=it.replicas, shard=it.shard),
        lambda wire: SetReplicas(wire.replicas, wire.shard),
    ),
    _Kind(
        PausePlacement,
        "pause_placement",
        lambda it: command_pb2.PausePlacement(paused=it.paused),
        lambda wire: PausePlacement(wire.paused),
    ),
    _Kind(
        BalanceReplicas,
        "balance_replicas",
        lambda it: command_pb2.BalanceReplicas(begins=it.begins),
        lambda wire: BalanceReplicas(wire.begins),
    ),
    _Kind(
        DrainNode,
        "drain_node",
        lambda it: command_pb2.DrainNode(node=it.node, removes=it.removes),
        lambda wire: DrainNode(wire.node, wire.removes),
    ),
    _Kind(
        EndDrain,
        "end_drain",
        lambda it: command_pb2.EndDrain(node=it.node),
        lambda wire: EndDrain(wire.node),
    ),
    _Kind(
        BeginReplicaMove,
        "begin_replica_move",
        lambda it: command_pb2.BeginReplicaMove(shard=it.shard, to=it.to, source=it.source, reason=it.reason),
        lambda wire: BeginReplicaMove(wire.shard, wire.to, wire.source, _move_reason(wire.reason)),
    ),
    _Kind(
        EndReplicaMove,
        "end_replica_move",
        lambda it: command_pb2.EndReplicaMove(shard=it.shard),
        lambda wire: EndReplicaMove(wire.shard),
    ),
)
_BY_TYPE = {kind.type: kind for kind in _KINDS}
_BY_FIELD = {kind.field: kind for kind in _KINDS}
