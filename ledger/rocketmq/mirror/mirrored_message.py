"""Makes a message of the cluster from a message that a mirror has received.

The front (outgoing_message.py) refuses what RocketMQ's rules forbid. A mirror takes everything that the cluster can
store, because the message exists already.
"""

from __future__ import annotations

from dataclasses import dataclass

from ledger.errors import InvalidArgumentError
from ledger.limits import MAX_LOOK_UP_KEYS, MAX_MESSAGE_ID_BYTES, validate_all_headers
from ledger.rocketmq import headers as names
from ledger.rocketmq.incoming_message import SHARDING_KEY
from ledger.rocketmq.v2 import definition_pb2 as pb

# What a message costs in memory beside its bytes, about.
_OVERHEAD_BYTES = 2_048
_TYPES = (pb.FIFO, pb.DELAY, pb.TRANSACTION, pb.PRIORITY)
_LATEST_S = 253_402_300_799


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
    headers = (*_properties(message, group), *_reserved(system, message_id, keys))
    validate_all_headers([name.encode() for name, _ in headers], [len(n.encode()) + len(v) for n, v in headers])
    delivery_ms = _ms(system.delivery_timestamp.seconds, system.delivery_timestamp.nanos)
    return MirroredMessage(
        message_id,
        message.body,
        group,
        system.tag or None,
        headers,
        keys[:MAX_LOOK_UP_KEYS],
        _ms(system.born_timestamp.seconds, system.born_timestamp.nanos),
        delivery_ms if delivery_ms is not None and delivery_ms > now_ms else None,
    )


def _properties(message: pb.Message, group: str | None) -> list[tuple[str, bytes]]:
    found = []
    for name, value in message.user_properties.items():
        if name == SHARDING_KEY and value == group:
            continue  # the servers made it of the message group, and so does the cluster
        if not name or name.startswith(names.RESERVED):
            raise InvalidArgumentError(
                f"The message has a property with the name {name[:64]!r}: names that begin with {names.RESERVED} "
                "belong to the cluster."
            )
        found.append((name, value.encode()))
    return found


def _reserved(system: pb.SystemProperties, message_id: str, keys: tuple[str, ...]) -> list[tuple[str, bytes]]:
    found = [(names.MESSAGE_ID, message_id.encode())]
    if system.message_type in _TYPES:
        found.append((names.TYPE, pb.MessageType.Name(system.message_type).encode()))
    if system.born_host:
        found.append((names.BORN_HOST, system.born_host.encode()))
    if system.body_encoding == pb.GZIP:
        found.append((names.ENCODING, b"GZIP"))
    if system.trace_context:
        found.append((names.TRACE, system.trace_context.encode()))
    if system.HasField("priority") and system.priority >= 0:
        found.append((names.PRIORITY, b"%d" % system.priority))
    if len(keys) > MAX_LOOK_UP_KEYS:
        found.append((names.KEYS, " ".join(keys).encode()))
    return found


def _ms(seconds: int, nanos: int) -> int | None:
    """Return a time in ms, or None if there is none or it is no time."""
    if not 0 < seconds <= _LATEST_S or not 0 <= nanos < 1_000_000_000:
        return None
    return seconds * 1000 + nanos // 1_000_000
