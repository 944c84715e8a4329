"""The feature level of a state: from which entry on the rules of a level count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import InternalError, InvalidArgumentError
from ledger.state import State, Topic
from ledger.state.command_encoding import encode_command
from ledger.state.commands import Command, DeleteTopic, HoldLog, OpenTopic, RaiseFeatureLevel
from ledger.state.encoding import VERSION_0, VERSION_1
from ledger.state.feature_levels import LATEST_LEVEL
from ledger.v1 import command_pb2
from tests.ledger.state.test_state_command_checks import COMMANDS

NOW_MS = 1_700_000_000_000


def apply(state: State, command: Command, index: int = 1) -> object:
    return state.apply_command(encode_command(command), NOW_MS, index=index)


def raised() -> State:
    state = State()
    assert apply(state, RaiseFeatureLevel(1)) is None
    return state


def test_a_level_rises_and_never_falls() -> None:
    state = raised()
    apply(state, RaiseFeatureLevel(0))
    assert state.feature_level == 1


def test_a_command_with_an_impossible_value_is_refused_from_level_1_on() -> None:
    impossible = OpenTopic((1 << 31), "orders", (1,), 0)
    assert isinstance(apply(State(), impossible), Topic), "the rule of the versions before feature levels"
    state = raised()
    before = state.digest()
    refused = apply(state, impossible, 2)
    assert isinstance(refused, InvalidArgumentError)
    assert "No topic can have the id 2147483648" in str(refused)
    assert state.digest() == before


@given(st.lists(COMMANDS, max_size=8))
def test_a_state_of_level_1_survives_every_command(commands: list[Command]) -> None:
    state = raised()
    for index, command in enumerate(commands, 2):
        apply(state, command, index)
    assert State.decode(state.encode()).digest() == state.digest()


def test_a_state_of_level_0_has_the_bytes_of_earlier_versions() -> None:
    state = State()
    apply(state, HoldLog("backup", 60_000))
    assert state.encode()[4] == VERSION_0
    assert State.decode(state.encode()).feature_level == 0


def test_a_state_of_level_1_has_its_level_in_its_bytes() -> None:
    data = raised().encode()
    assert data[4] == VERSION_1
    assert State.decode(data).feature_level == 1


@pytest.mark.parametrize("level", [LATEST_LEVEL + 1, (1 << 32) - 1])
def test_an_unknown_level_stops_the_replica(level: int) -> None:
    state = raised()
    before = state.digest()
    with pytest.raises(InternalError, match=f"this program knows levels up to {LATEST_LEVEL}: install"):
        apply(state, RaiseFeatureLevel(level))
    assert state.digest() == before


def test_a_command_of_an_unknown_kind_stops_the_replica() -> None:
    body = command_pb2.Command().SerializeToString() + b"\xfa\x3e\x00"  # field 1007
    with pytest.raises(InternalError, match="unknown to this program: upgrade this node"):
        raised().apply_command(body, NOW_MS, index=2)


def test_a_deletion_of_no_topic_is_refused() -> None:
    assert isinstance(apply(raised(), DeleteTopic(0), 2), InvalidArgumentError)
