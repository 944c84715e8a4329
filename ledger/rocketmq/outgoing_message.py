"""Makes a message of the cluster from a message of a RocketMQ client, and checks it by RocketMQ's rules.

message group  ->  key                 keys        ->  look-up keys
tag            ->  tag                 properties  ->  headers
born time      ->  timestamp           the rest    ->  reserved headers (headers.py)
"""

from __future__ import annotations

import hashlib
import unicodedata
import zlib
from dataclasses import dataclass

from ledger.limits import MAX_LOOK_UP_KEYS
from ledger.rocketmq import headers as names
from ledger.rocketmq.durations import LATEST_S, time_ms
from ledger.rocketmq.refusals import FrontRefusal
from ledger.rocketmq.v2 import definition_pb2 as pb

MAX_BODY_BYTES = 4 << 20
MAX_PROPERTIES = 128
MAX_PROPERTIES_BYTES = 16 << 10
MAX_GROUP_BYTES = 63
MAX_MESSAGE_ID_BYTES = 255
MAX_HOST_BYTES = 255
MAX_TRACE_BYTES = 4 << 10

# Names of properties that RocketMQ keeps for itself.
_RESERVED_PROPERTIES = """
    KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID
    ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION TRACE_ON UNIQ_KEY
    EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME INNER_NUM INNER_BASE DUP_INFO
    CHECK_IMMUNITY_TIME_IN_SECONDS TRAN_PREPARED_QUEUE_OFFSET TRANSACTION_CHECK_TIMES POP_CK POP_CK_OFFSET 1ST_POP_TIME
    SHARDING_KEY FORWARD_QUEUE_ID REDIRECT INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET TRACE_CONTEXT TIMER_DELAY_SEC
    TIMER_DELIVER_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL
    TIMER_DELAY_MS CLUSTER MSG_TYPE TTL __BORNHOST BORN_TIMESTAMP DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID
"""
RESERVED_PROPERTIES = frozenset(_RESERVED_PROPERTIES.split())


@dataclass(frozen=True, slots=True)
class FrontMessage:
    """A checked message. `deliver_at_ms` is its delivery time in ms since 1970, or None."""

    topic: str
    type: pb.MessageType
    message_id: str
    value: bytes
    key: str | None
    tag: str | None
    headers: tuple[tuple[str, bytes], ...]
    look_up_keys: tuple[str, ...]
    timestamp_ms: int
    deliver_at_ms: int | None


@dataclass(frozen=True, slots=True)
class FrontLimits:
    """`max_delay_ms` is how far ahead a delivery time may be."""

    max_body_bytes: int = MAX_BODY_BYTES
    max_delay_ms: int = 24 * 3_600_000


def outgoing_message(message: pb.Message, topic: str, limits: FrontLimits, now_ms: int) -> FrontMessage:
    """Return the checked message. `topic` is the cluster's name of its topic. Raises FrontRefusal."""
    system = message.system_properties
    if topic.startswith(names.RESERVED):
        raise FrontRefusal(pb.ILLEGAL_TOPIC, f"topic {topic} takes no messages of producers")
    _check_body(message, limits.max_body_bytes)
    if not _is_text(system.message_id) or len(system.message_id.encode()) > MAX_MESSAGE_ID_BYTES:
        raise FrontRefusal(
            pb.ILLEGAL_MESSAGE_ID,
            "the message id is missing, is blank, has a control character, or is longer than 255 bytes: let the client "
            "make the id",
        )
    tag = _checked_tag(system)
    keys = _checked_keys(system)
    group = _checked_group(system)
    kind = type_of(system)
    user_properties = _checked_properties(message, tag, keys)
    return FrontMessage(
        topic,
        kind,
        system.message_id,
        message.body,
        group,
        tag,
        (*user_properties, *_reserved_headers(system, kind, keys)),
        keys[:MAX_LOOK_UP_KEYS],
        _born_ms(system, now_ms),
        _delivery_ms(system, limits.max_delay_ms, now_ms) if kind == pb.DELAY else None,
    )


def type_of(system: pb.SystemProperties) -> pb.MessageType:
    """Return the type that the properties of a message say: of `message_type`, only TRANSACTION counts. Raises
    FrontRefusal if they contradict each other."""
    found = []
    if system.message_type == pb.TRANSACTION:
        found.append(pb.TRANSACTION)
    if system.HasField("message_group"):
        found.append(pb.FIFO)
    if system.HasField("delivery_timestamp"):
        found.append(pb.DELAY)
    if system.HasField("priority"):
        found.append(pb.PRIORITY)
    if system.HasField("lite_topic") or system.message_type == pb.LITE:
        raise FrontRefusal(pb.ILLEGAL_LITE_TOPIC, "this cluster has no lite topics: use an ordinary topic")
    if len(found) > 1:
        kinds = " and ".join(pb.MessageType.Name(each) for each in found)
        raise FrontRefusal(pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, f"a message cannot be {kinds} at once")
    return found[0] if found else pb.NORMAL


