"""The pinned leader in the replicated state: pinned, replaced, removed, and in snapshots."""

from __future__ import annotations

import pytest

from ledger.errors import InternalError, InvalidArgumentError
from ledger.state import State
from ledger.state.command_encoding import encode_command
from ledger.state.commands import Command, PinLeader, RaiseFeatureLevel, UnpinLeader
from ledger.state.feature_levels import PINNED_LEADERS
from ledger.state.pinned_leader import PinnedLeader
from raft.configuration_entry import ConfiguredMember

ONE, TWO = b"1" * 16, b"2" * 16


def apply(state: State, command: Command, index: int = 2) -> object:
    return state.apply_command(encode_command(command), 0, index=index)


def state_at(level: int) -> State:
    state = State()
    apply(state, RaiseFeatureLevel(level), 1)
    return state


def test_a_pin_replaces_the_earlier_one_until_it_is_removed() -> None:
    state = state_at(PINNED_LEADERS)
    assert apply(state, PinLeader(1, ONE)) is None
    assert apply(state, PinLeader(2, TWO)) is None
    assert state.pinned_leader == PinnedLeader(2, TWO)
    assert apply(state, UnpinLeader()) is None
    assert apply(state, UnpinLeader()) is None
    assert state.pinned_leader is None


@pytest.mark.parametrize("command", [PinLeader(2, TWO), UnpinLeader()])
def test_below_its_level_a_pin_is_refused_and_changes_nothing(command: Command) -> None:
    state = state_at(PINNED_LEADERS - 1)
    before = state.digest()
    refusal = apply(state, command)
    assert isinstance(refusal, InvalidArgumentError)
    assert "pinned leaders need level 6" in str(refusal)
    assert state.digest() == before


@pytest.mark.parametrize("command", [PinLeader(0, ONE), PinLeader(1, b"short"), PinLeader(1, b"")])
def test_impossible_pins_are_refused(command: Command) -> None:
    state = state_at(PINNED_LEADERS)
    assert isinstance(apply(state, command), InvalidArgumentError)
    assert state.pinned_leader is None


def test_a_pin_is_in_the_snapshot_and_in_the_digest() -> None:
    state = state_at(PINNED_LEADERS)
    empty = state.digest()
    assert State.decode(state.encode()).pinned_leader is None
    apply(state, PinLeader(2, TWO))
    assert state.digest() != empty
    twin = State.decode(state.encode())
    assert (twin.pinned_leader, twin.digest()) == (PinnedLeader(2, TWO), state.digest())


def test_a_snapshot_with_an_incarnation_of_no_node_is_refused() -> None:
    state = state_at(PINNED_LEADERS)
    state.pinned_leader = PinnedLeader(0, TWO)
    with pytest.raises(InternalError, match="a pinned leader without a node"):
        State.decode(state.encode())


def test_a_pin_counts_only_for_the_incarnation_that_was_pinned() -> None:
    pin = PinnedLeader(2, TWO)
    assert pin.among({1: ConfiguredMember(ONE, "a:1"), 2: ConfiguredMember(TWO, "b:1")}) == 2
    assert pin.among({1: ConfiguredMember(ONE, "a:1")}) == 0, "removed"
    assert pin.among({2: ConfiguredMember(b"3" * 16, "b:1")}) == 0, "removed, and added again"
