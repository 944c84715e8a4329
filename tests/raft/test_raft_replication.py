"""Replication beyond the paper: late answers, promises before and after a flush, a disk that refuses writes, bounds,
and configurations in the log.

The rules of the paper are in test_raft_paper_replication.py.
"""

from __future__ import annotations

import pytest

from raft.core import Append, AppendResponse, Busy, Configuration, Heartbeat, HeartbeatResponse, NotLeader, Role
from tests.raft.by_hand import append, holds, sent
from tests.raft.network import ENTRY_BYTES, Entry, Network, Packet

# -- answers that come late


def test_a_late_refusal_does_not_move_a_follower_that_has_agreed_since() -> None:
    network = Network()
    network.elect(1)
    network.propose(1, "a")
    network.deliver_all()
    refusal = AppendResponse(2, 1, 1, rejected=True, rejected_index=1, hint_index=0, hint_term=0)
    network.deliver(Packet(refusal))
    progress = network.raft(1).progress[2]
    assert (progress.match, progress.next, progress.may_stream) == (2, 3, True)


def test_a_late_acknowledgement_does_not_lower_what_is_known() -> None:
    network = Network()
    network.elect(1)
    network.propose(1, "a")
    network.deliver_all()
    network.deliver(Packet(holds(2, 1, 1)))
    assert network.raft(1).progress[2].match == 2


def test_a_follower_that_lost_what_it_had_acknowledged_is_filled_again() -> None:
    """A power cut under asynchronous flush: the follower itself reports the loss, and the leader lowers its
    progress."""
    network = Network()
    network.elect(1)
    network.propose(1, "a", "b", "c")
    network.deliver_all()
    network.crash(2, keeps=lambda disk: disk.written[:1])
    network.restart(2)
    network.unreachable(1, 2)
    network.deliver_all()
    assert network.nodes[2].disk.written == network.nodes[1].disk.written
    assert network.raft(1).progress[2].match == 4


# -- what is held, and what is promised


def test_nothing_is_acknowledged_before_it_is_held() -> None:
    network = Network()
    append(network, 2, 1, (0, 0), [1])
    network.nodes[2].held = True
    assert append(network, 2, 1, (1, 1), [1, 1], commit=3) == []
    assert append(network, 2, 1, (3, 1), [1], commit=3) == []
    assert network.raft(2).commit == 1, "and not committed here, for a failed write could take it back"
    network.flush(2)
    assert sent(network) == [holds(2, 1, 4)]
    assert network.raft(2).commit == 3


def test_a_question_about_what_is_not_held_is_answered_when_it_is() -> None:
    network = Network()
    network.nodes[2].held = True
    append(network, 2, 1, (0, 0), [1, 1])
    network.nodes[2].save()
    assert append(network, 2, 1, (2, 1), []) == []
    network.flush(2)
    assert sent(network) == [holds(2, 1, 2)]


def test_a_flush_acknowledges_what_it_covered_and_no_more() -> None:
    network = Network()
    append(network, 2, 1, (0, 0), [1])
    node = network.nodes[2]
    node.held = True
    append(network, 2, 1, (1, 1), [1])
    node.begin_flush()
    append(network, 2, 1, (2, 1), [1])
    node.end_flush()
    node.settle()
    assert sent(network) == [holds(2, 1, 2)]
    network.flush(2)
    assert sent(network) == [holds(2, 1, 3)]


def test_the_heartbeat_is_not_behind_the_flush() -> None:
    network = Network()
    append(network, 2, 1, (0, 0), [1])
    network.nodes[2].held = True
    append(network, 2, 1, (1, 1), [1])
    network.deliver(Packet(Heartbeat(1, 2, 1, 0, 5)))
    assert sent(network) == [HeartbeatResponse(2, 1, 1, 5)]


def test_the_leader_counts_itself_only_for_what_it_holds() -> None:
    network = Network(5)
    network.elect(1)
    network.isolate(4, 5)
    network.nodes[1].held = True
    network.propose(1, "a")
    network.deliver_all()
    assert network.raft(1).commit == 1, "2 and 3 have it: two of five"
    network.flush(1)
    assert network.raft(1).commit == 2


def test_a_leader_commits_what_a_majority_of_others_holds() -> None:
    network = Network(3)
    network.elect(1)
    network.nodes[1].held = True
    network.propose(1, "a")
    network.deliver_all()
    assert (network.raft(1).commit, network.raft(1).durable) == (2, 1)


def test_aba_a_late_token_for_an_entry_cut_and_written_anew_is_ignored() -> None:
    """Both copies of the entry have the same index and term. Only the token shows that the flush covered the erased
    copy."""
    network = Network()
    append(network, 2, 1, (0, 0), [1])
    node = network.nodes[2]
    node.held = True
    append(network, 2, 2, (1, 1), [2, 2])
    node.save()
    node.begin_flush()
    append(network, 2, 3, (1, 1), [3], sender=3)
    node.save()
    append(network, 2, 4, (1, 1), [2, 2, 4])
    node.save()
    node.settle()
    assert network.log(2) == [1, 2, 2, 4]
    node.end_flush()
    node.settle()
    assert network.raft(2).durable == 1
    assert sent(network) == []
    network.flush(2)
    assert sent(network) == [holds(2, 4, 4)]


