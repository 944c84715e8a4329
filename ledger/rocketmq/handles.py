"""The texts by which RocketMQ clients acknowledge a message they received, and recall a message that waits.

A handle has all that is needed, so every node can act on it. Clients pass it back unchanged; a text that is no handle,
or one of another group or topic, is refused. A handle gives no rights: the shard's leader checks the lease that it
names, and the rights of the caller.
"""

from __future__ import annotations

import base64
import binascii
import struct
from dataclasses import dataclass, replace

import google_crc32c
import xxhash

from ledger.client.shared.shared_message import MessageLease
from ledger.errors import InvalidArgumentError
from ledger.limits import MAX_OFFSET
from ledger.rocketmq.refusals import FrontRefusal
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.timed import TimedHandle

_VERSION = "r1_"
# hash of the consumer group u64 | topic id u32 | shard u32 | queue u32 | offset u64 | lease u64 | resets u64
# | how long it is valid u64 | serial u32 | the lowest 3 bytes of the CRC32C before
_FIELDS = struct.Struct("<QIIIQQQQI")
# How long it is valid: until the lease ends. Otherwise 0, or, from older nodes, the end of the lease by their clock.
_IN_TIME = 1
_CHECK_BYTES = 3
_LENGTH = len(_VERSION) + -(-(_FIELDS.size + _CHECK_BYTES) * 4 // 3)
# Between the parts of the handle of a message that waits.
_SEPARATOR = "."
MAX_RECALL_CHARACTERS = 512


@dataclass(frozen=True, slots=True)
class ReceiptHandle:
    """Names a message that a consumer group has leased. `serial` counts the changes of the lease, so that of two
    handles of one lease the newer one counts. With `in_time` the handle is valid until the lease ends, and otherwise
    until the message is leased again. The end of the lease is not in the handle: only the leader knows it."""

    group_hash: int
    lease: MessageLease
    serial: int = 0
    in_time: bool = False

    @classmethod
    def of(cls, group: str, lease: MessageLease, *, in_time: bool = False) -> ReceiptHandle:
        return cls(xxhash.xxh3_64_intdigest(group.encode()), lease, in_time=in_time)

    def changed(self) -> ReceiptHandle:
        """Return the handle of the lease after a change of its end."""
        return replace(self, serial=min(self.serial + 1, 0xFFFF_FFFF))

    def __str__(self) -> str:
        lease = self.lease
        fields = _FIELDS.pack(
            self.group_hash,
            lease.topic_id,
            lease.shard,
            lease.queue,
            lease.offset,
            lease.entry,
            lease.resets,
            _IN_TIME if self.in_time else 0,
            self.serial,
        )
        return _VERSION + _coded(fields + _check_bytes(fields))

    @classmethod
    def parse(cls, text: str, group: str, topic_id: int) -> ReceiptHandle:
        """Return the handle that `text` contains. Raises FrontRefusal if it is none, or one of another group or
        topic."""
        fields = _decoded(text)
        if fields is None:
            raise invalid_handle("the receipt handle is not valid here: use the unchanged handle of the message")
        group_hash, topic, shard, queue, offset, entry, resets, valid, serial = _FIELDS.unpack(fields)
        if group_hash != xxhash.xxh3_64_intdigest(group.encode()) or topic != topic_id:
            raise invalid_handle("the receipt handle belongs to another consumer group or topic")
        if offset >= MAX_OFFSET:
            raise invalid_handle("the receipt handle names no message")
        return cls(group_hash, MessageLease(shard, topic, queue, offset, entry, resets), serial, valid == _IN_TIME)


def _decoded(text: str) -> bytes | None:
    if not text.startswith(_VERSION) or len(text) != _LENGTH or not text.isascii():
        return None
    coded = text[len(_VERSION) :]
    try:
        data = base64.b64decode(coded + "=" * (-len(coded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    if _coded(data) != coded:  # the last character has bits that nothing uses
        return None
    fields = data[: _FIELDS.size]
    return fields if data[_FIELDS.size :] == _check_bytes(fields) else None


def _coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _check_bytes(fields: bytes) -> bytes:
    return int(google_crc32c.value(fields)).to_bytes(4, "little")[:_CHECK_BYTES]


def invalid_handle(message: str) -> FrontRefusal:
    return FrontRefusal(pb.INVALID_RECEIPT_HANDLE, message)


def recall_handle(handle: str, message_id: str) -> str:
    """Return the handle by which a client recalls a message that waits. `handle` is the cluster's."""
    return f"{handle}{_SEPARATOR}{_coded(message_id.encode())}"


def read_recall_handle(text: str) -> tuple[TimedHandle, str]:
    """Return the cluster's handle, and the id of the message. Raises FrontRefusal."""
    refused = FrontRefusal(pb.INVALID_RECEIPT_HANDLE, "this is no recall handle of this cluster")
    if len(text) > MAX_RECALL_CHARACTERS or not text.isascii():
        raise refused
    native, _, coded = text.partition(_SEPARATOR)
    try:
        message_id = base64.b64decode(coded + "=" * (-len(coded) % 4), altchars=b"-_", validate=True).decode()
        return TimedHandle.parse(native), message_id
    except (binascii.Error, ValueError, InvalidArgumentError):
        raise refused from None
