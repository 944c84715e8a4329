"""Adding and removing members, one voter at a time (section 6; dissertation, chapter 4)."""

from __future__ import annotations

import pytest

from raft.configuration_entry import INCARNATION_BYTES, ConfiguredMember, ShardConfiguration
from raft.core import (
    Append,
    ChangeInProgress,
    ChangeRefused,
    Configuration,
    Durable,
    LogTerms,
    NotLeader,
    Raft,
    RaftSettings,
    RaftTiming,
    RecoveredState,
    Role,
    TermRun,
)
from tests.raft.driver_cluster import SEGMENT_BYTES
from tests.raft.network import Network, led


def changed(network: Network, voters: tuple[int, ...], learners: tuple[int, ...] = ()) -> None:
    """Make the change and let all messages arrive."""
    network.change(1, voters, learners)
    network.run(6)


def test_a_learner_gets_the_log_and_is_not_counted() -> None:
    network = led()
    network.propose(1, "a")
    network.join(4)
    changed(network, (1, 2, 3), learners=(4,))
    assert network.log(4) == network.log(1)
    assert network.raft(4).commit == network.raft(1).commit
    network.isolate(2, 3)
    network.propose(1, "b")
    network.deliver_all()
    assert network.raft(1).commit < network.raft(1).log.last_index, "a leader and a learner are no majority of three"


def test_a_voter_and_two_learners_are_no_majority_of_three() -> None:
    network = led()
    for learners in ((4,), (4, 5)):
        network.join(learners[-1])
        changed(network, (1, 2, 3), learners)
    assert network.log(5) == network.log(1)
    network.isolate(2, 3)
    network.propose(1, "b")
    network.deliver_all()
    assert network.log(5) == network.log(1)
    assert network.raft(1).commit < network.raft(1).log.last_index


def test_a_learner_never_stands() -> None:
    network = led()
    network.join(4)
    changed(network, (1, 2, 3), learners=(4,))
    for node in (1, 2, 3):
        network.crash(node)
    network.run(100)
    assert network.raft(4).role is Role.FOLLOWER
    assert network.raft(4).term == 1


def test_a_learner_that_is_promoted_counts() -> None:
    network = led()
    network.join(4)
    changed(network, (1, 2, 3), learners=(4,))
    changed(network, (1, 2, 3, 4))
    network.isolate(3)
    network.propose(1, "a")
    network.deliver_all()
    assert network.raft(1).commit == network.raft(1).log.last_index, "three of four"
    network.isolate(2, 3)
    network.propose(1, "b")
    network.deliver_all()
    assert network.raft(1).commit < network.raft(1).log.last_index, "two of four"


def test_a_voter_that_does_not_know_of_its_promotion_votes_all_the_same() -> None:
    """Otherwise the shard might have no leader: here node 3 needs the vote of node 2, which believes that it is a
    learner."""
    network = Network(1)
    network.elect(1)
    network.join(2)
    changed(network, (1,), learners=(2,))
    network.change(1, (1, 2))
    network.wire.clear()
    assert network.raft(2).configuration.learners == (2,)
    network.crash(1)
    network.restart(1)
    network.run(60)
    assert network.leaders == [1]
    assert network.raft(2).configuration == Configuration((1, 2))


def test_voters_change_one_at_a_time() -> None:
    network = led()
    with pytest.raises(ChangeRefused, match="one at a time"):
        network.change(1, (1, 4, 5))
    with pytest.raises(ChangeRefused, match="a voter"):
        network.change(1, (), learners=(1, 2, 3))
    network.change(1, (1, 2, 3, 4))
    with pytest.raises(ChangeInProgress):
        network.change(1, (1, 2, 3, 4, 5))
    with pytest.raises(NotLeader):
        network.change(2, (1, 2))


def test_no_change_before_an_entry_of_the_own_term_is_committed() -> None:
    """Two leaders that both change the members at once could elect and commit without a common node (Ongaro, 2015)."""
    network = Network(3)
    network.isolate(3)
    for _ in range(12):
        network.tick(1)
    while not network.leaders:
        network.deliver(network.wire.pop(0))
    with pytest.raises(ChangeInProgress):
        network.change(1, (1, 2, 3, 4))


def test_a_change_counts_from_the_append_on_and_is_taken_back_with_its_entry() -> None:
    network = led()
    network.isolate(1)
    network.change(1, (1, 2, 3, 4))
    assert network.raft(1).configuration.voters == (1, 2, 3, 4), "though nobody else has it"
    network.forget_leaders()
    network.elect(2)
    network.heal()
    network.run(4)
    assert network.raft(1).configuration.voters == (1, 2, 3)
    assert any("1 goes by voters 1 2 3 of entry 0" in line for line in network.trace)


def test_a_removed_leader_leads_until_that_is_committed_and_does_not_count_itself() -> None:
    network = led()
    network.change(1, (2, 3))
    assert network.leaders == [1]
    network.isolate(3)
    network.deliver_all()
    assert network.raft(1).commit < network.raft(1).log.last_index, "2 alone is no majority of 2 and 3"
    network.heal()
    network.unreachable(1, 3)
    network.run(4)
    assert 1 not in network.leaders
    network.run(40)
    (leader,) = network.leaders
    assert leader in (2, 3)
    assert network.raft(leader).commit == network.raft(leader).log.last_index


