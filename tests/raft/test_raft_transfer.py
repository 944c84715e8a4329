"""Handover of leadership (dissertation, section 3.10), and a leader that steps down because its disk is too slow."""

from __future__ import annotations

import pytest

from raft.core import NotLeader, TransferRefused, Transferring
from raft.core.leader import SLOW_DISK_PATIENCE
from tests.raft.network import led

ELECTION_TICKS = 10


def test_the_target_stands_at_once_and_wins_although_the_leader_is_alive() -> None:
    network = led()
    network.transfer(1, 3)
    network.deliver_all()
    assert network.leaders == [3]
    assert network.raft(1).leader == 3
    assert network.raft(3).term == 2, "one election, without a pre-vote"


def test_a_lagging_target_gets_what_it_lacks_first() -> None:
    network = led()
    network.isolate(3)
    network.propose(1, "a", "b")
    network.deliver_all()
    network.heal()
    network.unreachable(1, 3)
    network.transfer(1, 3)
    assert not any("TimeoutNow" in repr(packet) for packet in network.wire)
    network.run(4)
    assert network.leaders == [3]
    assert network.log(3)[:3] == [1, 1, 1], "with all that the old leader had"


def test_while_it_lasts_nothing_is_proposed_and_nothing_that_was_is_lost() -> None:
    network = led()
    network.propose(1, "before")
    network.isolate(3)
    network.raft(1).transfer(3)
    with pytest.raises(Transferring):
        network.propose(1, "during")
    network.deliver_all()
    assert network.raft(1).commit == 2


def test_when_it_comes_to_nothing_the_leader_goes_on() -> None:
    network = led()
    network.isolate(3)
    network.transfer(1, 3)
    network.run(ELECTION_TICKS)
    assert network.leaders == [1]
    assert network.raft(1).transferring_to == 0
    network.propose(1, "after")
    network.deliver_all()
    assert network.raft(1).commit == network.raft(1).log.last_index


def test_a_lost_message_is_sent_again() -> None:
    network = led()
    network.transfer(1, 3)
    network.wire.clear()
    network.run(4)
    assert network.leaders == [3]


@pytest.mark.parametrize(
    ("to", "why"), [(1, "leads already"), (4, "no voter"), (9, "no voter")], ids=["itself", "a learner", "a stranger"]
)
def test_who_cannot_lead_is_refused(to: int, why: str) -> None:
    network = led()
    network.change(1, (1, 2, 3), learners=(4,))
    network.deliver_all()
    with pytest.raises(TransferRefused, match=why):
        network.transfer(1, to)
    assert network.leaders == [1]


def test_a_dead_node_is_refused() -> None:
    network = led()
    network.crash(3)
    network.run(ELECTION_TICKS)
    with pytest.raises(TransferRefused, match="does not answer"):
        network.transfer(1, 3)


def test_only_a_leader_hands_over() -> None:
    with pytest.raises(NotLeader):
        led().transfer(2, 3)


def test_a_second_transfer_replaces_the_first() -> None:
    network = led()
    network.isolate(3)
    network.transfer(1, 3)
    network.transfer(1, 2)
    network.deliver_all()
    assert network.leaders == [2]


def test_leadership_goes_to_the_preferred_leader_when_it_keeps_up() -> None:
    network = led(preferred_leader=2)
    assert network.leaders == [1], "not at once: who has just been elected leads for a while"
    network.run(100)
    assert network.leaders == [2]
    network.run(200)
    assert network.raft(2).term == 2, "and there it stays"


def test_a_preferred_leader_that_is_gone_is_not_waited_for() -> None:
    network = led(preferred_leader=2)
    network.crash(2)
    network.run(100)
    assert network.leaders == [1]
    network.propose(1, "a")
    network.deliver_all()
    assert network.raft(1).commit == network.raft(1).log.last_index


def test_an_old_request_to_stand_is_ignored() -> None:
    network = led()
    network.transfer(1, 3)
    old = next(packet for packet in network.wire if "TimeoutNow" in type(packet.message).__name__)
    network.deliver_all()
    network.run(4)
    network.deliver(old)
    network.deliver_all()
    assert network.raft(3).term == 2


def test_a_leader_whose_disk_is_too_slow_lets_another_lead_and_does_not_stand_until_it_is_held() -> None:
    network = led()
    network.nodes[1].held = True
    network.propose(1, "a")
    network.run(ELECTION_TICKS * SLOW_DISK_PATIENCE - 1)
    assert network.leaders == [1]
    assert network.raft(1).commit == 2, "the others hold it"
    network.run(3)
    (leader,) = network.leaders
    assert leader != 1
    network.run(2)
    network.crash(leader)
    network.nodes[1].raft.held_up()
    for _ in range(60):
        network.tick(1)
    assert network.raft(1).role.value == "follower", "its disk is still too slow"
    network.flush(1)
    network.nodes[1].held = False
    network.run(60)
    assert len(network.leaders) == 1


def test_a_leader_keeps_leading_while_each_flush_holds_the_writes_before_it() -> None:
    network = led()
    node = network.nodes[1]
    node.held = True
    network.propose(1, "first")
    node.begin_flush()
    for number in range(3 * ELECTION_TICKS * SLOW_DISK_PATIENCE):
        network.propose(1, f"{number}")
        if number % 5 == 4:
            node.end_flush()
            node.settle()
            node.begin_flush()
        network.run(1)
        assert network.raft(1).durable < network.raft(1).log.last_index, "a write waits at every tick"
        assert network.leaders == [1]
