"""Texts that name one thing of the cluster, such as a waiting message: numbers with a checksum, as letters and digits.

    t1_AQAAAAIAAAADAAAAAAAAAABo5c-LAQAAGnVS
    version, then base64 of: the numbers | the lowest 3 bytes of their CRC32C

A program or a person passes the text back unchanged. The checksum finds a text that was cut, mistyped or made up.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any

import google_crc32c

_CHECK_BYTES = 3


class CheckedText:
    """The form of one kind of text. `version` begins each text. `fields` has the layout of the numbers, whose bytes are
    a multiple of three with the checksum, so that no text ends with padding."""

    def __init__(self, version: str, fields: struct.Struct) -> None:
        assert (fields.size + _CHECK_BYTES) % 3 == 0
        self._version = version
        self._fields = fields
        self._length = len(version) + (fields.size + _CHECK_BYTES) * 4 // 3

    def encode(self, *numbers: int) -> str:
        """Return the text of the numbers: letters, digits, - and _."""
        fields = self._fields.pack(*numbers)
        return self._version + base64.urlsafe_b64encode(fields + _check_bytes(fields)).decode()

    def decode(self, text: object) -> tuple[Any, ...] | None:
        """Return the numbers of a text, or None if `text` is not a result of `encode`."""
        if not isinstance(text, str) or not text.startswith(self._version) or len(text) != self._length:
            return None
        try:
            data = base64.b64decode(text[len(self._version) :], altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        fields = data[: self._fields.size]
        if len(data) != self._fields.size + _CHECK_BYTES or data[self._fields.size :] != _check_bytes(fields):
            return None
        return self._fields.unpack(fields)


def _check_bytes(fields: bytes) -> bytes:
    return int(google_crc32c.value(fields)).to_bytes(4, "little")[:_CHECK_BYTES]
