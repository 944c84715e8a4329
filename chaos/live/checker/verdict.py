"""Gives the verdict on a whole history: valid, not valid, or void.

A run in which too little was checked is not counted as valid. If too little was acknowledged, or a queue was not read
to its end from every node, the verdict is void, even if no anomaly was found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chaos.live.checker.anomaly import Finding
from chaos.live.checker.cells import FAIL, OK, UNKNOWN
from chaos.live.checker.clock_doubt import ClockDoubt
from chaos.live.checker.columns import HistoryColumns
from chaos.live.checker.completeness import FinalReads, absent_reads, queue_names
from chaos.live.checker.contents import aborted_reads, lost, mixed_payloads, phantoms
from chaos.live.checker.order import send_findings
from chaos.live.checker.places import duplicates, inconsistent_offsets, reordered, sightings
from chaos.live.checker.polls import poll_findings
from chaos.live.checker.progress import regressions
from chaos.live.checker.replicas import divergence
from chaos.live.checker.shared import shared_figures, shared_findings
from chaos.live.checker.timed import timed_figures, timed_findings
from chaos.live.checker.transactions import transaction_figures, transaction_findings

# By role of a client: the kinds of anomalies that may follow from missing lines of its history.
UNPROVEN = {
    "producers": (
        "phantom",
        "aborted read",
        "payload mixed up",
        "lost delivery",
        "phantom delivery",
        "aborted delivery",
        "visible rollback",
        "early commit",
        "phantom commit",
        "two outcomes",
    ),
    "sharers": ("consumed twice", "leased twice", "key order", "unsettled"),
    "checkers": ("early commit", "two outcomes"),
    "consumers": ("external poll skip", "external non-monotonic poll"),
    "final": ("lost", "divergence", "external poll skip", "lost delivery", "lost commit", "torn commit"),
}


@dataclass(frozen=True, slots=True)
class HistoryVerdict:
    """`valid` is None if too little was checked for a verdict; `void` then has the reasons, one sentence each. `notes`
    has what a reader should know besides, and what does not change the verdict.
    """

    valid: bool | None
    findings: tuple[Finding, ...]
    void: tuple[str, ...]
    figures: dict[str, int]
    notes: tuple[str, ...] = ()

    @property
    def anomalies(self) -> int:
        return sum(finding.count for finding in self.findings)

    def joined(self, *findings: Finding) -> HistoryVerdict:
        """Return this verdict with additional findings, which do not come from the history."""
        wrong = any(finding.count for finding in findings)
        return replace(self, findings=(*self.findings, *findings), valid=False if wrong else self.valid)

    def without_proof(self, reasons: Iterable[str]) -> HistoryVerdict:
        """Return this verdict with reasons why the run proves nothing. A verdict that is not valid stays so."""
        void = tuple(reasons)
        return replace(self, void=(*self.void, *void), valid=None if void and self.valid else self.valid)

    def without(self, roles: Iterable[str]) -> HistoryVerdict:
        """Return this verdict if clients of these roles have lost lines of their histories. Anomalies of the kinds that
        may follow from the loss prove nothing: a note counts them, and only other anomalies make the run not valid."""
        unsure = {kind for role in roles for kind in UNPROVEN.get(role, ())}
        found = [finding for finding in self.findings if finding.count and finding.kind in unsure]
        kept = tuple(finding for finding in self.findings if finding not in found)
        notes = [
            f"{one.kind}: {one.count:,} found, which do not count, because what is missing may be the reason"
            for one in found
        ]
        is_wrong = any(finding.count for finding in kept)
        valid = self.valid if is_wrong or not found else None
        return replace(self, findings=kept, valid=valid).with_notes(notes)

    def with_notes(self, notes: Iterable[str]) -> HistoryVerdict:
        return replace(self, notes=(*self.notes, *notes))

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as plain values: each kind with its count and its first examples."""
        return {
            "valid": self.valid,
            "void": list(self.void),
            "notes": list(self.notes),
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


def judge(
    columns: HistoryColumns,
    *,
    least_acknowledged: int = 1,
    least_delivered: int = 0,
    least_revealed: int = 0,
    least_shared: int = 0,
    reads: FinalReads | None = None,
    clocks: ClockDoubt = ClockDoubt(),  # noqa: B008  (frozen)
) -> HistoryVerdict:
    """Run all checks. The run is void if fewer than `least_acknowledged` messages were acknowledged, if fewer than
    `least_delivered` messages with delivery times were delivered, if commits put fewer than `least_revealed` messages
    into their queues, if members of shared groups acknowledged fewer than `least_shared` messages, or if one of the
    final readings in `reads` is missing. Without `reads`, one final reading of each queue is enough. `clocks` says
    which clocks may have been wrong.
    """
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
        *timed_findings(columns, clocks),
        *transaction_findings(columns),
        *shared_findings(columns),
    )
    figures = _figures(columns)
    void = (
        *_void(columns, figures, least_acknowledged, least_delivered, least_revealed, least_shared),
        *(absent_reads(columns, reads) if reads else ()),
    )
    wrong = any(finding.count for finding in findings)
    return HistoryVerdict(False if wrong else None if void else True, findings, tuple(void), figures)


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
        **_timed_figures(columns),
        **_transaction_figures(columns),
        **_shared_figures(columns),
    }


