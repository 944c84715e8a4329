"""The rules for the names and durations of holds on the log.

Clients check the names and durations of holds before they send a request. Leaders check the rules again before they
propose an entry, and replicas when they apply the entry.
"""

from __future__ import annotations

import re

from ledger.errors import InvalidArgumentError

MAX_HOLDS = 1000
MAX_NAME_LENGTH = 127
MIN_TTL_MS = 1000
MAX_TTL_MS = 366 * 24 * 60 * 60 * 1000
DEFAULT_TTL_MS = 24 * 60 * 60 * 1000

_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,127}", re.ASCII)


def validate_hold(name: str, ttl_ms: int) -> None:
    """Raise InvalidArgumentError if the name or the duration of a hold is not allowed."""
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"{name[: MAX_NAME_LENGTH + 1]!r} is not a valid name of a hold: use 1 to {MAX_NAME_LENGTH} of the "
            "characters A-Z a-z 0-9 _ . : / -"
        )
    if not MIN_TTL_MS <= ttl_ms <= MAX_TTL_MS:
        raise InvalidArgumentError(
            f"A hold cannot last {ttl_ms} ms: choose {MIN_TTL_MS} ms (1 second) to {MAX_TTL_MS} ms (366 days)."
        )
