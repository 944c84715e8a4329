"""Log replication: sections 5.3 and 5.4.2 of the paper, its figures 7 and 8, and what a disk does to it."""

from __future__ import annotations

import pytest
from network import ENTRY_BYTES, Entry, Network, Packet, runs_of

from raft.core import (
    Append,
    AppendResponse,
    Busy,
    Configuration,
    Heartbeat,
    HeartbeatResponse,
    Message,
    NotLeader,
    Role,
)


def append(
    network: Network,
    receiver: int,
    term: int,
    prev: tuple[int, int],
    terms: list[int],
    commit: int = 0,
    *,
    sender: int = 1,
    values: list[object] | None = None,
) -> list[Message]:
    """Let `receiver` handle an Append of these entries; returns what it sends."""
    first = prev[0] + 1
    entries = [Entry(t, v) for t, v in zip(terms, values or [f"{t}.{i}" for i, t in enumerate(terms, first)])]  # noqa: B905
    configurations = tuple((i, e.value) for i, e in enumerate(entries, first) if isinstance(e.value, Configuration))
    last = prev[0] + len(terms)
    message = Append(sender, receiver, term, *prev, runs_of(entries, first), last, commit, configurations)
    network.wire.clear()
    network.deliver(Packet(message, tuple(entries)))
    return sent(network)


def sent(network: Network) -> list[Message]:
    """Take what is on the wire."""
    messages = [packet.message for packet in network.wire]
    network.wire.clear()
    return messages


def holds(node: int, term: int, match: int, leader: int = 1) -> AppendResponse:
    return AppendResponse(node, leader, term, match=match)


# -- section 5.3: the consistency check


def test_5_3_entries_reach_everyone_and_commit() -> None:
    network = Network(5)
    network.elect(1)
    network.propose(1, "a", "b")
    network.propose(1, "c")
    network.deliver_all()
    network.tick(1, 2)
    network.deliver_all()
    for number in network.nodes:
        assert [entry.value for entry in network.nodes[number].disk.written] == ["no-op of term 1", "a", "b", "c"]
        assert network.raft(number).commit == 4


def test_5_3_a_leader_commits_with_a_majority_and_without_the_rest() -> None:
    network = Network(5)
    network.elect(1)
    network.isolate(4, 5)
    network.propose(1, "a")
    network.deliver_all()
    assert network.raft(1).commit == 2
    network.isolate(3)
    network.propose(1, "b")
    network.deliver_all()
    assert network.raft(1).commit == 2


def test_5_3_a_follower_refuses_what_does_not_continue_its_log() -> None:
    network = Network(logs={2: [1, 1]})
    (answer,) = append(network, 2, 3, (5, 2), [3])
    assert answer == AppendResponse(2, 1, 3, rejected=True, rejected_index=5, hint_index=2, hint_term=1)
    assert network.log(2) == [1, 1]


def test_5_3_a_follower_refuses_where_the_term_differs() -> None:
    network = Network(logs={2: [1, 1, 2, 2]})
    (answer,) = append(network, 2, 3, (4, 1), [3])
    assert answer == AppendResponse(2, 1, 3, rejected=True, rejected_index=4, hint_index=2, hint_term=1)


def test_5_3_a_conflict_cuts_it_and_all_that_follows() -> None:
    network = Network(logs={2: [1, 1, 2, 2, 2]})
    assert append(network, 2, 3, (2, 1), [3]) == [holds(2, 3, 3)]
    assert network.log(2) == [1, 1, 3]


def test_5_3_an_append_that_is_there_already_cuts_nothing() -> None:
    """An old or repeated Append says nothing about what follows it."""
    network = Network()
    append(network, 2, 3, (0, 0), [1, 1, 3, 3])
    assert append(network, 2, 3, (1, 1), [1, 3]) == [holds(2, 3, 3)]
    assert append(network, 2, 3, (2, 1), []) == [holds(2, 3, 2)]
    assert network.log(2) == [1, 1, 3, 3]


