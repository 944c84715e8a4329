"""Tests at which offsets a consumer group may begin. The queue of these tests has the offsets 10 to 19."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.consumed_offsets import check_offset, start_offset
from ledger.broker.shared.group_receives import queues_of
from ledger.broker.shared.members import SharedTopic
from ledger.consumer_groups import AT_THE_FIRST, BEHIND_THE_LAST
from ledger.errors import (
    InvalidArgumentError,
    InvalidTopicNameError,
    OffsetBeyondEndError,
    OffsetTooLowError,
    UnknownTopicError,
)
from ledger.state import TopicQueueId
from ledger.timed import TIMED_TOPIC
from ledger.transactions import HALF_TOPIC

FIRST, END = 10, 20
NAMES = {1: "orders", 3: TIMED_TOPIC, 4: HALF_TOPIC}


def require(topic_id: int, queue: int) -> Any:
    if topic_id not in NAMES or queue:
        raise UnknownTopicError("no such topic")
    return SimpleNamespace(name=NAMES[topic_id])


REPLICA = cast(
    BrokerReplica,
    SimpleNamespace(
        state=SimpleNamespace(topics=SimpleNamespace(require=require), next_offset=lambda _, __: END),
        queues=SimpleNamespace(get=lambda _, __: SimpleNamespace(first_offset=FIRST)),
    ),
)


@pytest.mark.parametrize(
    ("wanted", "start"), [(AT_THE_FIRST, FIRST), (BEHIND_THE_LAST, END), (0, 0), (15, 15), (99, 99)]
)
def test_the_start_is_an_offset_or_an_end_of_the_queue(wanted: int, start: int) -> None:
    assert start_offset(REPLICA, 1, 0, wanted) == start


def test_another_negative_number_is_no_start() -> None:
    with pytest.raises(InvalidArgumentError, match="-9 cannot be a start offset"):
        start_offset(REPLICA, 1, 0, -9)


@pytest.mark.parametrize("offset", [FIRST, 15, END])
def test_offsets_from_the_first_to_the_end_may_be_set(offset: int) -> None:
    check_offset(REPLICA, 1, 0, offset)


@pytest.mark.parametrize(("offset", "error"), [(FIRST - 1, OffsetTooLowError), (END + 1, OffsetBeyondEndError)])
def test_offsets_outside_of_the_queue_are_refused_with_its_ends(offset: int, error: type[Exception]) -> None:
    with pytest.raises(error, match="cannot begin at offset") as raised:
        check_offset(REPLICA, 1, 0, offset)
    assert (cast(Any, raised.value).first_offset, cast(Any, raised.value).end_offset) == (FIRST, END)


def test_an_unknown_topic_is_refused_by_both() -> None:
    for check in (start_offset, check_offset):
        with pytest.raises(UnknownTopicError):
            check(REPLICA, 2, 0, 15)


@pytest.mark.parametrize("topic_id", [3, 4])
def test_no_group_begins_with_a_topic_in_which_messages_wait(topic_id: int) -> None:
    with pytest.raises(InvalidTopicNameError, match="is internal: its messages wait there"):
        start_offset(REPLICA, topic_id, 0, 0)


def test_no_shared_group_reads_a_topic_in_which_messages_wait() -> None:
    topics = {topic_id: SimpleNamespace(name=name, shards=(0, 1, 0)) for topic_id, name in NAMES.items()}
    replica = cast(BrokerReplica, SimpleNamespace(shard=0, state=SimpleNamespace(topics=topics)))
    wanted = {topic_id: SharedTopic(topic_id, None, 0) for topic_id in (*NAMES, 99)}
    assert [queue for queue, _ in queues_of(replica, wanted)] == [TopicQueueId(1, 0), TopicQueueId(1, 2)]