def test_a_removed_leader_hands_over_at_once() -> None:
    network = led()
    network.change(1, (2, 3))
    network.deliver_all()
    assert network.leaders in ([2], [3]), "no tick has passed"


def test_a_removed_node_disturbs_nobody() -> None:
    """The removed node does not learn of its removal. It times out again and again and asks for votes."""
    network = led()
    network.isolate(3)
    changed(network, (1, 2))
    network.heal()
    network.run(200)
    assert network.leaders == [1]
    assert network.raft(1).term == 1
    assert network.raft(3).term == 1, "a pre-vote changes nothing"


def test_a_server_that_is_being_removed_may_be_needed_once_more() -> None:
    """Only node 1 has the entry that removes node 1. Node 2 cannot win without the vote of node 1, whose log is
    longer."""
    network = led(2)
    network.change(1, (2,))
    network.wire.clear()
    network.crash(1)
    network.restart(1)
    network.run(60)
    assert network.leaders == [2]
    assert network.raft(2).configuration.voters == (2,)
    assert network.raft(2).commit == network.raft(2).log.last_index


def test_a_removed_voter_does_not_hold_up_a_commit_any_more() -> None:
    network = led()
    network.crash(3)
    network.propose(1, "a")
    network.deliver_all()
    changed(network, (1, 2))
    assert 3 not in network.raft(1).progress
    assert network.raft(1).commit == network.raft(1).log.last_index


def test_two_replicas_are_replaced_one_after_the_other_and_nothing_is_lost() -> None:
    network = led()
    network.propose(1, "a", "b", "c")
    for old, new in ((2, 4), (3, 5)):
        voters = network.raft(1).configuration.voters
        network.crash(old)
        network.join(new)
        changed(network, voters, learners=(new,))
        changed(network, tuple(sorted({*voters, new})))
        changed(network, tuple(sorted({*voters, new} - {old})))
    network.crash(1)
    network.run(60)
    (leader,) = network.leaders
    assert leader in (4, 5)
    assert [entry.value for entry in network.nodes[leader].disk.written][1:4] == ["a", "b", "c"]
    assert network.raft(leader).commit == network.raft(leader).log.last_index


def test_a_shard_grows_from_one_to_five_and_shrinks_to_one() -> None:
    network = Network(1)
    network.elect(1)
    for node in (2, 3, 4, 5):
        network.join(node)
        changed(network, tuple(range(1, node)), learners=(node,))
        changed(network, tuple(range(1, node + 1)))
    for node in (5, 4, 3, 2):
        changed(network, tuple(range(1, node)))
        network.crash(node)
    network.propose(1, "alone")
    assert network.raft(1).commit == network.raft(1).log.last_index


def settings_of(node: int, incarnation: bytes = b"") -> RaftSettings:
    return RaftSettings(
        node, RaftTiming(1, 10), lambda: 3, lambda first, _: (first, 1), 1 << 20, incarnation=incarnation
    )


def receiving(*, is_own: bool) -> Raft:
    """Return server 1, which lost its disk, was added again as a learner of {2, 3}, and hears its leader no longer. It
    has the entries up to 500. The newest configuration among them is the first one, whose only voter was server 1."""
    raft = Raft(settings_of(1), RecoveredState(Durable(0), LogTerms(), [], 0))
    first = (1, Configuration((1,), is_own=is_own))
    raft.step(Append(2, 1, 7, 0, 0, (TermRun(1, 1),), 500, 1_000, (first,)))
    obey(raft)
    for _ in range(50):
        raft.tick()
        obey(raft)
    return raft


def obey(raft: Raft) -> None:
    """Do what the core asks a driver for."""
    while ready := raft.ready():
        if ready.save:
            raft.vote_saved(ready.save.token)
        if ready.write:
            raft.persisted(ready.write.token, ready.write.term, ready.write.last)


def test_a_server_that_was_added_again_does_not_stand_for_the_voter_that_it_was() -> None:
    """Otherwise it would elect itself, and commit other entries at the places of committed ones."""
    assert receiving(is_own=False).role is Role.FOLLOWER
    assert receiving(is_own=True).role is Role.LEADER, "that voter may"


def test_a_member_knows_whether_a_configuration_means_it_or_an_earlier_member_with_its_number() -> None:
    was, now = b"1" * INCARNATION_BYTES, b"2" * INCARNATION_BYTES
    configuration = ShardConfiguration("test", {1: ConfiguredMember(was)}, SEGMENT_BYTES, SEGMENT_BYTES)
    assert configuration.core_of(settings_of(1, was)).is_own
    assert not configuration.core_of(settings_of(1, now)).is_own
    assert configuration.core_of(settings_of(2, now)).is_own, "it does not name node 2"
    assert configuration.core_of(settings_of(1)).is_own, "without an incarnation, the number counts"
