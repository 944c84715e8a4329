"""A field of bytes in protobuf's wire format, for messages that are written by hand: tag | length (varint) | bytes."""

from __future__ import annotations


def field_head(tag: int, length: int) -> bytes:
    """What comes before the bytes. `tag`: the field's number and wire type, which fit into 7 bits here."""
    written = bytearray((tag,))
    while length > 0x7F:
        written.append(length & 0x7F | 0x80)
        length >>= 7
    written.append(length)
    return bytes(written)
