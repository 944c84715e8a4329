"""Tests of the rules for messages that RocketMQ clients send, and of what becomes of their properties."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

import pytest

from ledger.rocketmq.outgoing_message import FrontLimits, outgoing_message
from ledger.rocketmq.refusals import FrontRefusal
from ledger.rocketmq.v2 import definition_pb2 as pb

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


def message(body: bytes = b"hello", properties: dict[str, str] | None = None, **system: Any) -> pb.Message:
    given = {"message_id": "01AB", **system}
    return pb.Message(
        topic=pb.Resource(name="orders"),
        body=body,
        user_properties=properties or {},
        system_properties=pb.SystemProperties(**given),
    )


def checked(sent: pb.Message) -> Any:
    return outgoing_message(sent, "orders", FrontLimits(), NOW_MS)


def code_of(sent: pb.Message) -> str:
    with pytest.raises(FrontRefusal) as refused:
        checked(sent)
    return pb.Code.Name(refused.value.code)


def test_properties_become_those_of_the_cluster() -> None:
    sent = message(
        properties={"colour": "red"},
        tag="paid",
        keys=["k1", "k2"],
        message_group="customer 7",
        born_host="host",
        body_encoding=pb.GZIP,
        trace_context="t",
        message_type=pb.FIFO,
    )
    sent.system_properties.born_timestamp.FromMilliseconds(1234)
    found = checked(sent)
    assert (found.key, found.tag, found.look_up_keys, found.value) == ("customer 7", "paid", ("k1", "k2"), b"hello")
    assert found.timestamp_ms == 1234
    assert dict(found.headers) == {
        "colour": b"red",
        "%MESSAGE_ID": b"01AB",
        "%TYPE": b"FIFO",
        "%BORN_HOST": b"host",
        "%ENCODING": b"GZIP",
        "%TRACE": b"t",
    }


def test_all_keys_are_kept_also_if_the_cluster_finds_the_message_by_fewer() -> None:
    found = checked(message(keys=[f"k{number}" for number in range(20)]))
    assert len(found.look_up_keys) == 16
    assert dict(found.headers)["%KEYS"].split(b"\x01") == [b"k%d" % number for number in range(20)]


def test_a_message_without_a_born_time_has_the_present_time() -> None:
    assert checked(message()).timestamp_ms == NOW_MS


def test_the_type_follows_from_the_properties() -> None:
    timed = message(message_type=pb.NORMAL)
    timed.system_properties.delivery_timestamp.FromMilliseconds(NOW_MS + HOUR_MS)
    assert (checked(timed).type, checked(timed).deliver_at_ms) == (pb.DELAY, NOW_MS + HOUR_MS)
    assert checked(message(message_group="g", message_type=pb.NORMAL)).type == pb.FIFO
    assert checked(message(message_type=pb.TRANSACTION)).type == pb.TRANSACTION
    assert checked(message(priority=3)).type == pb.PRIORITY
    assert checked(message()).type == pb.NORMAL


def test_properties_of_two_types_are_refused() -> None:
    assert code_of(message(message_group="g", message_type=pb.TRANSACTION)) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (message(body=b""), "MESSAGE_BODY_EMPTY"),
        (message(body=bytes((4 << 20) + 1)), "MESSAGE_BODY_TOO_LARGE"),
        (message(message_id=" "), "ILLEGAL_MESSAGE_ID"),
        (message(tag=" "), "ILLEGAL_MESSAGE_TAG"),
        (message(tag="a|b"), "ILLEGAL_MESSAGE_TAG"),
        (message(tag="a\nb"), "ILLEGAL_MESSAGE_TAG"),
        (message(keys=["a", ""]), "ILLEGAL_MESSAGE_KEY"),
        (message(message_group=""), "ILLEGAL_MESSAGE_GROUP"),
        (message(message_group="g" * 64), "ILLEGAL_MESSAGE_GROUP"),
        (message(properties={"KEYS": "x"}), "ILLEGAL_MESSAGE_PROPERTY_KEY"),
        (message(properties={"\x01%MESSAGE_ID": "x"}), "ILLEGAL_MESSAGE_PROPERTY_KEY"),
        (message(properties={"": "x"}), "ILLEGAL_MESSAGE_PROPERTY_KEY"),
        (message(properties={"a": "\x01"}), "ILLEGAL_MESSAGE_PROPERTY_KEY"),
        (message(properties={str(number): "" for number in range(129)}), "MESSAGE_PROPERTIES_TOO_LARGE"),
        (message(properties={"a": "x" * (16 << 10)}), "MESSAGE_PROPERTIES_TOO_LARGE"),
        (message(body_encoding=7), "MESSAGE_CORRUPTED"),
        (message(lite_topic="x"), "ILLEGAL_LITE_TOPIC"),
        (message(body_digest=pb.Digest(type=pb.MD5, checksum="00")), "MESSAGE_CORRUPTED"),
    ],
)
def test_a_message_against_the_rules_is_refused(sent: pb.Message, code: str) -> None:
    assert code_of(sent) == code


def test_a_message_at_the_limits_is_accepted() -> None:
    assert checked(message(body=bytes(4 << 20)))
    assert checked(message(properties={str(number): "" for number in range(128)}))
    assert checked(message(message_group="g" * 63))


def test_a_delivery_time_beyond_the_limit_is_refused() -> None:
    sent = message()
    sent.system_properties.delivery_timestamp.FromMilliseconds(NOW_MS + 24 * HOUR_MS + 1)
    assert code_of(sent) == "ILLEGAL_DELIVERY_TIME"
    sent.system_properties.delivery_timestamp.FromMilliseconds(NOW_MS + 24 * HOUR_MS)
    assert checked(sent)
    sent.system_properties.delivery_timestamp.seconds = -1
    assert code_of(sent) == "ILLEGAL_DELIVERY_TIME"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pb.MD5, hashlib.md5(b"hello").hexdigest()),
        (pb.SHA1, hashlib.sha1(b"hello").hexdigest().upper()),
        (pb.CRC32, f"{zlib.crc32(b'hello'):08x}"),
        (pb.DIGEST_TYPE_UNSPECIFIED, "whatever"),
    ],
)
def test_a_right_digest_is_accepted(kind: pb.DigestType, text: str) -> None:
    assert checked(message(body_digest=pb.Digest(type=kind, checksum=text)))
