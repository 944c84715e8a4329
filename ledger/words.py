"""Words for numbers and entries in sentences."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, such as "1 message" or "2,000 messages". `plural` is the plural of the noun if it
    is not the noun with an "s"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def entries_are(first: int, last: int) -> str:
    """Return the beginning of a sentence about entries of a log: `entry 7 is`, or `entries 7 to 9 are`."""
    return f"entry {first} is" if first == last else f"entries {first} to {last} are"
