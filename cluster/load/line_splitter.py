"""Cuts a stream of bytes into lines, whatever the pieces that it comes in.

Memory is bounded by the longest line that could ever be sent. Of a longer one only the beginning is kept, just enough
for the producer to refuse it; the rest is passed over.
"""

from __future__ import annotations

# Larger than any cluster's `max_message_bytes` may be, so a line that is cut here is always refused.
LONGEST_LINE_BYTES = (48 << 20) + 1


class LineSplitter:
    """Feed it bytes, take the lines that they complete. Lines come without the separator, otherwise as they were."""

    def __init__(self, separator: bytes = b"\n", *, longest_bytes: int = LONGEST_LINE_BYTES) -> None:
        assert separator
        self._separator = separator
        self._longest_bytes = longest_bytes
        # What came behind the last separator, and contains none. Of a line that is too long: only the last bytes of it,
        # which may be the beginning of a separator, while `_head` holds all of the line that is kept.
        self._rest = bytearray()
        self._head = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that end in `data`."""
        searched = max(0, len(self._rest) - len(self._separator) + 1)
        self._rest += data
        if self._rest.find(self._separator, searched) < 0:
            self._bound_rest()
            return []
        longest = len(self._rest)
        *lines, rest = bytes(self._rest).split(self._separator)
        self._rest = bytearray(rest)
        if self._head:
            lines[0], self._head = self._head, b""
        self._bound_rest()
        return lines if longest <= self._longest_bytes else [line[: self._longest_bytes] for line in lines]

    def finish(self) -> list[bytes]:
        """The last line, where the stream does not end with a separator."""
        last = self._head or bytes(self._rest[: self._longest_bytes])
        self._rest, self._head = bytearray(), b""
        return [last] if last else []

    def _bound_rest(self) -> None:
        if len(self._rest) < self._longest_bytes + len(self._separator):
            return
        self._head = self._head or bytes(self._rest[: self._longest_bytes])
        del self._rest[: len(self._rest) - len(self._separator) + 1]
