"""Makes a message of RocketMQ's protocol from a message of the cluster, which a client of either kind has sent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from ledger.client.records import Message
from ledger.retries import DEAD_LETTERS
from ledger.rocketmq import headers as names
from ledger.rocketmq.durations import timestamp
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.timed import DELIVER_AT
from ledger.transactions import TransactionId

# Properties of a message that Apache's server shows to consumers among the user's.
SHARDING_KEY = "__SHARDINGKEY"
TRANSACTION_ID = "__transactionId__"


@dataclass(frozen=True, slots=True)
class FrontDelivery:
    """How a message is handed out. `invisible_ms` is the length of the lease. `transaction` is the shard and
    the number of the transaction that has committed the message, if one has. `topic_id` is the topic of the message."""

    attempt: int
    handle: str
    invisible_ms: int
    transaction: tuple[int, int] | None = None
    topic_id: int = 0


def incoming_message(message: Message[bytes], topic: pb.Resource, delivery: FrontDelivery | None) -> pb.Message:
    """Return the message as a consumer gets it. `topic` is the topic as the consumer names it. Without `delivery`, it
    has no receipt handle."""
    reserved = {name: value for name, value in message.headers if name.startswith(names.RESERVED)}
    properties = {
        names.property_of(name): text(value) for name, value in message.headers if not name.startswith(names.RESERVED)
    }
    system = pb.SystemProperties(
        keys=_keys(message, reserved),
        message_id=message_id_of(message),
        body_digest=pb.Digest(
            type=pb.MD5, checksum=hashlib.md5(message.value, usedforsecurity=False).hexdigest().upper()
        ),
        body_encoding=pb.GZIP if reserved.get(names.ENCODING) == b"GZIP" else pb.IDENTITY,
        message_type=_type(message, reserved),
        born_timestamp=timestamp(message.timestamp_ms),
        born_host=text(reserved.get(names.BORN_HOST, b"")),
        queue_id=message.queue,
        queue_offset=message.offset,
        store_timestamp=timestamp(message.append_time_ms),
    )
    if message.tag is not None:
        system.tag = message.tag
    if message.key is not None:
        system.message_group = properties[SHARDING_KEY] = text(message.key)
    if (deliver_at := message.deliver_at) is not None:
        system.delivery_timestamp.FromDatetime(deliver_at)
    if names.TRACE in reserved:
        system.trace_context = text(reserved[names.TRACE])
    if (priority := _priority(reserved.get(names.PRIORITY, b""))) is not None:
        system.priority = priority
    if message.topic.startswith(DEAD_LETTERS):
        system.dead_letter_queue.topic = message.origin.rsplit(":", 2)[0]
        system.dead_letter_queue.message_id = system.message_id
    if delivery is not None:
        system.delivery_attempt = delivery.attempt
        system.receipt_handle = delivery.handle
        system.invisible_duration.FromMilliseconds(delivery.invisible_ms)
        if delivery.transaction is not None and system.message_type == pb.TRANSACTION:
            # A transaction of a RocketMQ client has one message, so it began in the topic of this message.
            properties[TRANSACTION_ID] = str(TransactionId(delivery.topic_id, *delivery.transaction))
    return pb.Message(topic=topic, user_properties=properties, system_properties=system, body=message.value)


def message_id_of(message: Message[bytes]) -> str:
    """Return the id that the producer gave to the message, or its id in the cluster."""
    found = next((value for name, value in message.headers if name == names.MESSAGE_ID), None)
    return message.id if found is None else text(found)


def text(value: bytes) -> str:
    return value.decode(errors="replace")


def _keys(message: Message[bytes], reserved: Mapping[str, bytes]) -> list[str]:
    if (all_keys := reserved.get(names.KEYS)) is not None:
        joined = text(all_keys)  # earlier versions joined the keys with spaces
        return joined.split(names.KEY_SEPARATOR if names.KEY_SEPARATOR in joined else " ")
    keys = list(map(text, message.look_up_keys))
    if not keys and message.key is not None and names.MESSAGE_ID not in reserved:
        keys.append(text(message.key))  # a native client finds the message by its key
    return keys


def _priority(told: bytes) -> int | None:
    """Return a priority that the protocol can say, which is a number of 32 bits."""
    if not re.fullmatch(rb"-?[0-9]{1,10}", told) or not -(1 << 31) <= int(told) < 1 << 31:
        return None
    return int(told)


def _type(message: Message[bytes], reserved: Mapping[str, bytes]) -> pb.MessageType:
    told = text(reserved.get(names.TYPE, b""))
    if told in pb.MessageType.keys():  # noqa: SIM118 (it is no mapping)
        return cast("pb.MessageType", pb.MessageType.Value(told))
    if DELIVER_AT in reserved:
        return pb.DELAY
    return pb.NORMAL if message.key is None else pb.FIFO
