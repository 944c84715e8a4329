"""Sections 5.2, 5.4.1 and 5.6 of the Raft paper, and the rules for votes in Figure 2: one test for each rule.

The name of a test begins with its section. "Figure 2, Candidates 1" is the first rule for candidates in Figure 2. The
tests of pre-vote and check-quorum, which the paper does not have, are in test_raft_elections.py.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from raft.core import (
    Durable,
    Heartbeat,
    RaftTiming,
    Role,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from tests.raft.by_hand import append, in_role, sent, stand, step
from tests.raft.network import Network

# -- section 5.2: when servers stand


def test_5_2_a_follower_that_hears_nothing_stands_after_its_timeout_and_not_before() -> None:
    """5.2, and Figure 2, Followers 2. The follower asks for pre-votes first, which does not change this rule."""
    network = Network(jitter=lambda node: 3)
    network.tick(1, 12)
    assert network.raft(1).role is Role.FOLLOWER
    network.tick(1)
    assert network.raft(1).role is Role.PRE_CANDIDATE


@pytest.mark.parametrize("kind", ["heartbeat", "append", "append that is refused"])
def test_5_2_what_the_leader_sends_keeps_a_follower_from_standing(kind: str) -> None:
    """5.2, and Figure 2, Followers 2: this holds for any valid message of the current leader."""
    network = Network()
    for _ in range(5):
        network.tick(2, 9)
        if kind == "heartbeat":
            step(network, Heartbeat(1, 2, 1, 0, 1))
        else:
            append(network, 2, 1, (0, 0) if kind == "append" else (9, 1), [1])
    assert (network.raft(2).role, network.raft(2).leader) == (Role.FOLLOWER, 1)


def test_5_2_granting_a_vote_keeps_a_follower_from_standing_and_refusing_one_does_not() -> None:
    """Figure 2, Followers 2: the winner of the election gets time to announce itself."""
    network = Network(logs={2: [1]}, terms={2: 2})
    network.tick(2, 9)
    step(network, VoteRequest(1, 2, 2, 1, 1))
    network.tick(2, 9)
    step(network, VoteRequest(3, 2, 2, 1, 1))
    assert (network.raft(2).role, network.raft(2).voted_for) == (Role.FOLLOWER, 1)
    network.tick(2, 2)
    assert network.raft(2).role is Role.PRE_CANDIDATE


def test_5_2_a_candidate_begins_a_term_votes_for_itself_and_asks_everyone() -> None:
    """5.2, and Figure 2, Candidates 1. The request has the last index and last term of the candidate's log."""
    network = Network(5, logs={1: [2, 2, 3]}, terms={1: 4})
    requests = stand(network)
    assert (network.raft(1).term, network.raft(1).voted_for) == (5, 1)
    assert requests == [VoteRequest(1, voter, 5, 3, 3) for voter in (2, 3, 4, 5)]


def test_5_2_a_candidate_that_hears_nothing_in_time_stands_again_in_a_newer_term() -> None:
    """5.2, and Figure 2, Candidates 4."""
    network = in_role(Role.CANDIDATE)
    network.tick(1, 9)
    assert (network.raft(1).role, network.raft(1).term) == (Role.CANDIDATE, 1)
    network.tick(1)
    stand(network)
    assert (network.raft(1).role, network.raft(1).term) == (Role.CANDIDATE, 2)


# -- section 5.2: votes


@pytest.mark.parametrize(("voted_for", "granted"), [(0, True), (1, True), (3, False)])
def test_5_2_one_vote_a_term_first_come_first_served(voted_for: int, granted: bool) -> None:
    """5.2, and Figure 2, RequestVote 2: for a voter without a vote, with a vote for this candidate, and with a vote for
    another candidate."""
    network = Network(terms={2: 4})
    if voted_for:
        step(network, VoteRequest(voted_for, 2, 5, 0, 0))
    assert step(network, VoteRequest(1, 2, 5, 0, 0)) == [VoteResponse(2, 1, 5, granted=granted)]


def test_5_2_a_candidate_and_a_leader_have_given_their_vote() -> None:
    """5.2: they voted for themselves, so a rival of the same term gets no vote."""
    for role in (Role.CANDIDATE, Role.LEADER):
        network = in_role(role)
        assert step(network, VoteRequest(2, 1, 1, 9, 1)) == [VoteResponse(1, 2, 1, granted=False)]
        assert network.raft(1).role is role


