"""What the pages of consumer groups compute."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.console.group_view import (
    chosen_groups,
    chosen_queues,
    figures_of,
    has_members,
    mode_of,
    owned_by,
    planned,
    ranges,
    state_of,
)
from cluster.console.paging import paged
from ledger.client.admin.consumer_group_records import (
    ConsumerGroupDescription,
    ConsumerGroupMember,
    ConsumerGroupSummary,
    OffsetReset,
    QueueConsumption,
)
from ledger.client.records import TopicQueue

EMPTY = ConsumerGroupDescription("g", "", False, (), ())


def summary(name: str, lag: int = 0, lag_s: float = 0.0, dead: int = 0) -> ConsumerGroupSummary:
    return ConsumerGroupSummary(name, 1, "average", 4, lag, lag_s, 0, dead)


def queue(topic: str, number: int, lag: int, lag_s: float = 0.0, **other: float) -> QueueConsumption:
    base = QueueConsumption(topic, number, offset=0, settled=0, first_offset=0, end_offset=lag, lag=lag, lag_s=lag_s)
    return replace(base, **other)  # type: ignore[arg-type]


def test_groups_are_found_and_ordered() -> None:
    groups = [summary("Billing", 5, 9.0), summary("mailing", 70, 1.0, 3), summary("shipping")]
    assert [group.name for group in chosen_groups(groups, " ING ", "lag")] == ["mailing", "Billing", "shipping"]
    assert [group.name for group in chosen_groups(groups, "", "behind")] == ["Billing", "mailing", "shipping"]
    assert chosen_groups(groups, "", "dead letters")[0].name == "mailing"
    assert [group.name for group in chosen_groups(groups, "ill", "no such order")] == ["Billing"]


def test_retry_queues_are_shown_only_with_messages() -> None:
    queues = [queue("%RETRY%g", 0, 0), queue("%RETRY%g", 1, 2), queue("orders", 0, 0), queue("orders", 1, 9)]
    assert [(each.topic, each.queue) for each in chosen_queues(queues, "", "queue")] == [
        ("%RETRY%g", 1), ("orders", 0), ("orders", 1),
    ]  # fmt: skip
    assert [each.lag for each in chosen_queues(queues, "ORDER", "lag")] == [9, 0]


def test_figures_are_sums() -> None:
    found = replace(
        EMPTY,
        queues=(
            queue("%RETRY%g", 0, 4, 100.0),
            queue("orders", 0, 7, 3.0, leased=2, waiting=1, lease_left_s=9.0, attempts=2),
            queue("orders", 1, 8, 5.0, leased=1, waiting=0, lease_left_s=4.0, attempts=5),
            queue("orders", 2, 0, 0.0, leased=0, waiting=0, lease_left_s=0.0, attempts=0),
            QueueConsumption("orders", 3),
        ),
    )
    figures = figures_of(found)
    assert (figures.lag, figures.lag_s, figures.retries) == (15, 5.0, 4)
    assert (figures.leased, figures.waiting, figures.next_end_s, figures.attempts) == (3, 1, 4.0, 5)
    assert figures_of(EMPTY).next_end_s is None


def test_states_are_told() -> None:
    member = ConsumerGroupMember("m", "c", "", 10_000, (TopicQueue("orders", 0),))
    assert state_of(EMPTY) == "The group has no members at the moment."
    assert state_of(replace(EMPTY, members=(member,), strategy="circle")) == "1 member. Queues are assigned by circle."
    assert "assigned again" in state_of(replace(EMPTY, members=(member,), rebalancing=True))
    assert "broadcast" in state_of(replace(EMPTY, strategy="broadcast"))
    shared = replace(EMPTY, mode="shared", order="key", max_attempts=3, consumers=2)
    assert state_of(shared) == "2 consumers connected."
    assert "one after another; dead letter after 3 attempts" in mode_of(shared)
    assert [has_members(each) for each in (EMPTY, shared, replace(EMPTY, members=(member,)))] == [False, True, True]


def test_queues_of_a_member_are_short() -> None:
    places = [TopicQueue("orders", number) for number in (0, 1, 2, 7)] + [TopicQueue("refunds", 1)]
    member = ConsumerGroupMember("m", "c", "", 10_000, tuple(places))
    assert owned_by(member) == "orders 0-2, 7; refunds 1"
    many = tuple(TopicQueue(f"t{number}", 0) for number in range(200))
    assert owned_by(replace(member, queues=many)).endswith("and 176 more topics")


@given(st.sets(st.integers(0, 60)))
def test_ranges_have_all_numbers(numbers: set[int]) -> None:
    text = ranges(numbers)
    if text.endswith("…"):
        return
    read: set[int] = set()
    for part in text.split(", ") if text else ():
        first, _, last = part.partition("-")
        read.update(range(int(first), int(last or first) + 1))
    assert read == numbers


def test_a_plan_counts_what_is_skipped_and_what_comes_again() -> None:
    resets = [
        OffsetReset("orders", 0, 10, 4),
        OffsetReset("orders", 1, 10, 25),
        OffsetReset("orders", 2, 10, 10),
        OffsetReset("orders", 3, None, 8),
    ]
    plan = planned(resets)
    assert [(each.queue, each.skipped, each.again) for each in plan] == [(0, 0, 6), (1, 15, 0), (3, 0, 0)]


@pytest.mark.parametrize(("number", "shown"), [(1, [0, 1, 2]), (2, [3, 4, 5]), (3, [6]), (99, [6]), (0, [0, 1, 2])])
def test_pages_have_their_items(number: int, shown: list[int]) -> None:
    page = paged(range(7), number, 3)
    assert list(page.items) == shown
    assert (page.pages, page.total) == (3, 7)


def test_an_empty_list_has_one_page() -> None:
    assert (paged([], 4, 3).number, paged([], 4, 3).pages) == (1, 1)
