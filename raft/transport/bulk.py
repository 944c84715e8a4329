"""A message with bulk in it, in protobuf's wire format: an AppendRequest, of which `entries` is written and read here.

    0x2A | length of the entries (varint) | entries | all other fields, as protobuf writes them

Protobuf copies bulk into a message, and again into an encoding that grows as it goes; for a megabyte that
costs more than to send it. Fields may come in any order, so the bulk is put first, by one copy, and whoever reads finds
it at once. What others write in another order is left to protobuf.
"""

from __future__ import annotations

from dataclasses import dataclass

from raft.v1 import raft_pb2
from store import Readable

_ENTRIES = b"\x2a"
"""Field 5, of the wire type with a length."""


@dataclass(frozen=True, slots=True)
class Bulk:
    """`head` has all fields but the entries, which may be a view: of the log, or of the message that they came in."""

    head: raft_pb2.AppendRequest
    entries: Readable = b""


def serialize(bulk: Bulk) -> bytes:
    head = bulk.head.SerializeToString()
    if not bulk.entries:
        return head
    return b"".join((_ENTRIES, _varint(len(bulk.entries)), bulk.entries, head))


def parse(data: bytes) -> Bulk:
    """Raises google.protobuf.message.DecodeError."""
    if data[:1] != _ENTRIES:
        head = raft_pb2.AppendRequest.FromString(data)
        entries = head.entries
        head.ClearField("entries")
        return Bulk(head, entries)
    length, start = _varint_at(data, 1)
    end = start + length
    if end > len(data):
        return Bulk(raft_pb2.AppendRequest.FromString(data))  # which says what is wrong with it
    return Bulk(raft_pb2.AppendRequest.FromString(data[end:]), memoryview(data)[start:end])


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    """The number, and what comes behind it; where the data ends within it, a place behind its end."""
    number = shift = 0
    for byte in data[at : at + 10]:
        number |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte <= 0x7F:
            return number, at
    return number, len(data) + 1
