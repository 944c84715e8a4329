"""What the suite says of each target, and the runs behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One target. `met` None: it is told, and nothing was promised."""

    what: str
    target: str
    reached: str
    met: bool | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a command, with what it said."""

    name: str
    command: str
    figures: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two kinds of runs that took turns, in `unit`: medians; `ratio`: the median of those of the rounds."""

    name: str
    ours: float
    other: float
    ratio: float
    unit: str = "MB/s"
    # The ratio that is to be reached.
    least: float | None = None
    note: str = ""


@dataclass(slots=True)
class Part:
    """One chapter of the page."""

    title: str
    rows: list[Row] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)


def verdict(rows: Sequence[Row]) -> str:
    """ "9 of 12 targets met"."""
    judged = [row for row in rows if row.met is not None]
    return f"{sum(bool(row.met) for row in judged)} of {len(judged)} targets met"