@pytest.mark.parametrize("role", [Role.FOLLOWER, Role.PRE_CANDIDATE, Role.CANDIDATE], ids=lambda role: role.value)
def test_5_2_whoever_hears_no_leader_votes_in_a_newer_term(role: Role) -> None:
    """5.2: this holds for a candidate too, because it enters the newer term as a follower without a vote."""
    network = in_role(role)
    assert step(network, VoteRequest(2, 1, 9, 0, 0)) == [VoteResponse(1, 2, 9, granted=True)]
    assert (network.raft(1).role, network.raft(1).term, network.raft(1).voted_for) == (Role.FOLLOWER, 9, 2)


def test_5_2_the_vote_survives_a_restart() -> None:
    """5.2, and Figure 2, State 2: otherwise the same server could elect two leaders of one term."""
    network = Network(terms={2: 4})
    step(network, VoteRequest(1, 2, 5, 0, 0))
    network.crash(2)
    network.restart(2)
    assert step(network, VoteRequest(3, 2, 5, 0, 0)) == [VoteResponse(2, 3, 5, granted=False)]


def test_5_2_no_vote_leaves_before_it_is_saved() -> None:
    """Figure 2, State: the vote is durable before the server answers."""
    network = Network()
    network.nodes[2].held = True
    assert step(network, VoteRequest(1, 2, 5, 0, 0)) == []
    network.flush(2)
    assert sent(network) == [VoteResponse(2, 1, 5, granted=True)]


def test_5_2_a_newer_save_under_way_keeps_the_outbox_shut() -> None:
    """Figure 2, State: the disk must have the term and vote of the answer, and not an older vote."""
    network = Network()
    node = network.nodes[2]
    node.held = True
    step(network, VoteRequest(1, 2, 5, 0, 0))
    step(network, VoteRequest(3, 2, 6, 0, 0))
    node.save()
    node.settle()
    assert sent(network) == [], "the vote of term 5 is saved, that of term 6 is not"
    node.save()
    node.settle()
    assert sent(network) == [VoteResponse(2, 3, 6, granted=True)]


def test_5_2_the_own_vote_counts_only_once_it_is_saved() -> None:
    """Figure 2, State 2 and Candidates 1: the candidate's own vote follows the same rule as every other vote."""
    network = Network(1)
    network.nodes[1].held = True
    network.tick(1, 10)
    assert network.raft(1).role is Role.CANDIDATE
    network.flush(1)
    assert network.raft(1).role is Role.LEADER


# -- section 5.2: how an election ends


@pytest.mark.parametrize(
    ("nodes", "votes", "role"),
    [
        (3, {2: True}, Role.LEADER),
        (3, {2: True, 3: False}, Role.LEADER),
        (5, {2: True, 3: True}, Role.LEADER),
        (5, {2: True, 3: True, 4: False, 5: False}, Role.LEADER),
        (3, {2: False, 3: False}, Role.FOLLOWER),
        (5, {2: False, 3: False, 4: False}, Role.FOLLOWER),
        (5, {2: True, 3: False, 4: False, 5: False}, Role.FOLLOWER),
        (3, {}, Role.CANDIDATE),
        (3, {2: False}, Role.CANDIDATE),
        (5, {2: True}, Role.CANDIDATE),
        (5, {2: True, 3: False, 4: False}, Role.CANDIDATE),
    ],
)
def test_5_2_one_round_wins_loses_or_leaves_it_open(nodes: int, votes: dict[int, bool], role: Role) -> None:
    """5.2, and Figure 2, Candidates 2: a majority of all voters of the shard, in the same term, elects a leader."""
    network = Network(nodes)
    stand(network)
    for voter, granted in votes.items():
        step(network, VoteResponse(voter, 1, 1, granted=granted))
    assert (network.raft(1).role, network.raft(1).term) == (role, 1)
    assert network.raft(1).voted_for == 1, "a lost vote stays given"


def test_5_2_alone_in_its_shard_a_server_elects_itself() -> None:
    """5.2: the server's own vote is a majority."""
    network = Network(1)
    network.tick(1, 10)
    assert (network.raft(1).role, network.raft(1).term) == (Role.LEADER, 1)


def test_5_2_a_repeated_vote_counts_once() -> None:
    """5.2: the number of voters counts, not the number of messages."""
    network = Network(5)
    stand(network)
    for _ in range(4):
        step(network, VoteResponse(2, 1, 1, granted=True))
    assert network.raft(1).role is Role.CANDIDATE
    step(network, VoteResponse(4, 1, 1, granted=True))
    assert network.raft(1).role is Role.LEADER


