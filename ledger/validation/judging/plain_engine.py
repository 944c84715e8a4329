"""The engine that runs in a single process. This engine reads one span after another, and needs no optional package.
The engine keeps only the outline, the windows and the steps of each span. If replicas differ, the engine holds the
entries of a few windows at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ledger.history import read_history
from ledger.validation.judging.acknowledged import Book, KnownQueue, sent_in
from ledger.validation.judging.engine import (
    WINDOWS_AT_ONCE,
    AcknowledgedFound,
    LogBounds,
    OnProgress,
    ReadPlan,
    Violations,
    WantedMessages,
    messages_of,
    no_progress,
    outline_of,
    said_of,
)
from ledger.validation.judging.held_facts import HeldFacts
from ledger.validation.judging.violation import Violation
from ledger.validation.judging.windows import SAID, DivergedRange, divergences, joined
from ledger.validation.replay.index_ends import IndexEnds, IndexEndsFound, check_index_ends
from ledger.validation.replay.replay import Replayed
from ledger.validation.sources.access import Access, access_to
from ledger.validation.sources.replica import LogReplica, ReplicaSpan
from ledger.validation.spans.span_reader import SpanFacts, read_span


class PlainEngine:
    name = "plain"

    def __init__(self, on_progress: OnProgress = no_progress) -> None:
        self._on_progress = on_progress
        self._plan = ReadPlan((), (), {})
        self._facts = HeldFacts(self._plan)
        self._accesses: dict[int, Access] = {}

    def read(self, plan: ReadPlan) -> list[SpanFacts]:
        self._plan = plan
        self._facts = HeldFacts(plan)
        return self.read_again(plan.spans)

    def read_again(self, spans: Sequence[ReplicaSpan]) -> list[SpanFacts]:
        done, wrong = 0, 0
        outlines = []
        for number, span in enumerate(spans, 1):
            replica = self._plan.replicas[span.replica]
            facts = read_span(replica, span, self._access(replica), self._plan.cuts[replica.shard])
            self._facts.take(facts)
            outlines.append(outline_of(facts))
            done, wrong = done + facts.bytes, wrong + facts.findings
            self._on_progress(number, done, wrong)
        return outlines

    def replay(self, ends: Mapping[int, int]) -> tuple[list[Replayed], list[Violation], list[str]]:
        return self._facts.replay(ends)

    def differing_windows(self) -> dict[int, set[int]]:
        return self._facts.differing_windows()

    def divergences(self, windows: Mapping[int, set[int]], ends: Mapping[int, int]) -> dict[int, list[DivergedRange]]:
        found: dict[int, list[DivergedRange]] = {}
        for shard, wanted in windows.items():
            ordered, parts = sorted(wanted), []
            for first in range(0, len(ordered), WINDOWS_AT_ONCE):
                parts += self._divergences_in(shard, ordered[first : first + WINDOWS_AT_ONCE], ends)
            found[shard] = joined(parts)
        return found

    def _divergences_in(self, shard: int, windows: Sequence[int], ends: Mapping[int, int]) -> list[DivergedRange]:
        said = [np.empty(0, SAID)]
        for facts in self._facts:
            replica = self._plan.replicas[facts.span.replica]
            if replica.shard == shard and {each.window for each in facts.windows} & set(windows):
                said += said_of(replica, facts.span, self._access(replica), windows, ends[replica.number])
        return divergences(np.concatenate(said))

    def index_ends(self, known: Sequence[IndexEnds]) -> list[IndexEndsFound]:
        return [check_index_ends(each) for each in known]

    def acknowledged(
        self,
        histories: Sequence[Path],
        wanted: Sequence[WantedMessages],
        queues: Mapping[tuple[int, int], KnownQueue],
        *,
        all_kept: bool,
    ) -> AcknowledgedFound:
        book = Book.of(part for path in histories for part in sent_in(read_history(path)))
        for each in wanted:
            replica = self._plan.replicas[each.replica]
            for facts in self._facts.of(replica):
                for messages in messages_of(replica, facts.span, self._access(replica), each):
                    book.take(messages)
        dropped = book.finish(queues, all_kept)
        return AcknowledgedFound(book.violations, book.acknowledged, book.left_out, book.in_tail, dropped)

    def violations(
        self,
        bounds: Mapping[int, LogBounds],
        others: Sequence[Violation],
        left_out: Mapping[str, int],
        out: Path | None,
    ) -> Violations:
        return self._facts.violations(bounds, others, left_out, out)

    def _access(self, replica: LogReplica) -> Access:
        """Return the access to a replica. Each replica has its own access object, so that its connection stays
        open."""
        if replica.number not in self._accesses:
            self._accesses[replica.number] = access_to(replica.segments[0].path)
        return self._accesses[replica.number]
