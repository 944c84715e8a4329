"""Tests the strategies that assign queues to members: examples for each strategy, and properties that hold for every
consumer group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.broker.consumer_groups.assignment import Assignment, assign, assigning, nowhere
from ledger.consumer_groups import STRATEGIES
from ledger.state.consumer_group_table import ConsumerGroup, MemberDetails, TopicQueueId

# Strategies that assign every queue. `machine_room` does so only if each known room has a member.
COMPLETE = [strategy for strategy in STRATEGIES if strategy != "by_configuration"]
EVEN = ["average", "machine_room", "nearest_machine_room"]
# Strategies that move as few queues as possible when a member joins or leaves.
LOCAL = [*EVEN, "consistent_hash"]


def joined(
    group: ConsumerGroup, member: str, topics: Mapping[int, int], *, room: str = "", configured: str = ""
) -> None:
    queues = tuple(TopicQueueId(*map(int, each.split(":"))) for each in configured.split())
    told = MemberDetails(member, "client", room, 10_000, tuple(sorted(topics.items())), queues)
    group.join(group.strategy, told, group.generation + 1)


def group_of(strategy: str, members: str, **topics: int) -> ConsumerGroup:
    """Return a consumer group. `members` has names, each with an optional room, such as "a b/north". A keyword `t1=4`
    subscribes all members to topic 1, which has 4 queues.
    """
    group = ConsumerGroup("billing", strategy)
    for each in members.split():
        name, _, room = each.partition("/")
        joined(group, name, {int(topic[1:]): queues for topic, queues in topics.items()}, room=room)
    return group


def row(assignment: Assignment, topic_id: int = 1) -> str:
    """Return the member of each queue of a topic, in the order of the queues; "." is a queue without a member."""
    own = {queue.queue: member for queue, member in assignment.items() if queue.topic_id == topic_id}
    return "".join(own.get(queue, ".") for queue in range(max(own, default=-1) + 1))


def standing(strategy: str, members: str, owners: str, targets: str = "") -> ConsumerGroup:
    """Return a consumer group of topic 1 whose queues have these owners and targets; "." means none."""
    group = group_of(strategy, "", t1=0)
    for member in sorted({*members.split(), *owners, *targets} - {"."}):
        joined(group, member, {1: len(owners)})
    for queues in (owners, targets):
        group.assign({TopicQueueId(1, at): each.strip(".") for at, each in enumerate(queues)}, group.generation + 1)
    group.leave([name for name in list(group.members) if name not in members.split()], group.generation + 1)
    return group


# --- average


@pytest.mark.parametrize(
    ("members", "queues", "expected"),
    [
        ("a", 3, "aaa"),
        ("a b", 4, "aabb"),
        ("b a", 4, "aabb"),  # the order of joining does not matter
        ("a b c", 8, "aaabbbcc"),
        ("a b c", 3, "abc"),
        ("a b c d", 2, "ab"),  # more members than queues: the last members get no queue
        ("", 2, ""),
    ],
)
def test_average_deals_runs_of_neighbours(members: str, queues: int, expected: str) -> None:
    assert row(assign(group_of("average", members, t1=queues))) == expected


@pytest.mark.parametrize(
    ("members", "owners", "expected"),
    [
        ("a b", "aabb", "aabb"),
        ("a b", "aaaa", "aabb"),  # b has joined
        ("a b c", "aaaaaa", "aabbcc"),  # neighbouring queues move together
        ("a b c", "aaabbb", "aacbbc"),  # c has joined, and gets one queue from each member
        ("a b", "aabbcc", "aabbab"),  # c has left
        ("b", "aabb", "bbbb"),
        ("a b", "abab", "abab"),  # a queue does not move only to join its neighbours
        ("a b", "aab", "aab"),
        ("a b", "abb", "abb"),  # the member with one queue more keeps it
        ("a b", "aa..", "aabb"),  # the topic has two new queues
    ],
)
def test_average_moves_no_more_than_it_must(members: str, owners: str, expected: str) -> None:
    assert row(assign(standing("average", members, owners))) == expected


def test_a_queue_under_way_goes_on_to_its_target() -> None:
    group = standing("average", "a b", "aaaa", "abab")
    assert [share.owner for _, share in sorted(group.shares.items())] == ["a"] * 4
    assert row(assign(group)) == "abab"


def test_whoever_is_to_give_gives_what_it_does_not_have_yet() -> None:
    group = standing("average", "a b", "baab", "aabb")  # queues 0 and 2 are moving
    joined(group, "c", {1: 4})
    joined(group, "d", {1: 4})
    assert row(assign(group)) == "cadb"


def test_a_queue_whose_target_has_gone_stays_with_its_owner() -> None:
    group = standing("average", "a b c", "aaabbb", "aacbbc")
    group.leave(["c"], 99)
    assert row(assign(group)) == "aaabbb"


def test_average_is_even_over_all_topics_together() -> None:
    group = group_of("average", "a b c", t1=1, t2=1, t3=1, t4=2)
    assert Counter(assign(group).values()) == {"a": 2, "b": 2, "c": 1}


def test_average_is_even_in_each_topic() -> None:
    """Each topic is shared evenly. Each topic is divided evenly. Otherwise a second member might get only queues of
    an idle topic."""
    group = group_of("average", "a", t1=4, t2=4)
    group.assign(assign(group), 10)
    joined(group, "b", {1: 4, 2: 4})
    assignment = assign(group)
    assert (row(assignment, 1), row(assignment, 2)) == ("aabb", "aabb")


def test_the_odd_queue_goes_to_whoever_has_least() -> None:
    group = group_of("average", "a", t1=2, t2=5)
    joined(group, "b", {2: 5})
    assignment = assign(group)
    assert (row(assignment, 1), row(assignment, 2)) == ("aa", "aabbb")


def test_odd_queues_move_where_members_come_and_go() -> None:
    group = standing("average", "a b", "a")
    group.assign({TopicQueueId(topic, 0): "a" for topic in (1, 2, 3, 4)}, 20)
    for member in "ab":
        joined(group, member, {1: 1, 2: 1, 3: 1, 4: 1})
    assert Counter(assign(group).values()) == {"a": 2, "b": 2}


# --- the other strategies


@pytest.mark.parametrize(
    ("members", "queues", "expected"), [("a b c", 8, "abcabcab"), ("a b", 1, "a"), ("c b a", 3, "abc")]
)
def test_circle_deals_in_turns(members: str, queues: int, expected: str) -> None:
    assert row(assign(group_of("circle", members, t1=queues))) == expected


def test_the_circle_goes_on_from_topic_to_topic() -> None:
    assignment = assign(group_of("circle", "a b c", t1=4, t2=4))
    assert (row(assignment, 1), row(assignment, 2)) == ("abca", "bcab")


def test_the_ring_is_that_of_every_version() -> None:
    """The hash ring must be the same in every version of the program. The ring is the same in every version. Otherwise
    a coordinator with another version would move most queues.
    """
    assert row(assign(group_of("consistent_hash", "a b c", t1=16))) == "ccaccbcbcacaaabb"


def test_everybody_has_something_on_the_ring() -> None:
    counts = Counter(assign(group_of("consistent_hash", "a b c d", t1=400)).values())
    assert set(counts) == {"a", "b", "c", "d"}
    assert min(counts.values()) > 20


NORTH_AND_SOUTH = {TopicQueueId(1, queue): room for queue, room in enumerate(["north"] * 3 + ["south"] * 3 + ["east"])}


@pytest.mark.parametrize(("strategy", "expected"), [("machine_room", "aabccc"), ("nearest_machine_room", "aabcccb")])
def test_queues_stay_in_their_room(strategy: str, expected: str) -> None:
    group = group_of(strategy, "a/north b/north c/south", t1=7)
    assert row(assign(group, NORTH_AND_SOUTH.get)) == expected


@pytest.mark.parametrize("strategy", ["machine_room", "nearest_machine_room"])
def test_where_no_room_is_known_all_are_alike(strategy: str) -> None:
    group = group_of(strategy, "a/north b/north c/south", t1=6)
    assert row(assign(group)) == "aabbcc"


def test_a_member_of_no_room_gets_what_has_no_room() -> None:
    group = group_of("machine_room", "a b/north", t1=8)
    assert row(assign(group, NORTH_AND_SOUTH.get)) == "bbb....a"
    group = group_of("nearest_machine_room", "a b/north", t1=8)
    assert row(assign(group, NORTH_AND_SOUTH.get)) == "bbbaaabb"


def test_queues_return_to_their_room_with_its_members() -> None:
    group = group_of("nearest_machine_room", "a/north b/north", t1=6)
    group.assign(assign(group, NORTH_AND_SOUTH.get), 10)
    assert Counter(assign(group, NORTH_AND_SOUTH.get).values()) == {"a": 3, "b": 3}
    joined(group, "c", {1: 6}, room="south")
    assert row(assign(group, NORTH_AND_SOUTH.get))[3:] == "ccc"


def test_by_configuration_gives_what_is_configured_and_shares_out_topics_of_which_nothing_is() -> None:
    group = group_of("by_configuration", "", t1=0)
    joined(
        group, "a", {1: 4}, configured="1:0 1:3 1:9 2:0"
    )  # queue 1:9 does not exist, and a does not subscribe to topic 2
    joined(group, "b", {1: 4, 2: 1}, configured="1:1")
    assert row(assign(group)) == "ab.a"
    assert row(assign(group), 2) == ""
    joined(group, "b", {1: 4, 2: 1, 3: 3}, configured="1:1")
    assert row(assign(group), 3) == "bbb"


def test_of_two_that_are_configured_with_a_queue_the_one_that_has_it_keeps_it() -> None:
    group = group_of("by_configuration", "", t1=0)
    joined(group, "b", {1: 2}, configured="1:0 1:1")
    group.assign(assign(group), 5)
    joined(group, "a", {1: 2}, configured="1:0")
    assert row(assign(group)) == "bb"
    group.leave(["b"], 9)
    assert row(assign(group)) == "a"


# --- properties of every consumer group

NAMES = st.sampled_from([f"member-{number}" for number in range(7)])
SUBSCRIPTIONS = st.dictionaries(st.integers(1, 4), st.integers(1, 12), min_size=1)
MEMBERS = st.dictionaries(NAMES, st.tuples(SUBSCRIPTIONS, st.sampled_from(["", "north", "south"])), min_size=1)
ROOMS = st.dictionaries(
    st.builds(TopicQueueId, st.integers(1, 4), st.integers(0, 11)), st.sampled_from(["", "north", "south", "east"])
)
# In each step a member leaves or joins, and then the queues are assigned again.
STEPS = st.lists(st.one_of(NAMES, st.tuples(NAMES, SUBSCRIPTIONS)), max_size=6)


def made(strategy: str, members: Mapping[str, tuple[Mapping[int, int], str]]) -> ConsumerGroup:
    group = ConsumerGroup("billing", strategy)
    for name, (topics, room) in members.items():
        joined(group, name, topics, room=room, configured="1:0 1:1 2:5")
    return group


def lived(group: ConsumerGroup, steps: list[str | tuple[str, dict[int, int]]]) -> None:
    """Apply the steps, and make an assignment after each step. No member releases a queue, so owners and targets
    differ."""
    for at, step in enumerate(steps):
        if isinstance(step, str):
            if list(group.members) != [step]:
                group.leave([step], 100 + at)
        else:
            joined(group, step[0], step[1])
        group.assign(assign(group), 100 + at)


def subscribers(group: ConsumerGroup, queue: TopicQueueId) -> list[str]:
    return [name for name, each in group.members.items() if queue.topic_id in dict(each.details.subscriptions)]


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None)
@given(members=MEMBERS, steps=STEPS, rooms=ROOMS)
def test_only_subscribers_get_queues_and_only_those_that_there_are(
    strategy: str,
    members: dict[str, tuple[dict[int, int], str]],
    steps: list[str | tuple[str, dict[int, int]]],
    rooms: dict[TopicQueueId, str],
) -> None:
    group = made(strategy, members)
    lived(group, steps)
    for queue, member in assign(group, rooms.get).items():
        assert member in subscribers(group, queue)
        assert 0 <= queue.queue < group.queues[queue.topic_id]


@pytest.mark.parametrize("strategy", COMPLETE)
@settings(deadline=None)
@given(members=MEMBERS, steps=STEPS, rooms=ROOMS)
def test_every_queue_has_a_member(
    strategy: str,
    members: dict[str, tuple[dict[int, int], str]],
    steps: list[str | tuple[str, dict[int, int]]],
    rooms: dict[TopicQueueId, str],
) -> None:
    group = made(strategy, members)
    lived(group, steps)
    everything = {TopicQueueId(topic, queue) for topic, queues in group.queues.items() for queue in range(queues)}
    assert assign(group, nowhere if strategy == "machine_room" else rooms.get).keys() == everything


@pytest.mark.parametrize("strategy", EVEN)
@settings(deadline=None)
@given(members=MEMBERS, steps=STEPS, rooms=ROOMS)
def test_each_topic_and_all_together_are_even_among_those_who_may_have_the_queues(
    strategy: str,
    members: dict[str, tuple[dict[int, int], str]],
    steps: list[str | tuple[str, dict[int, int]]],
    rooms: dict[TopicQueueId, str],
) -> None:
    group = made(strategy, members)
    lived(group, steps)
    rooms = {} if strategy == "average" else rooms
    assignment = assign(group, rooms.get)
    able = {queue: able_members(group, strategy, queue, rooms) for queue in assignment}
    loads = Counter(assignment.values())
    counts = Counter((member, queue.topic_id, able[queue]) for queue, member in assignment.items())
    for queue, member in assignment.items():
        assert member in able[queue]
        mine = counts[member, queue.topic_id, able[queue]]
        for other in able[queue]:
            theirs = counts[other, queue.topic_id, able[queue]]
            assert mine <= theirs + 1
            assert mine <= theirs or loads[member] <= loads[other] + 1


def able_members(
    group: ConsumerGroup, strategy: str, queue: TopicQueueId, rooms: Mapping[TopicQueueId, str]
) -> frozenset[str]:
    able = frozenset(subscribers(group, queue))
    near = frozenset(name for name in able if group.members[name].details.room == rooms.get(queue))
    return near if rooms.get(queue) and (near or strategy == "machine_room") else able


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None)
@given(members=MEMBERS, steps=STEPS)
def test_when_nothing_changes_nothing_moves_and_the_order_of_joining_is_nothing(
    strategy: str, members: dict[str, tuple[dict[int, int], str]], steps: list[str | tuple[str, dict[int, int]]]
) -> None:
    group = made(strategy, members)
    lived(group, steps)
    assignment = assign(group)
    backwards = ConsumerGroup("billing", strategy)
    for member in reversed(group.members.values()):
        backwards.put(member)
    backwards.shares = dict(reversed(group.shares.items()))
    assert assign(backwards) == assignment
    group.assign(assignment, 200)
    assert assign(group) == assignment


@pytest.mark.parametrize("strategy", LOCAL)
@settings(deadline=None)
@given(count=st.integers(2, 9), queues=st.integers(1, 40), gone=st.integers(0, 8))
def test_when_a_member_leaves_only_its_queues_move(strategy: str, count: int, queues: int, gone: int) -> None:
    group = group_of(strategy, " ".join("abcdefghi"[:count]), t1=queues)
    before = assign(group)
    group.assign(before, 100)
    left = "abcdefghi"[gone % count]
    group.leave([left], 101)
    after = assign(group)
    assert [queue for queue in before if before[queue] != left and after[queue] != before[queue]] == []


@pytest.mark.parametrize("strategy", LOCAL)
@settings(deadline=None)
@given(count=st.integers(1, 8), queues=st.integers(1, 40))
def test_when_a_member_joins_queues_move_to_it_alone(strategy: str, count: int, queues: int) -> None:
    group = group_of(strategy, " ".join("bcdefghi"[:count]), t1=queues)
    before = assign(group)
    group.assign(before, 100)
    joined(group, "a", {1: queues})
    after = assign(group)
    moved = [queue for queue in before if after[queue] != before[queue]]
    assert {after[queue] for queue in moved} <= {"a"}
    if strategy != "consistent_hash":
        assert len(moved) == queues // (count + 1)


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcdef."), min_size=1, max_size=30), st.lists(st.sampled_from("abcdefgh"), min_size=1))
def test_average_moves_as_few_as_an_even_share_allows(owners: list[str], members: list[str]) -> None:
    """Compares the number of moves with the minimum. If all members have the same subscriptions, the minimum is known:
    the members with the most queues get the larger shares.
    """
    group = standing("average", " ".join(sorted(set(members))), "".join(owners))
    after = assign(group)
    held = sorted((owners.count(member) for member in set(members)), reverse=True)
    least, larger = divmod(len(owners), len(held))
    kept = sum(min(have, least + (at < larger)) for at, have in enumerate(held))
    assert sum(after[TopicQueueId(1, at)] == owner for at, owner in enumerate(owners)) == kept


# --- in steps


@pytest.mark.parametrize("strategy", COMPLETE)
def test_a_large_assignment_goes_in_steps_of_a_topic_at_most(strategy: str) -> None:
    members, topics = 50, dict.fromkeys(range(1, 11), 1000)
    group = ConsumerGroup("billing", strategy)
    for member in range(members):
        joined(group, f"m{member:02}", topics)
    steps = sum(1 for _ in assigning(group))
    assert steps >= len(topics)
    assert len(assign(group)) == 10_000
