"""The placement of replicas in the state of shard 0: the wished number of replicas, drains, and moves under way."""

from __future__ import annotations

import pytest

from ledger.errors import InternalError, InvalidArgumentError
from ledger.state import State
from ledger.state.command_encoding import decode_command, encode_command
from ledger.state.commands import (
    AddShard,
    BalanceReplicas,
    BeginReplicaMove,
    Command,
    DrainNode,
    EndDrain,
    EndReplicaMove,
    PausePlacement,
    RaiseFeatureLevel,
    SetReplicas,
)
from ledger.state.feature_levels import PLACEMENT
from ledger.state.placement_table import DEFAULT_REPLICAS, MoveReason, NodeDrain, PlacementTable, ReplicaMove
from ledger.v1 import command_pb2


def state_of(level: int) -> State:
    state = State()
    applied(state, RaiseFeatureLevel(level))
    applied(state, AddShard(1, (1, 2, 3), (b"1" * 16, b"2" * 16, b"3" * 16)))
    return state


def applied(state: State, command: Command, now_ms: int = 7) -> object:
    return state.apply_command(encode_command(command), now_ms, index=2)


def test_a_move_is_known_until_it_ends() -> None:
    state = state_of(PLACEMENT)
    assert applied(state, BeginReplicaMove(1, 4, 2, MoveReason.DRAIN), 99) is None
    assert state.placement.moves == [ReplicaMove(1, 4, 2, MoveReason.DRAIN, 99)]
    assert State.decode(state.encode()).placement.move_of(1) == ReplicaMove(1, 4, 2, MoveReason.DRAIN, 99)
    second = applied(state, BeginReplicaMove(1, 5, 3, MoveReason.BALANCE))
    assert isinstance(second, InvalidArgumentError)
    assert "Shard 1 has a move under way, from node 2 to node 4" in str(second)
    assert applied(state, EndReplicaMove(1)) is True
    assert applied(state, EndReplicaMove(1)) is False
    assert state.placement.moves == []


def test_a_move_of_an_unknown_shard_is_refused() -> None:
    refused = applied(state_of(PLACEMENT), BeginReplicaMove(2, 4, 2, MoveReason.DRAIN))
    assert isinstance(refused, InvalidArgumentError)
    assert "There is no shard 2" in str(refused)


def test_drains_replicas_and_the_pause_are_in_the_snapshot() -> None:
    state = state_of(PLACEMENT)
    assert state.placement.replicas == DEFAULT_REPLICAS
    for command in (
        SetReplicas(5),
        PausePlacement(True),
        BalanceReplicas(True),
        DrainNode(4, removes=False),
        DrainNode(2, removes=True),
    ):
        assert applied(state, command) is None
    read = State.decode(state.encode())
    assert (read.placement.replicas, read.placement.is_paused, read.placement.is_balancing) == (5, True, True)
    assert read.placement.drains == [NodeDrain(2, True), NodeDrain(4, False)]
    assert read.digest() == state.digest()
    assert applied(state, EndDrain(2)) is True
    assert applied(state, EndDrain(2)) is False
    assert state.placement.drains == [NodeDrain(4, False)]


def test_a_shard_can_have_a_number_of_replicas_of_its_own() -> None:
    state = state_of(PLACEMENT)
    assert applied(state, SetReplicas(5, shard=1)) is None
    refused = applied(state, SetReplicas(5, shard=2))
    assert isinstance(refused, InvalidArgumentError)
    assert "There is no shard 2" in str(refused)
    read = State.decode(state.encode()).placement
    assert (read.replicas, read.replicas_of(1), read.replicas_of(2), read.is_set) == (3, 5, 3, True)
    assert applied(state, SetReplicas(0, shard=1)) is None
    assert (state.placement.replicas_of(1), state.placement.is_set) == (3, False)


def test_how_many_voters_a_shard_must_keep_when_one_leaves() -> None:
    table = PlacementTable(moves=[ReplicaMove(1, 4, 1, MoveReason.DRAIN), ReplicaMove(2, 0, 1, MoveReason.DRAIN)])
    assert table.needed_without(1, 1, (1, 2, 4)) == 2, "as many as before the move"
    assert table.needed_without(1, 1, (1, 4)) == 1
    assert table.needed_without(1, 1, (1, 2, 3, 4)) == 3
    assert table.needed_without(1, 1, (1, 2, 3, 4, 5)) == 3
    assert table.needed_without(1, 1, (1, 2)) == 3, "the new replica is no voter yet"
    assert table.needed_without(1, 2, (1, 2, 4)) == 3, "it is not this replica that moves"
    assert table.needed_without(2, 1, (1, 2)) == 3, "the move makes no new replica"
    assert table.needed_without(3, 1, (1, 2, 4)) == 3, "this shard has no move"
    table.set_replicas(3, shard=1)
    assert table.needed_without(1, 1, (1, 2, 4)) == 3, "an operator wants three"
    table.set_replicas(0, shard=1)
    table.set_replicas(2)
    assert table.needed_without(1, 1, (1, 4)) == 2


def test_below_the_level_the_placement_does_not_exist() -> None:
    state = state_of(PLACEMENT - 1)
    before = state.digest()
    refused = applied(state, SetReplicas(5))
    assert isinstance(refused, InvalidArgumentError)
    assert f"the placement of replicas needs level {PLACEMENT}: some nodes" in str(refused)
    assert state.digest() == before


def test_a_reason_that_this_program_does_not_know_stops_the_replica() -> None:
    wire = command_pb2.Command(begin_replica_move=command_pb2.BeginReplicaMove(shard=1, to=2, reason=99))
    with pytest.raises(InternalError, match="the reason 99"):
        decode_command(wire.SerializeToString())
