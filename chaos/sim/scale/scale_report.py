"""Shows what a run of the scale world has found, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from chaos.sim.scale.options import ScaleOptions
from chaos.sim.scale.scale_run import Rate, ScaleReport, ScenarioFigures


def as_json(reports: Sequence[ScaleReport], options: ScaleOptions) -> dict[str, Any]:
    """Return all figures. Times of this machine are in `cpu_s` and `slowest_plan_ms`; all else depends only on the
    seed, the options and the code."""
    return {
        "passed": not any(report.reason for report in reports),
        "seeds": len(reports),
        "options": asdict(options),
        "failures": [
            {"seed": report.seed, "reason": report.reason, "void": False} for report in reports if report.reason
        ],
        "runs": [
            {
                "seed": report.seed,
                "digest": report.digest,
                "simulated_s": round(report.simulated_s, 1),
                "cpu_s": round(report.cpu_s, 1),
                "slowest_plan_ms": report.slowest_plan_ms,
                "scenarios": [
                    {name: value._asdict() if isinstance(value, Rate) else value for name, value in _fields(each)}
                    for each in report.figures
                ],
            }
            for report in reports
        ],
    }


def _fields(figures: ScenarioFigures) -> list[tuple[str, Any]]:
    found = [(name, getattr(figures, name)) for name in ScenarioFigures.__dataclass_fields__]
    return [*found, ("ratio", round(figures.ratio, 3))]


def rows(report: ScaleReport) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the head and the rows of a table with one column for each scenario."""
    figures = report.figures
    head = ("seed " + str(report.seed), *(each.scenario for each in figures))

    def row(name: str, *values: str) -> tuple[str, ...]:
        return (name, *values)

    def rates(name: str, of: Sequence[Rate]) -> tuple[str, ...]:
        return row(name, *(f"{each.mean:,.0f}, {each.most:,.0f}" for each in of))

    table = [
        row("nodes", *(str(each.nodes) for each in figures)),
        row("simulated time", *(f"{each.seconds:,.0f} s" for each in figures)),
        row("moves of replicas", *(f"{each.moves:,}" for each in figures)),
        row("least moves", *(f"{each.least_moves:,}" for each in figures)),
        row("moved", *(f"{each.bytes_moved / 1e9:,.1f} GB" for each in figures)),
        row("least possible", *(f"{each.least_bytes / 1e9:,.1f} GB" for each in figures)),
        row("moved / least", *(f"{each.ratio:.2f}" if each.least_bytes else "-" for each in figures)),
        row("elections", *(f"{each.elections:,}" for each in figures)),
        row("most shards without leader", *(f"{each.most_leaderless:,}" for each in figures)),
        row("shards without leader", *(f"{each.leaderless_s:,.1f} shard s" for each in figures)),
        rates("Raft messages /s: mean, most", [each.raft_messages for each in figures]),
        rates("  in bundles /s", [each.raft_bundles for each in figures]),
        rates("calls of placement /s", [each.keeper_calls for each in figures]),
        rates("group heartbeats /s", [each.heartbeats for each in figures]),
        rates("fetches without messages /s", [each.fetches for each in figures]),
        row("consumers whose coordinator moved", *(f"{each.coordinators_lost:,}" for each in figures)),
        row("most that a node sent", *(f"{each.peak_sent_mb_per_s:,.0f} MB/s" for each in figures)),
        row("replicas of nodes differ by", *(str(each.replicas_differ) for each in figures)),
        row("longest plan() here", *(f"{report.slowest_plan_ms[each.scenario]:,.1f} ms" for each in figures)),
    ]
    return head, table