def _check_body(message: pb.Message, most: int) -> None:
    body, system = message.body, message.system_properties
    if not body:
        raise FrontRefusal(pb.MESSAGE_BODY_EMPTY, "the message has no body")
    if len(body) > most:
        raise FrontRefusal(
            pb.MESSAGE_BODY_TOO_LARGE, f"the body has {len(body):,} bytes, and the limit is {most:,}: split the message"
        )
    if system.body_encoding not in (pb.ENCODING_UNSPECIFIED, pb.IDENTITY, pb.GZIP):
        raise FrontRefusal(pb.MESSAGE_CORRUPTED, f"there is no body encoding {system.body_encoding}")
    if system.HasField("body_digest") and not _has_digest(body, system.body_digest):
        raise FrontRefusal(
            pb.MESSAGE_CORRUPTED,
            "the digest does not match the body, so the body was damaged on the way: send the message again",
        )


def _has_digest(body: bytes, digest: pb.Digest) -> bool:
    told = digest.checksum.upper()
    match digest.type:
        case pb.MD5:
            return told == hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
        case pb.SHA1:
            return told == hashlib.sha1(body, usedforsecurity=False).hexdigest().upper()
        case pb.CRC32:  # clients write the number with and without leading zeros
            return told.lstrip("0") == f"{zlib.crc32(body):X}"
        case _:
            return True


def _checked_tag(system: pb.SystemProperties) -> str | None:
    if not system.HasField("tag"):
        return None
    if not _is_text(system.tag) or "|" in system.tag:
        raise FrontRefusal(
            pb.ILLEGAL_MESSAGE_TAG, "the tag of a message must not be blank, and has no | and no control character"
        )
    return system.tag


def _checked_keys(system: pb.SystemProperties) -> tuple[str, ...]:
    for key in system.keys:
        if not _is_text(key):
            raise FrontRefusal(
                pb.ILLEGAL_MESSAGE_KEY, "a key of a message must not be blank, and has no control character"
            )
    return tuple(dict.fromkeys(system.keys))


def _checked_group(system: pb.SystemProperties) -> str | None:
    if not system.HasField("message_group"):
        return None
    group = system.message_group
    if not _is_text(group) or len(group.encode()) > MAX_GROUP_BYTES:
        raise FrontRefusal(
            pb.ILLEGAL_MESSAGE_GROUP,
            f"a message group must not be blank, has no control character and at most {MAX_GROUP_BYTES} bytes",
        )
    return group


def _checked_properties(message: pb.Message, tag: str | None, keys: tuple[str, ...]) -> list[tuple[str, bytes]]:
    properties = message.user_properties
    if len(properties) > MAX_PROPERTIES:
        raise FrontRefusal(
            pb.MESSAGE_PROPERTIES_TOO_LARGE,
            f"the message has {len(properties)} properties, and the limit is {MAX_PROPERTIES}",
        )
    checked = []
    size = len((tag or "").encode()) + sum(len(key.encode()) for key in keys)
    for name, text in properties.items():
        if not _is_text(name) or name in RESERVED_PROPERTIES:
            raise FrontRefusal(
                pb.ILLEGAL_MESSAGE_PROPERTY_KEY,
                f"a property cannot have the name {name[:64]!r}: it is blank, has a control character, or is reserved",
            )
        if _has_control(text):
            raise FrontRefusal(
                pb.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the value of the property {name[:64]!r} has a control character"
            )
        value = text.encode()
        size += len(name.encode()) + len(value)
        checked.append((names.header_of(name), value))
    if size > MAX_PROPERTIES_BYTES:
        raise FrontRefusal(
            pb.MESSAGE_PROPERTIES_TOO_LARGE,
            f"properties, tag and keys have {size:,} bytes, and the limit is {MAX_PROPERTIES_BYTES:,}",
        )
    return checked


def _reserved_headers(
    system: pb.SystemProperties, kind: pb.MessageType, keys: tuple[str, ...]
) -> list[tuple[str, bytes]]:
    trace = system.trace_context.encode()
    if len(trace) > MAX_TRACE_BYTES:
        raise FrontRefusal(
            pb.MESSAGE_PROPERTIES_TOO_LARGE, f"the trace context has more than {MAX_TRACE_BYTES:,} bytes"
        )
    return names.reserved_headers(
        message_id=system.message_id,
        kind=kind,
        born_host=system.born_host.encode()[:MAX_HOST_BYTES],
        body_encoding=system.body_encoding,
        trace=trace,
        priority=system.priority if system.HasField("priority") else None,
        keys=keys,
    )


def _born_ms(system: pb.SystemProperties, now_ms: int) -> int:
    """Return the time that the producer gave, or now if it gave none, or one that is no time."""
    born = system.born_timestamp
    if not system.HasField("born_timestamp") or not 0 < born.seconds <= LATEST_S:
        return now_ms
    return born.seconds * 1000 + min(max(born.nanos, 0), 999_999_999) // 1_000_000


def _delivery_ms(system: pb.SystemProperties, most_ms: int, now_ms: int) -> int:
    delivery_ms = time_ms(system.delivery_timestamp)
    if delivery_ms is None:
        raise FrontRefusal(pb.ILLEGAL_DELIVERY_TIME, "the delivery time is before 1970 or after the year 9999")
    if delivery_ms - now_ms > most_ms:
        raise FrontRefusal(
            pb.ILLEGAL_DELIVERY_TIME,
            f"the delivery time is {(delivery_ms - now_ms) / 3_600_000:.1f} h ahead, and the limit is "
            f"{most_ms / 3_600_000:g} h",
        )
    return delivery_ms


def _is_text(text: str) -> bool:
    return bool(text.strip()) and not _has_control(text)


def _has_control(text: str) -> bool:
    return not text.isprintable() and any(unicodedata.category(each) == "Cc" for each in text)
