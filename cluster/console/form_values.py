"""Reads what users write into forms: times, the place to which offsets are reset, and numbers of queues."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from cluster.console.shown_value import whole
from ledger.client.admin.consumer_groups_admin import ResetTarget
from ledger.errors import InvalidArgumentError

MAX_QUEUES = 20_000
_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_MAX_DIGITS = 18


def moment_of(text: str, now_ms: int) -> datetime:
    """Return the time that a text means: a date and time (UTC if it names no zone), an age such as 10m, or milliseconds
    since 1970. Raises InvalidArgumentError."""
    text = text.strip()
    try:
        if age := re.fullmatch("([0-9]{1,9})([smhd])", text):
            return _at(now_ms) - timedelta(seconds=min(int(age[1]) * _UNITS_S[age[2]], now_ms // 1000))
        if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS:
            return _at(int(text))
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if moment.timestamp() >= 0:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise InvalidArgumentError(
        f'"{whole(text[:40])}" is not a time after 1970: write a time such as 2026-11-21T08:30:00, which is UTC, or '
        "10m for ten minutes ago (s, m, h, d)."
    )


def reset_target(fields: Mapping[str, str], now_ms: int) -> ResetTarget:
    """Return the place that the fields `to`, `time` and `offset` of a form mean. Raises InvalidArgumentError."""
    match fields.get("to", ""):
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
        case "time":
            return moment_of(fields.get("time", ""), now_ms)
        case "offset":
            text = fields.get("offset", "").strip()
            if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS:
                return int(text)
            raise InvalidArgumentError(f'"{whole(text[:40])}" is not an offset: write a number from 0.')
        case other:
            raise InvalidArgumentError(
                f'A reset to "{whole(other[:40])}" is not possible: choose earliest, latest, a time or an offset.'
            )


def queues_of(text: str) -> list[int] | None:
    """Return the numbers in a text such as "0-3, 7", or None if it is empty. Raises InvalidArgumentError."""
    if not text.strip():
        return None
    found: set[int] = set()
    for part in text.split(","):
        numbers = re.fullmatch(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?", part, re.ASCII)
        first, last = (int(numbers[1]), int(numbers[2] or numbers[1])) if numbers else (1, 0)
        if not first <= last < MAX_QUEUES:
            raise InvalidArgumentError(
                f'"{whole(part[:40])}" names no queues: write numbers such as 3 or 0-7, with commas. All must '
                f"be below {MAX_QUEUES:,}."
            )
        found.update(range(first, last + 1))
    return sorted(found)


def _at(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)
