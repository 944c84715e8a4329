"""The rules for a suspect (raft/core/suspicion.py), and for a node that was held up.

In all tests here an entry is held when it is in the page cache, and a power cut destroys entries that were not flushed.
"""

from __future__ import annotations

import pytest

from raft.core import Role
from raft.core.suspicion import Suspicion
from tests.raft.network import Disk, Entry, Network


def led(nodes: int = 3) -> Network:
    """Return a network in which node 1 leads. All nodes have flushed its no-op, and nothing later."""
    network = Network(nodes, async_flush=True)
    network.elect(1)
    run(network, 4)
    for node in network.nodes.values():
        node.held = True
    return network


def run(network: Network, ticks: int) -> None:
    for _ in range(ticks):
        for number, node in list(network.nodes.items()):
            network.tick(number)
            while node.saves:  # votes are saved in both flush modes
                node.save()
                node.settle()
        network.deliver_all()


def flushed(disk: Disk) -> list[Entry]:
    return disk.flushed


def lose_power(network: Network, *numbers: int) -> None:
    for number in numbers:
        network.crash(number, flushed)


def come_back(network: Network, *numbers: int) -> None:
    for number in numbers:
        network.restart(number, suspect=True)
        network.nodes[number].held = True


def test_a_suspect_does_not_help_to_elect_one_that_lacks_what_it_lost() -> None:
    """Nodes 1 and 3 hold the committed entry "a". Node 3 loses it, and node 1 dies. Nodes 2 and 3 must not elect each
    other."""
    network = led()
    network.isolate(2)
    network.propose(1, "a")
    network.deliver_all()
    assert network.raft(1).commit == 2
    lose_power(network, 3)
    come_back(network, 3)
    network.crash(1)
    network.heal()
    run(network, 100)
    assert network.leaders == []
    network.restart(1)
    run(network, 40)
    (leader,) = network.leaders
    assert [entry.value for entry in network.nodes[leader].disk.written][1] == "a"


def test_without_the_rule_it_would_be_lost() -> None:
    """The same events, but node 3 restarts without a suspicion. The entry is lost, so the test above really tests the
    rule."""
    network = led()
    network.isolate(2)
    network.propose(1, "a")
    network.deliver_all()
    lose_power(network, 3)
    network.restart(3)
    network.crash(1)
    network.heal()
    with pytest.raises(AssertionError, match="Leader Completeness"):
        run(network, 100)


def test_an_intact_majority_elects_as_usual_and_the_suspect_is_trusted_again() -> None:
    network = led()
    network.propose(1, "a")
    network.deliver_all()
    lose_power(network, 1)
    come_back(network, 1)
    run(network, 40)
    (leader,) = network.leaders
    assert leader in (2, 3)
    assert not network.raft(1).is_suspect
    assert network.log(1) == network.log(leader)
    assert network.history.losses_accepted == 0


def test_a_leader_does_not_believe_what_a_suspect_acknowledged_in_an_earlier_life() -> None:
    network = led(5)
    network.isolate(3, 4, 5)
    network.propose(1, "a")
    network.deliver_all()
    assert network.raft(1).progress[2].match == 2
    lose_power(network, 2)
    come_back(network, 2)
    network.tick(1, 2)
    network.deliver_all()
    network.tick(1, 2)
    assert network.raft(1).progress[2].held == 0
    assert network.raft(1).progress[2].suspicion is not None


def test_a_suspect_does_not_count_for_a_commit() -> None:
    network = led()
    network.crash(3)
    lose_power(network, 2)
    come_back(network, 2)
    run(network, 4)
    assert not network.raft(2).is_suspect, "with its leader there it is trusted soon"
    lose_power(network, 2)
    come_back(network, 2)
    network.propose(1, "a")
    suspects = [packet for packet in network.wire if packet.message.receiver == 2]
    network.wire.clear()
    for packet in suspects:
        network.deliver(packet)
    assert network.raft(1).commit < network.raft(1).log.last_index


