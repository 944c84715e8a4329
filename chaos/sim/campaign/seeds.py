"""Parses the option `--seeds`: 7, 1..1000 or 1..50,77,200..210."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain


@dataclass(frozen=True, slots=True)
class Seeds:
    """A set of seeds, as ranges in the order in which the user wrote them."""

    ranges: tuple[range, ...]

    @classmethod
    def parse(cls, text: str) -> Seeds:
        """Return the seeds that the user's text describes. Raises ValueError if the text cannot be parsed."""
        return cls(tuple(_range(part) for part in text.split(",")))

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    def __contains__(self, seed: int) -> bool:
        return any(seed in each for each in self.ranges)

    def without(self, done: Sequence[int]) -> list[int]:
        """Return the seeds in the user's order, except the seeds in `done`."""
        leave_out = frozenset(done)
        return [seed for seed in chain(*self.ranges) if seed not in leave_out]


def _range(text: str) -> range:
    first, dots, last = text.strip().partition("..")
    if not first.isdecimal() or (dots and not last.isdecimal()):
        raise ValueError(f"{text!r} is neither a seed such as 7 nor a range such as 1..1000")
    found = range(int(first), int(last if dots else first) + 1)
    if not found:
        raise ValueError(f"the range {text!r} contains no seeds: its first seed must not be larger than its last")
    return found
