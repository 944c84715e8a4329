"""Tests the rules for topic names and numbers of queues at their limits."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.consumer_groups import validate_group_name
from ledger.errors import InvalidArgumentError, InvalidGroupNameError, InvalidTopicNameError
from ledger.timed import TIMED_TOPIC
from ledger.topics import (
    check_readable,
    is_system_topic,
    validate_queue_count,
    validate_replicas,
    validate_stored_name,
    validate_topic_name,
)
from ledger.transactions import HALF_TOPIC


@pytest.mark.parametrize("name", ["a", "orders", "A.b_c-9", "...", "-", "_", "x" * 127])
def test_names_that_users_may_choose(name: str) -> None:
    validate_topic_name(name)
    assert not is_system_topic(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x" * 128, "a b", "a/b", "ä", "a\n", "\n", "a\x00", "٣", "%", "%retry", "%" + "x" * 5000]
)
def test_names_that_users_may_not_choose(name: str) -> None:
    with pytest.raises(InvalidTopicNameError) as caught:
        validate_topic_name(name)
    assert len(caught.value.message) < 500


def test_a_reserved_name_is_told_as_such() -> None:
    assert is_system_topic("%retry")
    with pytest.raises(InvalidTopicNameError, match="reserved"):
        validate_topic_name("%retry")


def test_queue_counts() -> None:
    for queues in (1, 4, 1024):
        validate_queue_count(queues)
    for queues in (-1, 0, 1025):
        with pytest.raises(InvalidArgumentError, match=f"cannot have {queues} queues"):
            validate_queue_count(queues)


def test_a_name_that_is_too_long_is_told_both_numbers() -> None:
    with pytest.raises(InvalidTopicNameError, match=r"has 128 characters; the limit is 127\. Choose a shorter name"):
        validate_topic_name("x" * 128)
    with pytest.raises(InvalidGroupNameError, match=r"has 64 characters; the limit is 63\. Choose a shorter name"):
        validate_group_name("x" * 64)
    validate_group_name("x" * 63)


def test_no_client_reads_the_topics_in_which_messages_wait() -> None:
    for name in (TIMED_TOPIC, HALF_TOPIC):
        with pytest.raises(InvalidTopicNameError, match="is internal: its messages wait there"):
            check_readable(name)
    for name in ("orders", "%RETRY%billing", "%DLQ%billing"):
        check_readable(name)


def test_only_the_broker_can_create_the_topic_of_waiting_messages() -> None:
    assert is_system_topic(TIMED_TOPIC)
    validate_stored_name(TIMED_TOPIC)
    with pytest.raises(InvalidTopicNameError, match="reserved"):
        validate_topic_name(TIMED_TOPIC)
    for name in ("%TIMED2", "%timed", "%TIMED%"):
        with pytest.raises(InvalidTopicNameError):
            validate_stored_name(name)


@pytest.mark.parametrize("wrong", ["4", None, 2.5, [4]])
def test_numbers_of_a_wrong_type_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^A topic cannot have .* queues: choose 1 to 1024\.$"):
        validate_queue_count(wrong)
    with pytest.raises(InvalidArgumentError, match=r"^A shard cannot have .* replicas: choose 1 to 9\.$"):
        validate_replicas(wrong)
