"""Tests which delivery times a producer accepts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from ledger.client.producer.delivery_times import checked_delivery_ms
from ledger.client.producer.outgoing import OutgoingColumns, OutgoingMessage, columns_of
from ledger.errors import InvalidArgumentError

NOW_MS = 1_800_000_000_000
NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)
DAYS_40 = timedelta(days=40)


@pytest.mark.parametrize(
    ("deliver_at", "delay", "expected"),
    [
        (None, None, None),
        (NOW, None, NOW_MS),
        (NOW.astimezone(timezone(timedelta(hours=5, minutes=30))), None, NOW_MS),
        (NOW + timedelta(microseconds=1), None, NOW_MS + 1),
        (NOW - timedelta(microseconds=1), None, NOW_MS),
        (datetime(1970, 1, 1, tzinfo=UTC), None, 0),
        (None, timedelta(minutes=10), NOW_MS + 600_000),
        (None, timedelta(microseconds=1500), NOW_MS + 2),
        (None, timedelta(0), NOW_MS),
        (None, -timedelta(hours=1), NOW_MS - 3_600_000),
        (NOW + DAYS_40, None, NOW_MS + 40 * 86_400_000),
        (None, DAYS_40, NOW_MS + 40 * 86_400_000),
    ],
)
def test_accepted(deliver_at: datetime | None, delay: timedelta | None, expected: int | None) -> None:
    assert checked_delivery_ms(deliver_at, delay, NOW_MS) == expected


REFUSED: list[tuple[Any, Any, str]] = [
    (NOW, timedelta(0), "`deliver_at` or `delay`, not both"),
    (NOW.replace(tzinfo=None), None, r"no time zone \(2027-01-15T08:00:00\).*datetime.now\(timezone.utc\)"),
    (NOW_MS, None, "`deliver_at` must be a datetime"),
    ("tomorrow", None, "`deliver_at` must be a datetime"),
    (None, 10, "`delay` must be a timedelta"),
    (NOW + DAYS_40 + timedelta(microseconds=1), None, r"40\.0 days ahead; the limit is 40 days"),
    (None, timedelta(days=60), r"60\.0 days ahead; the limit is 40 days"),
    (None, timedelta.max, "days ahead; the limit is 40 days"),
    (datetime.max.replace(tzinfo=UTC), None, "days ahead; the limit is 40 days"),
    (datetime(1969, 12, 31, tzinfo=UTC), None, "is before 1970: give a later time"),
    (None, timedelta.min, "is before 1970: give a later time"),
]


@pytest.mark.parametrize(("deliver_at", "delay", "sentence"), REFUSED)
def test_refused(deliver_at: Any, delay: Any, sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        checked_delivery_ms(deliver_at, delay, NOW_MS)
    with pytest.raises(InvalidArgumentError, match=sentence):
        columns([OutgoingMessage(b"x", deliver_at=deliver_at, delay=delay)])


def columns(messages: list[Any], deliver_at_ms: int | None = None) -> OutgoingColumns:
    return columns_of(messages, 1000, key=None, tag=None, queue=None, deliver_at_ms=deliver_at_ms, now_ms=NOW_MS)


def test_a_message_of_a_list_has_its_own_time_or_that_of_the_call() -> None:
    messages = [b"plain", ("k", b"pair"), OutgoingMessage(b"own", delay=timedelta(seconds=1))]
    assert columns(messages).delivery_times_ms == [None, None, NOW_MS + 1000]
    assert columns(messages, 7).delivery_times_ms == [7, 7, NOW_MS + 1000]
    assert columns([("k", b"pair")], 7).delivery_times_ms == [7]
    assert columns(messages[:2]).delivery_times_ms is None
