"""Writes messages to a stream, as values with separators or as one JSON object on each line.

The text format writes the bytes of a value unchanged. The JSON format writes a value as base64 if it is not UTF-8.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from ledger.client.records import Message

Format = Callable[[Sequence[Message]], bytes]


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


def text_format(separator: bytes, key_separator: bytes | None) -> Format:
    """Return a format function that writes each value, followed by `separator`.

    With `key_separator`, the format also writes the key and `key_separator` before each value; a missing key is
    written as an empty key.
    """

    def values(messages: Sequence[Message]) -> bytes:
        return b"".join([part for one in messages for part in (one.value, separator)])

    def keyed(messages: Sequence[Message]) -> bytes:
        assert key_separator is not None
        return b"".join([part for one in messages for part in (one.key or b"", key_separator, one.value, separator)])

    return values if key_separator is None else keyed


def json_format(messages: Sequence[Message]) -> bytes:
    """Return the messages as JSON, with one object on each line."""
    return "".join([json.dumps(_as_json(one), ensure_ascii=False) + "\n" for one in messages]).encode()


def _as_json(message: Message) -> dict[str, object]:
    return {
        "topic": message.topic,
        "queue": message.queue,
        "offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
        "append_time_ms": message.append_time_ms,
        "term": message.term,
        **_text("key", message.key),
        "tag": message.tag,
        "headers": [{"name": name, **_text("value", value)} for name, value in message.headers],
        **_text("value", message.value),
    }


def _text(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        assert data is not None
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}
