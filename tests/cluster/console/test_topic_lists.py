"""Tests the parts of the topic pages that need no cluster: lists, pages and rates of topics."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cluster.console.page import path, shards
from cluster.console.pages.topics_page import PAGE_TOPICS, TopicList, listed
from cluster.console.rates import KEEP_EVERY_S, MAX_TOPICS_OF_POINT, Rates, TopicRate
from ledger.client.records import TopicDescription


def wanted(text: str = "", sort: str = "name", system: bool = False, page: int = 1) -> TopicList:
    return TopicList(text, sort, system, page)


def topics(*names: str) -> list[TopicDescription]:
    return [TopicDescription(name, number, (0, 1), 0) for number, name in enumerate(names, 1)]


def names(found: list[TopicDescription]) -> list[str]:
    return [topic.name for topic in found]


def test_a_list_has_the_topics_with_the_text_in_any_case() -> None:
    found, count, page = listed(topics("Orders", "orders-eu", "bills"), wanted("ORDER"), {})
    assert (names(found), count, page) == (["Orders", "orders-eu"], 2, 1)


def test_topics_of_the_broker_are_shown_only_if_asked_for() -> None:
    every = topics("%RETRY%billing", "orders")
    assert names(listed(every, wanted(), {})[0]) == ["orders"]
    assert names(listed(every, wanted(system=True), {})[0]) == ["%RETRY%billing", "orders"]


def test_a_page_has_a_bounded_number_of_topics_and_the_last_page_stays_in_range() -> None:
    every = topics(*(f"t{number:04}" for number in range(1_000)))
    found, count, page = listed(every, wanted(page=99), {})
    assert (len(found), count, page) == (PAGE_TOPICS, 1_000, 1_000 // PAGE_TOPICS)
    assert found[-1].name == "t0999"
    assert listed([], wanted(page=3), {}) == ([], 0, 1)


def test_the_busiest_topics_come_first() -> None:
    rates = {"b": TopicRate(messages_in=5), "c": TopicRate(messages_in=9, messages_out=1)}
    assert names(listed(topics("a", "b", "c"), wanted(sort="sent"), rates)[0]) == ["c", "b", "a"]
    assert names(listed(topics("a", "b", "c"), wanted(sort="received"), rates)[0]) == ["c", "a", "b"]


def test_a_name_is_one_part_of_a_path() -> None:
    assert path("%RETRY%a/b?c#d") == "%25RETRY%25a%2Fb%3Fc%23d"


@pytest.mark.parametrize(
    ("numbers", "text"), [((2, 0, 0), "0, 2"), (tuple(range(64)), "64 shards"), (tuple(range(6)), "0, 1, 2, 3, 4, 5")]
)
def test_shards_are_named_if_there_are_few(numbers: tuple[int, ...], text: str) -> None:
    assert shards(numbers) == text


def counted(name: str, messages: int) -> SimpleNamespace:
    return SimpleNamespace(topic=name, messages_in=messages, bytes_in=messages * 10, messages_out=0, bytes_out=0)


def test_the_history_of_a_topic_has_a_point_for_each_point_of_all_topics() -> None:
    rates = Rates()
    rates.looked(0.0)
    rates.count(1, 7, [counted("a", 0)])
    for turn in range(1, 4):
        if turn == 2:
            rates.count(1, 7, [counted("a", 10)])
        rates.looked(turn * KEEP_EVERY_S)
    assert [rate.messages_in for rate in rates.history_of("a")] == [0.0, 10 / KEEP_EVERY_S, 0.0]
    assert rates.history_of("b") == [TopicRate()] * 3
    assert len(rates.history) == 3


def test_a_point_keeps_the_topics_with_the_most_traffic() -> None:
    rates = Rates()
    rates.looked(0.0)
    rates.count(1, 7, [counted(f"t{number}", number + 1) for number in range(MAX_TOPICS_OF_POINT + 10)])
    rates.looked(KEEP_EVERY_S)
    assert rates.history_of("t9") == [TopicRate()]
    assert rates.history_of("t10")[0].messages_in == 11 / KEEP_EVERY_S
