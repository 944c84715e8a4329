"""Tests the checks of arguments and settings that a producer makes before it sends anything."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from ledger.client.consumer.tags import wanted_tags
from ledger.client.producer.arguments import (
    check_extras,
    check_settings,
    checked_headers,
    checked_key,
    checked_look_up_keys,
    checked_queue,
    checked_tag,
    checked_timestamp,
    checked_value,
    stored_tag,
)
from ledger.errors import HeadersTooLargeError, InvalidArgumentError, MessageTooLargeError, TooManyHeadersError


def test_what_is_right_comes_back_in_one_form() -> None:
    assert checked_value(b"", 4) == b""
    assert checked_value(b"12345", 0) == b"12345"
    assert checked_key("é") == "é".encode()
    assert checked_key(b"") == b""
    assert checked_look_up_keys(["é", b"", "é"]) == ("é".encode(), b"")
    assert checked_look_up_keys(str(number % 16) for number in range(99)) == tuple(b"%d" % i for i in range(16))
    assert checked_look_up_keys(None) == ()
    assert checked_tag("t") == "t"
    assert checked_headers({"a": b"1"}) == (("a", b"1"),)
    assert checked_headers([("a", b"1"), ("a", b"2")]) == (("a", b"1"), ("a", b"2"))
    assert checked_headers({"a": "ä", "b": b"1"}) == (("a", "ä".encode()), ("b", b"1"))
    assert checked_headers([]) is None
    assert checked_timestamp(0) == 0


def test_a_value_is_bytes_within_the_limit() -> None:
    with pytest.raises(InvalidArgumentError, match="encode it first"):
        checked_value("text", 0)
    with pytest.raises(InvalidArgumentError, match="not list: convert it, or give the producer a `serializer`"):
        checked_value([1], 0)
    copied = checked_value(memoryview(bytearray(b"xyz"))[1:], 0)
    assert (type(copied), copied) == (bytes, b"yz")
    with pytest.raises(MessageTooLargeError):
        checked_value(b"12345", 4)


@pytest.mark.parametrize("key", [5, "\ud800", ["k"]])
def test_a_wrong_key(key: str) -> None:
    with pytest.raises(InvalidArgumentError, match="key"):
        checked_key(key)


@pytest.mark.parametrize("queue", [-1, "1", 1.0, np.int64(-1), True, False, int])
def test_a_wrong_queue(queue: object) -> None:
    with pytest.raises(InvalidArgumentError, match="queue must be a number from 0"):
        checked_queue(queue)
    assert checked_queue(np.int64(3)) == 3


@pytest.mark.parametrize("tag", ["", b"t", "\ud800"])
def test_a_wrong_tag(tag: str) -> None:
    with pytest.raises(InvalidArgumentError, match="tag"):
        checked_tag(tag)


@pytest.mark.parametrize("tag", ["a||b", "||", "*", " paid", "paid ", "\n"])
def test_a_tag_that_no_tag_expression_can_select(tag: str) -> None:
    with suppress(InvalidArgumentError):
        assert tag not in (wanted_tags(f"{tag} || other") or ())
    with pytest.raises(InvalidArgumentError) as refused:
        checked_tag(tag)
    assert str(refused.value).startswith(f"A message's tag cannot be {tag!r}, because no consumer could ask for it")


@pytest.mark.parametrize("tag", ["a||b", "*", " paid"])
def test_a_tag_of_a_stored_message_is_sent_on(tag: str) -> None:
    """Clients of RocketMQ, and older versions, could send it: a mirror and a redrive of dead letters copy it."""
    assert checked_tag(stored_tag(tag)) == tag
    assert stored_tag(None) is None


@pytest.mark.parametrize("tag", ["a|b", "a * b", "paid today", "a\0b"])
def test_a_tag_that_a_tag_expression_can_select(tag: str) -> None:
    assert wanted_tags(f"{tag} || other") == frozenset((tag, "other"))
    assert checked_tag(tag) == tag


@pytest.mark.parametrize(
    "headers", [["ab"], 5, "", b"", False, [1], [("a",)], [("a", 1)], {b"a": b"b"}, [("\ud800", b"")]]
)
def test_wrong_headers(headers: list[tuple[str, bytes]]) -> None:
    with pytest.raises(InvalidArgumentError, match="header"):
        checked_headers(headers)


@pytest.mark.parametrize("timestamp", [-1, 1 << 62, 1.5, True, False, int])
def test_a_wrong_timestamp(timestamp: int) -> None:
    with pytest.raises(InvalidArgumentError, match="timestamp_ms"):
        checked_timestamp(timestamp)


def test_what_goes_beside_the_value_is_limited() -> None:
    check_extras(b"k", "t", (("h", b"v"),))
    with pytest.raises(MessageTooLargeError, match="Keys, tag and headers"):
        check_extras(b"k", None, (("h", bytes(1 << 20)),))


@pytest.mark.parametrize(
    ("name", "value"), [("linger_ms", -1), ("batch_bytes", 0), ("batch_bytes", 5 << 20), ("retry_backoff_ms", 0)]
)
def test_a_setting_beyond_its_limits_is_named(name: str, value: float) -> None:
    settings = {
        "linger_ms": 5,
        "batch_bytes": 1000,
        "buffer_bytes": 1000,
        "delivery_timeout_ms": 1000,
        "request_timeout_ms": 1000,
        "retry_backoff_ms": 20,
    }
    check_settings(**settings)
    with pytest.raises(InvalidArgumentError, match=name):
        check_settings(**{**settings, name: value})  # type: ignore[arg-type]


def test_headers_have_their_limits() -> None:
    assert checked_headers([("", b"")] * 128) is not None
    with pytest.raises(TooManyHeadersError, match=r"129 headers; the limit is 128\. Combine"):
        checked_headers([("", b"")] * 129)
    assert checked_headers([("\u00e9", bytes(16 * 1024 - 2))]) is not None
    with pytest.raises(HeadersTooLargeError, match=r"16385 bytes; the limit is 16384\. Put"):
        checked_headers({"\u00e9": bytes(16 * 1024 - 1)})


@pytest.mark.parametrize("keys", ["order-17", b"order-17", 5, [5], ["\ud800"], [None], [str(i) for i in range(17)]])
def test_wrong_look_up_keys(keys: list[str]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"look.up.key"):
        checked_look_up_keys(keys)


def test_look_up_keys_count_in_the_size_of_a_message() -> None:
    with pytest.raises(MessageTooLargeError, match="Keys, tag and headers of a message have 1048588 bytes"):
        check_extras(None, None, None, (bytes(1024 * 1024),))
