"""The lease time: what a leader counts, what the next one goes on with, and that wall clocks do not matter."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.broker.rpc.share_stream import to_response
from ledger.broker.shared.lease_clock import TIME_ENTRY_MS, LeaseClock, are_free, next_free_s
from ledger.broker.shared.leased_batches import LeasedBatch, LeasedBatches
from ledger.broker.shared.shared_lag import shared_lags
from ledger.errors import NoLeaderError, NotLeaderError
from ledger.state.lease_table import ChangeKind, LeaseTable
from ledger.state.lease_window import SLOT
from tests.ledger.broker.shared.leader import GROUP, Got, LeasingLeader

DAY_MS = 86_400_000


def offsets(messages: list[Got]) -> list[int]:
    return [got.offset for got in messages]


def time_of_state(leader: LeasingLeader) -> int:
    return leader.replica.state.shared.leases.time_ms


def test_the_clock_counts_from_the_time_with_which_it_began() -> None:
    now_s = 17.0
    clock = LeaseClock(lambda: now_s)
    now_s = 20.25
    clock.begin(41_000)
    assert clock.now_ms() == 41_000
    now_s += 14.2
    assert clock.now_ms() == 55_200


def test_slots_are_free_from_the_end_of_their_leases_on() -> None:
    slots = np.zeros(4, SLOT)
    slots["free_ms"] = [0, 700, 701, 300]
    slots["is_settled"][3] = 1
    assert are_free(slots, 700).tolist() == [True, True, False, True]
    assert next_free_s(slots, 700) == 0.001
    assert next_free_s(slots, 0) == 0.7
    assert next_free_s(slots, 701) is None


@pytest.mark.parametrize("leap_ms", [DAY_MS, -DAY_MS])
async def test_a_leap_of_the_wall_clock_ends_and_lengthens_no_lease(leap_ms: int) -> None:
    leader = LeasingLeader()
    leader.send(1)
    member = leader.member()
    await member.receive(lease_ms=10_000)
    leader.pass_ms(1_000)
    leader.now_ms += leap_ms
    leader.pass_ms(8_999)
    assert await member.receive(wait_s=0) == []
    leader.pass_ms(1)
    assert offsets(await member.receive()) == [0]


async def test_a_wall_clock_that_catches_up_in_small_steps_ends_no_lease() -> None:
    """Answers of voters that take longer and longer, and then shorter, let the time of a majority move like this."""
    leader = LeasingLeader()
    leader.send(1)
    member = leader.member()
    await member.receive(lease_ms=3_000)
    for _ in range(29):
        leader.pass_ms(100)
        leader.now_ms += 200
        assert await member.receive(wait_s=0) == []
    leader.pass_ms(100)
    assert offsets(await member.receive()) == [0]


async def test_leaders_that_change_again_and_again_while_wall_clocks_leap_end_no_lease() -> None:
    leader = LeasingLeader()
    leader.send(1)
    await leader.member().receive(lease_ms=10_000)
    for _ in range(3):
        leader.now_ms += DAY_MS
        leader.pass_ms(1_000)
        leader.send(1, queue=1)
        got = await leader.member().receive(wait_s=0)
        assert [each.queue.queue for each in got] == [1], "the entry of this lease has the wrong append time"
        leader.fail_over()
    leader.pass_ms(6_999)
    assert await leader.member().receive(wait_s=0) == []
    leader.pass_ms(1)
    assert offsets(await leader.member().receive(wait_s=0)) == [0]


async def test_a_lease_ends_also_if_the_append_times_stand_still() -> None:
    leader = LeasingLeader()
    leader.now_ms += DAY_MS
    leader.send(1)
    await leader.member().receive(lease_ms=10_000)
    leader.now_ms -= DAY_MS  # the clocks of the next leader and its voters are behind
    leader.fail_over()
    leader.pass_ms(10_000)
    assert offsets(await leader.member().receive(wait_s=0)) == [0]


async def test_time_without_a_leader_does_not_count() -> None:
    leader = LeasingLeader()
    leader.send(1)
    await leader.member().receive(lease_ms=10_000)
    leader.pass_ms(DAY_MS)
    leader.fail_over()
    leader.pass_ms(9_999)
    assert await leader.member().receive(wait_s=0) == []
    leader.pass_ms(1)
    assert offsets(await leader.member().receive(wait_s=0)) == [0]


async def test_a_leader_with_running_leases_writes_its_lease_time_also_without_members() -> None:
    leader = LeasingLeader()
    leader.send(1)
    member = leader.member()
    await member.receive(lease_ms=60_000)
    leader.turns.leave(member.member)
    before, pauses = leader.log.last_index, []
    for _ in range(14):
        leader.pass_ms(1_000)
        pauses.append(await leader.turns._turn())
    assert pauses == [4.0, 3.0, 2.0, 1.0, 0.0, 4.0, 3.0, 2.0, 1.0, 0.0, 4.0, 3.0, 2.0, 1.0]
    assert (leader.log.last_index - before, time_of_state(leader)) == (2, 2 * TIME_ENTRY_MS)
    leader.fail_over()  # 4 s of the last leader are lost with it
    leader.pass_ms(49_999)
    assert await leader.member().receive(wait_s=0) == []
    leader.pass_ms(1)
    assert offsets(await leader.member().receive(wait_s=0)) == [0]


async def test_without_running_leases_no_lease_time_is_written() -> None:
    leader = LeasingLeader()
    leader.send(2)
    first, second = await (member := leader.member()).receive(lease_ms=60_000)
    await member.ack(first)
    await member.change(ChangeKind.PUT_OFF, second, duration_ms=2_000)
    assert await leader.turns._turn() == 5.0
    leader.pass_ms(2_000)
    again = await member.receive(lease_ms=1_000)
    await member.ack(*again)
    before = leader.log.last_index
    leader.pass_ms(TIME_ENTRY_MS)
    assert await leader.turns._turn() is None
    assert leader.log.last_index == before


async def test_without_room_on_the_disk_no_lease_time_is_written() -> None:
    leader = LeasingLeader()
    leader.send(1)
    await leader.member().receive(lease_ms=60_000)
    before = leader.log.last_index
    leader.pass_ms(TIME_ENTRY_MS)
    leader.replica.no_room = "the disk is full"
    assert await leader.turns._turn() == 5.0
    assert leader.log.last_index == before
    leader.replica.no_room = ""
    assert await leader.turns._turn() == 0.0
    assert time_of_state(leader) == TIME_ENTRY_MS


async def test_what_is_left_of_a_lease_is_told_by_the_lease_time() -> None:
    leader = LeasingLeader()
    leader.send(2)
    await leader.member().receive(1, lease_ms=10_000)
    await leader.member().receive(1, lease_ms=60_000)
    leader.now_ms += DAY_MS
    leader.pass_ms(4_000)
    (lag,) = [lag for lag in shared_lags(leader.replica, GROUP) if lag.window]
    assert (lag.leased, lag.waiting, lag.lease_left_ms) == (2, 0, 6_000)
    leader.pass_ms(6_000)
    (lag,) = [lag for lag in shared_lags(leader.replica, GROUP) if lag.window]
    assert (lag.leased, lag.waiting, lag.lease_left_ms) == (1, 1, 50_000)
    leader.replica._projected = None  # a follower knows the lease time of the last entry
    (lag,) = [lag for lag in shared_lags(leader.replica, GROUP) if lag.window]
    assert (lag.leased, lag.lease_left_ms) == (2, 10_000)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.floats(0, 30_000)),
        st.tuples(st.just("entry"), st.integers(0, 2)),
        st.tuples(st.just("lead"), st.integers(0, 2)),
        st.tuples(st.just("restart"), st.integers(0, 2)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_no_more_lease_time_passes_between_two_entries_than_true_time(steps: list[tuple[str, float]]) -> None:
    """Three nodes lead in turn. Each has its own steady clock, which begins at its start. A node that was replaced may
    still make entries, but they do not come into the log."""
    true_ms, leader = 0.0, 0
    table, starts = LeaseTable(), [0.0, -7_000.0, -90_000.0]
    clocks = [LeaseClock(lambda node=node: (true_ms - starts[node]) / 1000) for node in range(3)]  # type: ignore[misc]
    clocks[leader].begin(table.time_ms)
    entries: list[tuple[float, int]] = []
    for step, value in steps:
        node = int(value)
        match step:
            case "pass":
                true_ms += value
            case "entry" if node == leader:
                table.advance(clocks[node].now_ms())
                entries.append((true_ms, table.time_ms))
            case "lead":
                leader = node
                clocks[leader].begin(table.time_ms)
            case "restart" if node != leader:
                starts[node] = true_ms
    for (before_ms, before), (after_ms, after) in pairwise(entries):
        assert 0 <= after - before <= after_ms - before_ms + 1


# -- what a member is told


async def test_a_member_is_told_how_long_its_receive_waited_and_its_lease_still_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader = LeasingLeader()
    member = leader.member()
    asked_s = asyncio.get_running_loop().time()
    member.ask(lease_ms=10_000)
    await leader.turn(2)
    await asyncio.sleep(0.02)
    leader.send(2)
    read = LeasedBatches.read

    def slowly(*args: Any) -> Iterator[LeasedBatch]:
        leader.pass_ms(300)
        return read(*args)

    monkeypatch.setattr(LeasedBatches, "read", slowly)
    await leader.turn()
    (answer,) = member.answers()
    assert answer.lease_left_ms == 9_700
    assert 20 <= answer.waited_ms <= (asyncio.get_running_loop().time() - asked_s) * 1000
    told = to_response(answer)
    assert (told.lease_left_ms, told.waited_ms) == (9_700, answer.waited_ms)


async def test_a_node_that_does_not_lead_any_more_tells_no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = LeasingLeader()
    leader.send(2)
    old = leader.member()
    old.ask(attempt_id=77)
    read = LeasedBatches.read

    def too_late(*args: Any) -> Iterator[LeasedBatch]:
        leader.replica._projected = None
        return read(*args)

    with monkeypatch.context() as patched:
        patched.setattr(LeasedBatches, "read", too_late)
        await leader.turn(2)
    assert old.answers() == []
    await leader.turn()
    (answer,) = old.answers()
    assert isinstance(answer.error, NoLeaderError | NotLeaderError)
    leader.fail_over()
    assert offsets(await leader.member().receive(attempt_id=77, repeated=True)) == [0, 1]
