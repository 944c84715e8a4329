"""How much of what is wrong is kept: the first things of each kind; of all others, only how many there are.

A log that is wrong everywhere must not fill the memory of whoever judges it, and what is left out is counted all the
same. What lies behind a log's end does not count; so the places of what was left out are kept until that is known.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field

from ledger.validation.judging.violation import ViolationKind

MAX_TOLD = 1000
"""Of each kind, in one span, or in the replay of one replica."""
SURELY = -1
"""Position of what counts wherever the log ends."""


@dataclass(slots=True)
class Bound:
    """Of one span, or one replay."""

    kept: Counter[ViolationKind] = field(default_factory=Counter)
    """By kind; at most `MAX_TOLD` of each."""
    beyond: dict[ViolationKind, array[int]] = field(default_factory=dict)
    """Positions in the log of what was left out."""

    def takes(self, kind: ViolationKind, position: int = SURELY) -> bool:
        """Whether one more is to be kept; else it is counted."""
        if self.kept[kind] < MAX_TOLD:
            self.kept[kind] += 1
            return True
        self.beyond.setdefault(kind, array("q")).append(position)
        return False

    def left_out(self, end: int | None = None) -> Counter[str]:
        """How many, by kind: all, or those before the position `end`."""
        return Counter(
            {
                kind.value: len(places) if end is None else sum(place < end for place in places)
                for kind, places in self.beyond.items()
            }
        )
