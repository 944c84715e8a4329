"""Tests of the rights on messages of transactions: those on their target topics and on their producer group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from ledger.access.rules import Rule
from ledger.batch import HalfColumn, encode
from ledger.broker.access.callers import Caller
from ledger.broker.replicas import Replicas
from ledger.broker.rpc.topic_rights import TopicRights
from ledger.errors import PermissionDeniedError
from ledger.state import Topic
from ledger.transactions import HALF_TOPIC
from tests.ledger.broker.test_broker_rights import authorizer

ORDERS, HALF, SECRET = 1, 2, 3
TOPICS = {
    topic_id: Topic(topic_id, name, (0,), 1, 1)
    for topic_id, name in ((ORDERS, "orders"), (HALF, HALF_TOPIC), (SECRET, "secret"))
}
MALLORY = Caller("mallory", 1)


@pytest.fixture
def rights() -> TopicRights:
    judge = authorizer(
        Rule("mallory", "publish", "topic:orders"),
        Rule("mallory", "subscribe", "group:checkout"),
    )
    return TopicRights(cast("Replicas", SimpleNamespace(topic=TOPICS.get, first=None)), judge)


def batch(topic_id: int, target: int, group: str = "checkout") -> bytes:
    return encode(
        [b"x"], topic_id=topic_id, queue=0, producer_id=9, epoch=0, first_sequence=0, base_timestamp_ms=0,
        half=HalfColumn(target, 0, 0, group),
    )  # fmt: skip


def test_the_rights_on_the_target_and_on_the_group_are_enough(rights: TopicRights) -> None:
    rights.check_batch(MALLORY, batch(HALF, ORDERS))


@pytest.mark.parametrize(
    "sent",
    [batch(HALF, SECRET), batch(HALF, HALF), batch(HALF, 99), batch(SECRET, ORDERS), batch(HALF, ORDERS, "other"),
     batch(HALF, ORDERS)[:100]],
)  # fmt: skip
def test_without_one_of_these_rights_a_batch_is_refused(rights: TopicRights, sent: bytes) -> None:
    with pytest.raises(PermissionDeniedError):
        rights.check_batch(MALLORY, sent)
