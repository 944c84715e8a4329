"""Tests of the rights on messages with delivery times: those on their target topics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ledger.access.rules import Resource, Rule
from ledger.batch import TimedColumn, encode
from ledger.broker.access.authorizer import Authorizer
from ledger.broker.access.callers import Caller
from ledger.broker.node_view import TopicRoutes
from ledger.broker.replicas import Replicas
from ledger.broker.rpc import topic_rights
from ledger.broker.rpc.topic_rights import TopicRights
from ledger.errors import PermissionDeniedError
from ledger.state import Topic
from ledger.timed import TIMED_TOPIC
from tests.ledger.broker.test_broker_rights import authorizer

ORDERS, WAITING, SECRET = 1, 2, 3
TOPICS = {
    topic_id: Topic(topic_id, name, (0,), 1, 1)
    for topic_id, name in ((ORDERS, "orders"), (WAITING, TIMED_TOPIC), (SECRET, "secret"))
}
MALLORY = Caller("mallory", 1)


@pytest.fixture
def judge() -> Authorizer:
    return authorizer(Rule("mallory", "publish", "topic:orders"))


@pytest.fixture
def rights(judge: Authorizer) -> TopicRights:
    return TopicRights(cast("Replicas", SimpleNamespace(topic=TOPICS.get)), judge)


def batch(topic_id: int, target: int | None = None) -> bytes:
    made: dict[str, Any] = {"producer_id": 9, "epoch": 0, "first_sequence": 0, "base_timestamp_ms": 0}
    timed = None if target is None else TimedColumn(target, 0, np.array([5], np.int64))
    return encode([b"x"], topic_id=topic_id, queue=0, timed=timed, **made)


@pytest.mark.parametrize("sent", [batch(ORDERS), batch(WAITING, ORDERS), batch(ORDERS, ORDERS)])
def test_the_right_on_the_target_is_enough(rights: TopicRights, sent: bytes) -> None:
    rights.check_batch(MALLORY, sent)


@pytest.mark.parametrize(
    "sent",
    [batch(SECRET), batch(WAITING, SECRET), batch(SECRET, ORDERS), batch(ORDERS, SECRET), batch(WAITING), batch(99),
     batch(WAITING, 99), batch(99, ORDERS), batch(WAITING, WAITING), b"", batch(WAITING, ORDERS)[:64]],
)  # fmt: skip
def test_without_the_right_on_the_target_a_batch_is_refused(rights: TopicRights, sent: bytes) -> None:
    with pytest.raises(PermissionDeniedError):
        rights.check_batch(MALLORY, sent)


def test_everybody_sees_where_messages_wait_and_nobody_may_read_there(
    judge: Authorizer, rights: TopicRights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_rights, "present_caller", lambda: MALLORY)
    seen = rights.visible(TopicRoutes(topics=tuple(TOPICS.values())))
    assert [topic.name for topic in seen.topics] == ["orders", TIMED_TOPIC]
    assert not judge.may(MALLORY, "subscribe", Resource("topic", TIMED_TOPIC))
