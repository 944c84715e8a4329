"""What came of it: tables in Markdown and on a terminal, and every run as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.peers.peer import WAYS, Way
from bench.peers.rates import SIZES, Against, Case, Rates
from bench.peers.rounds import Scale
from ledger.report.text import markdown_table, write_json

_TITLES: Mapping[Way, str] = {
    "each": "One send for each message, messages/s",
    "bulk": "In bulk, messages/s",
    "consume": "Consumed from the earliest, messages/s",
}
_SIZE_NAMES = {128: "128 B", 1024: "1 KiB"}
_COMPARED = ["client", "consumed", "missing", "never sent", "twice", "runs done again", "load average at its start"]
_NOTE = (
    "ours: ledgermq just before and just after that peer, under the same load processes; with `flush = sync` where the "
    "peer fsyncs before it acknowledges. Ratios are ours / theirs, of medians. Every client's process has the "
    "same settings of the allocator (cluster/allocator.py)."
)


@dataclass(frozen=True, slots=True)
class Told:
    """`skipped`: by peer, why. `machine`: what `suite.machine` tells of it."""

    when: str
    machine: Mapping[str, str]
    scale: Scale
    found: Sequence[Against]
    skipped: Mapping[str, str]


def write(told: Told, directory: Path) -> Path:
    """`peers.md` and `results.json`; gives the page's path."""
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "results.json", as_json(told))
    page = directory / "peers.md"
    page.write_text(markdown(told), encoding="utf-8")
    return page


def show(told: Told, *, console: Console, as_json: bool) -> None:
    """On standard output."""
    if as_json:
        print(json.dumps(_summary(told), indent=2))
        return
    for way in WAYS:
        table = Table(title=_TITLES[way], title_justify="left")
        for column in _columns():
            table.add_column(column, justify="left" if column == "peer" else "right")
        for row in _rows(told, way):
            table.add_row(*row)
        console.print(table)
    for title, reason in told.skipped.items():
        console.print(f"{title}: skipped: {reason}", highlight=False, soft_wrap=True)


def markdown(told: Told) -> str:
    parts = [f"# ledgermq and others, {told.when}", _NOTE]
    for way in WAYS:
        parts += [f"## {_TITLES[way]}", markdown_table(_columns(), _rows(told, way))]
    parts += ["## What was measured", markdown_table(["system", "acknowledged by", "fsynced"], _systems(told))]
    parts += ["## How it was driven", markdown_table(["client", "each", "bulk", "consume"], _clients(told))]
    parts += ["## What was consumed is what was sent", markdown_table(_COMPARED, _compared(told))]
    parts += ["## Machine", "\n".join(f"- {name}: {what}" for name, what in told.machine.items())]
    if told.skipped:
        parts += ["## Skipped", "\n".join(f"- {title}: {reason}" for title, reason in told.skipped.items())]
    return "\n\n".join(parts) + "\n"


def as_json(told: Told) -> dict[str, Any]:
    """The summary, and all runs."""
    return {
        "when": told.when,
        "machine": dict(told.machine),
        "scale": asdict(told.scale),
        "summary": _summary(told),
        "found": [asdict(against) for against in told.found],
        "skipped": dict(told.skipped),
    }


def _summary(told: Told) -> list[dict[str, Any]]:
    """A row for each client and case."""
    return [
        {
            "peer": against.peer.name,
            "client": rates.client,
            "way": way,
            "size": size,
            "theirs_per_s": round(against.theirs(rates.client, Case(way, size))),
            "ours_per_s": round(against.mine(Case(way, size))),
            "ratio": round(against.ratio(rates.client, Case(way, size)), 3),
        }
        for against in told.found
        for rates in against.peer.rates
        for way in WAYS
        for size in SIZES
    ]


def _columns() -> list[str]:
    return ["peer", *(f"{name}{what}" for name in _SIZE_NAMES.values() for what in (", theirs", ", ours", ", ratio"))]


def _rows(told: Told, way: Way) -> list[list[str]]:
    rows = []
    for against in told.found:
        for rates in against.peer.rates:
            row = [f"{against.peer.name}, {rates.client}"]
            for size in SIZES:
                case = Case(way, size)
                row += [f"{against.theirs(rates.client, case):,.0f}", f"{against.mine(case):,.0f}"]
                row.append(f"{against.ratio(rates.client, case):.2f}")
            rows.append(row)
    return rows


def _systems(told: Told) -> list[list[str]]:
    measured = {each.name: each.description for found in told.found for each in (found.peer, *found.ours)}
    return [[f"{name} ({it.version})", it.replication, it.flush] for name, it in measured.items()]


def _clients(told: Told) -> list[list[str]]:
    clients: dict[str, Rates] = {
        rates.client: rates for found in told.found for each in (found.peer, *found.ours) for rates in each.rates
    }
    return [[name, rates.how.each, rates.how.bulk, rates.how.consume] for name, rates in clients.items()]


def _compared(told: Told) -> list[list[str]]:
    rows = []
    for found in told.found:
        for each in (found.peer, *found.ours):
            for rates in each.rates:
                it = rates.compared
                counts = (rates.consumed, it.missing, it.strange, it.twice, len(each.failures))
                rows.append([f"{each.name}, {rates.client}", *(f"{count:,}" for count in counts), f"{each.load:.1f}"])
    return rows
