"""Measures how fast one client sends rows with a key each: in one call, as a table, and one call for each row."""

from __future__ import annotations

import json
import shlex
from statistics import median
from typing import Any

from bench.suite.rows import SuiteChapter, TargetRow
from bench.suite.scale import SuiteScale
from bench.suite.stage import Running, Stage

ROWS = 200_000
# The way of sending, what the page calls it, and the rows/s to reach.
WAYS = (
    ("send_many", "send_many, pairs of key and value", 250_000),
    ("send_table", "send_table, an Arrow table", None),
    ("send_nowait", "send_nowait of the synchronous producer, in a loop", 30_000),
    ("async", "send_nowait of the asyncio producer, in a loop", None),
)


def ways_of_sending(stage: Stage, scale: SuiteScale) -> SuiteChapter:
    """Measure all ways in one process, in rounds. The cluster has one node, so that the client has a core for itself
    on a small machine."""
    part = SuiteChapter(f"{ROWS:,} JSON rows with a key each, one client, one node")
    with stage.cluster(nodes=1) as running:
        lines = _run(running, max(2, scale.rounds))
    for way, what, least in WAYS:
        mine = [line for line in lines if line["way"] == way]
        if not mine:
            continue
        best = max(line["rows_per_s"] for line in mine)
        told = f"{best:,.0f}/s (median {median(line['rows_per_s'] for line in mine):,.0f}/s)"
        cpu = median(line["cpu_us"] for line in mine)
        note = f"CPU of the client for each row: {cpu:.2f} µs; load of the machine up to {max(_loads(mine)):.0f}"
        target = "-" if least is None else f"≥ {least:,}/s"
        part.rows.append(TargetRow(what, target, told, None if least is None else best >= least, note))
    return part


def _run(running: Running, rounds: int) -> list[dict[str, Any]]:
    words = ["-m", "bench.clients.keyed_rows", "--rows", str(ROWS), "--rounds", str(rounds), "--json"]
    printed = running.stage.script([*words, "--bootstrap", running.cluster.bootstrap])
    lines: list[dict[str, Any]] = [json.loads(line) for line in printed.splitlines()]
    for line in lines:
        figures = {"records_per_s": line["rows_per_s"], "cpu_us_per_record": line["cpu_us"], "load": line["load"]}
        running.stage.record(f"keyed rows, {line['way']}", shlex.join(["python", *words]), figures)
    return lines


def _loads(lines: list[dict[str, Any]]) -> list[float]:
    return [line["load"] for line in lines]
