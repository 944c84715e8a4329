"""Encodes and decodes an AppendRequest in protobuf's wire format, with a single copy of its `entries`.

An encoded AppendRequest begins with the byte 0x2A, the length of the entries (varint) and the entries. All other
fields follow as protobuf writes them.

Protobuf copies large bytes into the message object, and again into the encoded bytes. For a megabyte these copies cost
more time than the transmission of the bytes. Protobuf allows fields in any order. This module writes the field
`entries` first, so the reader finds `entries` at the start of the message. If `entries` is not the first field of a
message, protobuf decodes the message.
"""

from __future__ import annotations

from dataclasses import dataclass

from raft.v1 import raft_pb2
from store import Readable

# The tag of field 5 (`entries`), with the wire type for a length and bytes.
_ENTRIES = b"\x2a"


@dataclass(frozen=True, slots=True)
class Bulk:
    """`Bulk` is an AppendRequest in two parts, `head` and `entries`. `head` contains all fields of the AppendRequest
    except `entries`.

    `entries` can be a view of the log, or of the received message."""

    head: raft_pb2.AppendRequest
    entries: Readable = b""


def serialize(bulk: Bulk) -> bytes:
    """Return the encoded AppendRequest as bytes."""
    head = bulk.head.SerializeToString()
    if not bulk.entries:
        return head
    return b"".join((_ENTRIES, _varint(len(bulk.entries)), bulk.entries, head))


def parse(data: bytes) -> Bulk:
    """Decode an AppendRequest. `entries` is a view of `data`. Raises google.protobuf.message.DecodeError."""
    if data[:1] != _ENTRIES:
        head = raft_pb2.AppendRequest.FromString(data)
        entries = head.entries
        head.ClearField("entries")
        return Bulk(head, entries)
    length, start = _varint_at(data, 1)
    end = start + length
    if end > len(data):
        return Bulk(raft_pb2.AppendRequest.FromString(data))  # protobuf raises DecodeError and says what is wrong
    return Bulk(raft_pb2.AppendRequest.FromString(data[end:]), memoryview(data)[start:end])


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at the index `at`, and the index after the varint.

    If the data ends within the varint, the returned index is len(data) + 1."""
    number = shift = 0
    for byte in data[at : at + 10]:
        number |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte <= 0x7F:
            return number, at
    return number, len(data) + 1
