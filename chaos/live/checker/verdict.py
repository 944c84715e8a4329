"""Gives the verdict on a whole history: valid, not valid, or void.

A run in which too little was checked is not counted as valid. If too little was acknowledged, or a queue was not read
to its end, the verdict is void, even if no anomaly was found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chaos.live.checker.anomaly import Finding
from chaos.live.checker.columns import FAIL, OK, UNKNOWN, HistoryColumns
from chaos.live.checker.contents import aborted_reads, lost, mixed_payloads, phantoms
from chaos.live.checker.order import send_findings
from chaos.live.checker.places import duplicates, inconsistent_offsets, reordered, sightings
from chaos.live.checker.polls import poll_findings
from chaos.live.checker.progress import regressions
from chaos.live.checker.replicas import divergence


@dataclass(frozen=True, slots=True)
class HistoryVerdict:
    """`valid` is None if too little was checked for a verdict; `void` then has the reasons, one sentence each."""

    valid: bool | None
    findings: tuple[Finding, ...]
    void: tuple[str, ...]
    figures: dict[str, int]

    @property
    def anomalies(self) -> int:
        return sum(finding.count for finding in self.findings)

    def joined(self, *findings: Finding) -> HistoryVerdict:
        """Return this verdict with additional findings, which do not come from the history."""
        wrong = any(finding.count for finding in findings)
        return replace(self, findings=(*self.findings, *findings), valid=False if wrong else self.valid)

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as plain values: each kind with its count and its first examples."""
        return {
            "valid": self.valid,
            "void": list(self.void),
            "anomalies": {
                finding.kind: {
                    "count": finding.count,
                    "shown": [
                        {"what": anomaly.sentence, "operations": list(anomaly.operations)} for anomaly in finding.shown
                    ],
                }
                for finding in self.findings
            },
            "figures": self.figures,
        }


def judge(columns: HistoryColumns, *, least_acknowledged: int = 1) -> HistoryVerdict:
    """Run all checks. The run is void if fewer than `least_acknowledged` messages were acknowledged."""
    seen = sightings(columns)
    findings = (
        lost(columns, seen),
        duplicates(columns, seen),
        phantoms(columns),
        aborted_reads(columns),
        mixed_payloads(columns),
        inconsistent_offsets(columns, seen),
        reordered(columns, seen),
        *poll_findings(columns),
        *send_findings(columns),
        divergence(columns),
        regressions(columns),
    )
    figures = _figures(columns)
    void = tuple(_void(columns, figures, least_acknowledged))
    wrong = any(finding.count for finding in findings)
    return HistoryVerdict(False if wrong else None if void else True, findings, void, figures)


def _figures(columns: HistoryColumns) -> dict[str, int]:
    sends, reads = columns.sends, columns.reads
    return {
        "operations": columns.operations,
        "acknowledged": int((sends.outcome == OK).sum()),
        "failed": int((sends.outcome == FAIL).sum()),
        "unknown": int((sends.outcome == UNKNOWN).sum()),
        "read": len(reads.offset),
        "read at the end": int(reads.final.sum()),
        "nodes read at the end": len({node for _, node in columns.read_to_end if node > 0}),
        "producers": len(columns.known),
        "queues": len(columns.queues),
    }


def _void(columns: HistoryColumns, figures: dict[str, int], least_acknowledged: int) -> list[str]:
    void = []
    if figures["acknowledged"] < least_acknowledged:
        void.append(f"{figures['acknowledged']} messages were acknowledged; at least {least_acknowledged} are needed")
    unread = sorted(set(_queues_sent(columns)) - {queue for queue, _ in columns.read_to_end})
    if unread:
        names = ", ".join(f"{topic}:{queue}" for topic, queue in (columns.queues[number] for number in unread[:10]))
        void.append(f"these queues were not read to their end: {names}")
    return void


def _queues_sent(columns: HistoryColumns) -> list[int]:
    sends = columns.sends
    queues: list[int] = np.unique(sends.queue[sends.outcome == OK]).tolist()
    return queues
