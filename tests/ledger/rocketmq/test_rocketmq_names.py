"""Tests of the names of topics and groups that RocketMQ clients use."""

from __future__ import annotations

import pytest

from ledger.consumer_groups import validate_group_name
from ledger.rocketmq.names import group_of, producer_group_of, topic_of
from ledger.rocketmq.refusals import FrontRefusal
from ledger.rocketmq.v2 import definition_pb2 as pb


@pytest.mark.parametrize("name", ["orders", "A-b_9", "x" * 127, "%RETRY%x"])
def test_a_topic_has_the_same_name_in_the_cluster(name: str) -> None:
    assert topic_of(pb.Resource(name=name)) == name


@pytest.mark.parametrize("name", ["", "a b", "a.b", "é", "x" * 128, "TBW102", "rmq_sys_x"])
def test_a_name_that_is_none_of_a_topic_is_refused(name: str) -> None:
    with pytest.raises(FrontRefusal) as refused:
        topic_of(pb.Resource(name=name))
    assert refused.value.code == pb.ILLEGAL_TOPIC


@pytest.mark.parametrize("name", ["", "a b", "x" * 121, "CID_RMQ_SYS_x"])
def test_a_name_that_is_none_of_a_group_is_refused(name: str) -> None:
    with pytest.raises(FrontRefusal) as refused:
        group_of(pb.Resource(name=name))
    assert refused.value.code == pb.ILLEGAL_CONSUMER_GROUP


def test_a_long_or_strange_name_of_a_group_becomes_one_of_the_cluster() -> None:
    assert group_of(pb.Resource(name="billing")) == "billing"
    names = ["x" * 64, "x" * 120, "a%b", "a|b", "x" * 63]
    found = [group_of(pb.Resource(name=name)) for name in names]
    assert len(set(found)) == len(names)
    for name in [*found, producer_group_of("x" * 127), producer_group_of("orders")]:
        validate_group_name(name)


def test_dead_letters_of_a_group_with_a_long_name_are_found() -> None:
    group = "x" * 100
    assert topic_of(pb.Resource(name=f"%DLQ%{group}")) == f"%DLQ%{group_of(pb.Resource(name=group))}"
