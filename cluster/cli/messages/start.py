"""The click types of the places where reading starts: earliest, latest, an offset, a time, an age, or the last messages
of each queue."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import click

from cluster.cli.options import MomentType

Start = Literal["earliest", "latest"] | int | datetime

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_MAX_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Last:
    """The start of reading at the last `count` messages of each queue."""

    count: int


class StartType(click.ParamType[Start]):
    """The click type of the start of reading: earliest, latest, an offset, an age such as 10m, or a time."""

    name = "earliest|latest|offset|time|age"

    def __init__(self, more: str = "") -> None:
        # What else the option accepts, for the message about a wrong value.
        self._more = more

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        if isinstance(value, int | datetime) or value in ("earliest", "latest"):
            return value  # type: ignore[no-any-return]
        if value.isascii() and value.isdecimal() and len(value) <= _MAX_DIGITS:
            return int(value)
        if (age := re.fullmatch("([0-9]{1,9})([smhd])", value)) is not None:
            return _ago(int(age[1]) * _UNITS[age[2]])
        try:
            return MomentType().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(
                f"{value!r} is not a start: give earliest, latest, an offset, {self._more}10m for ten minutes ago "
                "(s, m, h, d), or a time such as 2026-11-21T08:30:00Z",
                param,
                ctx,
            )


class StartOrLastType(click.ParamType[Start | Last]):
    """The click type of the start of reading, as `StartType`, or -10 for the last 10 messages of each queue."""

    name = "earliest|latest|offset|-count|time|age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Start | Last:
        if isinstance(value, Last):
            return value
        if isinstance(value, str) and re.fullmatch(f"-[0-9]{{1,{_MAX_DIGITS}}}", value):
            return Last(int(value[1:]))
        return StartType("-10 for the last 10 messages of each queue, ").convert(value, param, ctx)


def _ago(seconds: int) -> datetime:
    now = datetime.now(UTC)
    return now - timedelta(seconds=min(seconds, int(now.timestamp())))
