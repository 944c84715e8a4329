"""Terms, votes and elections: sections 5.1, 5.2, 5.4.1 and 6 of the paper, pre-vote and check-quorum."""

from __future__ import annotations

import pytest
from network import Network

from raft.core import (
    Append,
    AppendResponse,
    Configuration,
    Durable,
    Heartbeat,
    HeartbeatResponse,
    LogTerms,
    Message,
    NotLeader,
    Raft,
    Role,
    Timing,
    VoteRequest,
    VoteResponse,
)


def answers(network: Network, of: int) -> list[object]:
    return [packet.message for packet in network.wire if packet.message.sender == of]


def step(network: Network, message: Message) -> list[object]:
    """Let one message be handled; returns what the receiver sends."""
    network.wire.clear()
    network.nodes[message.receiver].raft.step(message)
    network.nodes[message.receiver].settle()
    return answers(network, message.receiver)


# -- section 5.1: terms


def test_5_1_a_newer_term_makes_a_follower_of_a_leader() -> None:
    network = Network()
    network.elect(1)
    step(network, HeartbeatResponse(2, 1, 7, 1))
    assert (network.raft(1).role, network.raft(1).term) == (Role.FOLLOWER, 7)


def test_5_1_the_stale_leader_learns_the_newer_term_from_its_heartbeat_and_its_append() -> None:
    network = Network(terms={2: 5})
    assert step(network, Heartbeat(1, 2, 3, 0, 1)) == [HeartbeatResponse(2, 1, 5, 1)]
    (answer,) = step(network, Append(1, 2, 3, 0, 0, (), 0, 0))
    assert isinstance(answer, AppendResponse)
    assert (answer.term, answer.rejected) == (5, True)
    assert network.raft(2).leader == 0


def test_5_1_a_stale_candidate_learns_the_newer_term() -> None:
    network = Network(terms={2: 5})
    assert step(network, VoteRequest(1, 2, 3, 9, 3)) == [VoteResponse(2, 1, 5, granted=False)]
    assert step(network, VoteRequest(1, 2, 5, 9, 3, pre=True)) == [VoteResponse(2, 1, 5, granted=False, pre=True)]


def test_5_1_answers_of_an_older_term_count_nothing() -> None:
    network = Network(5, terms={1: 4})
    network.isolate(1)
    network.tick(1, 10)
    for voter in (2, 3):
        step(network, VoteResponse(voter, 1, 5, granted=True, pre=True))
    assert network.raft(1).role is Role.CANDIDATE
    for voter in (2, 3, 4, 5):
        step(network, VoteResponse(voter, 1, 4, granted=True))
    assert network.raft(1).role is Role.CANDIDATE


def test_5_1_an_acknowledgement_given_to_an_earlier_term_of_the_same_leader_counts_nothing() -> None:
    """The follower's log may have been cut since."""
    network = Network()
    network.elect(1)
    network.propose(1, "a")
    network.deliver_all()
    step(network, HeartbeatResponse(2, 1, 4, 1))
    network.forget_leaders()
    network.elect(1)
    network.isolate(2, 3)
    network.propose(1, "b")
    step(network, AppendResponse(2, 1, 1, match=4))
    assert (network.raft(1).term, network.raft(1).log.last_index, network.raft(1).commit) == (5, 4, 3)


# -- section 5.2: elections


def test_5_2_a_follower_that_hears_nothing_stands_after_its_timeout_and_not_before() -> None:
    network = Network(jitter=lambda node: 3)
    network.tick(1, 12)
    assert network.raft(1).role is Role.FOLLOWER
    network.tick(1)
    assert network.raft(1).role is Role.PRE_CANDIDATE


def test_5_2_heartbeats_keep_it_from_standing() -> None:
    network = Network()
    for _ in range(5):
        network.tick(2, 9)
        step(network, Heartbeat(1, 2, 1, 0, 1))
    assert (network.raft(2).role, network.raft(2).leader) == (Role.FOLLOWER, 1)


def test_5_2_a_majority_elects_and_the_others_follow() -> None:
    network = Network(5)
    network.elect(3)
    assert network.leaders == [3]
    assert {network.raft(n).leader for n in (1, 2, 4, 5)} == {3}
    assert {network.raft(n).term for n in (1, 2, 3, 4, 5)} == {1}


def test_5_2_one_vote_for_each_term_first_come_first_served() -> None:
    network = Network(terms={2: 4})
    assert step(network, VoteRequest(1, 2, 5, 0, 0)) == [VoteResponse(2, 1, 5, granted=True)]
    assert step(network, VoteRequest(3, 2, 5, 0, 0)) == [VoteResponse(2, 3, 5, granted=False)]
    assert step(network, VoteRequest(1, 2, 5, 0, 0)) == [VoteResponse(2, 1, 5, granted=True)]


def test_5_2_the_vote_survives_a_restart() -> None:
    network = Network(terms={2: 4})
    step(network, VoteRequest(1, 2, 5, 0, 0))
    network.crash(2)
    network.restart(2)
    assert step(network, VoteRequest(3, 2, 5, 0, 0)) == [VoteResponse(2, 3, 5, granted=False)]


def test_5_2_no_vote_leaves_before_it_is_saved() -> None:
    network = Network()
    network.nodes[2].held = True
    assert step(network, VoteRequest(1, 2, 5, 0, 0)) == []
    network.flush(2)
    assert answers(network, 2) == [VoteResponse(2, 1, 5, granted=True)]