def test_a_cut_lowers_what_is_held() -> None:
    network = Network(logs={2: [1, 1, 2, 2]})
    network.nodes[2].held = True
    append(network, 2, 3, (2, 1), [3])
    assert network.raft(2).durable == 2
    network.flush(2)
    assert network.raft(2).durable == 3


def test_what_was_accepted_from_one_leader_is_not_acknowledged_to_the_next() -> None:
    network = Network()
    append(network, 2, 1, (0, 0), [1])
    network.nodes[2].held = True
    append(network, 2, 1, (1, 1), [1])
    network.deliver(Packet(Heartbeat(3, 2, 2, 0, 1)))
    network.nodes[2].save()
    network.wire.clear()
    network.flush(2)
    assert sent(network) == [HeartbeatResponse(2, 3, 2, 1, owes_nothing=True)], (
        "the entry may not be in the log of leader 3"
    )


# -- a disk that takes no more


def test_a_leader_whose_write_failed_steps_down_and_forgets_the_tail() -> None:
    network = Network()
    network.elect(1)
    raft = network.raft(1)
    raft.propose([10, 10])
    raft.write_failed(1)
    network.nodes[1].settle()
    network.wire.clear()  # among other messages, its request that another server stands
    assert (raft.role, raft.log.last_index, raft.term) == (Role.FOLLOWER, 1, 1)
    with pytest.raises(NotLeader):
        raft.propose([10])
    network.tick(1, 100)
    assert raft.role is Role.FOLLOWER, "it does not stand while it cannot write"
    raft.resume_writing()
    network.forget_leaders()
    network.elect(1)
    assert (network.leaders, raft.term) == ([1], 2)


def test_a_follower_whose_write_failed_acknowledges_nothing_of_it_and_takes_no_more() -> None:
    network = Network()
    append(network, 2, 1, (0, 0), [1])
    node = network.nodes[2]
    node.held = True
    append(network, 2, 1, (1, 1), [1, 1], commit=3)
    node.unflushed = 0
    del node.disk.written[1:]
    node.raft.write_failed(1)
    node.settle()
    assert (node.raft.commit, node.raft.log.last_index) == (1, 1)
    assert append(network, 2, 1, (1, 1), [1]) == []
    assert append(network, 2, 1, (1, 1), []) == [holds(2, 1, 1)], "what it has it still acknowledges"
    node.raft.resume_writing()
    node.held = False
    assert append(network, 2, 1, (1, 1), [1, 1], commit=3) == [holds(2, 1, 3)]
    assert node.raft.commit == 3


# -- proposals


def test_the_uncommitted_tail_is_bounded_and_frees_itself() -> None:
    network = Network(max_uncommitted_bytes=3 * ENTRY_BYTES)
    network.elect(1)
    network.propose(1, "a", "b")
    network.propose(1, "c")
    with pytest.raises(Busy):
        network.propose(1, "d")
    assert network.raft(1).log.last_index == 4, "a refused proposal leaves nothing"
    network.deliver_all()
    network.propose(1, "d")
    assert network.raft(1).uncommitted_bytes == ENTRY_BYTES


def test_an_empty_tail_takes_what_is_larger_than_the_bound() -> None:
    network = Network(max_uncommitted_bytes=10)
    network.elect(1)
    network.propose(1, "a", "b")
    with pytest.raises(Busy):
        network.propose(1, "c")


def test_nothing_is_sent_before_it_is_written() -> None:
    network = Network()
    network.elect(1)
    raft = network.raft(1)
    raft.propose([ENTRY_BYTES])
    assert raft.appends() == []
    network.nodes[1].disk.written.append(Entry(1, "a"))
    raft.own_write(2)
    assert [message.last_index for message in raft.appends() if isinstance(message, Append)] == [2, 2]


# -- configurations come from the log (section 6)


def test_a_configuration_counts_from_the_append_on_and_goes_with_its_entry() -> None:
    network = Network()
    three, five = Configuration((1, 2, 3)), Configuration((1, 2, 3, 4, 5))
    append(network, 2, 1, (0, 0), [1, 1], values=["x", five])
    assert network.raft(2).configuration == five, "committed or not"
    append(network, 2, 2, (1, 1), [2], sender=3)
    assert network.raft(2).configuration == three


def test_the_first_configuration_comes_with_the_log_to_nodes_that_have_none() -> None:
    network = Network()
    network.crash(2)
    network.configuration = Configuration(())
    network.restart(2)
    network.tick(2, 50)
    assert network.raft(2).role is Role.FOLLOWER
    append(network, 2, 1, (0, 0), [1, 1], values=[Configuration((1, 2)), "x"])
    network.tick(2, 50)
    assert network.raft(2).role is Role.PRE_CANDIDATE


def test_an_append_carries_the_configurations_among_its_entries() -> None:
    network = Network()
    three = Configuration((1, 2, 3))
    network.nodes[1].disk.written = [Entry(1, three), Entry(1, "x")]
    network.crash(1)
    network.restart(1)
    network.elect(1)
    network.tick(1, 2)
    assert network.raft(2).configuration == three
    assert network.nodes[2].disk.written == network.nodes[1].disk.written
