"""The figures of a cluster at several sizes of one kind of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.suite.rows import TargetRow

# A rate must not fall to less than this part from one size to the next.
LEAST_STEP = 0.5


@dataclass(frozen=True, slots=True)
class GrowthPoint:
    """The figures at one size. Their names are those of `GrowthCurve.units`."""

    size: float
    figures: dict[str, float]


@dataclass(slots=True)
class GrowthCurve:
    """The points of one kind of work, smallest first. `units` maps the name of each figure to its unit, and `rates`
    names the figures that must not fall off a cliff. `memory`, if it is not empty, names the figure in MB whose growth
    for one unit of work is told. A size that could not be measured has a sentence in `failures`."""

    title: str
    # What grows, in the plural: "connections".
    what: str
    units: dict[str, str]
    rates: Sequence[str] = ()
    memory: str = ""
    points: list[GrowthPoint] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def values(self, name: str) -> list[float]:
        return [point.figures[name] for point in self.points]

    def worst_step(self, name: str) -> tuple[float, float]:
        """Return the smallest ratio of a figure to that of the size before, and the size after that step. Return
        (1, 0) if there is only one point."""
        steps = [
            (after.figures[name] / before.figures[name], after.size)
            for before, after in zip(self.points, self.points[1:], strict=False)
        ]
        return min(steps, default=(1.0, 0.0))

    def slope_kb(self) -> float:
        """Return by how many kB the memory grows for one unit of work, from the smallest size to the largest."""
        first, last = self.points[0], self.points[-1]
        grown_mb = last.figures[self.memory] - first.figures[self.memory]
        return 1000 * grown_mb / (last.size - first.size)

    def rows(self) -> list[TargetRow]:
        """Return a row for each rate, which says whether it has a cliff, and one for the memory."""
        found: list[TargetRow] = []
        if len(self.points) < 2:
            return found
        for name in self.rates:
            ratio, size = self.worst_step(name)
            told = f"{ratio:.2f} at {size:,g} {self.what}"
            found.append(
                TargetRow(f"{self.title}: {name}", f"≥ {LEAST_STEP:g} of the size before", told, ratio >= LEAST_STEP)
            )
        if self.memory:
            told = f"{self.slope_kb():,.1f} kB for each of {self.points[-1].size:,g} {self.what}"
            found.append(TargetRow(f"{self.title}: {self.memory}", "reported", told, None))
        return found
