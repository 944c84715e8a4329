"""Writes the results of a run of the suite: a page, and the figures as JSON beside the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.suite.plots import bars
from bench.suite.rows import SuiteChapter, SuiteRun, verdict
from ledger.report.page import write_page
from ledger.report.text import write_json


@dataclass(frozen=True, slots=True)
class SuiteResults:
    """All results of a run of the suite. `failures` has a sentence for each part of the suite that could not be
    measured."""

    when: str
    scale: str
    seconds: float
    machine: dict[str, str]
    parts: Sequence[SuiteChapter]
    runs: Sequence[SuiteRun]
    failures: Sequence[str]


def write(told: SuiteResults, directory: Path) -> Path:
    """Write `index.html` and `results.json`. Return the path of `index.html`."""
    directory.mkdir(parents=True, exist_ok=True)
    results = asdict(told)
    write_json(directory / "results.json", results)
    return write_page(
        directory / "index.html",
        "bench.suite",
        **results,
        verdict=verdict([row for part in told.parts for row in part.rows]),
        pictures={part.title: _picture(part) for part in told.parts},
    )


def _picture(part: SuiteChapter) -> str:
    if not part.pairs:
        return ""
    units = list(dict.fromkeys(pair.unit for pair in part.pairs))
    other = "the ceiling" if units == ["MB/s"] else "the small case"
    return "".join(
        bars([pair for pair in part.pairs if pair.unit == unit], "ours", other, f"{part.title}, {unit}")
        for unit in units
    )
