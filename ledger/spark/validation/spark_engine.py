"""The validation engine on Spark: tasks read spans, and shuffles send the results for the same window or producer to
one task.

    spans ── read ──┬── outlines, or small facts ─────────────> driver: joins them
                    ├── windows   by (shard, window)  ────────> those that differ
                    ├── steps     by replica, in order ───────> states
                    └── violations ───────────────────────────> driver: counts, the first ones, and a Parquet file
    histories ──────┬── by the hash of each message
    messages ───────┘

Tasks keep and send the same facts as the plain engine: sums, last batches and violations. Tasks do not send the
entries that they read to other tasks, except the entries of windows (ranges of indexes) in which replicas differ.

The facts of a span of ordinary batches have 2 kB. If the facts of all spans are small, then the driver gets them whole
with the outlines. The driver compares the windows, replays the states and counts the violations itself, which is faster
than a shuffle.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ledger.errors import LedgerError
from ledger.history import read_history
from ledger.spark.validation.driver_files import DriverFiles
from ledger.spark.validation.span_tasks import PackedFacts, packed_limit, tasks_of
from ledger.validation.judging.acknowledged import Book, KnownQueue, Messages, SentMessages, sent_in, shares
from ledger.validation.judging.engine import (
    WINDOWS_AT_ONCE,
    AcknowledgedFound,
    LogBounds,
    OnProgress,
    ReadPlan,
    Violations,
    WantedMessages,
    left_out_of,
    messages_of,
    no_progress,
    outline_of,
    said_of,
    violations_in,
)
from ledger.validation.judging.held_facts import HeldFacts
from ledger.validation.judging.violation import Violation
from ledger.validation.judging.windows import WINDOW, DivergedRange, Said, WindowSum, differ, divergences, joined
from ledger.validation.replay.index_ends import IndexEnds, IndexEndsFound, check_index_ends
from ledger.validation.replay.replay import Replayed
from ledger.validation.replay.snapshots import begin_replay, check_files
from ledger.validation.report.out_directory import write_violations
from ledger.validation.report.report import first_of_each_kind
from ledger.validation.sources.access import Access, access_to
from ledger.validation.sources.errors import SourceError
from ledger.validation.sources.replica import ReplicaSpan
from ledger.validation.spans.span_reader import SpanFacts, read_span
from ledger.validation.spans.span_steps import SpanSteps

if TYPE_CHECKING:
    from pyspark import RDD, Accumulator, SparkContext

_LOOK_S = 0.5
# The bytes of a history that one task reads.
_HISTORY_BYTES = 16 << 20

Replay = tuple[Replayed, list[Violation], str]
# The steps of a span and its last index, with the replica and position as the key.
_Keyed = tuple[tuple[int, int], tuple[SpanSteps, int]]
_Sums = dict[int, WindowSum]


class SparkEngine:
    def __init__(
        self, sc: SparkContext, on_progress: OnProgress = no_progress, *, limit: Callable[[int], int] = packed_limit
    ) -> None:
        """`limit` returns the largest size in bytes of a span's facts that the driver takes, for a number of spans."""
        self._sc = sc
        self._on_progress = on_progress
        self._plan = ReadPlan((), (), {})
        # Facts that are packed take little time on their way between the processes.
        self._packed: RDD[PackedFacts] = self._sc.emptyRDD()
        self._limit = limit
        # The facts of all spans; None if they are too large for the driver.
        self._held: HeldFacts | None = None

    @property
    def name(self) -> str:
        return f"Spark {self._sc.version}, {self._sc.master}"

    @property
    def _shares(self) -> int:
        """Return the number of partitions of a shuffle."""
        return 2 * int(self._sc.defaultParallelism)

    @property
    def _facts(self) -> RDD[SpanFacts]:
        return self._packed.map(PackedFacts.facts)

    @property
    def _few(self) -> RDD[SpanFacts]:
        """Return all facts in a few partitions. The following work reads no log. For such work, starting more tasks
        would cost more time than it saves."""
        return self._packed.coalesce(self._shares).map(PackedFacts.facts)

    # -- reading

    def read(self, plan: ReadPlan) -> list[SpanFacts]:
        self._plan, self._held = plan, HeldFacts(plan)
        progress = _Progress(self._sc, self._on_progress)
        self._packed = self._read(plan.spans, progress)
        with progress:
            return self._outlines(self._packed)

    def read_again(self, spans: Sequence[ReplicaSpan]) -> list[SpanFacts]:
        numbers = frozenset(span.number for span in spans)
        again = self._read(spans, None)
        self._packed = self._packed.filter(lambda packed: packed.number not in numbers).union(again).persist()
        return self._outlines(again)

    def _outlines(self, read: RDD[PackedFacts]) -> list[SpanFacts]:
        """Return the outlines of the spans. Hold the facts in this process if the facts of all spans are small."""
        sent = read.map(PackedFacts.for_driver).collect()
        if any(each.outline for each in sent):
            self._held = None
        facts = [each.facts() for each in sent]
        if self._held is not None:
            for each in facts:
                self._held.take(each)
        return [outline_of(each) for each in facts]

    def _read(self, spans: Sequence[ReplicaSpan], progress: _Progress | None) -> RDD[PackedFacts]:
        from pyspark import StorageLevel

        plan = self._sc.broadcast((self._plan.replicas, dict(self._plan.cuts)))
        counters = progress.counters if progress is not None else None
        limit = self._limit(len(self._plan.spans))

        def read(task: Sequence[ReplicaSpan]) -> Iterator[PackedFacts]:
            replicas, cuts = plan.value
            accesses: dict[int, Access] = {}
            for span in task:
                replica = replicas[span.replica]
                access = accesses.setdefault(span.replica, access_to(replica.segments[0].path))
                facts = read_span(replica, span, access, cuts[replica.shard])
                if counters is not None:
                    for counter, more in zip(counters, (1, facts.bytes, facts.findings), strict=True):
                        counter.add(more)
                yield PackedFacts.of(facts, limit)

        tasks = tasks_of(spans, self._sc.defaultParallelism)
        return self._sc.parallelize(tasks, max(1, len(tasks))).flatMap(read).persist(StorageLevel.MEMORY_AND_DISK)

    # -- states

    def replay(self, ends: Mapping[int, int]) -> tuple[list[Replayed], list[Violation], list[str]]:
        if self._held is not None:
            return self._held.replay(ends)
        plan, bounds = self._sc.broadcast(self._plan.replicas), dict(ends)
        nothing: list[_Keyed] = [((replica.number, -1), (SpanSteps(), 0)) for replica in self._plan.replicas]
        steps = self._few.map(lambda facts: ((facts.span.replica, facts.span.begin), (facts.steps, facts.last_index)))
        ordered = self._sc.parallelize(nothing, 1).union(steps)

        def replayed(part: Iterable[_Keyed]) -> Iterator[Replay]:
            """Replay the given replicas, one after another. The steps of each replica must come in the order of its
            log."""
            for number, steps in groupby(part, key=lambda each: each[0][0]):
                yield replay_one(number, steps)

        def replay_one(number: int, steps: Iterable[_Keyed]) -> Replay:
            replica = plan.value[number]
            last = 0
            try:
                replay = begin_replay(replica)
                for _, (some, index) in steps:
                    replay.take(some, end=bounds[number])
                    last = max(last, index)
                replay.finish()
                result = replay.result()
                return result, list(check_files(replica, result, last)), ""
            except SourceError as error:
                return Replayed(number, is_known=False), [], str(error)

        found = (
            ordered.repartitionAndSortWithinPartitions(self._shares, lambda key: key[0])
            .mapPartitions(replayed)
            .collect()
        )
        violations = [violation for _, some, _ in found for violation in some]
        return [each for each, _, _ in found], violations, [why for _, _, why in found if why]

    # -- replicas against each other

    def differing_windows(self) -> dict[int, set[int]]:
        if self._held is not None:
            return self._held.differing_windows()
        shards = [replica.shard for replica in self._plan.replicas]

        def sums(facts: SpanFacts) -> Iterator[tuple[tuple[int, int], _Sums]]:
            number = facts.span.replica
            for each in facts.windows:
                yield (shards[number], each.window), {number: each}

        found = (
            self._few.flatMap(sums)
            .reduceByKey(_added, self._shares)
            .filter(lambda each: differ(each[1].values()))
            .keys()
        )
        windows: dict[int, set[int]] = {}
        for shard, window in found.collect():
            windows.setdefault(shard, set()).add(window)
        return windows

    def divergences(self, windows: Mapping[int, set[int]], ends: Mapping[int, int]) -> dict[int, list[DivergedRange]]:
        if not any(windows.values()):
            return {}
        known = self._sc.broadcast((self._plan.replicas, {shard: set(each) for shard, each in windows.items()}))
        bounds = dict(ends)

        def said(facts: SpanFacts) -> Iterator[tuple[tuple[int, int], Said]]:
            replicas, wanted = known.value
            replica = replicas[facts.span.replica]
            mine = {each.window for each in facts.windows} & wanted.get(replica.shard, set())
            if not mine:
                return
            access = access_to(replica.segments[0].path)
            for each in said_of(replica, facts.span, access, mine, bounds[replica.number]):
                part = (each["index"] // np.uint64(WINDOW * WINDOWS_AT_ONCE)).astype(np.int64)
                for number in np.unique(part).tolist():
                    yield (replica.shard, number), each[part == number]

        def compared(each: tuple[tuple[int, int], Iterable[Said]]) -> list[tuple[int, DivergedRange]]:
            (shard, _), parts = each
            return [(shard, divergence) for divergence in divergences(np.concatenate(list(parts)))]

        found: dict[int, list[DivergedRange]] = {}
        for shard, divergence in self._facts.flatMap(said).groupByKey(self._shares).flatMap(compared).collect():
            found.setdefault(shard, []).append(divergence)
        return {shard: joined(parts) for shard, parts in found.items()}

    # -- indexes beside the logs, and acknowledged messages

    def index_ends(self, known: Sequence[IndexEnds]) -> list[IndexEndsFound]:
        if not known:
            return []
        return self._sc.parallelize(known, min(len(known), self._shares)).map(check_index_ends).collect()

    def acknowledged(
        self,
        histories: Sequence[Path],
        wanted: Sequence[WantedMessages],
        queues: Mapping[tuple[int, int], KnownQueue],
        *,
        all_kept: bool,
    ) -> AcknowledgedFound:
        count = self._shares
        known = self._sc.broadcast((self._plan.replicas, {each.replica: each for each in wanted}, dict(queues)))
        path_of = DriverFiles(self._sc, histories).path_of
        pieces = [piece for number, path in enumerate(histories) for piece in _pieces(number, path)]

        def sent(piece: tuple[int, int, int]) -> Iterator[tuple[int, SentMessages]]:
            number, begin, end = piece
            for each in sent_in(read_history(path_of(number), begin, end)):
                for share, messages in enumerate(shares(each.messages, count)):
                    yield share, SentMessages(messages, each.topics)

        def there(facts: SpanFacts) -> Iterator[tuple[int, Messages]]:
            replicas, by_replica, _ = known.value
            mine = by_replica.get(facts.span.replica)
            if mine is None:
                return
            replica = replicas[facts.span.replica]
            for messages in messages_of(replica, facts.span, access_to(replica.segments[0].path), mine):
                yield from enumerate(shares(messages, count))

        def judged(each: tuple[int, tuple[Iterable[SentMessages], Iterable[Messages]]]) -> AcknowledgedFound:
            _, (sent, messages) = each
            book = Book.of(sent)
            for some in messages:
                book.take(some)
            dropped = book.finish(known.value[2], all_kept)
            return AcknowledgedFound(book.violations, book.acknowledged, book.left_out, book.in_tail, dropped)

        spoken = self._sc.parallelize(pieces, max(1, min(len(pieces), 8 * self._shares))).flatMap(sent)
        found = spoken.cogroup(self._facts.flatMap(there), count).map(judged).collect()
        return AcknowledgedFound(
            [violation for each in found for violation in each.violations],
            sum(each.acknowledged for each in found),
            sum((each.left_out for each in found), Counter()),
            sum(each.in_tail for each in found),
            sum(each.dropped for each in found),
        )

    # -- violations

    def violations(
        self,
        bounds: Mapping[int, LogBounds],
        others: Sequence[Violation],
        left_out: Mapping[str, int],
        out: Path | None,
    ) -> Violations:
        if self._held is not None:
            return self._held.violations(bounds, others, left_out, out)
        known = self._sc.broadcast((self._plan.replicas, dict(bounds)))

        def within(facts: SpanFacts) -> list[Violation]:
            replicas, ends = known.value
            number = facts.span.replica
            return list(violations_in(facts, replicas[number], ends[number]))

        def summed(part: Iterable[SpanFacts]) -> Iterator[_Sum]:
            replicas, ends = known.value
            sum_ = _Sum()
            for facts in part:
                number = facts.span.replica
                sum_.add(within(facts), left_out_of(facts, replicas[number], ends[number]))
            yield sum_

        total = _Sum()
        total.add(others, left_out)
        for each in self._few.mapPartitions(summed).collect():
            total.join(each)
        if out is not None:
            # The driver writes the file, because the directory may be on the driver's host only. It gets the violations
            # of one partition at a time.
            write_violations(chain(others, self._few.flatMap(within).toLocalIterator()), out)
        return Violations(tuple(total.first), total.told + total.left_out, total.told.total())


@dataclass(slots=True)
class _Sum:
    """The violations of some spans, summed up: the number of violations of each kind, and the first violations of
    each kind."""

    first: list[Violation] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, violations: Sequence[Violation], left_out: Mapping[str, int]) -> None:
        self.first = first_of_each_kind([*self.first, *violations])
        self.told += Counter(violation.kind.value for violation in violations)
        self.left_out += Counter(left_out)

    def join(self, other: _Sum) -> None:
        self.first = first_of_each_kind([*self.first, *other.first])
        self.told += other.told
        self.left_out += other.left_out


def _added(one: _Sums, other: _Sums) -> _Sums:
    """Return the sums of both dicts in a new dict. Spark keeps the arguments, so this function must not change
    them."""
    both = dict(one)
    for replica, each in other.items():
        both[replica] = both[replica] + each if replica in both else each
    return both


def _pieces(number: int, path: Path) -> list[tuple[int, int, int]]:
    """Return the pieces of a history: its number, and where each piece begins and ends."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from error
    return [(number, begin, begin + _HISTORY_BYTES) for begin in range(0, max(size, 1), _HISTORY_BYTES)]


class _Progress:
    """Reports the progress of the tasks while the driver waits for them."""

    def __init__(self, sc: SparkContext, on_progress: OnProgress) -> None:
        self.counters: tuple[Accumulator[int], ...] = tuple(sc.accumulator(0) for _ in range(3))
        self._on_progress = on_progress
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="validation-progress", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._now()

    def _tell(self) -> None:
        while not self._done.wait(_LOOK_S):
            self._now()

    def _now(self) -> None:
        spans, size, wrong = (counter.value for counter in self.counters)
        self._on_progress(spans, size, wrong)
