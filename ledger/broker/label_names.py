"""Bounds the names that stand as labels in the metrics of a node.

A label costs memory in the node and in the monitoring for as long as the node runs, also if its topic is deleted.
Callers choose names. Without a bound, a user with the right to create topics could fill both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

# The label of all names beyond the bound. No topic and no consumer group can have this name.
OTHERS = "(others)"
MAX_NAMES = 5_000


class LabelNames:
    """The first `MAX_NAMES` names stand for themselves, and all further names for `OTHERS`."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def label(self, name: str) -> str:
        """Return the label for this name."""
        if name in self._names:
            return name
        if len(self._names) >= MAX_NAMES:
            return OTHERS
        self._names.add(name)
        return name


def bounded_totals(totals: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the first `MAX_NAMES` names of these with their totals, and the sum of all further ones as `OTHERS`."""
    names = sorted(totals)
    yield from ((name, totals[name]) for name in names[:MAX_NAMES])
    if len(names) > MAX_NAMES:
        yield OTHERS, sum(totals[name] for name in names[MAX_NAMES:])
