"""Tests which shards a producer avoids after slow answers or failures, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.client.producer.fault_table import ROCKETMQ, FaultTable, checked_steps
from ledger.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("latency_ms", "for_ms"),
    [
        *((0, 0), (49, 0), (50, 0), (549, 0), (550, 2_000), (1_800, 5_000), (2_999, 5_000), (3_000, 6_000)),
        *((5_000, 10_000), (14_999, 10_000), (15_000, 30_000), (1e9, 30_000)),
    ],
)
def test_a_slow_shard_is_passed_over_for_as_long_as_rocketmqs_table_says(latency_ms: float, for_ms: float) -> None:
    table = FaultTable(ROCKETMQ)
    table.answered(3, latency_ms, 1_000)
    assert table.is_available(3, 1_000) == (for_ms == 0)
    assert table.is_available(3, 1_000 + for_ms)
    assert not for_ms or not table.is_available(3, 999 + for_ms)
    assert table.is_available(4, 1_000)


def test_a_failure_counts_as_ten_seconds() -> None:
    table = FaultTable(ROCKETMQ)
    table.failed(3, 0)
    assert not table.is_available(3, 9_999)
    assert table.is_available(3, 10_000)


def test_the_newest_answer_counts() -> None:
    table = FaultTable(ROCKETMQ)
    table.failed(3, 0)
    table.answered(3, 20, 1)
    assert table.is_available(3, 1)


def test_to_wait_for_an_answer_counts_only_once_it_is_long() -> None:
    table = FaultTable(ROCKETMQ)
    table.answered(3, 5_000, 0)
    table.waits(3, 100, 1)
    assert not table.is_available(3, 9_999)
    table.waits(4, 600, 0)
    assert not table.is_available(4, 1_999)


def test_another_leader_is_not_blamed_for_the_last_one() -> None:
    table = FaultTable(ROCKETMQ)
    table.failed(3, 0)
    table.forget(3)
    assert table.is_available(3, 0)


def test_without_a_table_nothing_is_passed_over() -> None:
    table = FaultTable(checked_steps(False))
    table.failed(3, 0)
    assert table.is_available(3, 0)


def test_the_setting_is_a_switch_or_a_table() -> None:
    assert checked_steps(True) == ROCKETMQ
    assert checked_steps([(10, 20), (30, 40)]) == ((10, 20), (30, 40))


@pytest.mark.parametrize(
    "wrong", ["yes", 5, [(1, 2, 3)], [(1,)], [("a", 1)], [(5, 1), (5, 1)], [(-1, 1)], [(1, float("inf"))], [(1, -1)]]
)
def test_another_setting_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="latency_faults is"):
        checked_steps(wrong)
