"""Sections 5.4.2, 5.4.3 and 5.5 of the Raft paper, its Figure 8, and Figure 3: why no committed entry is lost.

The name of a test begins with its section. The election restriction, 5.4.1, is in test_raft_paper_elections.py.
invariants.py checks the five properties of Figure 3 after every event of every test and scenario in this folder.
"""

from __future__ import annotations

from itertools import combinations

import pytest

from raft.core import (
    Append,
    AppendResponse,
    CommittedEntry,
    Heartbeat,
    InvalidMessage,
    Role,
    TermRun,
    VoteRequest,
    VoteResponse,
)
from tests.raft.by_hand import append, holds, lead, sent, step
from tests.raft.network import ENTRY_BYTES, Network, Packet

# -- section 5.4.2: entries of earlier terms


def figure_8(*, carries_no_op: bool) -> Network:
    """Return Figure 8 (c): server 1 leads term 4, and a majority has its entry of term 2. With `carries_no_op`, Figure
    8 (e): the majority also has an entry of term 4."""
    network = Network(
        5, logs={1: [1, 2], 2: [1, 2], 3: [1], 4: [1], 5: [1, 3]}, terms=dict.fromkeys(range(1, 6), 3),
        append_bytes=ENTRY_BYTES,
    )  # fmt: skip
    network.isolate(4, 5)
    network.cut -= {(4, 1), (1, 4)}
    while network.raft(1).role is not Role.LEADER:
        network.tick(1)
        while network.wire and network.raft(1).role is not Role.LEADER:
            network.deliver(network.wire.pop(0))
    network.isolate(4, 5)
    while network.wire:
        packet = network.wire.pop(0)
        is_no_op = isinstance(packet.message, Append) and packet.message.last_index == 3
        if carries_no_op or not is_no_op:
            network.deliver(packet)
    return network


def test_5_4_2_figure_8_an_entry_of_an_earlier_term_is_not_committed_by_counting() -> None:
    """5.4.2 and Figure 8 (c)-(d)."""
    network = figure_8(carries_no_op=False)
    assert [network.log(n)[:2] for n in (1, 2, 3)] == [[1, 2]] * 3, "a majority has it"
    assert network.raft(1).progress[3].match == 2, "and the leader knows"
    assert network.raft(1).commit == 0
    network.crash(1)
    network.heal()
    network.forget_leaders()
    network.elect(5)
    assert network.log(2)[:2] == network.log(3)[:2] == [1, 3], "(d): it is overwritten"


def test_5_4_2_figure_8_an_entry_of_the_own_term_commits_all_before_it() -> None:
    """5.4.2 and Figure 8 (e)."""
    network = figure_8(carries_no_op=True)
    assert network.raft(1).commit == 3
    network.crash(1)
    network.heal()
    network.forget_leaders()
    for _ in range(100):
        network.tick(5)
        network.deliver_all()
    assert network.raft(5).role is not Role.LEADER, "server 5 cannot win"
    assert {f"{voter}->5 pre-vote no, term 4" for voter in (2, 3)} <= set(network.trace)


@pytest.mark.parametrize(("match", "commit"), [(1, 0), (2, 0), (3, 3)])
def test_5_4_2_a_majority_counts_only_for_entries_of_the_leaders_own_term(match: int, commit: int) -> None:
    """5.4.2, and Figure 2, Leaders 4: entry 3 is the first entry of the leader's term. Entries 1 and 2 have earlier
    terms."""
    network = Network(logs={1: [1, 2]}, terms=dict.fromkeys((1, 2, 3), 2))
    lead(network)
    for follower in (2, 3):
        step(network, holds(follower, 3, match))
    assert network.raft(1).commit == commit


def test_5_4_2_a_new_leader_commits_what_earlier_ones_left_without_waiting_for_a_command() -> None:
    """5.4.2 and section 8: a new leader appends a no-op at once, and commits the earlier entries with it."""
    network = Network(logs={1: [1, 2], 2: [1, 2], 3: [1]})
    network.elect(1)
    assert network.log(3) == [1, 2, 3]
    assert network.raft(1).commit == 3


# -- section 5.4.3: Leader Completeness and State Machine Safety


@pytest.mark.parametrize("majority", list(combinations(range(1, 6), 3)), ids=str)
@pytest.mark.parametrize("others_log", [[1], [1, 1, 1, 1], []], ids=["shorter", "longer, of an older term", "empty"])
def test_5_4_3_whoever_is_elected_has_what_any_majority_holds(majority: tuple[int, ...], others_log: list[int]) -> None:
    """5.4.3, Leader Completeness: three of five servers hold the entry, in every combination. The other two never win,
    however often they stand and although all servers answer. Each of the three can win."""
    logs = {number: [1, 2] if number in majority else others_log for number in range(1, 6)}
    network = Network(5, logs=logs, terms=dict.fromkeys(range(1, 6), 2))
    for number in set(range(1, 6)) - set(majority):
        for _ in range(50):
            network.tick(number)
            network.deliver_all()
        assert network.raft(number).role is not Role.LEADER
    network.elect(majority[0])
    assert network.raft(majority[0]).log.last_term > 2


