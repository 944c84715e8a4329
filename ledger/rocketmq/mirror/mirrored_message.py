"""Makes a message of the cluster from a message that a mirror has received.

The front (outgoing_message.py) refuses what RocketMQ's rules forbid. A mirror takes everything that the cluster can
store, because the message exists already.
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.timestamp_pb2 import Timestamp

from ledger.errors import InvalidArgumentError
from ledger.limits import MAX_LOOK_UP_KEYS, MAX_MESSAGE_ID_BYTES, validate_all_headers
from ledger.rocketmq import headers as names
from ledger.rocketmq.durations import time_ms
from ledger.rocketmq.incoming_message import SHARDING_KEY
from ledger.rocketmq.v2 import definition_pb2 as pb

# What a message costs in memory beside its bytes, about.
_OVERHEAD_BYTES = 2_048
_TYPES = (pb.FIFO, pb.DELAY, pb.TRANSACTION, pb.PRIORITY)


@dataclass(frozen=True, slots=True)
class MirroredMessage:
    """A message as the cluster stores it. Times are in ms since 1970; `deliver_at_ms` is None for a message that is
    delivered at once."""

    message_id: str
    value: bytes
    key: str | None
    tag: str | None
    headers: tuple[tuple[str, bytes], ...]
    look_up_keys: tuple[str, ...]
    timestamp_ms: int | None
    deliver_at_ms: int | None


def received_bytes(message: pb.Message) -> int:
    """Return about how much memory a message takes until it is copied."""
    return len(message.body) + _OVERHEAD_BYTES


def source_message_id(message: pb.Message) -> str:
    """Return the id of a message: that of its producer, or its place if it has none."""
    system = message.system_properties
    if system.message_id and len(system.message_id.encode()) <= MAX_MESSAGE_ID_BYTES:
        return system.message_id
    return f"{message.topic.name}:{system.store_host}:{system.queue_id}:{system.queue_offset}"[:MAX_MESSAGE_ID_BYTES]


def mirrored_message(message: pb.Message, now_ms: int) -> MirroredMessage:
    """Return the message that the cluster stores. Raises a LedgerError if the cluster cannot store it."""
    system = message.system_properties
    group = system.message_group or None
    keys = tuple(dict.fromkeys(key for key in system.keys if key))
    message_id = source_message_id(message)
    reserved = names.reserved_headers(
        message_id=message_id,
        kind=system.message_type if system.message_type in _TYPES else pb.NORMAL,
        born_host=system.born_host.encode(),
        body_encoding=system.body_encoding,
        trace=system.trace_context.encode(),
        priority=system.priority if system.HasField("priority") and system.priority >= 0 else None,
        keys=keys,
    )
    headers = (*_properties(message, group), *reserved)
    validate_all_headers([name.encode() for name, _ in headers], [len(n.encode()) + len(v) for n, v in headers])
    delivery_ms = _told_ms(system.delivery_timestamp)
    return MirroredMessage(
        message_id,
        message.body,
        group,
        system.tag or None,
        headers,
        keys[:MAX_LOOK_UP_KEYS],
        _told_ms(system.born_timestamp),
        delivery_ms if delivery_ms is not None and delivery_ms > now_ms else None,
    )


def _properties(message: pb.Message, group: str | None) -> list[tuple[str, bytes]]:
    found = []
    for name, value in message.user_properties.items():
        if name == SHARDING_KEY and value == group:
            continue  # the servers made it of the message group, and so does the cluster
        if not name:
            raise InvalidArgumentError("The message has a property without a name.")
        found.append((names.header_of(name), value.encode()))
    return found


def _told_ms(told: Timestamp) -> int | None:
    """Return a time in ms since 1970, or None if there is none or it is no time."""
    return time_ms(told) if told.seconds else None
