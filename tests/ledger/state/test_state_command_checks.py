"""A command with a value that the state cannot store is refused before it is proposed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import InvalidArgumentError, LedgerError
from ledger.state import State
from ledger.state.command_checks import MAX_TIME_MS, MAX_TOPIC_ID, check_command
from ledger.state.command_encoding import encode_command
from ledger.state.commands import (
    AddShard,
    AlterTopic,
    BeginReplicaMove,
    Command,
    CreateTopic,
    DeleteTopic,
    DrainNode,
    HoldLog,
    OpenTopic,
    SetReplicas,
    TopicOpened,
)
from ledger.state.placement_table import MoveReason

UINT32 = st.integers(0, (1 << 32) - 1) | st.sampled_from([0, 1, 2, MAX_TOPIC_ID, (1 << 32) - 1])
INT64 = st.integers(-(1 << 63), (1 << 63) - 1) | st.sampled_from([0, 1000, MAX_TIME_MS])
NAMES = st.sampled_from(["orders", "payments", "%RETRY%billing", "", "a b", "x" * 128])
SHARDS = st.lists(st.integers(0, 2) | UINT32, max_size=4).map(tuple)
COMMANDS = (
    st.builds(CreateTopic, NAMES, st.integers(0, 4) | UINT32, SHARDS)
    | st.builds(AlterTopic, UINT32, SHARDS)
    | st.builds(OpenTopic, UINT32, NAMES, SHARDS, INT64)
    | st.builds(TopicOpened, UINT32, UINT32)
    | st.builds(DeleteTopic, UINT32)
    | st.builds(AddShard, UINT32, SHARDS, st.lists(st.binary(max_size=17), max_size=4).map(tuple))
    | st.builds(HoldLog, NAMES, INT64)
    | st.builds(SetReplicas, UINT32, UINT32)
    | st.builds(DrainNode, UINT32, st.booleans())
    | st.builds(BeginReplicaMove, UINT32, UINT32, UINT32, st.sampled_from(MoveReason))
)


def passes(command: Command, shard: int) -> bool:
    try:
        check_command(command, shard)
    except LedgerError:
        return False
    return True


@given(st.lists(COMMANDS, max_size=8), st.sampled_from([0, 1]))
def test_a_state_can_store_all_commands_that_pass(commands: list[Command], shard: int) -> None:
    state = State()
    for index, command in enumerate(commands, 1):
        if passes(command, shard):
            state.apply_command(encode_command(command), 1_700_000_000_000, index=index)
    assert State.decode(state.encode()).digest() == state.digest()


REFUSED: list[tuple[Command, int, str]] = [
    (OpenTopic((1 << 32) - 1, "orders", (1,), 0), 1, "No topic can have the id 4294967295"),
    (OpenTopic(0, "orders", (1,), 0), 1, "No topic can have the id 0"),
    (OpenTopic(7, "orders", (1,), 0), 0, "OpenTopic is for the other shards"),
    (OpenTopic(7, "orders", (1,), -1), 1, "A topic cannot be created at -1 ms"),
    (OpenTopic(7, "orders", (), 0), 1, "A topic cannot have 0 queues"),
    (OpenTopic(7, "orders", (64,), 0), 1, "There can be no shard 64"),
    (CreateTopic("orders", 1), 2, "CreateTopic is for shard 0, and not for shard 2"),
    (AlterTopic(7, (0,)), 2, "AlterTopic is for shard 0"),
    (TopicOpened(7, 0), 0, "A topic cannot have 0 queues"),
    (DeleteTopic(0), 1, "No topic can have the id 0"),
    (AddShard(1, (1, 2), (b"1" * 16, b"2" * 15)), 0, "need 2 incarnations of 16 bytes"),
    (AddShard(1, (0,), (b"1" * 16,)), 0, "No node can have the number 0"),
    (SetReplicas(0), 0, "A shard cannot have 0 replicas: choose 1 to 9"),
    (SetReplicas(10, 1), 0, "A shard cannot have 10 replicas"),
    (SetReplicas(3, 64), 0, "There can be no shard 64"),
    (SetReplicas(3), 1, "SetReplicas is for shard 0"),
    (DrainNode(0, removes=False), 0, "No node can have the number 0"),
    (BeginReplicaMove(1, 0, 0, MoveReason.DRAIN), 0, "name two nodes"),
    (BeginReplicaMove(64, 1, 2, MoveReason.DRAIN), 0, "There can be no shard 64"),
    (HoldLog("backup", -1), 0, "A hold cannot last -1 ms"),
]


@pytest.mark.parametrize(("command", "shard", "why"), REFUSED, ids=lambda value: str(value)[:40])
def test_an_impossible_value_is_refused_and_named(command: Command, shard: int, why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        check_command(command, shard)


def test_without_the_check_a_topic_id_would_end_every_node() -> None:
    """The command of the first line of REFUSED, applied without the check: no replica can write a checkpoint."""
    state = State()
    state.apply_command(encode_command(REFUSED[0][0]), 0, index=1)
    with pytest.raises(Exception, match=r"argument out of range|requires 0 <= number"):
        state.encode()
