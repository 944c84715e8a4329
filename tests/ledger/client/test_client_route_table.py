"""Tests the route table of a client: leaders, nodes, topics and addresses, learned from answers of nodes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ledger.client.connection.backoff import Backoff
from ledger.client.connection.channels import parse_addresses
from ledger.client.connection.route_table import KnownLeader, RoutedTopic, RouteTable, Said
from ledger.errors import InvalidArgumentError

NODES = {1: "a:1", 2: "b:2", 3: "c:3"}


def said(
    leader: int, term: int, topics: tuple[RoutedTopic, ...] = (), as_of: int = 0, asked: tuple[str, ...] = ()
) -> Said:
    leaders = {0: KnownLeader(leader, term)}
    return Said("dev", NODES, leaders, topics, max_message_bytes=4096, topics_index=as_of, asked=asked)


@pytest.fixture
def table() -> RouteTable:
    table = RouteTable(("a:1", "z:9"))
    assert table.in_doubt
    table.learn(said(1, 5))
    return table


def test_an_answer_names_nodes_leader_and_limits(table: RouteTable) -> None:
    assert table.leader_address(0) == "a:1"
    assert table.addresses() == ("a:1", "b:2", "c:3", "z:9")
    assert (table.cluster, table.max_message_bytes) == ("dev", 4096)
    assert not table.in_doubt


def test_a_higher_term_wins_and_a_lower_one_does_not(table: RouteTable) -> None:
    assert table.learn(said(2, 6)).led == {0}
    assert table.learn(said(1, 5)).led == set()
    assert table.leader_address(0) == "b:2"


def test_the_same_leader_again_is_no_change(table: RouteTable) -> None:
    assert table.learn(said(1, 5)).led == set()
    assert table.learn(said(1, 6)).led == set()


def test_a_new_term_without_a_leader_ends_the_old_one(table: RouteTable) -> None:
    assert table.learn(said(0, 6)).led == set()
    assert table.leader_address(0) is None
    assert table.in_doubt
    assert table.learn(said(3, 6)).led == {0}


def test_ignorance_in_the_same_term_changes_nothing(table: RouteTable) -> None:
    table.learn(said(0, 5))
    assert table.leader_address(0) == "a:1"


def test_a_term_without_a_leader_that_came_to_nothing_hides_no_later_one(table: RouteTable) -> None:
    table.learn(said(0, 32))  # a candidate reported term 32, and forgot the term in a crash
    assert table.leader_address(0) is None
    assert table.learn(said(1, 6)).led == {0}
    assert table.leader_address(0) == "a:1"
    table.learn(said(0, 32))  # a partitioned candidate reports term 32 again
    assert table.leader_address(0) == "a:1"
    assert not table.in_doubt
    assert table.learn(said(2, 5)).led == set(), "the known leader has a newer term"
    assert table.leader_address(0) == "a:1"


def test_a_doubted_leader_counts_again_when_a_node_names_it(table: RouteTable) -> None:
    table.doubt(0, "a:1")
    assert table.leader_address(0) is None
    assert table.in_doubt
    assert table.learn(said(1, 5)).led == set()
    assert table.leader_address(0) == "a:1"


def test_doubt_about_another_node_is_none_about_the_leader(table: RouteTable) -> None:
    table.doubt(0, "b:2")
    assert table.leader_address(0) == "a:1"


def test_a_hint_is_taken_at_once(table: RouteTable) -> None:
    assert table.hint(0, 4, "d:4")
    assert table.leader_address(0) == "d:4"
    assert not table.hint(0, 4, "d:4")


ONE, TWO, GROWN = RoutedTopic("one", 1, (0, 0), 7), RoutedTopic("two", 2, (0,), 8), RoutedTopic("one", 1, (0, 0, 1), 7)
AGAIN = RoutedTopic("one", 5, (0,), 9)


def test_the_newest_answer_about_all_topics_says_which_there_are(table: RouteTable) -> None:
    assert table.learn(said(1, 5, (ONE,), as_of=3)).topics == ["one"]
    assert table.learn(said(1, 5, (ONE, TWO), as_of=4)).topics == ["two"], "topic one has not changed"
    assert table.learn(said(1, 5, (GROWN, TWO), as_of=6)).topics == ["one"]
    assert table.learn(said(1, 5, (ONE,), as_of=3)).topics == [], "that node is behind"
    assert table.topics == {"one": GROWN, "two": TWO}
    assert table.learn(said(1, 5, (TWO,), as_of=8)).topics == ["one"]
    assert table.learn(said(1, 5, (GROWN, TWO), as_of=7)).topics == [], (
        "that node did not know yet that topic one is deleted"
    )
    assert table.topics == {"two": TWO}
    assert table.learn(said(1, 5, (TWO, AGAIN), as_of=9)).topics == ["one"]
    assert table.topics["one"] == AGAIN


def test_an_answer_about_one_topic_says_nothing_of_others(table: RouteTable) -> None:
    table.learn(said(1, 5, (ONE,), as_of=3))
    assert table.learn(said(1, 5, (TWO,), as_of=9, asked=("two",))).topics == ["two"]
    assert table.learn(said(1, 5, (ONE,), as_of=7)).topics == [], "topic two was created later"
    assert table.learn(said(1, 5, (), as_of=10, asked=("one",))).topics == ["one"]
    assert table.learn(said(1, 5, (ONE, TWO), as_of=9)).topics == [], "topic one was deleted later"
    assert table.topics == {"two": TWO}
    assert table.learn(said(1, 5, (), as_of=11)).topics == ["two"]
    assert table.learn(said(1, 5, (ONE, TWO), as_of=10)).topics == []


def test_a_node_that_has_no_topics_yet_takes_none_away(table: RouteTable) -> None:
    table.learn(said(1, 5, (ONE,), as_of=3))
    table.learn(said(0, 0))
    assert table.topics == {"one": ONE}


def test_a_shard_of_which_a_node_only_knows_that_it_is_there_is_in_doubt_until_another_tells(table: RouteTable) -> None:
    elsewhere = Said("dev", NODES, {0: KnownLeader(1, 5), 1: KnownLeader(0, 0)}, (), max_message_bytes=4096)
    doubts = []
    for answer in (elsewhere, Said("dev", NODES, {1: KnownLeader(3, 2)}, (), max_message_bytes=4096)):
        table.learn(answer)
        doubts.append(table.in_doubt)
    assert doubts == [True, False]
    table.learn(elsewhere)
    assert table.leader_address(1) == "c:3"


# --- addresses and waits ---------------------------------------------------------------------------------------------


def test_addresses_come_as_text_or_list() -> None:
    assert parse_addresses(" a:1, b:2,") == ("a:1", "b:2")
    assert parse_addresses(["a:1", "[::1]:2"]) == ("a:1", "[::1]:2")


@pytest.mark.parametrize("wrong", ["", " ,", "a", "a:", ":1", "a:x", "a:0", "a:65536", []])
def test_a_wrong_address_is_named(wrong: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_addresses(wrong)


def test_waits_double_up_to_the_ceiling_and_are_shortened_by_at_most_half() -> None:
    backoff = Backoff(20, 1000, random.Random(3))
    for failures, full in ((1, 20), (2, 40), (3, 80), (7, 1000), (500, 1000)):
        waits = [backoff.wait_ms(failures) for _ in range(100)]
        assert full / 2 <= min(waits) < max(waits) <= full


def test_members_come_and_go_by_the_newest_configuration(table: RouteTable) -> None:
    table.learn(Said("dev", {1: "a:1", 4: "d:4"}, {}, (), 4096, configuration=9))
    assert table.nodes == {1: "a:1", 4: "d:4"}
    table.learn(Said("dev", NODES, {}, (), 4096, configuration=7))  # the answer of a node that lags
    table.learn(Said("dev", NODES, {}, (), 4096))  # the answer of a node that has just started
    assert table.nodes == {1: "a:1", 4: "d:4"}
    table.learn(Said("dev", {1: "moved:1", 4: "d:4"}, {}, (), 4096, configuration=9))  # node 1 has a new address
    assert table.nodes[1] == "moved:1"
    assert table.addresses() == ("moved:1", "d:4", "a:1", "z:9"), "addresses from the user are always kept"


def test_a_shard_is_in_the_room_of_its_leader_once_that_one_has_told(table: RouteTable) -> None:
    assert table.room(0) is None
    table.learn(replace(said(1, 5), rooms={1: "north"}))
    assert table.room(0) == "north"
    table.learn(replace(said(2, 6), rooms={2: ""}))
    assert table.room(0) == ""
    table.learn(said(0, 7))
    assert table.room(0, "as before") == "as before"


# --- outside addresses

OUTSIDE = {1: "localhost:11", 2: "localhost:12", 3: "localhost:13"}


def told(leader: int, outside: dict[int, str], nodes: dict[int, str] = NODES, configuration: int = 0) -> Said:
    return Said("dev", nodes, {0: KnownLeader(leader, 5)}, (), 4096, configuration=configuration, outside=outside)


@pytest.mark.parametrize("given", ["localhost:12", "127.0.0.1:12", "[::1]:12", "LOCALHOST:12"])
def test_who_was_given_an_outside_address_uses_these_for_all_nodes(given: str) -> None:
    table = RouteTable((given,))
    table.learn(told(1, OUTSIDE))
    assert table.nodes == OUTSIDE
    assert table.leader_address(0) == "localhost:11"
    assert sorted(table.addresses()) == sorted(OUTSIDE.values()), "no node is in the list twice under two names"


def test_who_was_given_others_is_inside() -> None:
    table = RouteTable(("b:2", "elsewhere:12"))
    table.learn(told(1, OUTSIDE))
    assert table.nodes == NODES


def test_a_hint_names_a_node_by_its_inside_address_and_is_followed_outside() -> None:
    table = RouteTable(("localhost:12",))
    table.learn(told(1, OUTSIDE))
    assert table.reached(3, "c:3") == "localhost:13"
    assert table.hint(0, 3, "c:3")
    assert table.leader_address(0) == "localhost:13"
    table.doubt(0, "localhost:13")
    assert table.leader_address(0) is None


def test_what_any_node_knows_of_outside_addresses_counts() -> None:
    table = RouteTable(("localhost:12",))
    table.learn(told(1, {2: "localhost:12"}))
    assert table.nodes == {1: "a:1", 2: "localhost:12", 3: "c:3"}, (
        "nodes without a known outside address keep their inside address"
    )
    table.learn(told(1, {3: "localhost:13"}))
    assert table.nodes[3] == "localhost:13"


def test_a_client_stays_outside_when_the_node_that_it_was_given_is_removed() -> None:
    table = RouteTable(("localhost:12",))
    table.learn(told(1, OUTSIDE))
    table.learn(told(1, {1: "localhost:11", 4: "localhost:14"}, {1: "a:1", 4: "d:4"}, configuration=9))
    assert table.nodes == {1: "localhost:11", 4: "localhost:14"}
