"""Read index: the answer of a read includes every entry that was committed on any node when the read was requested."""

from __future__ import annotations

import pytest

from raft.core import AppendResponse, Heartbeat, HeartbeatResponse, NotLeader
from raft.core.reads import UnconfirmedReads
from tests.raft.network import Network, Packet


def answered(network: Network) -> list[str]:
    return [line for line in network.trace if "answers read" in line]


def led(nodes: int = 3) -> Network:
    network = Network(nodes)
    network.elect(1)
    network.trace.clear()
    return network


def test_a_read_is_answered_after_a_round_with_a_majority() -> None:
    network = led(5)
    network.read(1, 7)
    assert answered(network) == []
    (round_number,) = {p.message.round for p in network.wire if isinstance(p.message, Heartbeat)}
    network.wire.clear()
    network.deliver(Packet(HeartbeatResponse(2, 1, 1, round_number)))
    assert answered(network) == [], "two of five"
    network.deliver(Packet(HeartbeatResponse(2, 1, 1, round_number)))
    assert answered(network) == [], "the same two"
    network.deliver(Packet(HeartbeatResponse(3, 1, 1, round_number)))
    assert answered(network) == ["1 answers read 7 at 1"]


def test_a_round_that_began_before_the_read_does_not_answer_it() -> None:
    network = led()
    network.tick(1, 2)
    earlier = next(p.message.round for p in network.wire if isinstance(p.message, Heartbeat))
    network.wire.clear()
    network.read(1, 7)
    for follower in (2, 3):
        network.deliver(Packet(HeartbeatResponse(follower, 1, 1, earlier)))
    assert answered(network) == []


def test_a_cut_off_leader_answers_no_read() -> None:
    network = led()
    network.isolate(1)
    network.read(1, 7)
    network.tick(2, 20)
    network.tick(3, 20)
    network.elect(2)
    network.propose(2, "new")
    network.deliver_all()
    for _ in range(30):
        network.tick(1)
        network.deliver_all()
    assert answered(network) == []


def test_reads_that_arrive_while_a_round_is_under_way_share_the_next() -> None:
    network = led()
    for token in range(5):
        network.read(1, token)
    rounds = {p.message.round for p in network.wire if isinstance(p.message, Heartbeat)}
    assert len(rounds) == 1
    network.deliver_all()
    assert [line.split(" at ")[0] for line in answered(network)] == [f"1 answers read {t}" for t in range(5)]
    assert len({line.split(",")[0] for line in network.trace if "1->2 heartbeat" in line}) == 2


def test_a_lost_round_is_made_good_by_the_next_heartbeat() -> None:
    network = led()
    network.read(1, 7)
    network.wire.clear()
    network.tick(1, 2)
    network.deliver_all()
    assert answered(network) == ["1 answers read 7 at 1"]


def test_a_new_leader_answers_only_once_its_no_op_is_committed_and_with_that() -> None:
    """Before that, a leader may not know all entries that earlier leaders committed."""
    network = Network(logs={1: [1, 1], 2: [1, 1], 3: [1, 1]})
    network.nodes[1].held = network.nodes[2].held = network.nodes[3].held = True
    while not network.leaders:
        network.tick(1)
        for number in network.nodes:
            if network.nodes[number].saves:
                network.flush(number)
        while network.wire and not network.leaders:
            network.deliver(network.wire.pop(0))
    network.read(1, 7)
    network.deliver_all()
    for number in (2, 3):
        while network.nodes[number].saves:
            network.nodes[number].save()
        network.nodes[number].settle()
    network.deliver_all()
    assert network.raft(1).commit == 0
    assert answered(network) == []
    network.flush(1)
    network.flush(2)
    network.deliver_all()
    assert answered(network) == ["1 answers read 7 at 3"]


def test_a_read_waits_for_nothing_that_was_not_committed_when_it_came() -> None:
    network = led()
    network.propose(1, "a")
    network.read(1, 7)
    network.wire = [packet for packet in network.wire if isinstance(packet.message, Heartbeat)]
    network.deliver(network.wire.pop(0))
    network.wire = [packet for packet in network.wire if not isinstance(packet.message, AppendResponse)]
    network.deliver_all()
    assert answered(network)[0] == "1 answers read 7 at 1"


def test_only_the_leader_is_asked() -> None:
    network = led()
    with pytest.raises(NotLeader) as refused:
        network.read(2, 7)
    assert refused.value.leader == 1


def test_alone_a_leader_answers_at_once() -> None:
    network = Network(1)
    network.elect(1)
    network.propose(1, "a")
    network.read(1, 7)
    assert answered(network) == ["1 answers read 7 at 2"]


def test_what_was_answered_is_not_kept() -> None:
    reads = UnconfirmedReads()
    reads.request(7, 5)
    reads.begin(3)
    assert reads.take(2) == ()
    assert reads.take(3) == ((7, 5),)
    assert not reads.in_round
    assert not reads.needs_round


def test_an_answer_to_a_heartbeat_of_an_earlier_leadership_confirms_nothing() -> None:
    """The simulator found this case (seed 1079). Node 1 leads again. Its earlier leadership had more rounds of
    heartbeats, and answers to those rounds arrive late, with the present term."""
    network = led()
    for _ in range(20):
        network.tick(1, 2)
        old = network.wire[-1]
        network.deliver_all()
    network.transfer(1, 2)
    network.deliver_all()
    network.transfer(2, 1)
    network.deliver_all()
    assert network.leaders == [1]
    network.read(1, 7)
    network.wire.clear()
    network.deliver(old)
    network.deliver_all()
    assert answered(network) == []
