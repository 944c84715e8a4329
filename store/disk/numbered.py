"""File names that are numbers have 20 digits, so that the names sort in the order of the numbers."""

from __future__ import annotations

from collections.abc import Iterable

_DIGITS = 20


def name_of(number: int) -> str:
    return f"{number:0{_DIGITS}}"


def is_number(name: str) -> bool:
    return len(name) == _DIGITS and name.isascii() and name.isdecimal()


def numbers_of(names: Iterable[str]) -> list[int]:
    """Return the numbers in the file names `names`, in the same order. Names that are no numbers are left out."""
    return [int(name) for name in names if is_number(name)]
