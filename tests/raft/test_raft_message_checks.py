"""The core refuses messages that no correct server sends, and such a message changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from raft.core import (
    Append,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    InvalidMessage,
    RaftMessage,
    Role,
    SnapshotChunk,
    SnapshotResponse,
    TermRun,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from raft.core.message_checks import MAX_NUMBER, MAX_TERM_JUMP
from tests.raft.by_hand import append, step
from tests.raft.network import Network

HUGE = (1 << 64) - 1


def elected() -> Network:
    """Return a network in which node 1 leads term 1 and has committed its no-op on all nodes."""
    network = Network()
    network.elect(1)
    network.tick(1, 2)
    network.deliver_all()
    return network


def state(network: Network, node: int) -> tuple[object, ...]:
    raft = network.raft(node)
    return (raft.role, raft.term, raft.voted_for, raft.leader, raft.commit, raft.log.last_index, raft.durable)


def refused(network: Network, message: RaftMessage, why: str) -> None:
    before = state(network, message.receiver)
    with pytest.raises(InvalidMessage, match=why) as error:
        network.raft(message.receiver).step(message)
    assert error.value.sender == message.sender
    assert state(network, message.receiver) == before
    assert not network.raft(message.receiver).ready(), "nothing to save, to write or to send"


def ranged(runs: tuple[TermRun, ...], last: int, *, prev: tuple[int, int] = (1, 1), term: int = 1) -> Append:
    return Append(1, 2, term, *prev, runs, last, 1)


# -- two leaders in one term


@pytest.mark.parametrize(
    "message",
    [
        Heartbeat(3, 2, 1, 1, 9),
        Append(3, 2, 1, 1, 1, (TermRun(2, 1),), 2, 1),
        SnapshotChunk(3, 2, 1, 1_000_000, 0),
        TimeoutNow(3, 2, 1),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_second_leader_of_the_term_is_refused(message: RaftMessage) -> None:
    refused(elected(), message, "node 1 leads term 1, not node 3")


def test_a_leader_refuses_a_leader_of_its_own_term() -> None:
    refused(elected(), Heartbeat(2, 1, 1, 1, 9), "node 1 leads term 1, not node 2")


def test_a_node_that_is_no_member_cannot_lead_the_term_of_another_leader() -> None:
    refused(elected(), Heartbeat(77, 2, 1, 1, 9), "node 1 leads term 1, not node 77")


# -- terms


@pytest.mark.parametrize(
    "message_of",
    [
        lambda term: Heartbeat(3, 2, term, 1, 9),
        lambda term: VoteRequest(3, 2, term, 1, 1, transfer=True),
        lambda term: VoteRequest(3, 2, term, 1, 1, pre=True),
        lambda term: VoteResponse(3, 2, term, granted=False),
        lambda term: AppendResponse(3, 2, term),
        lambda term: TimeoutNow(3, 2, term),
    ],
)
@pytest.mark.parametrize("term", [2 + MAX_TERM_JUMP, 1 << 63, HUGE])
def test_a_term_that_no_number_of_elections_reaches_is_refused(
    message_of: Callable[[int], RaftMessage], term: int
) -> None:
    refused(elected(), message_of(term), f"no number of elections leads from term 1 to term {term}")


def test_a_node_that_was_away_for_long_accepts_the_present_term() -> None:
    network = elected()
    step(network, Heartbeat(3, 2, 1 + MAX_TERM_JUMP, 1, 9))
    assert (network.raft(2).leader, network.raft(2).term) == (3, 1 + MAX_TERM_JUMP)


def test_a_candidate_has_no_entry_of_a_newer_term() -> None:
    refused(elected(), VoteRequest(3, 2, 5, 9, 6, transfer=True), "term 5 cannot have an entry of term 6")


# -- ranges of entries


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (ranged((TermRun(2, 2),), 2), "a leader of term 1 sent an entry of term 2"),
        (ranged((TermRun(2, 0),), 2), "term 0 at entry 2 follows term 1"),
        (ranged((TermRun(2, 3), TermRun(3, 2)), 3, term=3), "term 2 at entry 3 follows term 3"),
        (ranged((TermRun(2, 1), TermRun(2, 1)), 3), "term 1 at entry 2 follows term 1"),
        (ranged((TermRun(3, 1),), 3), "a range after entry 1 ends at 3"),
        (ranged((TermRun(2, 1), TermRun(9, 1)), 3), "a range after entry 1 ends at 3"),
        (ranged((), 3), "a range after entry 1 ends at 3"),
        (ranged((), HUGE, prev=(HUGE, 1)), "is no index"),
        (ranged((TermRun(2, 1),), 2, prev=(1, 7)), "term 1 at entry 2 follows term 7"),
    ],
)
def test_a_range_that_no_log_has_is_refused(message: Append, why: str) -> None:
    refused(elected(), message, why)


def test_a_leader_that_contradicts_itself_is_refused() -> None:
    network = Network(logs={2: [1, 1]})
    append(network, 2, 2, (2, 1), [2])
    refused(network, ranged((TermRun(2, 2),), 2, term=2), "the leader of term 2 contradicts itself at entry 2")


# -- answers


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (AppendResponse(2, 1, 1, match=9), "entry 9 was acknowledged, and was never sent"),
        (AppendResponse(77, 1, 1, match=HUGE), "was never sent"),
        (AppendResponse(2, 1, 1, rejected=True, rejected_index=HUGE), "is no index"),
        (HeartbeatResponse(2, 1, 1, round=MAX_NUMBER), "has not begun"),
        (SnapshotResponse(2, 1, 1, 9, 0, installed=True), "a snapshot at entry 9 was never sent"),
        (SnapshotResponse(2, 1, 1, 1, HUGE), "is no index"),
    ],
)
def test_an_answer_to_what_was_never_sent_is_refused(answer: RaftMessage, why: str) -> None:
    refused(elected(), answer, why)


@pytest.mark.parametrize("sender", [0, 2, -1])
def test_a_sender_is_another_server(sender: int) -> None:
    refused(elected(), Heartbeat(sender, 2, 1, 1, 9), f"no other server has the number {sender}")


def test_the_refused_messages_leave_the_shard_able_to_work() -> None:
    network = elected()
    for message in (Heartbeat(3, 2, HUGE, 1, 9), VoteRequest(3, 2, HUGE, 1, 1), Heartbeat(3, 2, 1, 1, 9)):
        with pytest.raises(InvalidMessage):
            step(network, message)
    network.propose(1, "a")
    network.deliver_all()
    assert network.raft(1).role is Role.LEADER
    assert network.raft(1).commit == 2
