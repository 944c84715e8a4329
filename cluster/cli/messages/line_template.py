"""Prints messages by a template with letters: `ledgermq consume orders -f '%t %q %o %k %s\\n'`. No I/O.

The letters are those of kcat, if both programs have the same field. `LETTERS` describes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from cluster.cli.messages.message_writer import Format, Shown, unchanged
from ledger.client.admin.offsets import in_ms
from ledger.client.records import Message

_Part = Callable[[Message, Shown], bytes]

LETTERS = {
    "s": "value",
    "S": "bytes of the value",
    "k": "key",
    "K": "bytes of the key, or -1",
    "h": "headers",
    "g": "tag",
    "l": "look-up keys",
    "t": "topic",
    "q": "queue, also %p",
    "o": "offset",
    "i": "id",
    "T": "timestamp in ms",
    "A": "append time in ms",
    "D": "delivery time in ms, or -1",
    "%": "a percent sign",
}


def _number(number: int) -> bytes:
    return b"%d" % number


def _headers(message: Message, shown: Shown) -> bytes:
    return b",".join([shown(name.encode()) + b"=" + shown(value) for name, value in message.headers])


_WRITERS: dict[str, _Part] = {
    "s": lambda message, shown: shown(message.value),
    "S": lambda message, _: _number(len(message.value)),
    "k": lambda message, shown: shown(message.key or b""),
    "K": lambda message, _: _number(-1 if message.key is None else len(message.key)),
    "h": _headers,
    "g": lambda message, shown: shown((message.tag or "").encode()),
    "l": lambda message, shown: b",".join(map(shown, message.look_up_keys)),
    "t": lambda message, _: message.topic.encode(),
    "q": lambda message, _: _number(message.queue),
    "p": lambda message, _: _number(message.queue),
    "o": lambda message, _: _number(message.offset),
    "i": lambda message, _: message.id.encode(),
    "T": lambda message, _: _number(message.timestamp_ms),
    "A": lambda message, _: _number(message.append_time_ms),
    "D": lambda message, _: _number(-1 if (at := message.deliver_at) is None else in_ms(at)),
    "%": lambda _, __: b"%",
}


def template_format(template: str, shown: Shown = unchanged) -> Format:
    """Return a format function for the template, whose escapes (\\n, \\t, \\x00) are those of Python.

    Raises ValueError if the template has an unknown letter or escape.
    """
    constants = re.split(r"%(?:.|$)", template, flags=re.DOTALL)
    letters = re.findall(r"%(.|$)", template, flags=re.DOTALL)
    if unknown := [letter for letter in letters if letter not in _WRITERS]:
        known = ", ".join(f"%{letter}" for letter in LETTERS)
        raise ValueError(f"%{unknown[0]} is not a letter of the template: the letters are {known}")
    parts = [_constant(constants[0])]
    for letter, constant in zip(letters, constants[1:], strict=True):
        parts += [_WRITERS[letter], _constant(constant)]

    def write(messages: Sequence[Message]) -> bytes:
        return b"".join([part(one, shown) for one in messages for part in parts])

    return write


def _constant(text: str) -> _Part:
    try:
        data = text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("utf-8")
    except UnicodeError as error:
        raise ValueError(f"{text!r} has an incomplete or unknown escape: write \\\\ for a backslash") from error
    return lambda _, __: data