def test_where_no_intact_majority_is_left_every_voter_must_answer() -> None:
    network = led()
    network.propose(1, "a")
    network.deliver_all()
    lose_power(network, 1, 2, 3)
    come_back(network, 1, 2)
    run(network, 100)
    assert network.leaders == []
    come_back(network, 3)
    run(network, 60)
    (leader,) = network.leaders
    assert network.history.losses_accepted == 1
    assert any(f"{leader} is leader" in line and "accepts what was lost" in line for line in network.trace)
    run(network, 10)
    assert not any(network.raft(node).is_suspect for node in (1, 2, 3))


def test_then_the_longest_log_wins() -> None:
    network = led()
    network.propose(1, "a")
    network.deliver_all()
    network.flush(2)
    network.nodes[2].held = True
    lose_power(network, 1, 2, 3)
    come_back(network, 1, 2, 3)
    run(network, 60)
    assert network.leaders == [2]
    assert [entry.value for entry in network.nodes[1].disk.written][1] == "a"


def test_a_suspect_with_the_longest_log_may_be_elected_by_intact_ones() -> None:
    network = led()
    network.propose(1, "a")
    network.deliver_all()
    network.flush(1)
    lose_power(network, 1)
    come_back(network, 1)
    run(network, 60)
    assert len(network.leaders) == 1
    assert network.history.losses_accepted == 0


def test_a_single_node_accepts_its_own_loss_and_says_so() -> None:
    network = led(1)
    network.propose(1, "a")
    lose_power(network, 1)
    come_back(network, 1)
    run(network, 40)
    assert network.leaders == [1]
    assert network.history.losses_accepted == 1


def test_a_leader_that_was_held_up_commits_nothing_before_it_has_heard_a_majority_again() -> None:
    """While node 1 is held up, node 2 is elected without it. The messages that wait for node 1 are from an earlier
    time."""
    network = led()
    network.propose(1, "a")
    network.wire, appends = [], network.wire
    for packet in appends:
        network.deliver(packet)  # to nodes 2 and 3, whose answers then wait for node 1
    mail, network.wire = network.wire, []
    network.held_up(1)
    for packet in mail:
        network.deliver(packet)
    assert network.raft(1).commit == 1
    network.deliver_all()
    assert network.raft(1).commit == 2, "they follow it still"


def test_a_leader_that_was_held_up_answers_no_read_before_that() -> None:
    network = led()
    network.read(1, 7)
    questions, network.wire = network.wire, []
    for packet in questions:
        network.deliver(packet)
    mail, network.wire = network.wire, []
    network.held_up(1)
    for packet in mail:
        network.deliver(packet)
    assert not any("answers read" in line for line in network.trace)
    assert network.raft(1).role is Role.LEADER
    network.deliver_all()
    assert any("answers read 7" in line for line in network.trace)


def test_an_operator_accepts_the_loss_for_a_voter_that_never_comes_back() -> None:
    network = led()
    network.propose(1, "a")
    network.deliver_all()
    lose_power(network, 1, 2, 3)
    come_back(network, 1, 2)
    run(network, 60)
    assert network.leaders == []
    for node in (1, 2):
        network.nodes[node].raft.accept_loss()
        network.nodes[node].settle()
        assert any(f"{node} is trusted again" in line for line in network.trace)
    network.history.accept_loss(network.nodes[1])
    run(network, 60)
    assert len(network.leaders) == 1


def test_a_suspicion_is_lifted_when_the_whole_log_of_that_time_is_held_and_a_later_answer_ends_it() -> None:
    suspicion = Suspicion(number=77, last_index=10, round_number=3)
    assert [suspicion.lifted(match) for match in (0, 9, 10, 11)] == [0, 0, 77, 77]
    assert [suspicion.is_over(answered) for answered in (2, 3, 4)] == [False, False, True]
