"""Checks that the offset of a consumer group never decreases."""

from __future__ import annotations

from collections import defaultdict

from chaos.live.checker.anomaly import SHOWN, Anomaly, Finding
from chaos.live.checker.columns import HistoryColumns
from ledger.history import ProgressReport

KIND = "offset regression"


def regressions(columns: HistoryColumns) -> Finding:
    """Compare each reported offset with the highest offset that had been reported before the request was sent."""
    told = defaultdict(list)
    for operation, progress in columns.progress:
        told[progress.group, progress.topic, progress.queue].append((operation, progress))
    wrong = [anomaly for answers in told.values() for anomaly in _falls(answers)]
    return Finding(KIND, len(wrong), tuple(wrong[:SHOWN]))


def _falls(answers: list[tuple[int, ProgressReport]]) -> list[Anomaly]:
    by_end = sorted(answers, key=lambda answer: answer[1].end)
    highest: tuple[int, ProgressReport] | None = None
    complete, falls = 0, []
    for operation, asked in sorted(answers, key=lambda answer: answer[1].start):
        while complete < len(by_end) and by_end[complete][1].end < asked.start:
            if highest is None or by_end[complete][1].offset > highest[1].offset:
                highest = by_end[complete]
            complete += 1
        if highest is not None and asked.offset < highest[1].offset:
            sentence = (
                f"consumer group {asked.group} was at {asked.topic}:{asked.queue}:{highest[1].offset}, "
                f"and later at offset {asked.offset}"
            )
            falls.append(Anomaly(KIND, sentence, (highest[0], operation)))
    return falls
