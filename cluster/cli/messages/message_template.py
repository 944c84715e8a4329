"""Makes messages from a template: `ledgermq produce --template 'order {{count}} at {{time}}'`.

{{count}}      the number of the message, from 1
{{time}}       the time, as in 2026-11-21T08:30:00.000Z
{{unix_ms}}    the time in milliseconds since 1970
{{id}}         32 random hexadecimal digits
{{random:N}}   N random letters and digits
"""

from __future__ import annotations

import re
import secrets
import string
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cluster.cli.options import moment_text
from cluster.load.line_sender import Labels, LineMessage

MAX_RANDOM = 1_000_000
# So many messages are made at once, but not more than so many characters.
_AT_ONCE = 1_000
_AT_ONCE_CHARACTERS = 1 << 20
_CHARACTERS = string.ascii_letters + string.digits
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*(?::\s*(\w+)\s*)?\}\}")
# Takes the number of the message and the time in ms.
_Part = Callable[[int, int], str]


def _random(length: int) -> str:
    return "".join([_CHARACTERS[byte % len(_CHARACTERS)] for byte in secrets.token_bytes(length)])


class Template:
    """A text with placeholders. Raises ValueError if the text has an unknown placeholder."""

    def __init__(self, text: str) -> None:
        self._parts: list[_Part] = []
        at = 0
        for found in _PLACEHOLDER.finditer(text):
            self._parts += [_constant(text[at : found.start()]), _placeholder(found)]
            at = found.end()
        self._parts.append(_constant(text[at:]))

    def fill(self, number: int, now_ms: int) -> bytes:
        """Return the text for message `number`. Undecodable bytes of the command line stay as they were."""
        return "".join([part(number, now_ms) for part in self._parts]).encode(errors="surrogateescape")


def _constant(text: str) -> _Part:
    return lambda _, __: text


def _placeholder(found: re.Match[str]) -> _Part:
    name, argument = found.groups()
    if name == "random" and argument and argument.isascii() and argument.isdecimal() and len(argument) <= 7:
        length = int(argument)
        if 1 <= length <= MAX_RANDOM:
            return lambda _, __: _random(length)
    if argument is None:
        match name:
            case "count":
                return lambda number, _: str(number)
            case "time":
                return lambda _, now_ms: moment_text(now_ms)
            case "unix_ms":
                return lambda _, now_ms: str(now_ms)
            case "id":
                return lambda _, __: secrets.token_hex(16)
    raise ValueError(
        f"{found[0]} is not a placeholder: give {{{{count}}}}, {{{{time}}}}, {{{{unix_ms}}}}, {{{{id}}}}, "
        f"or {{{{random:N}}}} with N from 1 to {MAX_RANDOM:,}"
    )


@dataclass(frozen=True, slots=True)
class MessageTemplate:
    """The template of a message's value and key."""

    value: Template
    key: Template | None
    labels: Labels

    def message(self, number: int) -> LineMessage:
        now_ms = time.time_ns() // 1_000_000
        key = None if self.key is None else self.key.fill(number, now_ms)
        return LineMessage(self.value.fill(number, now_ms), key, self.labels.tag, self.labels.headers, None)

    def messages(self, count: int, at_once: int = _AT_ONCE) -> Iterator[list[LineMessage]]:
        """Yield `count` messages, in lists of at most `at_once` messages."""
        made: list[LineMessage] = []
        size = 0
        for number in range(1, count + 1):
            made.append(self.message(number))
            size += made[-1].size
            if len(made) >= at_once or size >= _AT_ONCE_CHARACTERS:
                yield made
                made, size = [], 0
        if made:
            yield made
