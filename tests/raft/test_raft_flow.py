"""Flow control for each follower: the leader asks first, then streams within bounds, and asks again if messages may be
lost."""

from __future__ import annotations

from itertools import pairwise

import pytest

from raft.core import Append, FollowerProgress, RaftTiming
from raft.core.catch_up import BURST_TICKS, CatchUp, CatchUpLimit
from raft.core.progress import MAX_IN_FLIGHT_BYTES, MAX_IN_FLIGHT_MESSAGES
from tests.raft.network import ENTRY_BYTES, Network


def appends(network: Network, receiver: int) -> list[tuple[int, int]]:
    """Remove all messages from the network. Return (prev_index, last_index) of each Append to this node."""
    messages = [packet.message for packet in network.wire]
    network.wire.clear()
    return [(m.prev_index, m.last_index) for m in messages if isinstance(m, Append) and m.receiver == receiver]


def streaming(next_index: int = 1) -> FollowerProgress:
    progress = FollowerProgress(next_index)
    progress.accepted(next_index - 1)
    return progress


def led(**settings: int) -> Network:
    """Return a network in which node 1 leads and node 3 is cut off, so that node 2 alone completes the majority."""
    network = Network(**settings)  # type: ignore[arg-type]
    network.elect(1)
    network.isolate(3)
    return network


# -- one follower's progress


def test_a_new_progress_asks_once_and_streams_after_the_answer() -> None:
    progress = FollowerProgress(5)
    assert (progress.must_ask(10), progress.may_stream) == (True, False)
    progress.asked()
    assert (progress.must_ask(10), progress.may_stream) == (False, False)
    progress.accepted(4)
    assert (progress.match, progress.next, progress.may_stream) == (4, 5, True)


def test_an_unanswered_question_is_asked_again_with_the_next_heartbeat() -> None:
    progress = FollowerProgress(5)
    progress.asked()
    progress.heartbeat()
    assert progress.must_ask(10)


def test_the_number_of_messages_in_flight_is_bounded() -> None:
    progress = streaming()
    for index in range(1, MAX_IN_FLIGHT_MESSAGES + 1):
        assert progress.may_stream
        progress.streamed(index, 1)
    assert not progress.may_stream
    assert progress.accepted(1)
    assert progress.may_stream


def test_the_bytes_in_flight_are_bounded() -> None:
    progress = streaming()
    progress.streamed(1, MAX_IN_FLIGHT_BYTES - 1)
    progress.streamed(2, 1)
    assert progress.is_full
    progress.accepted(1)
    assert (progress.may_stream, progress.in_flight_bytes) == (True, 1)


def test_one_acknowledgement_lands_all_before_it() -> None:
    progress = streaming()
    for index in (1, 2, 3, 4):
        progress.streamed(index, 10)
    progress.accepted(3)
    assert (progress.in_flight, progress.in_flight_bytes, progress.match, progress.next) == (1, 10, 3, 5)


def test_a_broken_stream_goes_back_to_what_is_known() -> None:
    progress = streaming(4)
    progress.streamed(9, 10)
    progress.restart()
    assert (progress.next, progress.in_flight, progress.in_flight_bytes) == (4, 0, 0)
    assert progress.must_ask(10)


def test_a_broken_stream_while_probing_does_not_go_back_to_the_beginning() -> None:
    progress = FollowerProgress(1000)
    progress.asked()
    progress.restart()
    assert progress.next == 1000
    assert progress.must_ask(10)


def test_a_refusal_while_streaming_probes_from_what_is_known() -> None:
    progress = streaming(4)
    progress.streamed(9, 10)
    progress.rejected(9, 8)
    assert (progress.next, progress.may_stream, progress.must_ask(10)) == (4, False, True)


def test_only_the_answer_to_the_question_that_is_out_moves_a_probe() -> None:
    progress = FollowerProgress(10)
    progress.asked()
    progress.rejected(7, 3)
    assert (progress.next, progress.paused) == (10, True)
    progress.rejected(9, 3)
    assert (progress.next, progress.paused) == (4, False)


def test_a_follower_that_denies_what_it_acknowledged_is_believed() -> None:
    progress = streaming(10)
    progress.restart()
    progress.asked()
    progress.rejected(9, 3)
    assert (progress.match, progress.next) == (3, 4)


def test_a_probe_always_moves_back() -> None:
    progress = FollowerProgress(10)
    for expected in (9, 8, 7):
        progress.asked()
        progress.rejected(progress.next - 1, progress.next + 5)
        assert progress.next == expected


def test_silence_about_what_is_in_flight_is_asked_about_once_in_a_while() -> None:
    progress = streaming()
    progress.tick(1, RaftTiming(1, 10))
    assert progress.waited == 0, "nothing is in flight"
    progress.streamed(1, 1)
    for _ in range(10):
        assert not progress.must_ask(10)
        progress.tick(1, RaftTiming(1, 10))
    assert progress.must_ask(10)
    progress.asked()
    assert not progress.must_ask(10)
    assert progress.may_stream, "and streaming goes on"


def test_what_is_sent_must_be_new() -> None:
    progress = streaming()
    progress.streamed(3, 1)
    with pytest.raises(AssertionError):
        progress.streamed(3, 1)


# -- the leader


def test_the_leader_streams_ahead_of_acknowledgements() -> None:
    network = led(append_bytes=ENTRY_BYTES)
    network.propose(1, "a", "b")
    network.propose(1, "c")
    assert appends(network, 2) == [(1, 2), (2, 3), (3, 4)]