def test_5_3_an_overlapping_append_writes_only_what_is_new() -> None:
    network = Network()
    append(network, 2, 3, (0, 0), [1, 1])
    network.trace.clear()
    assert append(network, 2, 3, (1, 1), [1, 3, 3]) == [holds(2, 3, 4)]
    assert "2 writes 3..4" in network.trace


def test_5_3_the_acknowledgement_covers_only_what_the_append_showed() -> None:
    """The rest of the log may differ from the leader's."""
    network = Network(logs={2: [1, 1, 2, 2]})
    assert append(network, 2, 3, (1, 1), [1]) == [holds(2, 3, 2)]


FIGURE_7 = {
    "leader": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6],
    "a": [1, 1, 1, 4, 4, 5, 5, 6, 6],
    "b": [1, 1, 1, 4],
    "c": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6],
    "d": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7],
    "e": [1, 1, 1, 4, 4, 4, 4],
    "f": [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3],
}


def test_figure_7_seven_divergent_logs_become_one() -> None:
    logs = dict(enumerate(FIGURE_7.values(), 1))
    network = Network(7, logs=logs, terms=dict.fromkeys(logs, 7))
    network.elect(1)
    for _ in range(10):
        network.tick(1)
        network.deliver_all()
    assert network.raft(1).term == 8
    for number in network.nodes:
        assert network.nodes[number].disk.written == network.nodes[1].disk.written
        assert network.raft(number).commit == 11
    assert network.log(7) == [*FIGURE_7["leader"], 8]


@pytest.mark.parametrize(("name", "refusals"), [("a", 1), ("b", 1), ("c", 0), ("d", 0), ("e", 1), ("f", 1)])
def test_figure_7_the_back_off_skips_whole_terms(name: str, refusals: int) -> None:
    """End of section 5.3."""
    logs = {1: FIGURE_7["leader"], 2: FIGURE_7[name], 3: FIGURE_7["leader"]}
    network = Network(3, logs=logs, terms=dict.fromkeys(logs, 7))
    network.elect(1)
    assert network.log(2) == [*FIGURE_7["leader"], 8]
    assert sum(" not at " in line and line.startswith("2->1") for line in network.trace) == refusals


def test_back_off_takes_no_more_questions_than_there_are_terms() -> None:
    """Two long logs that alternate terms and agree on the first entry only."""
    ours = [1] + [term for term in range(2, 20, 2) for _ in range(50)]
    theirs = [1] + [term for term in range(3, 19, 2) for _ in range(60)]
    network = Network(logs={1: ours, 2: theirs, 3: ours}, terms={1: 30, 2: 30, 3: 30})
    network.elect(1)
    assert network.log(2) == network.log(1)
    assert sum(" not at " in line for line in network.trace) <= 10


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
    """A power cut under asynchronous flush: what is known of it is lowered by its own word."""
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


# -- section 5.3: commit


def test_5_3_a_followers_commit_stays_within_what_agrees() -> None:
    """The suffix behind the Append may differ from the leader's."""
    network = Network(logs={2: [1, 1, 2, 2]})
    append(network, 2, 3, (1, 1), [1], commit=4)
    assert network.raft(2).commit == 2
    network.deliver(Packet(Heartbeat(1, 2, 3, 4, 1)))
    assert network.raft(2).commit == 2


def test_5_3_a_heartbeat_carries_no_commit_beyond_what_the_follower_acknowledged() -> None:
    network = Network()
    network.elect(1)
    network.isolate(3)
    network.propose(1, "a")
    network.deliver_all()
    network.tick(1, 2)
    commits = {m.receiver: m.commit for m in sent(network) if isinstance(m, Heartbeat)}
    assert commits == {2: 2, 3: 1}


def test_5_3_a_follower_commits_what_it_learned_before_once_it_agrees_so_far() -> None:
    network = Network()
    append(network, 2, 1, (0, 0), [1], commit=3)
    assert network.raft(2).commit == 1
    append(network, 2, 1, (1, 1), [1, 1], commit=0)
    assert network.raft(2).commit == 3


