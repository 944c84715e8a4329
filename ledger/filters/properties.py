"""The properties of some messages, as filters see them.

A property is a text, and a message may lack it. A filter that compares a property with a number or a boolean reads the
text as such. A text that is none counts as unknown, as if the message lacked the property.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum

Value = str | int | float | bool

# Longer texts are no numbers: reading a number takes longer than linear time.
MAX_NUMBER_CHARACTERS = 64
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Kind(Enum):
    """As what the two sides of a comparison are read."""

    TEXT = "a text"
    NUMBER = "a number"
    BOOLEAN = "a boolean"


class Properties:
    """The properties of `count` messages. What was read as a number or a boolean once is kept."""

    def __init__(self, count: int, texts: Mapping[str, Sequence[str | None]]) -> None:
        """`texts` has for each name one text for each message; None: the message lacks the property. All messages lack
        the properties that are not in `texts`."""
        self._count = count
        self._texts = texts
        self._read: dict[tuple[str, Kind], Sequence[Value | None]] = {}

    def __len__(self) -> int:
        return self._count

    def values(self, name: str, kind: Kind) -> Sequence[Value | None]:
        """Return the property of each message. None: the message lacks it, or it cannot be read as this kind."""
        texts = self._texts.get(name)
        if texts is None:
            return [None] * self._count
        if kind is Kind.TEXT:
            return texts
        if (read := self._read.get((name, kind))) is None:
            reads = number_of if kind is Kind.NUMBER else boolean_of
            read = self._read[name, kind] = [None if text is None else reads(text) for text in texts]
        return read


def number_of(text: str) -> int | float | None:
    """Return the number that a text is, such as 12, -0.5 or 6e23. Return None if it is none."""
    if len(text) > MAX_NUMBER_CHARACTERS or _NUMBER.fullmatch(text) is None:
        return None
    return int(text) if _WHOLE.fullmatch(text) else float(text)


def boolean_of(text: str) -> bool | None:
    """Return the boolean that a text is: true or false, in upper or lower case. Return None if it is none."""
    return {"true": True, "false": False}.get(text.lower()) if len(text) <= len("false") else None
