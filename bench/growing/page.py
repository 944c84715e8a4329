"""Writes the results of growing work: a page with plots and tables, and the figures as JSON beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.growing.curve import GrowthCurve
from bench.growing.plots import lines
from bench.suite.rows import SuiteRun, verdict
from ledger.report.page import write_page
from ledger.report.text import write_json


@dataclass(slots=True)
class GrowingResults:
    """The curves of a run by part, and a sentence for each part that could not be measured."""

    when: str
    scale: str
    machine: Mapping[str, str]
    seconds: float = 0.0
    parts: dict[str, list[GrowthCurve]] = field(default_factory=dict)
    runs: Sequence[SuiteRun] = ()
    failures: list[str] = field(default_factory=list)


def table(curve: GrowthCurve) -> tuple[list[str], list[list[str]]]:
    """Return the heads and the cells of the table of a curve."""
    heads = [curve.what, *(f"{name}, {unit}" for name, unit in curve.units.items())]
    return heads, [[_cell(point.size), *(_cell(point.figures[name]) for name in curve.units)] for point in curve.points]


def write(results: GrowingResults, directory: Path) -> Path:
    """Write `index.html` and `results.json`. Return the path of `index.html`."""
    directory.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = asdict(results)
    write_json(directory / "results.json", told)
    curves = [curve for part in results.parts.values() for curve in part]
    rows = [row for curve in curves for row in curve.rows()]
    return write_page(
        directory / "index.html",
        "bench.growing",
        when=results.when,
        scale=results.scale,
        seconds=results.seconds,
        machine=results.machine,
        runs=results.runs,
        failures=[*results.failures, *(sentence for curve in curves for sentence in curve.failures)],
        rows=rows,
        verdict=verdict(rows),
        parts=[(name, lines(part, name), [(curve.title, *table(curve)) for curve in part])
               for name, part in results.parts.items()],
    )  # fmt: skip


def _cell(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.2f}"
