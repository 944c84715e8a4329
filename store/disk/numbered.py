"""Names of files that are numbers: 20 digits, so that they sort as the numbers do."""

from __future__ import annotations

from collections.abc import Iterable

_DIGITS = 20


def name_of(number: int) -> str:
    return f"{number:0{_DIGITS}}"


def is_number(name: str) -> bool:
    return len(name) == _DIGITS and name.isascii() and name.isdecimal()


def numbers_of(names: Iterable[str]) -> list[int]:
    """Those of the names that are numbers, in the order of the names; files of other names are none of ours."""
    return [int(name) for name in names if is_number(name)]
