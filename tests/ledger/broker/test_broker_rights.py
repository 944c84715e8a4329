"""Tests of the rights that methods need, and of the decisions that a node keeps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from ledger.access.rules import CLUSTER, MAX_NAME_LENGTH, Resource, Rule
from ledger.broker.access.authorizer import Authorizer
from ledger.broker.access.callers import Caller
from ledger.broker.replicas import Replicas
from ledger.broker.rpc.rights import NEEDED, Right
from ledger.state.access_table import AccessTable, User
from ledger.v1 import consumer_group_pb2

NAMES = {3: "orders", 4: "%RETRY%billing"}
OF_GROUP = Right("subscribe", Resource("group", "billing"))


def needed(method: str, request: Any) -> list[Right]:
    return list(NEEDED[method].rights(request, lambda topic_id: NAMES.get(topic_id, "")))


def test_a_move_needs_the_right_on_the_topic_that_it_copies_from() -> None:
    """Before, a user with the right on the group alone copied messages of every topic that the group consumes to the
    group's dead letters, and read them there."""
    request = consumer_group_pb2.MoveRequest(consumer_group="billing", topic_id=3)
    rights = needed("/ledger.v1.ConsumerGroups/Move", request)
    assert rights == [OF_GROUP, Right("subscribe", Resource("topic", "orders"), 3)]


def test_a_move_from_a_retry_topic_needs_the_right_on_the_group() -> None:
    request = consumer_group_pb2.MoveRequest(consumer_group="billing", topic_id=4)
    assert needed("/ledger.v1.ConsumerGroups/Move", request)[1].resource == Resource("group", "billing")


def test_join_needs_the_right_on_all_topics_that_it_names() -> None:
    request = consumer_group_pb2.JoinRequest(consumer_group="billing")
    request.configured.add(topic_id=3)
    request.subscriptions.add(topic_id=4)
    resources = {right.resource for right in needed("/ledger.v1.ConsumerGroups/Join", request)}
    assert resources == {Resource("group", "billing"), Resource("topic", "orders")}


def authorizer(*rules: Rule) -> Authorizer:
    access = AccessTable()
    access.put(User("mallory", None, 1), rules)
    replica = SimpleNamespace(state=SimpleNamespace(access=access), knows_the_end=True)
    replicas = SimpleNamespace(topics=replica, first=replica)
    return Authorizer(cast("Replicas", replicas), now_ms=lambda: 0, monotonic_ms=lambda: 0.0)


def test_the_decisions_that_a_node_keeps_have_short_names() -> None:
    """Before, 100 calls of a user without rights that named topics of 3 MiB made a node grow by 680 MB."""
    judge, caller = authorizer(Rule("mallory", "publish", "topic:ab*")), Caller("mallory", 1)
    long = "b" * 1_000_000
    assert judge.may(caller, "publish", Resource("topic", "a" + long))
    assert not judge.may(caller, "publish", Resource("topic", long))
    assert not judge.may(caller, "administer", CLUSTER)
    assert max(len(resource.name) for _, _, resource in judge._decided) == MAX_NAME_LENGTH + 1
