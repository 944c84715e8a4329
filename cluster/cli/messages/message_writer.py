"""Writes messages to a stream: as values with separators, by a template, or as one JSON object on each line.

The text formats write the bytes of keys and values unchanged. On a terminal, control characters of a message are shown
as escapes, because a message of a stranger must not move the cursor or change the title of the window. The JSON format
is in `cluster/message_json.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, TextIO

from ledger.client.records import Message

Format = Callable[[Sequence[Message]], bytes]
# How a part of a message is shown.
Shown = Callable[[bytes], bytes]


@dataclass(slots=True)
class MessageWriter:
    """Writes messages to a stream. After each write it flushes the stream, so that a program that reads from a pipe
    receives each message immediately."""

    stream: BinaryIO
    format: Format
    # The number of messages written so far.
    written: int = 0

    def write(self, messages: Sequence[Message]) -> None:
        if messages:
            self.stream.write(self.format(messages))
            self.stream.flush()
            self.written += len(messages)


def unchanged(data: bytes) -> bytes:
    return data


def for_terminal(data: bytes) -> bytes:
    """Return the data with escapes in place of what a terminal would obey; line feeds and tabs stay."""
    text = data.decode(errors="backslashreplace")
    if text.isprintable():
        return text.encode()
    return "".join([each if each.isprintable() or each in "\n\t" else _escaped(each) for each in text]).encode()


def shown_on(stream: TextIO) -> Shown:
    """Return `for_terminal` if the stream is a terminal, and `unchanged` if it is a pipe or a file."""
    return for_terminal if stream.isatty() else unchanged


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def text_format(separator: bytes, key_separator: bytes | None, shown: Shown = unchanged) -> Format:
    """Return a format function that writes each value, followed by `separator`.

    With `key_separator`, the format also writes the key and `key_separator` before each value. For a message without a
    key it writes only the value.
    """

    def values(messages: Sequence[Message]) -> bytes:
        return b"".join([part for one in messages for part in (shown(one.value), separator)])

    def keyed(messages: Sequence[Message]) -> bytes:
        assert key_separator is not None
        parts: list[bytes] = []
        for one in messages:
            if one.key is not None:
                parts += (shown(one.key), key_separator)
            parts += (shown(one.value), separator)
        return b"".join(parts)

    return values if key_separator is None else keyed
