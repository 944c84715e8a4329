"""Numbers of a wrong type or size are refused where they are given, with a sentence that names them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ledger.client.checked_numbers import checked_number, checked_timeout, checked_whole
from ledgermq import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncGroupConsumer,
    AsyncProducer,
    AsyncPushConsumer,
    AsyncRequester,
    AsyncResponder,
    AsyncSharedConsumer,
)
from ledgermq.errors import InvalidArgumentError


def test_whole_numbers() -> None:
    assert [checked_whole("n", value, 1, 3) for value in (1, np.int64(2), 3)] == [1, 2, 3]
    assert type(checked_whole("n", np.int64(2), 1)) is int
    for wrong in (0, 4, 2.0, "2", None, True, math.nan, int):
        with pytest.raises(InvalidArgumentError) as refused:
            checked_whole("n", wrong, 1, 3)
        assert str(refused.value) == f"n is {wrong!r}: it must be a whole number from 1 to 3."


def test_numbers_with_a_fraction() -> None:
    assert [checked_number("n", value, 0, 3) for value in (0, 2.5, np.float32(1.5), np.int8(3))] == [0, 2.5, 1.5, 3]
    for wrong in (-0.1, 3.1, "2", None, True, math.nan, math.inf, int):
        with pytest.raises(InvalidArgumentError, match=r"^n is .*: it must be a number from 0 to 3\.$"):
            checked_number("n", wrong, 0, 3)
    with pytest.raises(InvalidArgumentError, match=r"^n is -1: it must be a number, at least 0\.$"):
        checked_number("n", -1, 0)


def test_time_limits() -> None:
    assert [checked_timeout(value) for value in (None, math.inf, 0, 2.5)] == [None, None, 0, 2.5]
    for wrong in (-1, "2", math.nan):
        with pytest.raises(InvalidArgumentError, match=r"^timeout_ms is .*: it must be a number, at least 0\.$"):
            checked_timeout(wrong)


HANDLER: Any = lambda message: None  # noqa: E731
CLIENTS: dict[str, Callable[..., Any]] = {
    "admin": AsyncAdmin,
    "producer": AsyncProducer,
    "consumer": lambda **given: AsyncConsumer("orders", **given),
    "group": lambda **given: AsyncGroupConsumer("orders", group="g", **given),
    "push": lambda **given: AsyncPushConsumer("orders", group="g", listener=HANDLER, **given),
    "shared": lambda **given: AsyncSharedConsumer("orders", group="g", **given),
    "requester": lambda **given: AsyncRequester(**given),
    "responder": lambda **given: AsyncResponder("orders", group="g", handler=HANDLER, **given),
}
SETTINGS = {
    "admin": ["request_timeout_ms"],
    "producer": ["linger_ms", "batch_bytes", "buffer_bytes", "delivery_timeout_ms", "request_timeout_ms"],
    "consumer": ["max_bytes", "max_wait_ms", "request_timeout_ms", "retry_backoff_ms", "node"],
    "group": ["acknowledge_interval_ms", "session_timeout_ms", "release_timeout_ms", "max_bytes", "max_attempts"],
    "push": ["concurrency", "suspend_ms", "consume_timeout_ms", "max_attempts"],
    "shared": ["lease_ms", "prefetch", "max_bytes", "request_timeout_ms"],
    "requester": ["max_in_flight", "request_timeout_ms"],
    "responder": ["handler_timeout_ms", "concurrency"],
}


@pytest.mark.parametrize(("client", "setting"), [(name, each) for name, all_of in SETTINGS.items() for each in all_of])
async def test_each_setting_of_a_client_is_checked(client: str, setting: str) -> None:
    for wrong in (-1, [7], math.nan):
        with pytest.raises(InvalidArgumentError, match=f"^{setting} is .*: it must be a"):
            CLIENTS[client](bootstrap_servers="127.0.0.1:1", **{setting: wrong})
