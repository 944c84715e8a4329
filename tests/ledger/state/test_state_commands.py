"""Tests that each command survives encoding and decoding unchanged, and that invalid bytes are refused."""

from __future__ import annotations

from typing import get_args

import pytest

from ledger.access.password import Verifier
from ledger.access.rules import Rule
from ledger.errors import InternalError
from ledger.state import TimedMessage, TopicQueueId
from ledger.state.command_encoding import decode_command, encode_command
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
from ledger.state.consumer_group_table import MemberDetails
from ledger.state.group_modes import GroupMode
from ledger.state.lease_table import ChangeKind, LeaseChange
from ledger.state.placement_table import MoveReason
from ledger.state.transaction_table import HERE, HalfName
from ledger.v1 import command_pb2

QUEUE = TopicQueueId(7, 2)
MEMBER = MemberDetails("a", "billing", "north", 10_000, ((7, 4), (9, 1)), (QUEUE,))
VERIFIER = Verifier(b"0123456789abcdef", 20_000, b"k" * 32, b"s" * 32)
COMMANDS: list[Command] = [
    RaiseFeatureLevel(1),
    PinLeader(2, b"2" * 16),
    UnpinLeader(),
    PlaceCoordinator("billing", 2, only_new=True),
    HostGroup("billing", 3, 1 << 40),
    CloseGroup("billing", 3),
    CreateTopic("orders", 3, (0, 1, 0)),
    CreateTopic("orders", 3),
    AlterTopic(7, (0, 1, 0, 2)),
    OpenTopic(7, "orders", (0, 1), 1_700_000_000_000),
    TopicOpened(7, 4),
    DeleteTopic(7),
    AddShard(2, (3, 1), (b"3" * 16, b"1" * 16)),
    SetReplicas(5),
    SetReplicas(5, 3),
    PausePlacement(True),
    BalanceReplicas(True),
    DrainNode(4, removes=True),
    EndDrain(4),
    BeginReplicaMove(2, 4, 1, MoveReason.DRAIN),
    EndReplicaMove(2),
    HoldLog("backup", 60_000),
    ReleaseLog("backup"),
    ForgetHolds(),
    JoinConsumerGroup("billing", "average", MEMBER, ((0, "north"), (1, "south"))),
    LeaveConsumerGroup("billing", ("a", "b")),
    AssignQueues("billing", 41, (QueueTarget(QUEUE, "a"), QueueTarget(TopicQueueId(7, 3), "")), goes_on=True),
    ReleaseQueues("billing", "a", (QueueEpoch(QUEUE, 41),)),
    RenewQueues("billing", (QUEUE,)),
    BeginAccess("root", VERIFIER, b"s" * 32),
    AddUser("alice", VERIFIER),
    AddUser("bob", None),
    RotateUser("alice", VERIFIER),
    RemoveUser("alice"),
    GrantRules((Rule("alice", "publish", "topic:orders-*"), Rule("alice", "all", "*", deny=True))),
    RevokeRules((Rule("alice", "publish", "topic:orders-*"),)),
    DelegateToken(b"d" * 32, "alice", (Rule("alice", "subscribe", "topic:orders"),), 60_000),
    SetRocketmqSecret("alice", b"encrypted"),
    SettleTimed(1_700_000_000_000, 7, 1 << 40, (3, 5)),
    SettleTimed(0, 0, 0),
    CommitTransaction(7, (HalfName(HERE, 7), HalfName(3, 1 << 40))),
    RollBackHalves((7, 1 << 40)),
    ConfirmHalves((SettledHalf(7, HalfName(3, 1 << 40)),)),
    CountUnknown((7, 8)),
    CancelTimed((TimedMessage(1 << 40, 1_700_000_000_000), TimedMessage(0, 0))),
    CreateConsumerGroup(GroupMode("billing", is_shared=True, by_key=True, max_attempts=3)),
    CreateConsumerGroup(GroupMode("billing", is_shared=False)),
    ChangeLeases(
        (
            QueueLeases("billing", 1 << 40, QUEUE, 17),
            QueueLeases(
                "audit",
                9,
                QUEUE,
                0,
                (
                    LeaseChange(ChangeKind.ACKNOWLEDGE, 3, 2, 40, 1),
                    LeaseChange(ChangeKind.LEASE, 1 << 40, 32, duration_ms=30_000, receipt=(1 << 64) - 1),
                ),
            ),
        ),
        1 << 40,
    ),
    ChangeLeases((), 0),
    ClaimQueues("billing", (ClaimedQueue(7, 2, 41, -1),)),
    AcknowledgeOffsets("billing", (AcknowledgedOffset(7, 2, 41, 1, 1 << 40), AcknowledgedOffset(7, 3, 41, 0, 0))),
    ResetOffsets("billing", (ResetOffset(7, 2, 12),)),
    ForgetConsumerGroup("billing"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_command_comes_back_from_its_bytes(command: Command) -> None:
    assert decode_command(encode_command(command)) == command
    assert decode_command(memoryview(encode_command(command))) == command


def test_every_kind_of_command_is_covered() -> None:
    assert {type(command) for command in COMMANDS} == set(get_args(Command))
    fields = {field.name for field in command_pb2.Command.DESCRIPTOR.fields}
    written = {command_pb2.Command.FromString(encode_command(command)).WhichOneof("command") for command in COMMANDS}
    assert written == fields


def test_the_bytes_are_those_of_protobuf() -> None:
    offsets = [command_pb2.AcknowledgedOffset(topic_id=7, queue=2, epoch=41, resets=1, offset=5)]
    by_hand = command_pb2.AcknowledgeOffsets(consumer_group="billing", offsets=offsets)
    command = AcknowledgeOffsets("billing", (AcknowledgedOffset(7, 2, 41, 1, 5),))
    assert encode_command(command) == command_pb2.Command(acknowledge_offsets=by_hand).SerializeToString()


def test_a_change_of_leases_of_an_unknown_kind_stops_the_program() -> None:
    queues = [command_pb2.QueueLeases(consumer_group="billing", changes=[command_pb2.LeaseChange(kind=7, size=1)])]
    body = command_pb2.Command(change_leases=command_pb2.ChangeLeases(queues=queues)).SerializeToString()
    with pytest.raises(InternalError, match="the kind 7, which this program does not know"):
        decode_command(body)


@pytest.mark.parametrize(("body", "sentence"), [(b"\xff", "cannot be read"), (b"", "unknown to this program")])
def test_other_bytes_are_refused(body: bytes, sentence: str) -> None:
    with pytest.raises(InternalError, match=sentence):
        decode_command(body)