def test_5_2_a_late_vote_changes_nothing_for_a_leader_or_a_follower() -> None:
    """5.2: the election is over."""
    network = Network()
    network.elect(1)
    step(network, VoteResponse(3, 1, 1, granted=True))
    step(network, VoteResponse(3, 2, 1, granted=True))
    assert (network.leaders, network.raft(1).term) == ([1], 1)


@pytest.mark.parametrize("role", [Role.PRE_CANDIDATE, Role.CANDIDATE])
@pytest.mark.parametrize("newer", [0, 1])
@pytest.mark.parametrize("kind", ["heartbeat", "append"])
def test_5_2_a_candidate_follows_the_leader_of_its_term_or_a_newer_one(role: Role, newer: int, kind: str) -> None:
    """5.2, and Figure 2, Candidates 3. The candidate keeps its vote of that term."""
    network = in_role(role)
    term, vote = network.raft(1).term + newer, 0 if newer else network.raft(1).voted_for
    if kind == "heartbeat":
        step(network, Heartbeat(3, 1, term, 0, 1))
    else:
        append(network, 1, term, (0, 0), [], sender=3)
    assert (network.raft(1).role, network.raft(1).leader, network.raft(1).term) == (Role.FOLLOWER, 3, term)
    assert network.raft(1).voted_for == vote


@pytest.mark.parametrize("kind", ["heartbeat", "append"])
def test_5_2_a_candidate_ignores_the_leader_of_an_older_term(kind: str) -> None:
    """5.2: the candidate refuses the message and stays a candidate."""
    network = in_role(Role.CANDIDATE)
    if kind == "heartbeat":
        step(network, Heartbeat(3, 1, 0, 0, 1))
    else:
        append(network, 1, 0, (0, 0), [], sender=3)
    assert network.raft(1).role is Role.CANDIDATE


def test_5_2_a_split_vote_is_tried_again_in_a_newer_term() -> None:
    """5.2: no candidate has a majority, so the term ends without a leader."""
    network = Network(2, jitter=lambda node: 0)
    network.tick(1, 10)
    network.tick(2, 10)
    network.deliver_all()
    assert network.leaders == []
    assert [network.raft(n).voted_for for n in (1, 2)] == [1, 2]
    network.elect(1)
    assert network.raft(1).term == 2


def test_5_2_a_majority_elects_and_the_others_follow() -> None:
    """5.2, and Election Safety in Figure 3: the term has one leader."""
    network = Network(5)
    network.elect(3)
    assert network.leaders == [3]
    assert {network.raft(n).leader for n in (1, 2, 4, 5)} == {3}
    assert {network.raft(n).term for n in (1, 2, 3, 4, 5)} == {1}


# -- section 5.2: heartbeats


def test_5_2_the_new_leader_says_so_at_once() -> None:
    """5.2, and Figure 2, Leaders 1: before the election timeout of another server passes."""
    network = in_role(Role.CANDIDATE)
    said = step(network, VoteResponse(2, 1, 1, granted=True))
    assert {message.receiver for message in said if isinstance(message, Heartbeat)} == {2, 3}


def test_5_2_a_leader_sends_heartbeats_to_all_at_a_steady_pace_though_nothing_else_happens() -> None:
    """5.2, and Figure 2, Leaders 1."""
    network = in_role(Role.LEADER)
    beats = []
    for _ in range(3 * network.timing.heartbeat_ticks):
        network.tick(1)
        beats.append(sorted(message.receiver for message in sent(network) if isinstance(message, Heartbeat)))
    assert beats == [[], [2, 3]] * 3


@pytest.mark.parametrize("ticks_before", [0, 1])
def test_5_2_heartbeats_come_on_the_servers_own_beat_whenever_it_was_elected(ticks_before: int) -> None:
    """Beyond 5.2: all shards of a node tick together, so they send their heartbeats together."""
    network = Network(3)
    network.tick(1, ticks_before)
    step(network, TimeoutNow(2, 1, 1))
    step(network, VoteResponse(2, 1, network.raft(1).term, granted=True))
    assert network.raft(1).role is Role.LEADER
    beats = []
    for ticks in range(ticks_before + 1, ticks_before + 5):
        network.tick(1)
        beats += [ticks for message in sent(network) if isinstance(message, Heartbeat) and message.receiver == 2]
    assert beats == [2, 4]


# -- section 5.2: chance


