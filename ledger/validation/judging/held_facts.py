"""The facts of all spans, held in one process, and what an engine learns from them without reading a log again.

The plain engine always holds the facts. The engine on Spark holds them in the driver if they are small.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ledger.validation.judging.engine import LogBounds, ReadPlan, Violations, left_out_of, violations_in
from ledger.validation.judging.violation import Violation
from ledger.validation.judging.windows import WindowSum, differing
from ledger.validation.replay.replay import Replayed
from ledger.validation.replay.snapshots import begin_replay, check_files
from ledger.validation.report.out_directory import write_violations
from ledger.validation.report.report import first_of_each_kind
from ledger.validation.sources.errors import SourceError
from ledger.validation.sources.replica import LogReplica
from ledger.validation.spans.span_reader import SpanFacts


class HeldFacts:
    """The facts of the spans of a plan. The facts of a span that is read again replace its earlier facts."""

    def __init__(self, plan: ReadPlan, facts: Iterable[SpanFacts] = ()) -> None:
        self._plan = plan
        self._facts: dict[int, SpanFacts] = {}
        for each in facts:
            self.take(each)

    def take(self, facts: SpanFacts) -> None:
        self._facts[facts.span.number] = facts

    def __iter__(self) -> Iterator[SpanFacts]:
        return iter(self._facts.values())

    def of(self, replica: LogReplica) -> list[SpanFacts]:
        """Return the facts of the replica's spans, in the order of the log."""
        mine = (facts for facts in self if facts.span.replica == replica.number)
        return sorted(mine, key=lambda facts: facts.span.begin)

    def replay(self, ends: Mapping[int, int]) -> tuple[list[Replayed], list[Violation], list[str]]:
        """See `Engine.replay`."""
        replayed: list[Replayed] = []
        violations: list[Violation] = []
        not_judged: list[str] = []
        for replica in self._plan.replicas:
            mine = self.of(replica)
            try:
                replay = begin_replay(replica)
                for facts in mine:
                    replay.take(facts.steps, end=ends[replica.number])
                replay.finish()
                replayed.append(replay.result())
                last = max((facts.last_index for facts in mine), default=0)
                violations += check_files(replica, replayed[-1], last)
            except SourceError as error:
                not_judged.append(str(error))
                replayed.append(Replayed(replica.number, is_known=False))
        return replayed, violations, not_judged

    def differing_windows(self) -> dict[int, set[int]]:
        """See `Engine.differing_windows`."""
        by_shard: dict[int, dict[int, list[WindowSum]]] = defaultdict(lambda: defaultdict(list))
        for facts in self:
            replica = self._plan.replicas[facts.span.replica]
            by_shard[replica.shard][replica.number] += facts.windows
        return {shard: differing(sums) for shard, sums in by_shard.items()}

    def violations(
        self,
        bounds: Mapping[int, LogBounds],
        others: Sequence[Violation],
        left_out: Mapping[str, int],
        out: Path | None,
    ) -> Violations:
        """See `Engine.violations`."""
        found = sorted([*self._within(bounds), *others], key=lambda violation: violation.order)
        if out is not None:
            write_violations(found, out)
        counts = Counter(violation.kind.value for violation in found) + Counter(left_out)
        for facts in self:
            replica = self._plan.replicas[facts.span.replica]
            counts += left_out_of(facts, replica, bounds[replica.number])
        return Violations(tuple(first_of_each_kind(found)), counts, len(found))

    def _within(self, bounds: Mapping[int, LogBounds]) -> Iterator[Violation]:
        for facts in self:
            replica = self._plan.replicas[facts.span.replica]
            yield from violations_in(facts, replica, bounds[replica.number])
