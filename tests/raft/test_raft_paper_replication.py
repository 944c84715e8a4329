"""Section 5.3 of the Raft paper, its Figure 7, and the rules for entries in Figure 2: one test for each rule.

The name of a test begins with its section. "Figure 2, AppendEntries 3" is the third rule for the receiver in Figure 2.
The tests of disk writes, flow control and bounds are in test_raft_replication.py and test_raft_flow.py.
"""

from __future__ import annotations

import pytest

from raft.core import Append, AppendResponse, Heartbeat, NotLeader, TermRun
from tests.raft.by_hand import append, holds, lead, sent, step
from tests.raft.network import ENTRY_BYTES, Entry, Network, Packet


def led(nodes: int = 3, *, append_bytes: int = 1 << 20) -> Network:
    """Return a network in which node 1 leads term 1. All nodes have its no-op and know that it is committed."""
    network = Network(nodes, append_bytes=append_bytes)
    network.elect(1)
    network.tick(1, 2)
    network.deliver_all()
    assert {node.raft.commit for node in network.nodes.values()} == {1}
    return network


# -- the leader takes commands and sends them


def test_5_3_a_leader_appends_a_command_and_sends_it_to_everyone_at_once() -> None:
    """5.3, and Figure 2, Leaders 2-3 and AppendEntries, arguments."""
    network = led()
    network.propose(1, "a")
    assert network.raft(1).log.last_index == 2
    assert sent(network) == [Append(1, other, 1, 1, 1, (TermRun(2, 1),), 2, 1) for other in (2, 3)]
    assert network.raft(1).commit == 1, "and nothing is committed by that"


def test_5_3_only_a_leader_takes_commands() -> None:
    """5.1: a follower names the leader, if it knows the leader."""
    network = Network()
    with pytest.raises(NotLeader) as nobody:
        network.propose(2, "x")
    assert nobody.value.leader == 0
    network.elect(1)
    with pytest.raises(NotLeader) as follower:
        network.propose(2, "x")
    assert follower.value.leader == 1


def test_5_3_at_most_one_entry_for_an_index_and_a_term() -> None:
    """5.3, the first half of Log Matching: a leader numbers its entries without gaps and without repeats."""
    raft = led().raft(1)
    assert [raft.propose([1] * count) for count in (1, 3, 2)] == [(1, 2), (1, 3), (1, 6)]


def test_5_3_a_leader_never_changes_its_own_log() -> None:
    """5.3, Leader Append-Only: the followers' logs and answers do not matter."""
    logs = {1: [1, 2, 2], 2: [1, 1, 1, 1, 1], 3: [1, 2]}
    network = Network(logs=logs)
    network.elect(1)
    step(network, AppendResponse(2, 1, network.raft(1).term, rejected=True, rejected_index=3, hint_index=0))
    network.deliver_all()
    assert network.log(1) == [1, 2, 2, 3]


def test_5_3_a_new_leader_expects_everyone_to_have_its_log_and_knows_of_nobody() -> None:
    """5.3, and Figure 2, State 6-7: each new leader starts with nextIndex after its last entry and with matchIndex
    0."""
    network = Network(logs={1: [1, 1, 2]})
    for _ in range(2):
        questions = [message for message in lead(network) if isinstance(message, Append)]
        last = network.raft(1).log.last_index
        assert [(progress.next, progress.match) for progress in network.raft(1).progress.values()] == [(last, 0)] * 2
        assert [message.prev_index for message in questions] == [last - 1] * 2, "behind what it had; its no-op is new"
        step(network, holds(2, network.raft(1).term, last))
        step(network, Heartbeat(3, 1, network.raft(1).term + 1, 0, 1))


def test_5_3_a_leader_goes_on_trying_for_as_long_as_a_follower_is_silent() -> None:
    """5.3: the leader continues also after it has answered the client."""
    network = led()
    network.isolate(3)
    network.propose(1, "a")
    for _ in range(500):
        network.tick(1)
        network.deliver_all()
    assert network.raft(1).commit == 2
    network.heal()
    for _ in range(20):
        network.tick(1)
        network.deliver_all()
    assert network.log(3) == [1, 1]


# -- the follower's consistency check


@pytest.mark.parametrize(
    ("prev", "hint"),
    [((0, 0), None), ((1, 1), None), ((2, 2), None), ((1, 2), (1, 1)), ((2, 1), (1, 1)), ((3, 3), (2, 2))],
)
def test_5_3_an_append_must_continue_the_followers_log(prev: tuple[int, int], hint: tuple[int, int] | None) -> None:
    """5.3, and Figure 2, AppendEntries 2. A rejection says where the logs may agree."""
    network = Network(logs={2: [1, 2]})
    (answer,) = append(network, 2, 3, prev, [])
    if hint is None:
        assert answer == holds(2, 3, prev[0]), "and no more than what the Append showed"
    else:
        assert answer == AppendResponse(2, 1, 3, 0, True, prev[0], *hint)
    assert network.log(2) == [1, 2]


