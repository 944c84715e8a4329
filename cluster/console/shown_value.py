"""Shows bytes of a stranger as text: JSON, plain text or hexadecimal, without anything that a page or a terminal obeys.

The templates escape HTML. This module makes control characters visible, and cuts what is long. No I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Form = Literal["json", "text", "hex"]
FORMS: tuple[Form, ...] = ("json", "text", "hex")
# What a page shows of a value, in bytes, in each form; and the characters of laid out JSON.
SHOWN_BYTES = 64 << 10
SHOWN_HEX_BYTES = 16 << 10
SHOWN_CHARACTERS = 256 << 10
LINE_CHARACTERS = 120
HEX_ROW = 16

# All control characters but tab and line feed, those that change the direction of text, and those that have no width.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
# The share of control characters above which bytes are shown in hexadecimal by default.
_BINARY_RATIO = 0.1


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A value as a page shows it. `note` says why it is not shown as asked, or that it is cut; else it is empty."""

    form: Form
    text: str
    size: int
    is_cut: bool
    note: str = ""


class _NotShownAsJsonError(Exception):
    """The text says why the value is not laid out as JSON."""


def shown_value(data: bytes, form: str = "") -> ShownValue:
    """Return the value in this form; if `form` is none of `FORMS`, in the form that fits."""
    note = ""
    if form in ("", "json"):
        try:
            return _as_json(data)
        except _NotShownAsJsonError as error:
            note = str(error) if form else ""
    if form == "hex" or (form not in FORMS and _is_binary(data[:SHOWN_BYTES])):
        return _as_hex(data)
    return _as_text(data, note)


def line(data: bytes | None) -> str:
    """Return the beginning of the bytes on one line."""
    if data is None:
        return ""
    text = _visible(data[: 4 * LINE_CHARACTERS].decode(errors="backslashreplace")).replace("\n", "\\n")
    text = text.replace("\t", "\\t")
    return text if len(text) <= LINE_CHARACTERS else text[: LINE_CHARACTERS - 1] + "…"


def whole(data: bytes | str) -> str:
    """Return a key, a tag or a header completely, with visible control characters."""
    return _visible(data if isinstance(data, str) else data.decode(errors="backslashreplace"))


def _as_json(data: bytes) -> ShownValue:
    if len(data) > SHOWN_BYTES:
        raise _NotShownAsJsonError(f"The value is larger than {SHOWN_BYTES >> 10} KiB, so it is not laid out as JSON.")
    try:
        parsed = json.loads(
            data.decode(), object_pairs_hook=_object, parse_constant=_refuse, parse_float=_Number, parse_int=_Number
        )
        if not isinstance(parsed, dict | list):
            raise _NotShownAsJsonError("The value is no JSON object or list.")
        text, is_cut = _laid_out(parsed)
    except (ValueError, RecursionError) as error:
        reason = "too deep" if isinstance(error, RecursionError) else str(error)[:100]
        raise _NotShownAsJsonError(f"The value cannot be laid out as JSON: {reason}") from None
    note = "The layout is cut: the form text shows more." if is_cut else ""
    return ShownValue("json", _visible(text), len(data), is_cut, note)


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has the same name twice")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _laid_out(parsed: Any) -> tuple[str, bool]:
    """Return the text, and whether it is cut. A short value can have a long layout if it is deep."""
    parts: list[str] = []
    size = 0
    for part in _layout(parsed, "\n"):
        parts.append(part)
        size += len(part)
        if size > SHOWN_CHARACTERS:
            return "".join(parts)[:SHOWN_CHARACTERS], True
    return "".join(parts), False


def _layout(value: Any, new_line: str) -> Iterator[str]:
    """Yield the text of a value in pieces. `new_line` has the indentation of the value's last line."""
    if isinstance(value, dict) and value:
        for place, (name, each) in enumerate(value.items()):
            yield f"{',' if place else '{'}{new_line}  {json.dumps(name, ensure_ascii=False)}: "
            yield from _layout(each, f"{new_line}  ")
        yield f"{new_line}}}"
    elif isinstance(value, list) and value:
        for place, each in enumerate(value):
            yield f"{',' if place else '['}{new_line}  "
            yield from _layout(each, f"{new_line}  ")
        yield f"{new_line}]"
    elif isinstance(value, _Number):
        yield value
    else:
        yield json.dumps(value, ensure_ascii=False)


def _as_text(data: bytes, note: str) -> ShownValue:
    is_cut = len(data) > SHOWN_BYTES
    text = data[:SHOWN_BYTES].decode(errors="backslashreplace")
    if not note and is_cut:
        note = f"Only the first {SHOWN_BYTES >> 10} KiB are shown."
    return ShownValue("text", _visible(text), len(data), is_cut, note)


def _as_hex(data: bytes) -> ShownValue:
    is_cut = len(data) > SHOWN_HEX_BYTES
    rows = []
    for at in range(0, min(len(data), SHOWN_HEX_BYTES), HEX_ROW):
        row = data[at : at + HEX_ROW]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{at:08x}  {row.hex(' '):<{HEX_ROW * 3 - 1}}  {letters}")
    note = f"Only the first {SHOWN_HEX_BYTES >> 10} KiB are shown." if is_cut else ""
    return ShownValue("hex", "\n".join(rows), len(data), is_cut, note)


def _is_binary(data: bytes) -> bool:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if error.start < len(data) - 3:  # else the cut has split a character
            return True
        text = data[: error.start].decode()
    return len(_CONTROLS.findall(text)) > _BINARY_RATIO * len(text)


def _visible(text: str) -> str:
    """Return the text with escapes in place of characters that act and do not show."""
    return _CONTROLS.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
