"""Servers whose disk has no room for new data: who leads, who stands for election, and to whom leadership goes."""

from __future__ import annotations

import pytest

from raft.core import TimeoutNow, TransferRefused
from raft.core.follower import FULL_DISK_PATIENCE
from raft.core.transfer import ROOM_PATIENCE
from tests.raft.network import Network, led

ELECTION_TICKS = 10
# An election, with pre-vote, of the slowest of three servers.
ELECTION = ELECTION_TICKS + 6


def full(network: Network, *numbers: int) -> None:
    """Let the disks of exactly these servers have no room, and let the leader hear it."""
    for number, node in network.nodes.items():
        node.raft.room_changed(number not in numbers)
    network.run(4)


def lag(network: Network, number: int) -> None:
    """Let the other servers commit an entry that this server lacks."""
    network.isolate(number)
    network.propose(1, "a")
    network.run(2)
    assert network.raft(1).commit > len(network.log(number))


def test_a_full_leader_hands_over_to_a_voter_with_room() -> None:
    network = led()
    network.run(ELECTION_TICKS * ROOM_PATIENCE)
    full(network, 2)
    assert network.leaders == [1]
    full(network, 1, 2)
    network.run(2)
    assert network.leaders == [3]
    assert network.raft(3).term == 2, "one election, without a pre-vote"
    network.propose(3, "taken")
    network.run(2)
    assert network.log(1) == network.log(3), "a full follower takes what the leader has accepted"


def test_while_no_voter_has_room_the_leader_stays() -> None:
    network = led()
    full(network, 1, 2, 3)
    network.run(100)
    assert (network.leaders, network.raft(1).term) == ([1], 1)
    network.propose(1, "an operator's command")
    network.run(2)
    assert network.raft(1).commit == network.raft(1).log.last_index
    full(network, 1, 2)
    network.run(ELECTION_TICKS * ROOM_PATIENCE)
    assert network.leaders == [3]


def test_a_voter_that_lags_or_is_silent_does_not_get_leadership() -> None:
    network = led()
    lag(network, 3)
    full(network, 1, 2)
    network.run(50)
    assert network.leaders == [1]
    network.heal()
    network.run(50)
    assert network.leaders == [3]


def test_between_two_handovers_that_fail_the_leader_takes_an_operators_commands() -> None:
    network = led()
    network.raft(1).room_changed(False)
    handing = []
    for _ in range(6 * ELECTION_TICKS):
        for number in network.nodes:
            network.tick(number)
        network.wire = [packet for packet in network.wire if not isinstance(packet.message, TimeoutNow)]
        network.deliver_all()
        handing.append(network.raft(1).transferring_to)
    assert network.leaders == [1]
    assert 2 * ELECTION_TICKS <= handing.count(2) < 4 * ELECTION_TICKS


def test_leadership_is_not_handed_to_a_full_voter() -> None:
    network = led()
    full(network, 3)
    with pytest.raises(TransferRefused, match="node 3 takes no writes, because its disk is full or has failed"):
        network.transfer(1, 3)
    full(network)
    network.transfer(1, 3)
    network.deliver_all()
    assert network.leaders == [3]


def test_leadership_is_not_handed_to_a_voter_whose_disk_refuses_entries() -> None:
    network = led()
    network.raft(3).write_failed(1)
    network.run(4)
    with pytest.raises(TransferRefused, match="takes no writes"):
        network.transfer(1, 3)
    network.raft(3).resume_writing()
    network.run(4)
    network.transfer(1, 3)


def test_leadership_does_not_return_to_a_full_preferred_leader() -> None:
    network = led(preferred_leader=2)
    full(network, 2)
    network.run(200)
    assert network.leaders == [1]
    full(network)
    network.run(200)
    assert network.leaders == [2]


def test_a_full_server_is_not_elected_while_another_can_be() -> None:
    network = led()
    full(network, 2)
    network.crash(1)
    network.run(ELECTION)
    assert network.leaders == [3]


def test_a_full_server_stands_at_last_if_only_its_log_is_up_to_date_and_hands_over_then() -> None:
    network = led()
    lag(network, 3)
    full(network, 2)
    network.crash(1)
    network.heal()
    network.run(ELECTION_TICKS * FULL_DISK_PATIENCE)
    assert network.leaders == []
    network.run(ELECTION)
    assert network.leaders == [2]
    network.run(ELECTION_TICKS * (ROOM_PATIENCE + 1))
    assert network.leaders == [3]
    assert network.log(3) == network.log(2)


def test_a_full_server_that_is_alone_stands_at_once() -> None:
    network = Network(1)
    network.raft(1).room_changed(False)
    network.run(ELECTION_TICKS)
    assert network.leaders == [1]


def test_a_leader_that_leaves_prefers_a_voter_with_room() -> None:
    network = led()
    full(network, 2)
    network.raft(1).stop_applying()
    network.nodes[1].settle()
    network.deliver_all()
    assert network.leaders == [3]


def test_a_leader_that_leaves_hands_over_although_all_others_are_full() -> None:
    network = led()
    full(network, 2, 3)
    network.raft(1).stop_applying()
    network.nodes[1].settle()
    network.deliver_all()
    assert network.leaders == [2]


def test_a_leader_whose_write_failed_hands_over_at_once() -> None:
    network = led()
    network.raft(1).propose([10])
    network.raft(1).write_failed(1)
    network.nodes[1].settle()
    network.deliver_all()
    assert network.leaders == [2]
    assert not network.raft(1).takes_writes
