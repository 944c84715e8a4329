"""Tests the plans of operations, without a cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster.console.pages.operations_page import PLANS
from cluster.console.plans import (
    failures_survived,
    pin_plan,
    promote_plan,
    release_plan,
    remove_plan,
    transfer_plan,
    trim_plan,
)
from ledger.client.records import LogCut, Member, Members


def member(node: int, *, voter: bool = True, caught_up: bool = True, suspect: bool = False, lag: int = 0) -> Member:
    return Member(node, f"host-{node}:9871", b"", voter, suspect, lag, lag * 100, caught_up)


def members(*each: Member, leader: int = 1) -> Members:
    return Members("test", 5, leader, 0, 100, 100, 1, each)


@pytest.mark.parametrize(("voters", "failures"), [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 2)])
def test_failures_that_a_shard_survives(voters: int, failures: int) -> None:
    assert failures_survived(voters) == failures


def test_a_removal_says_what_each_shard_loses() -> None:
    shards = {
        0: members(member(1), member(2), member(3)),
        1: members(member(1), member(2), leader=2),
        2: members(member(1), member(3, voter=False)),
        3: members(member(2), leader=2),
    }
    plan = remove_plan(shards, 1)
    assert plan.consequences[0] == (
        "Shard 0: 3 voters become 2; it survives 0 failure(s) (now 1). Node 1 leads it, and hands over first."
    )
    assert plan.consequences[1] == "Shard 1: 2 voters become 1; it survives 0 failure(s) (now 0)."
    assert plan.refusals == ("Node 1 is the last voter of shard 2.",)
    assert plan.dangers[0].startswith(
        "Shard 0 survives fewer failures afterwards. One more failed node stops its writes."
    )


def test_a_removal_warns_of_members_that_lack_entries() -> None:
    shards = {0: members(member(1), member(2, caught_up=False), member(3), member(4), member(5))}
    assert any("node(s) 2 lack entries" in danger for danger in remove_plan(shards, 3).dangers)
    assert remove_plan(shards, 9).refusals == ("Node 9 is a member of no shard.",)


def test_a_learner_is_promoted_only_when_it_has_caught_up() -> None:
    behind = {0: members(member(1), member(2), member(3, voter=False, caught_up=False, lag=7))}
    assert promote_plan(behind, 3).refusals == ("Node 3 has not caught up in shard 0: wait until it has.",)
    ready = {0: members(member(1), member(2), member(3, voter=False))}
    plan = promote_plan(ready, 3)
    assert plan.refusals == ()
    assert "2 voters become 3; it survives 1 failure(s) (now 0)" in plan.consequences[0]
    assert promote_plan(ready, 1).refusals == ("Node 1 is no learner of any shard.",)


def test_leadership_goes_only_to_a_voter_that_can_lead() -> None:
    shard = members(member(1), member(2), member(3, voter=False), member(4, suspect=True))
    assert transfer_plan(0, shard, 2).refusals == ()
    assert transfer_plan(0, shard, 1).refusals == ("Node 1 leads shard 0 already.",)
    assert transfer_plan(0, shard, 3).refusals == ("Node 3 is no voter of shard 0.",)
    assert transfer_plan(0, shard, 4).refusals[0].startswith("Node 4 may have lost entries")


def test_the_plan_of_a_transfer_says_how_long_it_holds() -> None:
    shard = replace(members(member(1), member(2), member(3)), preferred_leader=3, preference_ms=4_000)
    assert (
        "Node 3 is the preferred leader of the shard and takes leadership back about 4 s later"
        in (transfer_plan(0, shard, 2).consequences[-1])
    )
    assert transfer_plan(0, shard, 3).consequences[-1].endswith("so it keeps leadership.")
    pinned = replace(shard, pinned_leader=3)
    assert "Node 3 is pinned as the leader" in transfer_plan(0, pinned, 2).consequences[-1]
    assert "no preferred leader" in transfer_plan(0, replace(shard, preferred_leader=0), 2).consequences[-1]


def test_only_a_voter_is_pinned_and_only_a_pin_removed() -> None:
    shard = replace(members(member(1), member(2), member(3, voter=False)), preference_ms=4_000)
    assert pin_plan(0, shard, 2).refusals == ()
    assert pin_plan(0, shard, 3).refusals == ("Node 3 is no voter of shard 0.",)
    assert pin_plan(0, shard, 9).refusals == ("Node 9 is no voter of shard 0.",)
    assert pin_plan(0, shard, 0).refusals == ("Shard 0 has no pinned leader.",)
    assert pin_plan(0, replace(shard, pinned_leader=2), 0).refusals == ()


class GrownCluster:
    """Stands for an admin client that does not know shard 1 yet, of which node 2 is the last voter."""

    async def shards(self, *, linearizable: bool = False) -> list[int]:
        return [0, 1] if linearizable else [0]

    async def members(self, *, shard: int, timeout_ms: float) -> Members:
        return members(member(2), leader=2) if shard == 1 else members(member(1), member(2), member(3))


async def test_a_plan_has_shards_that_the_console_had_not_heard_of() -> None:
    plan = await PLANS["remove"](GrownCluster(), {"node": "2"})  # type: ignore[arg-type]
    assert plan.refusals == ("Node 2 is the last voter of shard 1.",)


def test_a_trim_shows_what_it_removes_and_who_holds_the_log() -> None:
    cut = LogCut(50, 49, 4_900, 1_000, 7, 100, (), dry_run=True)
    plan = trim_plan(cut, {"before_ms": "5"})
    assert plan.consequences == ("Shard 0: 1,000 messages in 49 entries (4,900 bytes) are removed; 100 bytes stay.",)
    assert plan.dangers
    assert plan.fields == {"before_ms": "5"}
    held = trim_plan(LogCut(50, 49, 4_900, 1_000, 7, 100, ("backup",), dry_run=True), {})
    assert held.refusals == ("The log is held by backup: release the hold first.",)
    assert (
        trim_plan(LogCut(1, 0, 0, 0, 0, 100, (), dry_run=True), {}).refusals[0].startswith("Nothing would be removed")
    )


def test_only_a_hold_that_exists_is_released() -> None:
    assert release_plan("spark", ["spark"]).refusals == ()
    assert release_plan("spark", []).refusals == ("No log has a hold with the name spark.",)
