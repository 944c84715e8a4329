"""The page of a run of the suite, and its figures as JSON beside it. Needs jinja2 and matplotlib."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from bench.suite.plots import bars
from bench.suite.rows import Part, Run, verdict


@dataclass(frozen=True, slots=True)
class Told:
    """All that a run of the suite has to tell. `failures`: sentences about parts that could not be measured."""

    when: str
    scale: str
    seconds: float
    machine: dict[str, str]
    parts: Sequence[Part]
    runs: Sequence[Run]
    failures: Sequence[str]


def write(told: Told, directory: Path) -> Path:
    """`index.html` and `results.json`; gives the page's path."""
    directory.mkdir(parents=True, exist_ok=True)
    results = asdict(told)
    (directory / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=select_autoescape(), undefined=StrictUndefined
    )
    page = directory / "index.html"
    text = environment.get_template("page.html").render(
        **results,
        verdict=verdict([row for part in told.parts for row in part.rows]),
        pictures={part.title: _picture(part) for part in told.parts},
    )
    page.write_text(text, encoding="utf-8")
    return page


def _picture(part: Part) -> str:
    if not part.pairs:
        return ""
    units = list(dict.fromkeys(pair.unit for pair in part.pairs))
    other = "the ceiling" if units == ["MB/s"] else "the small case"
    return "".join(bars([pair for pair in part.pairs if pair.unit == unit], "ours", other) for unit in units)
