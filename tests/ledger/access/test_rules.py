"""Which rules decide about a right."""

from __future__ import annotations

import pytest

from ledger.access.password import ITERATIONS, make_verifier, validate_verifier
from ledger.access.rules import (
    CLUSTER,
    Action,
    Resource,
    Rule,
    decide,
    parse_action,
    parse_resource,
    topic_resource,
    validate_rule,
    validate_user_name,
)
from ledger.errors import InvalidArgumentError

ORDERS = Resource("topic", "orders-eu")


@pytest.mark.parametrize(
    ("rules", "action", "allowed"),
    [
        ([], "publish", False),
        ([Rule("alice", "publish", "topic:orders-eu")], "publish", True),
        ([Rule("alice", "publish", "topic:orders-*")], "publish", True),
        ([Rule("alice", "publish", "topic:*")], "publish", True),
        ([Rule("alice", "publish", "topic:orders")], "publish", False),
        ([Rule("alice", "publish", "group:orders-eu")], "publish", False),
        ([Rule("alice", "subscribe", "topic:orders-*")], "publish", False),
        ([Rule("alice", "subscribe", "topic:orders-*")], "describe", True),
        ([Rule("alice", "create", "topic:orders-*")], "describe", False),
        ([Rule("alice", "all", "*")], "delete", True),
        ([Rule("alice", "all", "*"), Rule("alice", "publish", "topic:orders-eu", deny=True)], "publish", False),
        ([Rule("alice", "all", "*"), Rule("alice", "publish", "topic:orders-eu", deny=True)], "describe", True),
        ([Rule("alice", "publish", "topic:orders-eu"), Rule("alice", "all", "topic:o*", deny=True)], "publish", False),
    ],
)
def test_a_decision(rules: list[Rule], action: Action, allowed: bool) -> None:
    assert decide(rules, action, ORDERS).allowed is allowed
    assert decide(rules[::-1], action, ORDERS).allowed is allowed, "the order of rules does not matter"


def test_a_decision_names_its_rule() -> None:
    wide, narrow = Rule("alice", "all", "*"), Rule("alice", "publish", "topic:orders-eu", deny=True)
    assert decide([wide, narrow], "publish", ORDERS).rule == narrow
    assert decide([wide, narrow], "subscribe", ORDERS).rule == wide
    assert decide([narrow], "subscribe", ORDERS).rule is None
    assert str(narrow) == "alice deny publish topic:orders-eu"


def test_an_unknown_topic_needs_a_right_on_all_topics() -> None:
    unknown = topic_resource("")
    assert not decide([Rule("alice", "subscribe", "topic:orders")], "subscribe", unknown).allowed
    assert decide([Rule("alice", "subscribe", "topic:*")], "subscribe", unknown).allowed


def test_retry_topics_belong_to_their_group() -> None:
    assert topic_resource("%RETRY%billing") == Resource("group", "billing")
    assert topic_resource("%DLQ%billing") == Resource("group", "billing")


def test_topics_of_the_broker_itself_are_for_administrators() -> None:
    timers = topic_resource("%TIMERS%")
    actions: tuple[Action, ...] = ("subscribe", "publish", "describe")
    for action in actions:
        assert not decide([Rule("alice", "all", "topic:*")], action, timers).allowed
        assert decide([Rule("root", "all", "*")], action, timers).allowed
    retries = topic_resource("%RETRY%billing")
    assert retries == Resource("group", "billing")
    assert not decide([Rule("alice", "all", "topic:*")], "subscribe", retries).allowed


@pytest.mark.parametrize("text", ["topic:orders", "group:billing", "cluster"])
def test_resources_are_read_as_they_are_written(text: str) -> None:
    assert str(parse_resource(text)) == text


@pytest.mark.parametrize("text", ["", "topic", "topic:", "orders", "topic:a b", "cluster:x", "topic:*a", "*"])
def test_other_texts_are_no_resource(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no resource|a pattern"):
        parse_resource(text)


def test_actions_belong_to_kinds_of_resources() -> None:
    assert parse_action("read-log", CLUSTER) == "read-log"
    with pytest.raises(InvalidArgumentError, match="no action 'publish' on a cluster"):
        parse_action("publish", CLUSTER)
    with pytest.raises(InvalidArgumentError, match="no action 'publish' on group:billing"):
        validate_rule(Rule("alice", "publish", "group:billing"))
    validate_rule(Rule("alice", "publish", "*"))


@pytest.mark.parametrize("name", ["", "a b", "x" * 128, "a:b", "a\nb", "é"])
def test_other_texts_are_no_user_name(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="not a valid user name"):
        validate_user_name(name)


def test_a_verifier_hides_the_password() -> None:
    verifier = make_verifier("correct horse")
    validate_verifier(verifier)
    assert verifier.iterations == ITERATIONS
    assert verifier != make_verifier("correct horse"), "each verifier has its own salt"
    assert "horse" not in repr(verifier)
    with pytest.raises(InvalidArgumentError, match="8 to 1024 characters; this one has 5"):
        make_verifier("short")