@pytest.mark.parametrize(
    ("prev", "terms", "log", "writes"),
    [
        ((2, 2), [3], [1, 2, 3], "writes 3..3"),
        ((1, 1), [3, 4], [1, 3, 4], "cuts to 1, writes 2..3"),
        ((0, 0), [1], [1, 2], None),
        ((0, 0), [3], [3], "cuts to 0, writes 1..1"),
        ((1, 1), [2, 3], [1, 2, 3], "writes 3..3"),
        ((1, 1), [2], [1, 2], None),
        ((1, 1), [], [1, 2], None),
    ],
)
def test_5_3_a_conflict_goes_with_all_that_follows_it_and_only_what_is_new_is_written(
    prev: tuple[int, int], terms: list[int], log: list[int], writes: str | None
) -> None:
    """5.3, and Figure 2, AppendEntries 3-4. Entries that agree stay, because the Append may be old."""
    network = Network(logs={2: [1, 2]})
    assert append(network, 2, 4, prev, terms) == [holds(2, 4, prev[0] + len(terms))]
    assert network.log(2) == log
    assert [line for line in network.trace if "writes" in line] == ([f"2 {writes}"] if writes else [])


def test_5_3_a_refused_append_changes_nothing_and_acknowledges_nothing() -> None:
    """5.3: the server rejects the Append before it looks at the entries."""
    network = Network(logs={2: [1, 2]})
    (answer,) = append(network, 2, 3, (5, 3), [3], commit=6)
    assert isinstance(answer, AppendResponse)
    assert (answer.rejected, answer.match) == (True, 0)
    assert (network.log(2), network.raft(2).commit) == ([1, 2], 0)


def test_5_3_a_repeated_or_late_append_cuts_nothing() -> None:
    """5.3 and 5.5: requests may arrive twice and in any order."""
    network = Network()
    append(network, 2, 3, (0, 0), [1, 1, 3, 3])
    assert append(network, 2, 3, (1, 1), [1, 3]) == [holds(2, 3, 3)]
    assert append(network, 2, 3, (2, 1), []) == [holds(2, 3, 2)]
    assert network.log(2) == [1, 1, 3, 3]


# -- the leader brings followers to its own log

FIGURE_7 = {
    "leader": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6],
    "a": [1, 1, 1, 4, 4, 5, 5, 6, 6],
    "b": [1, 1, 1, 4],
    "c": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6],
    "d": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7],
    "e": [1, 1, 1, 4, 4, 4, 4],
    "f": [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3],
}


@pytest.mark.parametrize(("name", "refusals"), [("a", 1), ("b", 1), ("c", 0), ("d", 0), ("e", 1), ("f", 1)])
def test_5_3_figure_7_each_divergent_log_becomes_the_leaders(name: str, refusals: int) -> None:
    """5.3, Figure 7, and Figure 2, Leaders 3: after a rejection the leader asks at an earlier index. The leader skips
    whole terms (end of section 5.3), so one rejection is enough for each of these logs."""
    logs = {1: FIGURE_7["leader"], 2: FIGURE_7[name], 3: FIGURE_7["leader"]}
    network = Network(3, logs=logs, terms=dict.fromkeys(logs, 7))
    network.elect(1)
    assert network.nodes[2].disk.written == network.nodes[1].disk.written
    assert network.log(2) == [*FIGURE_7["leader"], 8]
    assert sum(" not at " in line and line.startswith("2->1") for line in network.trace) == refusals


def test_5_3_figure_7_all_seven_become_one() -> None:
    """5.3 and Figure 7, with all logs at the same time."""
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


def test_5_3_back_off_takes_no_more_questions_than_there_are_terms() -> None:
    """5.3, end: two long logs alternate terms and agree only on the first entry."""
    ours = [1] + [term for term in range(2, 20, 2) for _ in range(50)]
    theirs = [1] + [term for term in range(3, 19, 2) for _ in range(60)]
    network = Network(logs={1: ours, 2: theirs, 3: ours}, terms={1: 30, 2: 30, 3: 30})
    network.elect(1)
    assert network.log(2) == network.log(1)
    assert sum(" not at " in line for line in network.trace) <= 10


def test_5_3_an_acknowledgement_raises_match_and_next() -> None:
    """Figure 2, Leaders 3, for a successful AppendEntries."""
    network = led(append_bytes=ENTRY_BYTES)
    network.propose(1, "a", "b")
    sent(network)
    step(network, holds(2, 1, 2))
    assert (network.raft(1).progress[2].match, network.raft(1).progress[2].next) == (2, 4)
    step(network, holds(2, 1, 3))
    assert (network.raft(1).progress[2].match, network.raft(1).progress[2].next) == (3, 4)
    step(network, holds(2, 1, 2))
    assert network.raft(1).progress[2].match == 3, "an old one lowers nothing"


# -- commit


