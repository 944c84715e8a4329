"""Election rules beyond the paper: who may vote and stand, pre-vote, and check-quorum (dissertation, 9.6 and 6.2)."""

from __future__ import annotations

import pytest

from raft.core import (
    Configuration,
    Durable,
    LogTerms,
    NotLeader,
    Raft,
    RaftSettings,
    RaftTiming,
    RecoveredState,
    Role,
    VoteRequest,
    VoteResponse,
)
from tests.raft.by_hand import step
from tests.raft.network import Network

# -- who votes and stands


def test_votes_of_strangers_do_not_count() -> None:
    network = Network()
    network.tick(1, 10)
    for stranger in (7, 8, 9):
        step(network, VoteResponse(stranger, 1, 1, granted=True, pre=True))
    assert network.raft(1).role is Role.PRE_CANDIDATE


def test_a_node_without_a_configuration_never_stands_but_votes() -> None:
    raft = Raft(
        RaftSettings(
            2,
            timing=RaftTiming(2, 10),
            jitter=lambda: 0,
            reach=lambda first, size: (first, size),
            max_uncommitted_bytes=1,
        ),
        RecoveredState(Durable(), LogTerms(), configurations=[], commit=0),
    )
    for _ in range(100):
        raft.tick()
        assert raft.ready() is None
    raft.step(VoteRequest(1, 2, 1, 0, 0))
    ready = raft.ready()
    assert ready
    assert ready.save
    raft.vote_saved(ready.save.token)
    ready = raft.ready()
    assert ready
    assert ready.messages == (VoteResponse(2, 1, 1, granted=True),)


def test_a_node_outside_the_configuration_never_stands() -> None:
    network = Network()
    network.configuration = Configuration((1, 2))
    network.crash(3)
    network.restart(3)
    network.tick(3, 100)
    assert network.raft(3).role is Role.FOLLOWER


def test_a_log_that_outran_the_vote_file_begins_in_its_own_term_and_saves_that_first() -> None:
    network = Network(logs={1: [1, 6]}, terms={1: 4})
    assert network.raft(1).term == 6
    assert network.nodes[1].disk.vote == Durable(6, 0)


# -- pre-vote


def test_pre_vote_changes_neither_term_nor_vote_of_anyone() -> None:
    network = Network(terms={1: 4, 2: 4, 3: 4})
    network.isolate(3)
    network.tick(3, 500)
    assert (network.raft(3).term, network.raft(3).role) == (4, Role.PRE_CANDIDATE)
    step(network, VoteRequest(3, 2, 5, 0, 0, pre=True))
    assert network.nodes[2].disk.vote == Durable(4, 0)
    assert (network.raft(2).term, network.raft(2).voted_for) == (4, 0)


def test_pre_vote_keeps_a_returning_node_from_deposing_the_leader() -> None:
    network = Network()
    network.elect(1)
    network.isolate(3)
    for _ in range(60):
        for node in (1, 2, 3):
            network.tick(node)
        network.deliver_all()
    network.heal()
    for _ in range(60):
        for node in (1, 2, 3):
            network.tick(node)
        network.deliver_all()
    assert (network.leaders, network.raft(1).term, network.raft(3).leader) == ([1], 1, 1)


def test_pre_candidates_grant_each_other() -> None:
    """Otherwise two of three nodes that both are pre-candidates would wait for ever."""
    network = Network(jitter=lambda node: 0)
    network.isolate(3)
    network.tick(1, 10)
    network.tick(2, 10)
    network.wire = [packet for packet in network.wire if packet.message.sender == 1]
    network.deliver_all()
    assert network.leaders == [1]


def test_grants_of_a_pre_vote_do_not_elect() -> None:
    network = Network()
    network.tick(1, 10)
    step(network, VoteResponse(2, 1, 1, granted=True, pre=True))
    step(network, VoteResponse(2, 1, 1, granted=True, pre=True))
    step(network, VoteResponse(3, 1, 2, granted=True, pre=True))
    assert (network.raft(1).role, network.raft(1).term) == (Role.CANDIDATE, 1)


def test_a_refused_pre_vote_teaches_the_newer_term() -> None:
    network = Network(terms={2: 8})
    network.isolate(3)
    network.tick(1, 10)
    network.deliver_all()
    assert (network.raft(1).role, network.raft(1).term) == (Role.FOLLOWER, 8)


# -- check-quorum


def test_check_quorum_a_leader_without_a_majority_steps_down() -> None:
    network = Network()
    network.elect(1)
    network.isolate(1)
    network.tick(1, 9)
    assert network.leaders == [1]
    network.tick(1, 11)
    assert network.raft(1).role is not Role.LEADER
    with pytest.raises(NotLeader) as refused:
        network.propose(1, "late")
    assert refused.value.leader == 0


def test_check_quorum_one_of_two_followers_is_enough() -> None:
    network = Network()
    network.elect(1)
    network.isolate(3)
    for _ in range(50):
        network.tick(1)
        network.deliver_all()
    assert network.leaders == [1]


@pytest.mark.parametrize("pre", [False, True])
def test_check_quorum_who_hears_the_leader_ignores_votes_and_their_term(pre: bool) -> None:
    network = Network()
    network.elect(1)
    network.tick(2, 9)
    for receiver in (1, 2):
        assert step(network, VoteRequest(3, receiver, 9, 99, 9, pre)) == []
        assert network.raft(receiver).term == 1
    network.tick(2)
    assert step(network, VoteRequest(3, 2, 9, 99, 9, pre)) == [VoteResponse(2, 3, 9, granted=True, pre=pre)]


def test_check_quorum_alone_in_its_shard_a_node_hears_its_majority() -> None:
    network = Network(1)
    network.elect(1)
    network.propose(1, "a", "b")
    assert network.raft(1).commit == 3
    network.tick(1, 100)
    assert network.leaders == [1]
