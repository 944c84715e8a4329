"""Writes the page of a run as one HTML file. A browser can show this file without a network."""

from __future__ import annotations

import shlex
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from chaos.live.checker.anomaly import CLUSTER_KINDS, KINDS
from chaos.live.checker.cells import OK
from chaos.live.judging import ChaosResult
from chaos.live.leaders import read_reigns
from chaos.live.options import as_arguments
from chaos.live.report import plots
from chaos.live.report.headline import headline
from chaos.live.report.series import series
from chaos.words import node_names
from ledger.history import read_history, to_line
from ledger.report.figures import as_svg, save
from ledger.report.page import write_page

_STEPS = 240
_LEAST_STEP_S = 0.25
_LONGEST_LINE = 2_000
# By verdict: the word on the page, and its colour.
_VERDICTS = {True: ("valid", "good"), False: ("not valid", "bad"), None: ("void", "doubt")}


def write_report(result: ChaosResult, directory: Path) -> Path:
    """Write `report.html`, and its picture as PNG and SVG beside it. Returns the path of the page."""
    seconds = (result.ended - result.began) / 1e9
    found = series(result.columns, result.began, result.ended, max(_LEAST_STEP_S, seconds / _STEPS))
    reigns = read_reigns(directory / "leaders.jsonl")
    figure = plots.draw(found, result.struck, reigns, result.began, result.ended)
    save(figure, directory, "timeline")
    shown = [anomaly for finding in result.verdict.findings for anomaly in finding.shown]
    word, colour = _VERDICTS[result.verdict.valid]
    return write_page(
        directory / "report.html",
        "chaos.live.report",
        options=result.options,
        verdict=result.verdict,
        word=word,
        colour=colour,
        headline=headline(result),
        load_s=result.load_s,
        figures=_figures(result),
        picture=as_svg(figure, "timeline"),
        kinds={**KINDS, **CLUSTER_KINDS},
        shown=shown,
        lines=_lines(result, {operation for anomaly in shown for operation in anomaly.operations}),
        faults=_faults(result),
        command=shlex.join(["ledgermq", "chaos", *as_arguments(result.options)]),
    )


def _figures(result: ChaosResult) -> list[tuple[str, str]]:
    figures, sends = result.verdict.figures, result.columns.sends
    latency_ms = np.sort((sends.end - sends.start)[sends.outcome == OK] / 1e6)
    pauses_s = np.sort([pause.seconds for pause in result.pauses() if pause is not None])
    told = [
        ("messages acknowledged", f"{figures['acknowledged']:,}"),
        ("acknowledged per second", f"{figures['acknowledged'] / max(result.load_s, 1e-9):,.0f}"),
        ("sends without an answer", f"{figures['unknown']:,}"),
        ("sends refused", f"{figures['failed']:,}"),
        ("messages read", f"{figures['read']:,}"),
        ("anomalies", f"{result.verdict.anomalies:,}"),
    ]
    for name, share in _QUANTILES if len(latency_ms) else ():
        told.append((f"latency in ms ({name})", f"{_at(latency_ms, share):,.1f}"))
    for name, share in _QUANTILES if len(pauses_s) else ():
        told.append((f"pause of a fault in s ({name})", f"{_at(pauses_s, share):,.2f}"))
    return told


_QUANTILES = (("median", 0.5), ("99 %", 0.99), ("longest", 1.0))


def _at(values: Any, share: float) -> float:
    return float(values[max(0, int(np.ceil(len(values) * share)) - 1)])


def _faults(result: ChaosResult) -> list[dict[str, Any]]:
    rows = []
    for one, pause in zip(result.struck, result.pauses(), strict=True):
        rows.append(
            {
                "kind": one.kind,
                "target": one.target,
                "nodes": node_names(one.nodes),
                "at": f"{(one.start - result.began) / 1e9:.1f}",
                "seconds": f"{(one.end - one.start) / 1e9:.1f}",
                "pause": None if pause is None else f"{pause.seconds:.2f}",
                "evidence": [piece for evidence in one.evidence for piece in evidence.split("; ")],
                "repairs": one.repairs,
                "void": one.void,
            }
        )
    return rows


def _lines(result: ChaosResult, numbers: set[int]) -> dict[int, str]:
    """Return the operations with these numbers, as lines of the histories."""
    if not numbers:
        return {}
    operations = enumerate(chain.from_iterable(map(read_history, result.histories)))
    return {number: to_line(one).strip()[:_LONGEST_LINE] for number, one in operations if number in numbers}
