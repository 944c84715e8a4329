"""Computes medians of the runs, and writes them as a table with ratios. This module starts no processes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.rocketmq.contest import NATIVE, SEND, ContestRun
from bench.rocketmq.systems import APACHE, OURS
from ledger.report.text import markdown_table

COLUMNS = [
    "client",
    "measured",
    "Apache /s",
    "ledgermq /s",
    "ratio",
    "Apache p50 / p99 ms",
    "ledgermq p50 / p99 ms",
    "Apache CPU µs, servers / client",
    "ledgermq CPU µs, servers / client",
]


def contest_rows(runs: Sequence[ContestRun]) -> list[list[str]]:
    """Return one row for each client and each way, with the medians of all rounds. The ratio is ours / theirs."""
    found = []
    for client, way, at_once in dict.fromkeys((run.client, run.way, run.at_once) for run in runs if run.way != NATIVE):
        theirs, ours = (
            [run for run in runs if (run.system, run.client, run.way, run.at_once) == (system, client, way, at_once)]
            for system in (APACHE, OURS)
        )
        if not theirs or not ours:
            continue
        rates = [median(run.per_s for run in each) for each in (theirs, ours)]
        what = f"{at_once} in flight" if way == SEND else f"{way}, {at_once} consumer{'s' if at_once > 1 else ''}"
        found.append(
            [
                client,
                what,
                *(f"{rate:,.0f}" for rate in rates),
                f"{rates[1] / rates[0]:.2f}",
                *map(_latencies, (theirs, ours)),
                *map(_cpu, (theirs, ours)),
            ]
        )
    return found


def native_ratios(runs: Sequence[ContestRun]) -> list[str]:
    """Return sentences that compare a single send of each client with one of our native client."""
    native = [run.p50_ms for run in runs if run.way == NATIVE]
    if not native:
        return []
    base = median(native)
    sentences = [f"Our native client, one send in flight: p50 {base:.2f} ms."]
    for client in dict.fromkeys(run.client for run in runs if run.system == OURS and run.way == SEND):
        single = median(
            run.p50_ms for run in runs if (run.system, run.client, run.way, run.at_once) == (OURS, client, SEND, 1)
        )
        sentences.append(f"{client} against ledgermq: {single:.2f} ms, {single / base:.2f} times as long.")
    return sentences


def contest_page(runs: Sequence[ContestRun], notes: Sequence[str]) -> str:
    """Return the page in Markdown. `notes` say how it was measured."""
    failed = sum(run.errors for run in runs)
    parts = [markdown_table(COLUMNS, contest_rows(runs)), *native_ratios(runs)]
    parts.append(f"Errors that clients reported in all runs: {failed}.")
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in notes)]) + "\n"


def _latencies(runs: Sequence[ContestRun]) -> str:
    return f"{median(run.p50_ms for run in runs):.1f} / {median(run.p99_ms for run in runs):.1f}"


def _cpu(runs: Sequence[ContestRun]) -> str:
    return f"{median(run.server_us for run in runs):,.0f} / {median(run.client_us for run in runs):,.0f}"