def _timed_figures(columns: HistoryColumns) -> dict[str, int]:
    """Return the figures of messages with delivery times, if the history has any."""
    if not len(columns.timed.schedules.queue):
        return {}
    told = timed_figures(columns)
    return {
        "messages with delivery times": told.scheduled,
        "waiting messages cancelled": told.cancelled,
        "waiting messages delivered": told.delivered,
        "lateness in ms (median)": told.late_p50_ms,
        "lateness in ms (99 %)": told.late_p99_ms,
        "lateness in ms (longest)": told.latest_ms,
    }


def _transaction_figures(columns: HistoryColumns) -> dict[str, int]:
    """Return the figures of transactions, if the history has any."""
    if not columns.transactions.names:
        return {}
    told = transaction_figures(columns)
    return {
        "transactions": len(columns.transactions.names),
        "transactions committed": told.committed,
        "transactions rolled back": told.rolled_back,
        "transactions left to a check": told.unanswered,
        "messages of committed transactions": told.revealed,
    }


def _shared_figures(columns: HistoryColumns) -> dict[str, int]:
    """Return the figures of shared groups, if the history has any."""
    if not columns.shared.names:
        return {}
    told = shared_figures(columns)
    return {
        "messages of shared groups": told.messages,
        "leases": told.leases,
        "messages acknowledged by shared groups": told.consumed,
    }


def _void(
    columns: HistoryColumns,
    figures: dict[str, int],
    least_acknowledged: int,
    least_delivered: int,
    least_revealed: int,
    least_shared: int,
) -> list[str]:
    void = []
    if figures["acknowledged"] < least_acknowledged:
        void.append(
            f"acknowledged messages: {figures['acknowledged']:,}; a verdict needs at least {least_acknowledged:,}"
        )
    if (delivered := figures.get("waiting messages delivered", 0)) < least_delivered:
        void.append(f"delivered waiting messages: {delivered:,}; a verdict needs at least {least_delivered:,}")
    if (revealed := figures.get("messages of committed transactions", 0)) < least_revealed:
        void.append(f"messages of committed transactions: {revealed:,}; a verdict needs at least {least_revealed:,}")
    if (shared := figures.get("messages acknowledged by shared groups", 0)) < least_shared:
        void.append(f"messages acknowledged by shared groups: {shared:,}; a verdict needs at least {least_shared:,}")
    unread = sorted(set(_queues_sent(columns)) - {queue for queue, _ in columns.read_to_end})
    if unread:
        names = queue_names([columns.queues[number] for number in unread])
        void.append(f"these queues were not read to their end: {names}")
    return void


def _queues_sent(columns: HistoryColumns) -> list[int]:
    sends = columns.sends
    queues: list[int] = np.unique(sends.queue[sends.outcome == OK]).tolist()
    return queues
