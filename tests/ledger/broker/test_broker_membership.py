"""Tests the standing of a node in its shard (joining, learner, voter or removed). The standing follows from the
configurations that the node has applied, and from reports of other members.
"""

from __future__ import annotations

import pytest

from ledger.broker.members.membership import Membership, Standing
from raft.configuration_entry import ConfiguredMember, ShardConfiguration

ME, OLD = b"m" * 16, b"o" * 16


def configuration(voters: dict[int, bytes], learners: dict[int, bytes] | None = None) -> ShardConfiguration:
    return ShardConfiguration(
        cluster="test",
        voters={node: ConfiguredMember(incarnation, f"n{node}:1") for node, incarnation in voters.items()},
        segment_bytes=1 << 20,
        max_entry_bytes=1 << 16,
        learners={node: ConfiguredMember(incarnation, f"n{node}:1") for node, incarnation in (learners or {}).items()},
    )


ALONE = configuration({1: b"1" * 16})
LEARNING = configuration({1: b"1" * 16}, {2: ME})
VOTING = configuration({1: b"1" * 16, 2: ME})


@pytest.mark.parametrize(
    ("applied", "standing"),
    [
        ([], Standing.JOINING),
        ([ALONE], Standing.JOINING),
        ([ALONE, LEARNING], Standing.LEARNER),
        ([ALONE, LEARNING, VOTING], Standing.VOTER),
        ([ALONE, LEARNING, VOTING, ALONE], Standing.REMOVED),
        ([ALONE, LEARNING, ALONE], Standing.REMOVED),
        ([configuration({1: b"1" * 16, 2: OLD}), ALONE], Standing.JOINING),  # an earlier node had the same number
        ([configuration({1: b"1" * 16, 2: OLD}), ALONE, LEARNING], Standing.LEARNER),
        ([VOTING, configuration({1: b"1" * 16, 2: OLD})], Standing.REMOVED),  # a later node has the same number
    ],
)
def test_standing(applied: list[ShardConfiguration], standing: Standing) -> None:
    membership = Membership(2, ME, {})
    for index, each in enumerate(applied, 1):
        membership.applied(index, each)
    assert membership.standing is standing
    assert membership.index == len(applied)


def test_a_member_believes_others_that_it_was_removed() -> None:
    membership = Membership(2, ME, {})
    assert not membership.removed_by({1: b"1" * 16}), "a node that was never a member cannot be removed"
    membership.applied(1, VOTING)
    assert not membership.removed_by({1: b"1" * 16, 2: ME})
    assert membership.removed_by({1: b"1" * 16, 2: OLD}), "another node has its number now"
    assert membership.standing is Standing.REMOVED


def test_addresses_of_the_settings_go_before_and_those_who_left_are_left_out() -> None:
    membership = Membership(2, ME, {1: "moved:9", 3: "gone:1"})
    assert membership.addresses() == {1: "moved:9", 3: "gone:1"}
    membership.applied(1, VOTING)
    assert membership.addresses() == {1: "moved:9", 2: "n2:1"}
    assert (membership.address(2), membership.address(7)) == ("n2:1", "")