@pytest.mark.parametrize(
    ("nodes", "holders", "committed"),
    [
        (1, (), True),
        (3, (), False),
        (3, (2,), True),
        (3, (2, 3), True),
        (5, (), False),
        (5, (2,), False),
        (5, (2, 3), True),
        (5, (2, 3, 4), True),
        (5, (2, 3, 4, 5), True),
        (4, (2,), False),
        (4, (2, 3), True),
    ],
)
def test_5_3_an_entry_is_committed_once_a_majority_holds_it(
    nodes: int, holders: tuple[int, ...], committed: bool
) -> None:
    """5.3, and Figure 2, Leaders 4. The leader counts as one server. Two acknowledgements of one server count once."""
    network = led(nodes)
    network.propose(1, "a")
    for follower in holders * 2:
        step(network, holds(follower, 1, 2))
    assert network.raft(1).commit == (2 if committed else 1)


@pytest.mark.parametrize("log", [[], [2], [1, 2], [1]])
def test_5_3_what_earlier_leaders_left_is_committed_with_the_first_own_entry(log: list[int]) -> None:
    """5.3: with an entry, all earlier entries in the leader's log are committed, whatever their term."""
    network = Network(logs={1: log}, terms=dict.fromkeys((1, 2, 3), 2))
    network.elect(1)
    network.propose(1, "a")
    network.deliver_all()
    assert network.raft(1).commit == len(log) + 2
    assert "1 commits" in "".join(network.trace)


@pytest.mark.parametrize("terms", [[1], [1, 1], [1, 1, 1]])
@pytest.mark.parametrize("commit", [0, 1, 2, 3])
def test_5_3_a_follower_commits_what_the_leader_says_in_order(terms: list[int], commit: int) -> None:
    """5.3, and Figure 2, AppendEntries 5: the smaller of the leader's commit index and the last entry of the Append."""
    network = Network()
    append(network, 2, 1, (0, 0), terms, commit=commit)
    assert network.raft(2).commit == min(commit, len(terms))


def test_5_3_a_followers_commit_stays_within_what_agrees() -> None:
    """Figure 2, AppendEntries 5: entries after the Append may differ from the leader's entries."""
    network = Network(logs={2: [1, 1, 2, 2]})
    append(network, 2, 3, (1, 1), [1], commit=4)
    assert network.raft(2).commit == 2
    network.deliver(Packet(Heartbeat(1, 2, 3, 4, 1)))
    assert network.raft(2).commit == 2


def test_5_3_a_follower_commits_what_it_learned_before_once_it_agrees_so_far() -> None:
    """Figure 2, AppendEntries 5: the follower remembers the commit index, whichever message arrives first."""
    network = Network()
    append(network, 2, 1, (0, 0), [1], commit=3)
    assert network.raft(2).commit == 1
    append(network, 2, 1, (1, 1), [1, 1], commit=0)
    assert network.raft(2).commit == 3


def test_5_3_the_commit_index_never_falls() -> None:
    """Figure 2, State 4: the commit index does not fall when an older Append arrives late."""
    network = Network()
    append(network, 2, 1, (0, 0), [1, 1], commit=2)
    append(network, 2, 1, (0, 0), [1], commit=1)
    network.deliver(Packet(Heartbeat(1, 2, 1, 0, 1)))
    assert network.raft(2).commit == 2


def test_5_3_a_heartbeat_carries_no_commit_beyond_what_the_follower_acknowledged() -> None:
    """5.3: a heartbeat does not check whether the logs agree, so it may commit only acknowledged entries."""
    network = Network()
    network.elect(1)
    network.isolate(3)
    network.propose(1, "a")
    network.deliver_all()
    network.tick(1, 2)
    commits = {m.receiver: m.commit for m in sent(network) if isinstance(m, Heartbeat)}
    assert commits == {2: 2, 3: 1}


def test_5_3_followers_learn_the_commit_index_with_what_the_leader_sends_next() -> None:
    """5.3: with the next entries, or with the next heartbeat if there are no entries."""
    network = led()
    network.propose(1, "a")
    network.deliver_all()
    assert [network.raft(n).commit for n in (1, 2, 3)] == [2, 1, 1]
    network.propose(1, "b")
    network.deliver_all()
    assert [network.raft(n).commit for n in (1, 2, 3)] == [3, 2, 2]
    network.tick(1, 2)
    network.deliver_all()
    assert [network.raft(n).commit for n in (1, 2, 3)] == [3, 3, 3]


def test_5_3_entries_reach_everyone_and_commit_in_the_same_order() -> None:
    """5.3: the whole path of an entry, in a shard of five servers."""
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


def test_5_3_two_logs_with_the_same_entry_are_the_same_up_to_it() -> None:
    """5.3, the second half of Log Matching: the consistency check, after three leaders that left different log ends."""
    network = Network(logs={1: [1, 2, 2], 2: [1, 3, 3, 3], 3: [1, 2]})
    network.elect(2)
    network.propose(2, "a")
    network.deliver_all()
    common = [Entry(1, "1.1"), Entry(3, "3.2"), Entry(3, "3.3"), Entry(3, "3.4")]
    assert all(network.nodes[number].disk.written[:4] == common for number in network.nodes)