def test_5_2_a_newer_save_under_way_keeps_the_outbox_shut() -> None:
    network = Network()
    node = network.nodes[2]
    node.held = True
    step(network, VoteRequest(1, 2, 5, 0, 0))
    step(network, VoteRequest(3, 2, 6, 0, 0))
    node.save()
    node.settle()
    assert answers(network, 2) == [], "the vote of term 5 is saved, that of term 6 is not"
    node.save()
    node.settle()
    assert answers(network, 2) == [VoteResponse(2, 3, 6, granted=True)]


def test_5_2_the_own_vote_counts_only_once_it_is_saved() -> None:
    network = Network(1)
    network.nodes[1].held = True
    network.tick(1, 10)
    assert network.raft(1).role is Role.CANDIDATE
    network.flush(1)
    assert network.raft(1).role is Role.LEADER


def test_5_2_a_repeated_vote_counts_once() -> None:
    network = Network(5)
    network.tick(1, 10)
    for _ in range(4):
        step(network, VoteResponse(2, 1, 1, granted=True, pre=True))
    assert network.raft(1).role is Role.PRE_CANDIDATE
    step(network, VoteResponse(3, 1, 1, granted=True, pre=True))
    for _ in range(4):
        step(network, VoteResponse(2, 1, 1, granted=True))
    assert network.raft(1).role is Role.CANDIDATE
    step(network, VoteResponse(4, 1, 1, granted=True))
    assert network.raft(1).role is Role.LEADER


def test_5_2_a_late_vote_changes_nothing_for_a_leader_or_a_follower() -> None:
    network = Network()
    network.elect(1)
    before = network.raft(1).term
    step(network, VoteResponse(3, 1, before, granted=True))
    step(network, VoteResponse(3, 2, before, granted=True))
    assert (network.leaders, network.raft(1).term) == ([1], before)


def test_5_2_votes_of_strangers_do_not_count() -> None:
    network = Network()
    network.tick(1, 10)
    for stranger in (7, 8, 9):
        step(network, VoteResponse(stranger, 1, 1, granted=True, pre=True))
    assert network.raft(1).role is Role.PRE_CANDIDATE


def test_5_2_a_candidate_that_hears_the_leader_of_its_term_follows_it() -> None:
    network = Network()
    network.tick(1, 10)
    step(network, VoteResponse(2, 1, 1, granted=True, pre=True))
    step(network, Heartbeat(3, 1, 1, 0, 1))
    assert (network.raft(1).role, network.raft(1).leader, network.raft(1).voted_for) == (Role.FOLLOWER, 3, 1)


def test_5_2_a_candidate_that_a_majority_refuses_follows_and_keeps_its_vote() -> None:
    network = Network()
    network.tick(1, 10)
    step(network, VoteResponse(2, 1, 1, granted=True, pre=True))
    step(network, VoteResponse(2, 1, 1, granted=False))
    assert network.raft(1).role is Role.CANDIDATE
    step(network, VoteResponse(3, 1, 1, granted=False))
    assert (network.raft(1).role, network.raft(1).voted_for) == (Role.FOLLOWER, 1)


def test_5_2_a_split_vote_is_tried_again_in_a_newer_term() -> None:
    network = Network(2, jitter=lambda node: 0)
    network.tick(1, 10)
    network.tick(2, 10)
    network.deliver_all()
    assert network.leaders == []
    assert [network.raft(n).voted_for for n in (1, 2)] == [1, 2]
    network.elect(1)
    assert network.raft(1).term == 2


def test_5_2_the_new_leader_says_so_at_once() -> None:
    network = Network()
    network.tick(1, 10)
    step(network, VoteResponse(2, 1, 1, granted=True, pre=True))
    sent = step(network, VoteResponse(2, 1, 1, granted=True))
    assert Heartbeat(1, 2, 1, 0, 1) in sent
    assert Heartbeat(1, 3, 1, 0, 1) in sent


def test_a_node_without_a_configuration_never_stands_but_votes() -> None:
    raft = Raft(
        2,
        state=Durable(),
        log=LogTerms(),
        configurations=[],
        commit=0,
        timing=Timing(2, 10),
        jitter=lambda: 0,
        reach=lambda first, size: (first, size),
        max_uncommitted_bytes=1,
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


# -- section 5.4.1: only an up-to-date log wins


@pytest.mark.parametrize(
    ("last_index", "last_term", "granted"),
    [(3, 2, True), (2, 2, False), (4, 2, True), (1, 3, True), (99, 1, False), (0, 0, False)],
)
@pytest.mark.parametrize("pre", [False, True])
def test_5_4_1_votes_go_to_logs_that_are_up_to_date(last_index: int, last_term: int, granted: bool, pre: bool) -> None:
    network = Network(logs={2: [1, 2, 2]})
    (answer,) = step(network, VoteRequest(1, 2, 9, last_index, last_term, pre))
    assert isinstance(answer, VoteResponse)
    assert answer.granted is granted


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
    """Or two of three, both waiting, would wait for ever."""
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


def test_alone_in_its_group_a_node_elects_itself_and_commits() -> None:
    network = Network(1)
    network.elect(1)
    network.propose(1, "a", "b")
    assert network.raft(1).commit == 3
    network.tick(1, 100)
    assert network.leaders == [1]
