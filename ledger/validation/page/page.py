"""The page of a validation: one file that a browser shows without any network. Needs jinja2 and matplotlib.

One idea: its size is bounded, whatever was found: violations in the table, groups with pictures, and notes are the
first ones, and how many more there are is said.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from ledger.validation.page import plots
from ledger.validation.page.places import without_place
from ledger.validation.report import GroupReport, Report
from ledger.validation.summary import acknowledged_sentence, group_sentence, only_counted, violation_line
from ledger.validation.violation import Violation

PAGE = "index.html"
PICTURES = 16
"""Groups that have one: first those in which something is wrong."""
ROWS = 500
"""Violations in the table."""
NOTES = 50
"""Of each group."""
_MEANINGS = (
    "everything that was looked at is as it must be",
    "what is committed is damaged, differs, or is missing",
    "something could not be looked at; it goes before 1, and violations are told all the same",
)


def write_page(report: Report, directory: Path) -> Path:
    """`index.html` in that directory. Returns its path; raises OSError."""
    environment = Environment(
        loader=PackageLoader("ledger.validation.page", "."), autoescape=select_autoescape(), undefined=StrictUndefined
    )
    drawn = _drawn(report)
    page = directory / PAGE
    text = environment.get_template("page.html").render(
        report=report,
        meaning=_MEANINGS[report.status],
        figures=_figures(report),
        acknowledged=acknowledged_sentence(report),
        groups=[_group(report, group, is_drawn=group.group in drawn) for group in report.groups],
        rows=report.violations[:ROWS],
        more=report.violation_count - len(report.violations[:ROWS]),
        only_counted=only_counted(report),
        line=violation_line,
    )
    page.write_text(text, encoding="utf-8")
    return page


def _drawn(report: Report) -> set[int]:
    wrong = {violation.group for violation in report.violations}
    ordered = sorted(report.groups, key=lambda group: (group.group not in wrong, group.group))
    return {group.group for group in ordered[:PICTURES]}


def _group(report: Report, group: GroupReport, *, is_drawn: bool) -> dict[str, Any]:
    violations = [violation for violation in report.violations if violation.group == group.group]
    return {
        "group": group,
        "sentence": group_sentence(group),
        "replicas": [(replica, replica.terms[-1][0] if replica.terms else None) for replica in group.replicas],
        "picture": _picture(group, violations) if is_drawn else "",
        "undrawn": len(group.replicas) - plots.REPLICAS_DRAWN,
        "without_place": without_place(group, violations),
        "notes": group.notes[:NOTES],
        "more_notes": len(group.notes) - NOTES,
    }


def _picture(group: GroupReport, violations: list[Violation]) -> str:
    return plots.as_svg(plots.draw(group, violations), f"group {group.group}")


def _figures(report: Report) -> list[tuple[str, str]]:
    replicas = [replica for group in report.groups for replica in group.replicas]
    return [
        ("groups", f"{len(report.groups):,}"),
        ("replicas", f"{len(replicas):,}"),
        ("entries read", f"{sum(replica.entries for replica in replicas):,}"),
        ("messages read", f"{sum(replica.messages for replica in replicas):,}"),
        ("MB read", f"{report.bytes / 1e6:,.1f}"),
        ("seconds", f"{report.seconds:,.1f}"),
        ("violations", f"{report.violation_count:,}"),
    ]