def test_5_4_3_what_is_committed_is_never_cut() -> None:
    """5.4.3, State Machine Safety: a leader that lacks a committed entry can be elected only by servers that accepted
    the loss. The server keeps its committed entries, and does not follow this leader."""
    network = Network()
    append(network, 2, 1, (0, 0), [1, 1], commit=2)
    answers = step(network, Append(3, 2, 2, 1, 1, (TermRun(2, 2),), 2, 0))
    assert answers == [AppendResponse(2, 3, 2, rejected=True, contradicted=CommittedEntry(2, 1))]
    assert list(network.raft(2).divergences) == [3]
    assert (network.log(2), network.raft(2).log.last_index, network.raft(2).commit) == ([1, 1], 2, 2)


def test_5_4_3_agreement_with_one_leader_says_nothing_about_the_next() -> None:
    """5.4.3: only committed entries are certain to be in the next leader's log."""
    network = Network()
    append(network, 2, 1, (0, 0), [1, 1])
    network.deliver(Packet(Heartbeat(3, 2, 2, 2, 1)))
    assert network.raft(2).commit == 0


def test_5_4_3_agreement_outlives_a_pre_candidacy_in_the_same_term() -> None:
    """5.4.3: otherwise the follower would learn no commit index from the same leader until the next entry."""
    network = Network()
    append(network, 2, 1, (0, 0), [1, 1])
    network.tick(2, 11)
    assert network.raft(2).role is Role.PRE_CANDIDATE
    network.deliver(Packet(Heartbeat(1, 2, 1, 2, 9)))
    assert (network.raft(2).role, network.raft(2).commit) == (Role.FOLLOWER, 2)


def test_5_4_3_a_leader_never_contradicts_itself() -> None:
    """Figure 3, Leader Append-Only, as a follower sees it."""
    network = Network(logs={2: [1, 1]})
    append(network, 2, 2, (2, 1), [2])
    with pytest.raises(InvalidMessage, match="contradicts itself"):
        append(network, 2, 2, (1, 1), [2])


# -- section 5.5: servers that crash


def test_5_5_a_follower_that_was_down_is_sent_what_it_missed_when_it_is_back() -> None:
    """5.5: the leader repeats its requests without limit."""
    network = Network()
    network.elect(1)
    network.crash(3)
    network.propose(1, "a", "b")
    for _ in range(100):
        network.tick(1)
        network.deliver_all()
    network.restart(3)
    for _ in range(20):
        network.tick(1)
        network.deliver_all()
    assert network.nodes[3].disk.written == network.nodes[1].disk.written
    assert network.raft(3).commit == 3


def test_5_5_a_candidate_asks_who_was_down_in_its_next_election() -> None:
    """5.5: a candidate asks every voter in every election."""
    network = Network()
    network.crash(2)
    network.crash(3)
    network.tick(1, 100)
    network.deliver_all()
    assert network.leaders == []
    network.restart(2)
    network.elect(1)
    assert network.leaders == [1]


def test_5_5_a_request_that_was_handled_before_a_crash_may_come_again() -> None:
    """5.5: requests are idempotent. The answer is the same and nothing changes."""
    network = Network()
    assert append(network, 2, 1, (0, 0), [1, 1], commit=2) == [holds(2, 1, 2)]
    network.tick(2, 10)
    vote = step(network, VoteRequest(3, 2, 2, 2, 1))
    network.crash(2)
    network.restart(2)
    assert step(network, VoteRequest(3, 2, 2, 2, 1)) == vote == [VoteResponse(2, 3, 2, granted=True)]
    for _ in range(2):
        assert append(network, 2, 2, (0, 0), [1, 1], commit=2, sender=3) == [holds(2, 2, 2, leader=3)]
    assert network.log(2) == [1, 1]


def test_5_5_a_leader_that_crashed_returns_as_a_follower_and_its_unfinished_entries_go() -> None:
    """5.5 and 5.3: entries that no majority holds may be lost. They are lost if the next leader does not have them."""
    network = Network()
    network.elect(1)
    network.isolate(1)
    network.propose(1, "lost")
    network.crash(1)
    network.forget_leaders()
    network.elect(2)
    network.heal()
    network.restart(1)
    assert network.raft(1).role is Role.FOLLOWER
    for _ in range(20):
        network.tick(2)
        network.deliver_all()
    assert network.nodes[1].disk.written == network.nodes[2].disk.written
    assert "lost" not in [entry.value for entry in network.nodes[1].disk.written]


def test_5_5_all_crash_at_once_and_what_was_committed_is_still_there() -> None:
    """5.5: every server restarts with its log and its vote, and needs nothing else."""
    network = Network()
    network.elect(1)
    network.propose(1, "a")
    network.deliver_all()
    for number in (1, 2, 3):
        network.crash(number, keeps=lambda disk: disk.flushed)
    for number in (1, 2, 3):
        network.restart(number)
    network.elect(3)
    assert (network.log(3), network.raft(3).commit) == ([1, 1, 2], 3)
    assert not [message for message in sent(network) if isinstance(message, AppendResponse) and message.rejected]
