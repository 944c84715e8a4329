"""Splits a stream of bytes into lines. The pieces of the stream can have any size.

The memory that the splitter needs is bounded by the longest line that a producer can send. If a line is longer than
the longest line that a producer can send, the splitter skips most of its bytes. The splitter keeps only enough bytes
for the producer to refuse the line.
"""

from __future__ import annotations

# Larger than any cluster's `max_message_bytes` may be, so a line that is cut here is always refused.
LONGEST_LINE_BYTES = (48 << 20) + 1


class LineSplitter:
    """Receives bytes and returns each line when it is complete. The separator is removed from the line, and nothing
    else is changed."""

    def __init__(self, separator: bytes = b"\n", *, longest_bytes: int = LONGEST_LINE_BYTES) -> None:
        assert separator
        self._separator = separator
        self._longest_bytes = longest_bytes
        # The bytes after the last separator. If the line is too long, `_rest` has only its last bytes, which may be the
        # beginning of a separator, and `_head` has the part of the line that is kept.
        self._rest = bytearray()
        self._head = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Add `data` to the stream, and return the lines that end in `data`."""
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
        """Return the last line of the stream, if the stream does not end with a separator."""
        last = self._head or bytes(self._rest[: self._longest_bytes])
        self._rest, self._head = bytearray(), b""
        return [last] if last else []

    def _bound_rest(self) -> None:
        if len(self._rest) < self._longest_bytes + len(self._separator):
            return
        self._head = self._head or bytes(self._rest[: self._longest_bytes])
        del self._rest[: len(self._rest) - len(self._separator) + 1]