@pytest.mark.parametrize("stands_from", [Role.FOLLOWER, Role.CANDIDATE], ids=["follower", "candidate"])
def test_5_2_every_wait_is_drawn_anew_from_the_interval(stands_from: Role) -> None:
    """5.2: after a lost election a candidate draws a new timeout, so that two candidates do not tie again."""
    chance, waits = Random(5), Counter[int]()
    network = Network(3, jitter=lambda node: chance.randrange(10))
    for _ in range(400):
        if stands_from is Role.CANDIDATE:
            stand(network)
        else:
            step(network, Heartbeat(3, 1, network.raft(1).term + 1, 0, 1))
        assert network.raft(1).role is stands_from
        waited = 0
        while network.raft(1).role is stands_from:
            network.tick(1)
            waited += 1
        waits[waited] += 1
        network.wire.clear()
    assert sorted(waits) == list(range(10, 20)), "each of T..2T-1 came, and nothing else"


@pytest.mark.parametrize("stand_from", [Role.FOLLOWER, Role.CANDIDATE], ids=["followers", "candidates"])
def test_5_2_mostly_one_server_times_out_before_the_others(stand_from: Role) -> None:
    """5.2: timeouts are random, so that split votes are rare and are resolved quickly."""
    chance, ties, rounds = Random(7), 0, 300
    network = Network(5, jitter=lambda node: chance.randrange(10))
    for _ in range(rounds):
        newest = max(raft.term for raft in (node.raft for node in network.nodes.values())) + 1
        for number in network.nodes:
            step(network, Heartbeat(9, number, newest, 0, 1))
        if stand_from is Role.CANDIDATE:
            for number in network.nodes:
                stand(network, number)
        first: list[int] = []
        while not first:
            for number in network.nodes:
                network.tick(number)
            first = [n for n, node in network.nodes.items() if node.raft.role is Role.PRE_CANDIDATE]
        ties += len(first) > 1
    assert ties < 0.4 * rounds


# -- section 5.4.1: only an up-to-date log wins


@pytest.mark.parametrize(
    ("last_index", "last_term", "granted"),
    [(3, 2, True), (2, 2, False), (4, 2, True), (1, 3, True), (99, 1, False), (0, 0, False)],
)
@pytest.mark.parametrize("pre", [False, True])
def test_5_4_1_votes_go_to_logs_that_are_up_to_date(last_index: int, last_term: int, granted: bool, pre: bool) -> None:
    """5.4.1, and Figure 2, RequestVote 2: the log with the later last term wins. With equal last terms the longer log
    wins."""
    network = Network(logs={2: [1, 2, 2]})
    (answer,) = step(network, VoteRequest(1, 2, 9, last_index, last_term, pre))
    assert isinstance(answer, VoteResponse)
    assert answer.granted is granted


def test_5_4_1_a_refused_candidates_newer_term_is_taken_over_all_the_same() -> None:
    """5.1 and 5.4.1: the server refuses its vote, but enters the newer term. Its vote in that term is still free."""
    network = Network(logs={2: [1, 2, 2]})
    step(network, VoteRequest(1, 2, 9, 1, 1))
    assert network.nodes[2].disk.vote == Durable(9, 0)
    assert step(network, VoteRequest(3, 2, 9, 3, 2)) == [VoteResponse(2, 3, 9, granted=True)]


def test_5_4_1_a_server_that_lacks_entries_does_not_win_though_it_stands_first() -> None:
    """5.4.1: all servers of the shard are connected."""
    network = Network(logs={1: [1], 2: [1, 1], 3: [1, 1]})
    for _ in range(60):
        network.tick(1)
        network.deliver_all()
    assert network.leaders == []
    network.elect(2)
    assert network.leaders == [2]


# -- section 5.6: timing


def test_5_6_heartbeats_come_more_often_than_elections() -> None:
    """5.6: broadcast time << election timeout. Other settings are refused."""
    with pytest.raises(AssertionError, match="heartbeats must come before elections"):
        RaftTiming(heartbeat_ticks=10, election_ticks=10)


def test_5_6_a_lost_heartbeat_costs_no_leader() -> None:
    """5.6: several heartbeats fit into the shortest election timeout."""
    network = in_role(Role.LEADER)
    for tick in range(1, 121):
        for number in network.nodes:
            network.tick(number)
        if tick % 4 == 0:
            network.wire.clear()
        network.deliver_all()
    assert (network.leaders, network.raft(1).term) == ([1], 1)
