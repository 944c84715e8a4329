"""Tests the numbers of queues of a group's topics against a naive model, and that a change reads no other member."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hypothesis import given
from hypothesis import strategies as st

from ledger.state import ConsumerGroup
from ledger.state.consumer_group_table import MemberDetails
from ledger.state.subscribed_queues import SubscribedQueues

SUBSCRIPTIONS = st.dictionaries(st.integers(1, 3), st.integers(0, 4), max_size=3)
# A member joins or changes, a member leaves, or a topic is deleted.
STEPS = st.lists(st.tuples(st.sampled_from("abc"), SUBSCRIPTIONS | st.none()) | st.integers(1, 3), max_size=12)


def naive(members: Mapping[str, Mapping[int, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for subscriptions in members.values():
        for topic_id, queues in subscriptions.items():
            found[topic_id] = max(found.get(topic_id, 0), queues)
    return found


@given(STEPS)
def test_the_largest_number_of_each_topic_counts(steps: list[tuple[str, dict[int, int] | None] | int]) -> None:
    members: dict[str, dict[int, int]] = {}
    subscribed = SubscribedQueues()
    for step in steps:
        if isinstance(step, int):
            members = {name: {topic: n for topic, n in had.items() if topic != step} for name, had in members.items()}
            subscribed.forget(step)
        else:
            name, wanted = step
            old = members.pop(name, {})
            expected = sum(naive({**members, name: wanted or {}}).values())
            assert subscribed.total_with((wanted or {}).items(), old.items()) == expected
            subscribed.remove(old.items())
            if wanted is not None:
                members[name] = wanted
                subscribed.add(wanted.items())
        assert subscribed.most == naive(members)
        assert subscribed.total == sum(subscribed.most.values())


class Watched(tuple[tuple[int, int], ...]):
    """Subscriptions that count how often they are read."""

    __slots__ = ()
    read = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        Watched.read += 1
        return super().__iter__()

    def __hash__(self) -> int:
        Watched.read += 1
        return super().__hash__()


def test_a_change_of_a_member_reads_the_subscriptions_of_no_other_member() -> None:
    """Otherwise a user with the right on one large group could hold up all replicas of the shard."""
    group = ConsumerGroup("billing", "average")
    for number in range(1_000):
        group.join("average", MemberDetails(f"m{number}", "", "", 10_000, Watched([(1, 1_000 + number)])), number)
    Watched.read = 0
    for number in (3, 999):
        details = MemberDetails(f"m{number}", "new", "", 10_000, Watched([(1, 7)]))
        assert group.queues_with(details) == max(1_999 - (number == 999), 7)
        group.join("average", details, 2_000 + number)
    group.leave(["m5"], 3_000)
    assert group.queues == {1: 1_998}
    assert Watched.read < 20
