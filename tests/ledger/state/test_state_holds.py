"""Tests holds in the replicated state. A hold is taken, extended and released by commands, expires by append times, and
is part of the encoded state.
"""

from __future__ import annotations

import pytest

from ledger.errors import InvalidArgumentError
from ledger.holds import MAX_HOLDS, MAX_TTL_MS, validate_hold
from ledger.state import CommittedBatch, Hold, State
from ledger.state.machine import CommandResult
from ledger.v1 import command_pb2


def hold(state: State, name: str, *, ttl_ms: int = 10_000, now_ms: int = 1_000, index: int = 7) -> CommandResult:
    command = command_pb2.Command(hold_log=command_pb2.HoldLog(name=name, ttl_ms=ttl_ms))
    return state.apply_command(command.SerializeToString(), now_ms, index=index)


def release(state: State, name: str, *, now_ms: int = 1_000) -> CommandResult:
    command = command_pb2.Command(release_log=command_pb2.ReleaseLog(name=name))
    return state.apply_command(command.SerializeToString(), now_ms, index=8)


def names(state: State) -> list[str]:
    return [each.name for each in state.holds]


def test_a_hold_says_where_and_when_it_was_taken() -> None:
    state = State()
    assert hold(state, "spark") == Hold("spark", 7, 1_000, 11_000)
    assert names(state) == ["spark"]


def test_once_more_it_lasts_longer_or_shorter_and_was_taken_where_it_was() -> None:
    state = State()
    hold(state, "spark")
    assert hold(state, "spark", now_ms=5_000, index=9) == Hold("spark", 7, 1_000, 15_000)
    assert hold(state, "spark", now_ms=5_000, index=9, ttl_ms=2_000) == Hold("spark", 7, 1_000, 7_000)
    assert names(state) == ["spark"]


def test_it_ends_when_it_is_released() -> None:
    state = State()
    hold(state, "a")
    hold(state, "b")
    assert release(state, "a") is True
    assert release(state, "a") is False
    assert names(state) == ["b"]


def test_it_expires_by_the_append_times_of_any_entry() -> None:
    state = State()
    state.apply_command(
        command_pb2.Command(create_topic=command_pb2.CreateTopic(name="t", queues=1)).SerializeToString(), 500, index=1
    )
    hold(state, "long", ttl_ms=20_000)
    hold(state, "short")

    def write(now_ms: int, offset: int) -> None:
        state.apply_batch(CommittedBatch(
            topic_id=1, queue=0, base_offset=offset, count=1, append_time_ms=now_ms, index=10 + offset, term=1,
            producer_id=1, epoch=0, first_sequence=offset,
        ))  # fmt: skip

    write(10_999, 0)
    assert names(state) == ["long", "short"]
    write(11_000, 1)
    assert names(state) == ["long"]
    nothing = command_pb2.Command(forget_holds=command_pb2.ForgetHolds()).SerializeToString()
    assert state.apply_command(nothing, 21_000, index=20) is None
    assert names(state) == []


@pytest.mark.parametrize(
    ("name", "ttl_ms"),
    [("", 5_000), ("a b", 5_000), ("x" * 128, 5_000), ("ok", 999), ("ok", -1), ("ok", MAX_TTL_MS + 1)],
)
def test_what_cannot_be_is_refused_and_changes_nothing(name: str, ttl_ms: int) -> None:
    with pytest.raises(InvalidArgumentError):
        validate_hold(name, ttl_ms)
    state = State()
    assert isinstance(hold(state, name, ttl_ms=ttl_ms), InvalidArgumentError)
    assert names(state) == []


def test_there_are_only_so_many() -> None:
    state = State()
    for number in range(MAX_HOLDS):
        assert isinstance(hold(state, f"reader-{number}"), Hold)
    assert isinstance(hold(state, "one more"), InvalidArgumentError)
    assert isinstance(hold(state, "reader-3"), Hold)  # the hold exists already, and is extended
    refused = hold(state, "one-more")
    assert isinstance(refused, InvalidArgumentError)
    assert "release a hold first" in str(refused)


def test_they_are_in_the_bytes_of_the_state_in_one_order() -> None:
    one, other = State(), State()
    for name in ("b", "c", "a"):
        hold(one, name)
    for name in ("a", "c", "b"):
        hold(other, name)
    assert one.digest() == other.digest()
    again = State.decode(one.encode())
    assert list(again.holds) == list(one.holds)
    assert again.encode() == one.encode()
    hold(again, "d", now_ms=11_000)  # at this time, the other holds expire
    assert names(again) == ["d"]
