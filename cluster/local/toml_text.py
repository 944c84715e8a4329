"""Writes values into TOML files."""

from __future__ import annotations

import json

from ledger.errors import InvalidArgumentError


def toml_text(value: object) -> str:
    """Return a string, a number, a truth value or a list of them as a TOML value. Raises InvalidArgumentError for text
    that is not UTF-8, for example a path with other bytes, because no TOML file can contain it.

    A JSON value is a TOML value, with two exceptions: TOML refuses \\x7f if it is not escaped, and the pairs of escapes
    with which JSON writes a character outside the Basic Multilingual Plane, such as an emoji.
    """
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"{value!a} is not UTF-8, and a settings file cannot contain it: choose another name"
        ) from error
    return text
