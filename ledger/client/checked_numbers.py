"""Checks numbers that a program gives: settings of clients, and arguments of calls."""

from __future__ import annotations

import math
from numbers import Real
from typing import SupportsIndex

from ledger.errors import InvalidArgumentError

# Times and numbers without a limit of their own. Much larger ones cannot be added to the present time.
NO_LIMIT = 1 << 53


def as_whole(value: object) -> int | None:
    """Return a whole number as an int; it may be an integer of NumPy. Return None for everything else, also for True
    and False."""
    if isinstance(value, (bool, type)):  # a class has the methods of its objects
        return None
    return value.__index__() if isinstance(value, SupportsIndex) else None


def checked_whole(name: str, value: object, lowest: int, highest: int = NO_LIMIT) -> int:
    """Return the whole number `value` as an int; it may be an integer of NumPy. Raises InvalidArgumentError, whose text
    names the argument."""
    number = as_whole(value)
    if number is not None and lowest <= number <= highest:
        return number
    raise InvalidArgumentError(f"{name} is {value!r}: it must be a whole number{_between(lowest, highest)}.")


def checked_number(name: str, value: object, lowest: float, highest: float = NO_LIMIT) -> float:
    """Return the number `value`, which may have a fraction. Raises InvalidArgumentError, whose text names the
    argument."""
    number = value if isinstance(value, (Real, SupportsIndex)) and not isinstance(value, (bool, type)) else math.nan
    if lowest <= float(number) <= highest:
        return number if isinstance(number, (int, float)) else float(number)
    raise InvalidArgumentError(f"{name} is {value!r}: it must be a number{_between(lowest, highest)}.")


def checked_timeout(value: object, name: str = "timeout_ms") -> float | None:
    """Return a time limit of a call in milliseconds, or None, which means that there is none. Raises
    InvalidArgumentError."""
    if value is None or value == math.inf:
        return None
    return checked_number(name, value, 0)


def checked_wait(name: str, value: object) -> float:
    """Return how long a call waits, which may be endless. Raises InvalidArgumentError, whose text names the
    argument."""
    return math.inf if value == math.inf else checked_number(name, value, 0)


def _between(lowest: float, highest: float) -> str:
    return f", at least {lowest:,}" if highest == NO_LIMIT else f" from {lowest:,} to {highest:,}"