def test_5_3_agreement_outlives_a_pre_candidacy_in_the_same_term() -> None:
    """Or the follower would learn no commit index from the same leader until the next entry."""
    network = Network()
    append(network, 2, 1, (0, 0), [1, 1])
    network.tick(2, 11)
    assert network.raft(2).role is Role.PRE_CANDIDATE
    network.deliver(Packet(Heartbeat(1, 2, 1, 2, 9)))
    assert (network.raft(2).role, network.raft(2).commit) == (Role.FOLLOWER, 2)


def test_5_3_but_agreement_with_one_leader_says_nothing_about_the_next() -> None:
    network = Network()
    append(network, 2, 1, (0, 0), [1, 1])
    network.deliver(Packet(Heartbeat(3, 2, 2, 2, 1)))
    assert network.raft(2).commit == 0


def test_a_leader_never_contradicts_itself() -> None:
    network = Network(logs={2: [1, 1]})
    append(network, 2, 2, (2, 1), [2])
    with pytest.raises(AssertionError, match="contradicts itself"):
        append(network, 2, 2, (1, 1), [2])


def test_what_is_committed_is_never_cut() -> None:
    network = Network()
    append(network, 2, 1, (0, 0), [1, 1], commit=2)
    with pytest.raises(AssertionError, match="lacks the committed entry 2"):
        append(network, 2, 2, (1, 1), [2], sender=3)


# -- section 5.4.2: committing entries of earlier terms


def figure_8(*, carries_no_op: bool) -> Network:
    """Figure 8 (c): server 1 leads term 4 and has brought its entry of term 2 to a majority; with `carries_no_op`, (e):
    an entry of its own term too."""
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


def test_figure_8_an_entry_of_an_earlier_term_is_not_committed_by_counting() -> None:
    network = figure_8(carries_no_op=False)
    assert [network.log(n)[:2] for n in (1, 2, 3)] == [[1, 2]] * 3, "a majority has it"
    assert network.raft(1).progress[3].match == 2, "and the leader knows"
    assert network.raft(1).commit == 0
    network.crash(1)
    network.heal()
    network.forget_leaders()
    network.elect(5)
    assert network.log(2)[:2] == network.log(3)[:2] == [1, 3], "(d): it is overwritten"


def test_figure_8_an_entry_of_the_own_term_commits_all_before_it() -> None:
    network = figure_8(carries_no_op=True)
    assert network.raft(1).commit == 3
    network.crash(1)
    network.heal()
    network.forget_leaders()
    for _ in range(100):
        network.tick(5)
        network.deliver_all()
    assert network.raft(5).role is not Role.LEADER, "(e): server 5 cannot win"
    assert {f"{voter}->5 pre-vote no, term 4" for voter in (2, 3)} <= set(network.trace)


def test_5_4_2_a_new_leader_commits_what_earlier_ones_left_with_its_no_op() -> None:
    network = Network(logs={1: [1, 2], 2: [1, 2], 3: [1]})
    network.elect(1)
    assert network.log(3) == [1, 2, 3]
    assert network.raft(1).commit == 3


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
    """The same term and index: only the token tells that the flush was of the copy that is erased now."""
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
    assert sent(network) == [HeartbeatResponse(2, 3, 2, 1)], "the entry may not be in the log of leader 3"


# -- a disk that takes no more


def test_a_leader_whose_write_failed_steps_down_and_forgets_the_tail() -> None:
    network = Network()
    network.elect(1)
    raft = network.raft(1)
    raft.propose([10, 10])
    raft.write_failed(1)
    network.nodes[1].settle()
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


def test_only_the_leader_takes_proposals_and_the_others_say_who_leads() -> None:
    network = Network()
    with pytest.raises(NotLeader) as nobody:
        network.propose(2, "x")
    assert nobody.value.leader == 0
    network.elect(1)
    with pytest.raises(NotLeader) as follower:
        network.propose(2, "x")
    assert follower.value.leader == 1


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
    assert [message.last_index for message in raft.appends()] == [2, 2]


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
