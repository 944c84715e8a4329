"""The results of the suite: rows that compare a figure with its target, and the runs from which the figures come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TargetRow:
    """One performance target of the project, and the measured figure. `met` is None if the figure is only reported
    and has no limit to reach."""

    what: str
    target: str
    reached: str
    met: bool | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """One run of a command, with the figures that the run printed."""

    name: str
    command: str
    figures: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pair:
    """The comparison of two kinds of runs that took turns. `ours` and `other` are medians in `unit`; `ratio` is the
    median of the ratios of all rounds.
    """

    name: str
    ours: float
    other: float
    ratio: float
    unit: str = "MB/s"
    # The ratio to reach.
    least: float | None = None
    note: str = ""


@dataclass(slots=True)
class SuiteChapter:
    """One chapter of the page of results."""

    title: str
    rows: list[TargetRow] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)


def verdict(rows: Sequence[TargetRow]) -> str:
    """Return a sentence such as "9 of 12 targets met"."""
    judged = [row for row in rows if row.met is not None]
    return f"{sum(bool(row.met) for row in judged)} of {len(judged)} targets met"
