"""Tests of the messages that RocketMQ consumers get."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from ledger.client.records import Message
from ledger.client.transactions.records import PreparedMessage
from ledger.rocketmq.incoming_message import FrontDelivery, incoming_message
from ledger.rocketmq.orphan_checks import prepared_message
from ledger.rocketmq.outgoing_message import FrontLimits, outgoing_message
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.timed import DELIVER_AT

TOPIC = pb.Resource(resource_namespace="n", name="orders")


def stored(**given: Any) -> Message[bytes]:
    fields: dict[str, Any] = {
        "topic": "orders",
        "queue": 2,
        "offset": 9,
        "timestamp_ms": 1_000,
        "append_time_ms": 2_000,
        "key": None,
        "value": b"hello",
        "tag": None,
        "headers": (),
        "term": 1,
    }
    return Message(**{**fields, **given})


def test_a_message_comes_back_as_it_was_sent() -> None:
    sent = pb.Message(topic=TOPIC, body=b"hello", user_properties={"colour": "red"})
    system = sent.system_properties
    system.message_id, system.tag, system.born_host, system.body_encoding = "01AB", "paid", "host", pb.GZIP
    system.keys.extend(f"key {number}" for number in range(20))
    system.trace_context = "trace"
    system.born_timestamp.FromMilliseconds(1_000)
    checked = outgoing_message(sent, "orders", FrontLimits(), 0)
    kept = stored(
        tag=checked.tag,
        headers=checked.headers,
        look_up_keys=tuple(key.encode() for key in checked.look_up_keys),
        timestamp_ms=checked.timestamp_ms,
    )
    found = incoming_message(kept, TOPIC, FrontDelivery(3, "handle", 30_000))
    got = found.system_properties
    assert (found.topic, found.body, dict(found.user_properties)) == (TOPIC, b"hello", {"colour": "red"})
    assert (got.message_id, got.tag, got.born_host, got.body_encoding) == ("01AB", "paid", "host", pb.GZIP)
    assert (list(got.keys), got.trace_context) == (list(system.keys), "trace")
    assert got.born_timestamp == system.born_timestamp
    assert (got.queue_id, got.queue_offset, got.store_timestamp.ToMilliseconds()) == (2, 9, 2_000)
    assert (got.delivery_attempt, got.receipt_handle, got.invisible_duration.seconds) == (3, "handle", 30)
    assert (got.body_digest.type, got.body_digest.checksum) == (pb.MD5, hashlib.md5(b"hello").hexdigest().upper())
    assert got.message_type == pb.NORMAL


def test_a_property_may_have_the_name_of_a_reserved_header() -> None:
    properties = {"%": "a", "%%": "b", "%MESSAGE_ID": "c", "%TYPE": "d", "名": "e"}
    sent = pb.Message(topic=TOPIC, body=b"hello", user_properties=properties)
    sent.system_properties.message_id = "01AB"
    kept = stored(headers=outgoing_message(sent, "orders", FrontLimits(), 0).headers)
    found = incoming_message(kept, TOPIC, None)
    assert dict(found.user_properties) == properties
    assert (found.system_properties.message_id, found.system_properties.message_type) == ("01AB", pb.NORMAL)


def test_a_message_of_a_native_client_has_its_id_and_its_key() -> None:
    found = incoming_message(stored(key=b"customer 7", headers=(("a", b"b"),)), TOPIC, None).system_properties
    assert (found.message_id, found.message_group, list(found.keys)) == ("orders:2:9", "customer 7", ["customer 7"])
    assert found.message_type == pb.FIFO
    assert not found.HasField("receipt_handle")


def test_a_message_that_waited_tells_its_delivery_time() -> None:
    found = incoming_message(stored(headers=((DELIVER_AT, b"1500"),)), TOPIC, None).system_properties
    assert (found.message_type, found.delivery_timestamp.ToMilliseconds()) == (pb.DELAY, 1_500)


def test_a_dead_letter_tells_where_it_comes_from() -> None:
    moved = stored(topic="%DLQ%billing", headers=(("%ORIGIN", b"orders:1:5"), ("%MESSAGE_ID", b"01AB")))
    found = incoming_message(moved, pb.Resource(name="%DLQ%billing"), None)
    assert found.system_properties.dead_letter_queue == pb.DeadLetterQueue(topic="orders", message_id="01AB")
    assert not found.user_properties


def test_bytes_that_are_no_text_do_no_harm() -> None:
    found = incoming_message(stored(key=b"\xff", headers=(("a", b"\xff"), ("%TYPE", b"\xff"))), TOPIC, None)
    assert found.SerializeToString()


@pytest.mark.parametrize("ms", [-(1 << 63), -1, 1 << 61, (1 << 63) - 1])
def test_a_message_with_a_timestamp_of_no_date_is_handed_out(ms: int) -> None:
    found = incoming_message(stored(timestamp_ms=ms, append_time_ms=ms), TOPIC, None).system_properties
    dated = max(ms, -62_135_596_800_000) if ms < 0 else 253_402_300_799_999
    assert (found.born_timestamp.ToMilliseconds(), found.store_timestamp.ToMilliseconds()) == (dated, dated)


def test_the_producer_of_a_transaction_is_asked_about_a_message_with_a_timestamp_of_no_date() -> None:
    half = PreparedMessage("orders", 2, b"hello", None, None, (), 1 << 61)
    assert prepared_message(half, "orders").system_properties.born_timestamp.ToDatetime().year == 9999


def test_the_producer_of_a_transaction_is_asked_with_all_keys() -> None:
    half = PreparedMessage("orders", 2, b"hello", None, "tag", (), 5, (b"k1", b"k2"))
    system = prepared_message(half, "orders").system_properties
    assert (list(system.keys), system.tag, system.delivery_attempt) == (["k1", "k2"], "tag", 1)


def test_the_keys_of_a_message_of_an_earlier_version_are_separated_by_spaces() -> None:
    found = incoming_message(stored(headers=(("%KEYS", b"k1 k2"),)), TOPIC, None)
    assert list(found.system_properties.keys) == ["k1", "k2"]


@pytest.mark.parametrize("priority", [-1, 0, 3, (1 << 31) - 1, -(1 << 31)])
def test_a_priority_is_handed_out_as_it_was_sent(priority: int) -> None:
    found = incoming_message(stored(headers=(("%PRIORITY", b"%d" % priority),)), TOPIC, None).system_properties
    assert (found.HasField("priority"), found.priority) == (True, priority)


@pytest.mark.parametrize("forged", [b"", b"high", b"99999999999", b"2147483648", b"1_0"])
def test_a_native_header_that_is_no_priority_is_left_out(forged: bytes) -> None:
    found = incoming_message(stored(headers=(("%PRIORITY", forged),)), TOPIC, None).system_properties
    assert not found.HasField("priority")
