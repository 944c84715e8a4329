"""Writes the results of a comparison: tables in Markdown and on a terminal, and every run as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.peers.awaiting import CROWDS
from bench.peers.peer import WAYS, Way
from bench.peers.rates import SIZES, Against, Case, ClientRates
from bench.peers.rounds import ContestScale
from ledger.report.text import markdown_table, write_json

_TITLES: Mapping[Way, str] = {
    "each": "One send for each message, messages/s",
    "bulk": "In bulk, messages/s",
    "consume": "Consumed from the earliest, messages/s",
}
_AWAITED = "Clients that each send one message and wait for its acknowledgement"
_AWAITED_COLUMNS = [
    "peer",
    "clients",
    "ratio of messages/s",
    "theirs/s",
    "ours/s",
    "theirs, p50 / p99 ms",
    "ours, p50 / p99 ms",
    "theirs, CPU µs a message, client / servers",
    "ours, CPU µs a message, client / servers",
]
_SIZE_NAMES = {128: "128 B", 1024: "1 KiB"}
_COMPARED = ["client", "consumed", "missing", "never sent", "twice", "runs done again", "load average at its start"]
_NOTE = (
    "*ours* is ledgermq, measured just before and just after that peer with the same load processes. It runs with "
    "`flush = sync` if the peer syncs before it acknowledges. Ratios are ours / theirs, of medians. The processes of "
    "all clients have the same allocator settings (cluster/allocator.py)."
)


@dataclass(frozen=True, slots=True)
class PeerResults:
    """All results of a comparison. `skipped` maps each peer that was skipped to the reason. `machine` is the result of
    `suite.machine.machine`.
    """

    when: str
    machine: Mapping[str, str]
    scale: ContestScale
    found: Sequence[Against]
    skipped: Mapping[str, str]


def write(told: PeerResults, directory: Path) -> Path:
    """Write `peers.md` and `results.json`. Return the path of `peers.md`."""
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "results.json", as_json(told))
    page = directory / "peers.md"
    page.write_text(markdown(told), encoding="utf-8")
    return page


def show(told: PeerResults, *, console: Console, as_json: bool) -> None:
    """Print the tables, or the summary as JSON, to standard output."""
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
    if rows := _awaited_rows(told):
        table = Table(title=_AWAITED, title_justify="left")
        for column in _AWAITED_COLUMNS:
            table.add_column(column)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    for title, reason in told.skipped.items():
        console.print(f"{title}: skipped: {reason}", highlight=False, soft_wrap=True)


def markdown(told: PeerResults) -> str:
    parts = [f"# ledgermq and others, {told.when}", _NOTE]
    for way in WAYS:
        parts += [f"## {_TITLES[way]}", markdown_table(_columns(), _rows(told, way))]
    if rows := _awaited_rows(told):
        parts += [f"## {_AWAITED}", markdown_table(_AWAITED_COLUMNS, rows)]
    parts += ["## What was measured", markdown_table(["system", "acknowledged by", "fsynced"], _systems(told))]
    parts += ["## How it was driven", markdown_table(["client", "each", "bulk", "consume"], _clients(told))]
    parts += ["## What was consumed is what was sent", markdown_table(_COMPARED, _compared(told))]
    parts += ["## Machine", "\n".join(f"- {name}: {what}" for name, what in told.machine.items())]
    if told.skipped:
        parts += ["## Skipped", "\n".join(f"- {title}: {reason}" for title, reason in told.skipped.items())]
    return "\n\n".join(parts) + "\n"


def as_json(told: PeerResults) -> dict[str, Any]:
    """Return the summary and all runs as values that JSON can represent."""
    return {
        "when": told.when,
        "machine": dict(told.machine),
        "scale": asdict(told.scale),
        "summary": _summary(told),
        "found": [asdict(against) for against in told.found],
        "skipped": dict(told.skipped),
    }


def _summary(told: PeerResults) -> list[dict[str, Any]]:
    """Return the rows of the summary: one row for each client and each case."""
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


def _rows(told: PeerResults, way: Way) -> list[list[str]]:
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


def _awaited_rows(told: PeerResults) -> list[list[str]]:
    rows = []
    for against in told.found:
        for rates in against.peer.rates:
            for crowd in CROWDS:
                if (both := against.awaited(rates.client, crowd)) is None:
                    continue
                theirs, mine = both
                rows.append(
                    [f"{against.peer.name}, {rates.client}", crowd.words, f"{mine.per_s / theirs.per_s:.2f}"]
                    + [f"{each.per_s:,.0f}" for each in both]
                    + [f"{each.p50_ms:.2f} / {each.p99_ms:.2f}" for each in both]
                    + [f"{each.client_us:,.0f} / {each.server_us:,.0f}" for each in both]
                )
    return rows


def _systems(told: PeerResults) -> list[list[str]]:
    measured = {each.name: each.description for found in told.found for each in (found.peer, *found.ours)}
    return [[f"{name} ({it.version})", it.replication, it.flush] for name, it in measured.items()]


def _clients(told: PeerResults) -> list[list[str]]:
    clients: dict[str, ClientRates] = {
        rates.client: rates for found in told.found for each in (found.peer, *found.ours) for rates in each.rates
    }
    return [[name, rates.how.each, rates.how.bulk, rates.how.consume] for name, rates in clients.items()]


def _compared(told: PeerResults) -> list[list[str]]:
    rows = []
    for found in told.found:
        for each in (found.peer, *found.ours):
            for rates in each.rates:
                it = rates.compared
                counts = (rates.consumed, it.missing, it.strange, it.twice, len(each.failures))
                rows.append([f"{each.name}, {rates.client}", *(f"{count:,}" for count in counts), f"{each.load:.1f}"])
    return rows
