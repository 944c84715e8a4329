"""Limits how many violations of each kind are kept. Further violations of a kind that has reached its limit are only
counted.

The limit bounds the memory of a validation, even if every entry of a log is wrong. Violations after the end of a log
are not reported. The end of a log is not known at first, so the positions of all violations are kept, also of those
that are only counted.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field

from ledger.validation.judging.violation import ViolationKind

# The most violations of one kind that are kept, in one span or in the replay of one replica.
MAX_TOLD = 1000
# The position of a violation that counts wherever the log ends.
SURELY = -1


@dataclass(slots=True)
class Bound:
    """Counts the violations of one span or one replay."""

    # The number of violations that are kept, by kind: at most `MAX_TOLD` of each.
    kept: Counter[ViolationKind] = field(default_factory=Counter)
    # The positions in the log of violations that are left out, by kind.
    beyond: dict[ViolationKind, array[int]] = field(default_factory=dict)

    def takes(self, kind: ViolationKind, position: int = SURELY) -> bool:
        """Return whether a violation of this kind is kept. A violation that is not kept is counted."""
        if self.kept[kind] < MAX_TOLD:
            self.kept[kind] += 1
            return True
        self.beyond.setdefault(kind, array("q")).append(position)
        return False

    def left_out(self, end: int | None = None) -> Counter[str]:
        """Return, by kind, the number of violations that were only counted. If `end` is given, include only
        violations before this position."""
        return Counter(
            {
                kind.value: len(places) if end is None else sum(place < end for place in places)
                for kind, places in self.beyond.items()
            }
        )
