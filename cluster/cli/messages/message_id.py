"""The id of a message on the command line: `topic:queue:offset`."""

from __future__ import annotations

from typing import Any, NamedTuple

import click


class MessageId(NamedTuple):
    topic: str
    queue: int
    offset: int


def parsed_id(text: str) -> MessageId | None:
    """Return the id that the text is, or None if it is none."""
    topic, *numbers = text.split(":")
    if len(numbers) != 2 or not all(number.isascii() and number.isdecimal() for number in numbers):
        return None
    return MessageId(topic, int(numbers[0]), int(numbers[1]))


class MessageIdType(click.ParamType[MessageId]):
    """The click type of a message id, topic:queue:offset."""

    name = "topic:queue:offset"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> MessageId:
        if isinstance(value, MessageId):
            return value
        place = parsed_id(value)
        if place is None:
            self.fail(f"{value!r} is not the id of a message: give TOPIC:QUEUE:OFFSET, as in orders:3:1042", param, ctx)
        return place
