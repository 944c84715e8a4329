"""Encodes the head of a protobuf field of bytes (tag | length as varint | bytes) without the protobuf library."""

from __future__ import annotations


def field_head(tag: int, length: int) -> bytes:
    """Return the bytes before a field's content: the tag and the length. `tag` is one byte, less than 128, which
    holds the field's number and wire type.
    """
    written = bytearray((tag,))
    while length > 0x7F:
        written.append(length & 0x7F | 0x80)
        length >>= 7
    written.append(length)
    return bytes(written)
