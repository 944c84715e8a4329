"""Section 5.1 of the Raft paper, and the rules for terms in Figure 2: one test for each rule.

The name of a test begins with its section. "Figure 2, All Servers 2" is the second rule for all servers in Figure 2.
"""

from __future__ import annotations

import pytest

from raft.core import (
    Append,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    RaftMessage,
    Role,
    VoteRequest,
    VoteResponse,
)
from tests.raft.by_hand import append, in_role, stand, step
from tests.raft.network import Network


def test_5_1_a_server_begins_as_a_follower_in_term_zero_without_a_vote() -> None:
    """5.2, and Figure 2, State 1-2: a server starts as a follower. The first term is 0, and the server has not
    voted."""
    raft = Network().raft(1)
    assert (raft.role, raft.term, raft.voted_for, raft.leader, raft.commit) == (Role.FOLLOWER, 0, 0, 0, 0)


def test_5_1_term_vote_and_log_survive_a_restart() -> None:
    """Figure 2, State 1-3: term, vote and log are durable before the server answers any request. The role is not
    durable."""
    network = Network()
    network.elect(1)
    network.propose(1, "a")
    network.crash(1)
    network.restart(1)
    raft = network.raft(1)
    assert (raft.role, raft.term, raft.voted_for, raft.log.last_index) == (Role.FOLLOWER, 1, 1, 2)


OF_A_NEWER_TERM: list[RaftMessage] = [
    VoteRequest(2, 1, 7, 0, 0),
    VoteResponse(2, 1, 7, granted=False),
    VoteResponse(2, 1, 7, granted=False, pre=True),
    Heartbeat(2, 1, 7, 0, 1),
    HeartbeatResponse(2, 1, 7, 1),
    Append(2, 1, 7, 0, 0, (), 0, 0),
    AppendResponse(2, 1, 7, match=0),
]


@pytest.mark.parametrize("message", OF_A_NEWER_TERM, ids=lambda message: type(message).__name__)
@pytest.mark.parametrize("role", Role, ids=lambda role: role.value)
def test_5_1_a_newer_term_makes_a_follower_of_everyone(role: Role, message: RaftMessage) -> None:
    """5.1, and Figure 2, All Servers 2: a server that receives a larger term enters that term as a follower, whatever
    the message and its own role. There is one exception: a leader in office ignores vote requests (section 6)."""
    network = in_role(role)
    step(network, message)
    deaf = role is Role.LEADER and isinstance(message, VoteRequest)
    expected = (Role.LEADER, 1) if deaf else (Role.FOLLOWER, 7)
    assert (network.raft(1).role, network.raft(1).term) == expected
    assert network.nodes[1].disk.vote.term == network.raft(1).term, "and it is on disk"


def test_5_1_the_first_message_of_a_newer_leader_names_it() -> None:
    """5.1 and 5.2: a leader that receives a message of a newer leader follows the newer leader."""
    network = in_role(Role.LEADER)
    step(network, Heartbeat(3, 1, 2, 0, 1))
    assert (network.raft(1).role, network.raft(1).leader) == (Role.FOLLOWER, 3)


def test_5_1_requests_of_an_older_term_are_refused_and_answered_with_the_newer() -> None:
    """5.1, and Figure 2, AppendEntries 1 and RequestVote 1: a stale leader or candidate learns the newer term from the
    answer."""
    network = Network(terms={2: 5})
    assert step(network, Heartbeat(1, 2, 3, 0, 1)) == [HeartbeatResponse(2, 1, 5, round=0)]
    (answer,) = step(network, Append(1, 2, 3, 0, 0, (), 0, 0))
    assert isinstance(answer, AppendResponse)
    assert (answer.term, answer.rejected) == (5, True)
    assert step(network, VoteRequest(1, 2, 3, 9, 3)) == [VoteResponse(2, 1, 5, granted=False)]
    assert step(network, VoteRequest(1, 2, 5, 9, 3, pre=True)) == [VoteResponse(2, 1, 5, granted=False, pre=True)]
    assert (network.raft(2).leader, network.raft(2).voted_for) == (0, 0)


def test_5_1_entries_of_an_older_term_are_not_taken() -> None:
    """5.1, and Figure 2, AppendEntries 1: the server ignores the older leader's commit index too."""
    network = Network(logs={2: [1]}, terms={2: 5})
    append(network, 2, 3, (1, 1), [3], commit=2)
    assert (network.log(2), network.raft(2).commit) == ([1], 0)


def test_5_1_answers_of_an_older_term_count_nothing() -> None:
    """5.1: votes for an earlier candidacy of the same server do not count for its present candidacy."""
    network = Network(5, terms={1: 4})
    stand(network)
    for voter in (2, 3, 4, 5):
        step(network, VoteResponse(voter, 1, 4, granted=True))
    assert network.raft(1).role is Role.CANDIDATE


def test_5_1_an_acknowledgement_given_to_an_earlier_term_of_the_same_leader_counts_nothing() -> None:
    """5.1: the follower's log may have been cut since that acknowledgement."""
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
