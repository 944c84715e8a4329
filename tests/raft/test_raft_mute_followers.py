"""Tests of followers that answer heartbeats and nothing else: the leader opens their streams again, then steps down."""

from __future__ import annotations

from collections.abc import Collection

from raft.core import (
    Append,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    RaftTiming,
    Role,
    SnapshotChunk,
    SnapshotResponse,
)
from raft.core.answers import FIRST_PATIENCE, MUTE_AFTER, YIELD_PATIENCE, Answers
from tests.raft.network import Network, led

TIMING = RaftTiming(2, 10)
ELECTION_TICKS = TIMING.election_ticks
# After so many ticks, a stream has been opened again often enough for the leader to step down.
UNTIL_MUTE = ELECTION_TICKS * FIRST_PATIENCE * (2**MUTE_AFTER - 1)


def run(network: Network, ticks: int, *, mute: Collection[int]) -> None:
    """Like `network.run`, but the answers of the nodes in `mute` to Appends are lost."""
    for _ in range(ticks):
        for number in [*network.nodes]:
            network.tick(number)
        while network.wire:
            packet = network.wire.pop(0)
            if not (isinstance(packet.message, AppendResponse) and packet.message.sender in mute):
                network.deliver(packet)


def reopened(network: Network) -> list[int]:
    """Return the followers whose streams were opened again, in order."""
    return [int(line.split()[5]) for line in network.trace if "opens the stream to" in line]


def test_the_stream_of_a_mute_follower_is_opened_again_more_and_more_rarely() -> None:
    network = led()
    network.propose(1, "a")
    run(network, 3 * UNTIL_MUTE, mute=[3])
    network.propose(1, "b")
    assert 3 <= reopened(network).count(3) <= MUTE_AFTER + 2
    assert reopened(network).count(2) == 0
    assert network.leaders == [1], "node 2 acknowledges, so node 1 commits and leads on"
    network.run(2)
    assert network.raft(1).commit == network.raft(1).log.last_index


def test_nothing_is_opened_again_while_nothing_is_unanswered() -> None:
    network = led()
    run(network, 3 * UNTIL_MUTE, mute=[2, 3])
    assert reopened(network) == []


def test_a_leader_that_no_majority_acknowledges_says_so_and_then_steps_down() -> None:
    network = led()
    network.propose(1, "a")
    run(network, ELECTION_TICKS, mute=[2, 3])
    assert [network.raft(node).is_unacknowledged for node in (1, 2, 3)] == [False] * 3
    run(network, 2 * ELECTION_TICKS, mute=[2, 3])
    assert [network.raft(node).is_unacknowledged for node in (1, 2, 3)] == [True, False, False]
    assert network.leaders == [1], "the new stream may help"
    while network.leaders:
        run(network, 1, mute=[2, 3])
    assert network.raft(1).commit < 2
    assert reopened(network) == [2, 3] * MUTE_AFTER


def test_a_mute_and_a_silent_follower_are_no_majority_with_their_leader() -> None:
    """For example: the disk of one voter was wiped, and nobody has added it again."""
    network = led()
    network.isolate(3)
    network.propose(1, "a")
    run(network, 3 * ELECTION_TICKS, mute=[2])
    assert network.raft(1).is_unacknowledged
    run(network, UNTIL_MUTE, mute=[2])
    assert network.raft(1).role is Role.FOLLOWER
    network.run(YIELD_PATIENCE * ELECTION_TICKS)
    assert network.leaders == [2], "node 1 acknowledges what node 2 sends"
    assert network.raft(2).commit == network.raft(2).log.last_index


def test_a_leader_that_stepped_down_lets_another_one_stand() -> None:
    network = led()
    network.propose(1, "a")
    leader = network.raft(1)
    while network.leaders:
        run(network, 1, mute=[2, 3])
    for _ in range(YIELD_PATIENCE * ELECTION_TICKS - 1):
        network.tick(1)
    assert leader.role is Role.FOLLOWER
    for _ in range(2 * ELECTION_TICKS):
        network.tick(1)
    assert leader.role is not Role.FOLLOWER, "perhaps it is the only node that can be elected"


def test_acknowledgements_that_come_again_end_it() -> None:
    network = led()
    network.propose(1, "a")
    run(network, 5 * ELECTION_TICKS, mute=[2, 3])
    assert network.raft(1).is_unacknowledged
    network.run(ELECTION_TICKS)
    assert not network.raft(1).is_unacknowledged
    assert network.raft(1).commit == network.raft(1).log.last_index


def test_a_follower_whose_disk_is_full_is_not_mute() -> None:
    """It answers no Append, and says so in its answers to heartbeats."""
    network = led()
    for number in (2, 3):
        network.nodes[number].raft.write_failed(len(network.nodes[number].disk.written))
    network.propose(1, "a")
    network.run(3 * UNTIL_MUTE)
    assert (network.leaders, reopened(network)) == ([1], [])
    for number in (2, 3):
        network.nodes[number].raft.resume_writing()
    network.run(3 * ELECTION_TICKS)
    assert network.raft(1).commit == 2


def test_a_follower_that_waits_for_an_fsync_is_not_mute() -> None:
    network = led()
    network.nodes[2].held = network.nodes[3].held = True
    network.propose(1, "a")
    network.run(3 * UNTIL_MUTE)
    assert (network.leaders, reopened(network)) == ([1], [])
    network.flush(2)
    network.run(2)
    assert network.raft(1).commit == 2


def test_a_follower_with_an_older_program_is_not_mute() -> None:
    """An older program does not say that it owes nothing."""
    answers = Answers()
    for now in range(1, 3 * UNTIL_MUTE):
        answers.heartbeat(now, owes_nothing=False)
        assert not answers.tick(now, TIMING, is_due=True)


def test_a_follower_whose_heartbeats_are_lost_is_not_mute() -> None:
    """The network is down, not the stream. If it is a majority, the leader steps down at once."""
    network = led()
    network.isolate(3)
    network.propose(1, "a")
    network.run(3 * UNTIL_MUTE)
    assert (network.leaders, reopened(network)) == ([1], [])


def test_a_suspect_and_a_receiver_of_a_snapshot_are_not_mute() -> None:
    """Both answer. That their answers do not count for a commit is another matter."""
    network = led()
    leader = network.raft(1)
    network.propose(1, "a")
    network.wire.clear()
    for _ in range(3 * UNTIL_MUTE):
        network.tick(1)
        for packet in list(network.wire):
            match packet.message:
                case Heartbeat(receiver=peer, round=number, term=term):
                    suspicion = 7 if peer == 2 else 0
                    leader.step(HeartbeatResponse(peer, 1, term, number, suspicion, owes_nothing=True))
                case Append(receiver=2, term=term):
                    leader.step(AppendResponse(2, 1, term, match=0, suspicion=7))
                case Append(receiver=3, term=term):
                    leader.step(SnapshotResponse(3, 1, term, 1, 0))
        network.wire.clear()
        network.nodes[1].settle()
        network.wire = [packet for packet in network.wire if not isinstance(packet.message, SnapshotChunk)]
    assert leader.role is Role.LEADER
    assert reopened(network) == []
