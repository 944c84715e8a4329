"""Writes messages to a stream: as values with separators, by a template, or as one JSON object on each line.

The text formats write the bytes of keys and values unchanged. On a terminal, control characters of a message are shown
as escapes, because a message of a stranger must not move the cursor or change the title of the window. The JSON format
writes a value as base64 if it is not UTF-8.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, TextIO

from ledger.client.records import Message

Format = Callable[[Sequence[Message]], bytes]
# How a part of a message is shown.
Shown = Callable[[bytes], bytes]

# JSON escapes the first 32 characters by itself. These others control terminals and the direction of text.
_CONTROLS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


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


def json_format(messages: Sequence[Message]) -> bytes:
    """Return the messages as JSON, with one object on each line."""
    return "".join([_json_line(one) for one in messages]).encode()


def _json_line(message: Message) -> str:
    line = json.dumps(_as_json(message), ensure_ascii=False)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", line) + "\n"


def _as_json(message: Message) -> dict[str, object]:
    deliver_at = message.deliver_at
    return {
        "topic": message.topic,
        "queue": message.queue,
        "offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
        "append_time_ms": message.append_time_ms,
        "term": message.term,
        **bytes_as_json("key", message.key),
        "tag": message.tag,
        "headers": [{"name": name, **bytes_as_json("value", value)} for name, value in message.headers],
        **bytes_as_json("value", message.value),
        **look_up_keys_as_json(message.look_up_keys),
        **({} if deliver_at is None else {"deliver_at": deliver_at.isoformat(timespec="milliseconds")}),
    }


def look_up_keys_as_json(keys: Sequence[bytes]) -> dict[str, object]:
    """Return the field `look_up_keys`, or no field if there are no keys."""
    return {"look_up_keys": list(map(_key_as_json, keys))} if keys else {}


def _key_as_json(key: bytes) -> str | dict[str, str]:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(key).decode("ascii")}


def bytes_as_json(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return the field `name` with the data as text, or the field `name`_base64 if the data are not UTF-8."""
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        assert data is not None
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}
