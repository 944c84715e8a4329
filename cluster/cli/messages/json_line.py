"""Reads a message from a JSON line in the form that `ledgermq consume --format json` prints. No I/O.

    {"key": "k", "tag": null, "headers": [{"name": "trace", "value_base64": "/w=="}], "value": "text",
     "look_up_keys": ["order-17", {"base64": "/w=="}], "deliver_at": "2026-11-21T08:30:00Z", ...}

A line that a program makes may also have a message_id, a string.

A key, a value or a header's value that is not UTF-8 is base64, in a field with the suffix _base64. A look-up key that
is not UTF-8 is an object with the field base64. The fields that say
where the printed message was (topic, queue, offset, append_time_ms, term) are accepted and have no effect.
"""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from typing import Any

from cluster.load.line_sender import Headers, Labels, LineMessage
from ledger.timed import DELIVER_AT

_OF_THE_PLACE = frozenset({"topic", "queue", "offset", "append_time_ms", "term"})
_READ = frozenset(
    {
        "key",
        "key_base64",
        "value",
        "value_base64",
        "tag",
        "headers",
        "look_up_keys",
        "timestamp_ms",
        "deliver_at",
        "message_id",
    }
)


class _NotAMessageError(Exception):
    """The line is not a message. The text of the error says why."""


def message_of(line: bytes, labels: Labels) -> LineMessage | str:
    """Return the message that the JSON line describes, or a text that says why it is none.

    The key and the tag of `labels` apply if the line has none. The headers and look-up keys of `labels` follow those of
    the line.
    """
    try:
        return _message(_parsed(line), labels)
    except _NotAMessageError as error:
        return str(error)


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise _NotAMessageError("it is not UTF-8, so it is not JSON") from None
    except json.JSONDecodeError as error:
        raise _NotAMessageError(f"it is not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError):
        raise _NotAMessageError("its JSON has a number that is too long, or is nested too deeply") from None
    if not isinstance(parsed, dict):
        raise _NotAMessageError('it is not a JSON object: give {"value": "..."}')
    if unknown := sorted(parsed.keys() - _READ - _OF_THE_PLACE):
        raise _NotAMessageError(f"the field {unknown[0]!a} is unknown: the fields are {', '.join(sorted(_READ))}")
    return parsed


def _message(fields: dict[str, Any], labels: Labels) -> LineMessage:
    value = _bytes_of(fields, "value")
    if value is None:
        raise _NotAMessageError("it has no field value or value_base64")
    tag = fields.get("tag")
    if not isinstance(tag, str | None):
        raise _NotAMessageError("the field tag must be a string or null")
    time = fields.get("timestamp_ms")
    if time is not None and type(time) is not int:
        raise _NotAMessageError("the field timestamp_ms must be a whole number of milliseconds since 1970")
    message_id = fields.get("message_id")
    if not isinstance(message_id, str | None):
        raise _NotAMessageError("the field message_id must be a string")
    key = _bytes_of(fields, "key")
    headers = _headers_of(fields)
    deliver_at = _moment_of(fields)
    if deliver_at is not None:  # the broker gives the header again
        headers = tuple(header for header in headers if header[0] != DELIVER_AT)
    return LineMessage(
        value,
        labels.key if key is None else key,
        labels.tag if tag is None else tag,
        headers + labels.headers,
        time,
        deliver_at,
        _look_up_keys_of(fields),
        _bytes_of(fields, "message_id"),
    )


def _look_up_keys_of(fields: dict[str, Any]) -> tuple[bytes, ...]:
    keys = fields.get("look_up_keys") or []
    if not isinstance(keys, list):
        raise _NotAMessageError('the field look_up_keys must be a list such as ["order-17"]')
    return tuple(_look_up_key_of(key) for key in keys)


def _look_up_key_of(key: object) -> bytes:
    if isinstance(key, str):
        found = _bytes_of({"look_up_keys": key}, "look_up_keys")
    elif isinstance(key, dict) and key.keys() == {"base64"}:
        found = _bytes_of({"look_up_keys_base64": key["base64"]}, "look_up_keys")
    else:
        found = None
    if found is None:
        raise _NotAMessageError('each look-up key must be a string, or an object such as {"base64": "/w=="}')
    return found


def _moment_of(fields: dict[str, Any]) -> datetime | None:
    text = fields.get("deliver_at")
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None and moment.year >= 1970:
            return moment
    except (TypeError, ValueError):
        pass
    raise _NotAMessageError("the field deliver_at must be a time with a time zone, as in 2026-11-21T08:30:00Z")


def _headers_of(fields: dict[str, Any]) -> Headers:
    headers = fields.get("headers") or []
    if isinstance(headers, dict):  # what a person writes
        headers = [{"name": name, "value": value} for name, value in headers.items()]
    if not isinstance(headers, list) or not all(isinstance(header, dict) for header in headers):
        raise _NotAMessageError('the field headers must be a list such as [{"name": "trace", "value": "1"}]')
    return tuple(_header_of(header) for header in headers)


def _header_of(header: dict[str, Any]) -> tuple[str, bytes]:
    name, value = header.get("name"), _bytes_of(header, "value")
    if not isinstance(name, str) or value is None or header.keys() - {"name", "value", "value_base64"}:
        raise _NotAMessageError('each header must have a name and a value, as in {"name": "trace", "value": "1"}')
    return name, value


def _bytes_of(fields: dict[str, Any], name: str) -> bytes | None:
    text, coded = fields.get(name), fields.get(f"{name}_base64")
    if text is not None and coded is not None:
        raise _NotAMessageError(f"it has both {name} and {name}_base64: give one of them")
    if not isinstance(text, str | None) or not isinstance(coded, str | None):
        raise _NotAMessageError(f"the field {name} must be a string")
    try:
        if coded is not None:
            return base64.b64decode(coded, validate=True)
        return None if text is None else text.encode()
    except (binascii.Error, ValueError):
        raise _NotAMessageError(
            f"the field {name}_base64 is not base64" if coded is not None else f"the field {name} is not valid Unicode"
        ) from None
