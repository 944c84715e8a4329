"""Writes the page of a validation: one file that a browser shows without any network.

The size of the page is bounded. The page contains the first violations, shards and notes, and says how many of each it
leaves out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ledger.report.figures import as_svg
from ledger.report.page import write_page as write_html
from ledger.validation.judging.violation import Violation
from ledger.validation.report import plots
from ledger.validation.report.marks import without_place
from ledger.validation.report.report import ShardReport, ValidationReport, some_of_each_kind
from ledger.validation.report.summary import acknowledged_sentence, only_counted, shard_sentence

PAGE = "index.html"
# Shards that have one: first those in which something is wrong.
PICTURES = 16
# Violations in the table.
ROWS = 500
# Of each shard.
NOTES = 50
# The scheme, host and port of a node, in the source of a replica.
_NODE = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+")
_MEANINGS = (
    "everything that was looked at is as it must be",
    "what is committed is damaged, differs, or is missing",
    "something could not be looked at; it goes before 1, and violations are told all the same",
)


def write_page(report: ValidationReport, directory: Path) -> Path:
    """Write `index.html` into the directory and return its path. Raises OSError."""
    drawn, rows = _drawn(report), some_of_each_kind(report.violations, ROWS)
    return write_html(
        directory / PAGE,
        "ledger.validation.report",
        report=report,
        meaning=_MEANINGS[report.status],
        figures=_figures(report),
        console_page=console_page,
        acknowledged=acknowledged_sentence(report),
        shards=[_shard(report, shard, is_drawn=shard.shard in drawn) for shard in report.shards],
        rows=rows,
        more=report.violation_count - len(rows),
        only_counted=only_counted(report),
    )


def console_page(source: str, shard: int) -> str:
    """Return the page of the node's console about this shard, or "" if the source is no node that runs."""
    found = _NODE.match(source)
    return f"{found[0]}/console/shards/{shard}" if found else ""


def _drawn(report: ValidationReport) -> set[int]:
    wrong = {violation.shard for violation in report.violations}
    ordered = sorted(report.shards, key=lambda shard: (shard.shard not in wrong, shard.shard))
    return {shard.shard for shard in ordered[:PICTURES]}


def _shard(report: ValidationReport, shard: ShardReport, *, is_drawn: bool) -> dict[str, Any]:
    violations = [violation for violation in report.violations if violation.shard == shard.shard]
    return {
        "shard": shard,
        "sentence": shard_sentence(shard),
        "replicas": [(replica, replica.terms[-1][0] if replica.terms else None) for replica in shard.replicas],
        "picture": _picture(shard, violations) if is_drawn else "",
        "undrawn": len(shard.replicas) - plots.REPLICAS_DRAWN,
        "without_place": without_place(shard, violations),
        "notes": shard.notes[:NOTES],
        "more_notes": len(shard.notes) - NOTES,
    }


def _picture(shard: ShardReport, violations: list[Violation]) -> str:
    return as_svg(plots.draw(shard, violations), f"shard {shard.shard}")


def _figures(report: ValidationReport) -> list[tuple[str, str]]:
    replicas = [replica for shard in report.shards for replica in shard.replicas]
    return [
        ("shards", f"{len(report.shards):,}"),
        ("replicas", f"{len(replicas):,}"),
        ("entries read", f"{sum(replica.entries for replica in replicas):,}"),
        ("messages read", f"{sum(replica.messages for replica in replicas):,}"),
        ("MB read", f"{report.bytes / 1e6:,.1f}"),
        ("seconds", f"{report.seconds:,.1f}"),
        ("violations", f"{report.violation_count:,}"),
    ]