def test_the_leader_stops_at_the_bound_and_goes_on_as_acknowledgements_come() -> None:
    network = led(append_bytes=ENTRY_BYTES)
    network.propose(1, *range(MAX_IN_FLIGHT_MESSAGES + 5))
    assert len([p for p in network.wire if p.message.receiver == 2]) == MAX_IN_FLIGHT_MESSAGES
    network.deliver_all()
    assert network.log(2) == network.log(1)


def test_several_entries_share_one_append() -> None:
    network = led()
    network.propose(1, *range(20))
    assert appends(network, 2) == [(1, 21)]


def test_after_a_broken_stream_nothing_is_lost() -> None:
    network = led(append_bytes=ENTRY_BYTES)
    network.propose(1, "a", "b", "c")
    network.wire.clear()
    network.unreachable(1, 2)
    assert appends(network, 2) == [(1, 1)], "first the question, without entries"
    network.tick(1, 2)
    assert appends(network, 2) == [(1, 1)], "again with the heartbeat"
    network.tick(1, 2)
    network.deliver_all()
    assert network.log(2) == network.log(1)


def test_a_lost_append_is_noticed_though_the_stream_did_not_break() -> None:
    network = led()
    network.propose(1, "a")
    network.wire.clear()
    for _ in range(11):
        network.tick(1)
        network.deliver_all()
    assert network.raft(2).log.last_index == 2
    assert network.raft(1).commit == 2


def test_a_lost_acknowledgement_is_noticed_too_and_nothing_is_sent_twice() -> None:
    network = led()
    network.propose(1, "a")
    network.wire = [packet for packet in network.wire if isinstance(packet.message, Append)]
    while network.wire:
        network.deliver(network.wire.pop(0))
        network.wire = [packet for packet in network.wire if isinstance(packet.message, Append)]
    network.trace.clear()
    for _ in range(11):
        network.tick(1)
        network.deliver_all()
    assert network.raft(1).commit == 2
    assert not any("append 2..2" in line and "1->2" in line for line in network.trace)


def test_the_newest_commit_comes_with_the_heartbeat_when_nothing_is_to_be_sent() -> None:
    network = led()
    network.propose(1, "a")
    network.deliver_all()
    assert network.raft(2).commit == 1
    network.tick(1, 2)
    network.deliver_all()
    assert network.raft(2).commit == 2


# -- learners that catch up


def sent_to_learner(network: Network) -> list[int]:
    """Let node 4 become a learner of a long log, and return how many entries it has after each of the next ticks."""
    network.join(4)
    network.change(1, (1, 2, 3), (4,))
    had = []
    for _ in range(40):
        network.deliver_all()
        had.append(len(network.log(4)))
        network.tick(1)
    return had


def long(catch_up_bytes_per_tick: int) -> Network:
    """Return a network whose leader has 100 entries. One Append carries 2."""
    network = Network(append_bytes=2 * ENTRY_BYTES, catch_up_bytes_per_tick=catch_up_bytes_per_tick)
    network.elect(1)
    for value in range(100):
        network.propose(1, value)
        network.deliver_all()
    return network


def test_a_learner_gets_so_many_bytes_in_a_tick_and_voters_all_at_once() -> None:
    had = sent_to_learner(long(4 * ENTRY_BYTES))
    steps = [later - earlier for earlier, later in pairwise(had)]
    assert max(steps) <= 4 * BURST_TICKS
    assert sum(4 <= step <= 6 for step in steps) >= 15, "about 4 entries in a tick"
    assert had[-1] == 102


def test_the_shards_of_a_node_share_the_limit() -> None:
    limit = CatchUpLimit(100)
    one, other = CatchUp(limit), CatchUp(limit)
    one.sent(80)
    assert not other.is_spent
    other.sent(80)
    assert (one.is_spent, other.is_spent) == (True, True)
    one.appended(50)
    assert (one.is_spent, other.is_spent) == (False, True), "its learners need what it appends"
    one.sent(50)
    limit.tick()
    assert (one.is_spent, other.is_spent) == (False, False)
    one.sent(40)
    assert other.is_spent


def test_what_was_appended_while_a_learner_was_down_is_limited_too() -> None:
    limit = CatchUpLimit(100)
    catch_up = CatchUp(limit)
    limit.sent(100)
    for _ in range(50):
        catch_up.appended(1_000)
        catch_up.tick()
    catch_up.sent(100 * BURST_TICKS)
    assert catch_up.is_spent


def test_without_a_limit_a_learner_gets_everything_at_once() -> None:
    assert sent_to_learner(long(0))[0] == 102


def test_a_learner_that_has_caught_up_gets_what_is_written() -> None:
    network = long(ENTRY_BYTES)
    network.join(4)
    network.change(1, (1, 2, 3), (4,))
    for _ in range(200):
        network.deliver_all()
        network.tick(1)
    network.propose(1, *range(50))
    network.deliver_all()
    assert len(network.log(4)) == len(network.log(1))


# -- what a server has heard since it was started


def test_a_server_that_starts_again_learns_how_far_its_leader_is() -> None:
    """Also if nothing is written: the leader asks a server whose connection broke where their logs agree."""
    network = Network()
    network.elect(1)
    network.propose(1, 1, 2, 3)
    network.run(3)
    network.crash(3)
    network.unreachable(1, 3)
    network.restart(3)
    assert network.nodes[3].raft.first_heard_commit is None
    network.run(20)
    raft = network.nodes[3].raft
    assert raft.first_heard_commit == raft.commit == network.nodes[1].raft.commit
