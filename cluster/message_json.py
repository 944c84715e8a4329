"""Writes messages as JSON lines, as `ledgermq consume --format json` prints them and the console downloads them.

A key or a value that is not UTF-8 is base64, in a field with the suffix _base64.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence

from ledger.client.records import Message

# JSON escapes the first 32 characters by itself. These others control terminals and the direction of text.
_CONTROLS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


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
