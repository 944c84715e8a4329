"""A produce request in protobuf's wire format, `ledger.v1.ProduceRequest`: batches, one after the other.

    (0x0A | length of a batch (varint) | batch) ...

Protobuf copies each batch into a message, and the message into an encoding that grows; for a megabyte that costs more
than sending it. This module makes one copy. A request in any other form is parsed by protobuf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.v1 import broker_pb2
from ledger.wire_field import field_head

SERVICE = broker_pb2.DESCRIPTOR.services_by_name["Broker"].full_name
METHOD = f"/{SERVICE}/Produce"

# Field 1, of the wire type with a length.
_BATCH = 0x0A


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """Encoded batches (ledger/batch), each of one queue, all of one shard."""

    batches: Sequence[bytes]


def serialize(request: ProduceRequest) -> bytes:
    parts: list[bytes] = []
    for batch in request.batches:
        parts += (field_head(_BATCH, len(batch)), batch)
    return b"".join(parts)


def parse(data: bytes) -> ProduceRequest:
    """Raises google.protobuf.message.DecodeError."""
    batches, at = [], 0
    while at < len(data):
        length, start = _length_at(data, at)
        if length < 0 or start + length > len(data):
            return ProduceRequest(list(broker_pb2.ProduceRequest.FromString(data).batches))
        at = start + length
        batches.append(data[start:at])
    return ProduceRequest(batches)


def _length_at(data: bytes, at: int) -> tuple[int, int]:
    """Of the batch whose field begins there, and where its bytes begin; -1 where that is no batch."""
    length = shift = 0
    if data[at] == _BATCH:
        for place, byte in enumerate(data[at + 1 : at + 11], at + 1):
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte <= 0x7F:
                return length, place + 1
    return -1, at
