"""Reads a test message from the fields of a form. No I/O."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from cluster.console.console import number_in
from ledger.errors import InvalidArgumentError
from ledger.topics import MAX_QUEUES

# How the value is written in the form.
ENCODINGS = {"text": "text", "json": "JSON", "base64": "base64", "hex": "hexadecimal"}
# The check of a longer value would stop the node for too long.
MAX_JSON_CHARACTERS = 1 << 20
MAX_DELAY_S = 40 * 86_400


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to send. None stands for what the form leaves out."""

    value: bytes
    key: str | None
    tag: str | None
    headers: list[tuple[str, str]]
    queue: int | None
    delay: timedelta | None


def new_message(form: Mapping[str, str]) -> NewMessage:
    """Return the message of a form. Raises InvalidArgumentError."""
    queue, delay_s = form.get("queue", "").strip(), number_in(form, "delay", most=MAX_DELAY_S)
    return NewMessage(
        _value(form.get("value", ""), form.get("encoding", "text")),
        form.get("key") or None,
        form.get("tag") or None,
        _headers(form.get("headers", "")),
        number_in(form, "queue", most=MAX_QUEUES - 1) if queue else None,
        timedelta(seconds=delay_s) if delay_s else None,
    )


def _value(text: str, encoding: str) -> bytes:
    text = text.replace("\r\n", "\n")  # a browser sends the lines of a form with CR LF
    if encoding == "json" and len(text) > MAX_JSON_CHARACTERS:
        raise InvalidArgumentError(
            f"A value of more than {MAX_JSON_CHARACTERS:,} characters is not checked as JSON: send it as text."
        )
    try:
        match encoding:
            case "text":
                return text.encode()
            case "json":
                json.loads(text, parse_constant=_refuse)
                return text.encode()
            case "base64":
                return base64.b64decode("".join(text.split()), validate=True)
            case "hex":
                return bytes.fromhex(text)
    except json.JSONDecodeError as error:
        raise InvalidArgumentError(f"The value is no JSON: {error.msg} in line {error.lineno}.") from error
    except (ValueError, RecursionError, binascii.Error) as error:
        raise InvalidArgumentError(f"The value is no {ENCODINGS[encoding]}.") from error
    raise InvalidArgumentError(f"{encoding[:40]!r} is none of {', '.join(ENCODINGS)}.")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _headers(text: str) -> list[tuple[str, str]]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            name, colon, value = line.partition(":")
            if not (colon and name.strip()):
                raise InvalidArgumentError(f"Line {number} of the headers is no header: write it as name: value.")
            found.append((name.strip(), value.strip()))
    return found
