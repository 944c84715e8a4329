"""Judges a run from the files in its directory: histories, faults, leaders, and the promise of the run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from chaos.live.checker.availability import WritePause, acknowledged_at, longest_pause, pauses_of_faults
from chaos.live.checker.clock_doubt import ClockFaultSpan, clock_doubt
from chaos.live.checker.cluster import no_recovery, two_leaders
from chaos.live.checker.columns import HistoryColumns, columns_of
from chaos.live.checker.verdict import HistoryVerdict, judge
from chaos.live.faults.catalogue import CLOCK_KINDS
from chaos.live.leaders import read_claims
from chaos.live.nemesis import Struck
from chaos.live.options import ChaosOptions
from chaos.live.promise import RunPromise, broken_promises, half_lines, histories
from chaos.live.records import read_records
from chaos.live.run_file import RunFile
from chaos.words import node_names
from ledger.history import read_history
from ledger.words import counted

# A run counts only if at least this share of the intended messages was acknowledged.
_LEAST_SHARE = 0.2
# The share of those of these messages with delivery times that must be delivered; others are cancelled.
_DELIVERED_SHARE = 0.5
# The share of those of these messages that are sent in transactions that commits must put into their queues.
_REVEALED_SHARE = 0.4
# The share of those of these messages that go to shared groups that a member must acknowledge; there are two groups.
_SHARED_SHARE = 1.0
# Why a run without a record of its leaders proves nothing.
_NO_LEADER = "no leader was recorded, so Election Safety was not checked"
# A load that lasted longer than this, beyond the asked time, is mentioned.
_LATE_S = 1.0
# A first acknowledgement that comes later than this after the beginning of the load is mentioned.
_START_S = 5.0


@dataclass(frozen=True, slots=True)
class ChaosResult:
    """The result of a run: its options, its verdict, its faults and its history."""

    options: ChaosOptions
    verdict: HistoryVerdict
    struck: tuple[Struck, ...]
    columns: HistoryColumns
    began: int
    # When the producers were told to stop. `began` and `ended` are in ns of the histories' clock.
    ended: int
    # The histories that were judged.
    histories: tuple[Path, ...]

    @property
    def load_s(self) -> float:
        """Return for how many seconds the load lasted. It lasts longer than `options.seconds` if the last fault was
        healed late."""
        return (self.ended - self.began) / 1e9

    def pause(self) -> WritePause:
        """Return the longest time without an acknowledged write after the first one, with or without a fault. Before
        the first acknowledgement the client processes start. If nothing was acknowledged, the pause is the load."""
        times = acknowledged_at(self.columns)
        return longest_pause(times, min(self.first_acknowledged(), self.ended - 1), self.ended)

    def first_acknowledged(self) -> int:
        """Return when the first message was acknowledged; `began` if none was."""
        times = acknowledged_at(self.columns)
        return int(times[0]) if len(times) else self.began

    def pauses(self) -> list[WritePause | None]:
        """Return, for each fault, the longest pause that belongs to this fault; None if the fault struck and ended
        during the pause of an earlier fault."""
        faults = [(one.start, one.end) for one in self.struck]
        return pauses_of_faults(acknowledged_at(self.columns), faults, self.began, self.ended)


def judged(out: Path) -> ChaosResult:
    """Judge a run from the files in its directory. Raises ChaosError if the run has not finished, or if one of its
    files cannot be what a run writes."""
    told, changes = RunFile.load(out)
    options, struck = told.options, read_records(out / "faults.jsonl", Struck)
    promise = told.promise or _promise_of_options(options, struck)
    paths = promise.histories(out) if told.promise is not None else histories(out)
    columns = columns_of(chain.from_iterable(map(read_history, paths)))
    least = int(options.rate * options.seconds * _LEAST_SHARE)
    claims = read_claims(out / "leaders.jsonl")
    cluster = (two_leaders(claims), no_recovery(told.unrecovered))
    wrong = [ClockFaultSpan(one.nodes, one.start, one.end) for one in struck if one.kind in CLOCK_KINDS]
    verdict = judge(
        columns,
        least_acknowledged=least,
        least_delivered=int(options.timed * least * _DELIVERED_SHARE),
        least_revealed=int(options.transactions * least * _REVEALED_SHARE),
        least_shared=int(options.shared * least * _SHARED_SHARE),
        reads=promise.reads,
        clocks=clock_doubt(wrong, options.nodes),
    ).joined(*cluster)
    if told.promise is not None:
        broken = broken_promises(out, promise)
        verdict = verdict.without(broken.absent).without_proof(broken.sentences)
    verdict = verdict.without_proof([] if claims else [_NO_LEADER])
    verdict = verdict.without_proof(changes).with_notes(half_lines(paths, promise))
    verdict = _with_faults(verdict, struck)
    result = ChaosResult(options, verdict, tuple(struck), columns, told.began, told.ended, tuple(paths))
    result = replace(result, verdict=result.verdict.with_notes(_other_than_asked(result, promise)))
    (out / "verdict.json").write_text(json.dumps(result.verdict.as_json(), indent=1) + "\n", encoding="utf-8")
    return result


def _promise_of_options(options: ChaosOptions, struck: Sequence[Struck]) -> RunPromise:
    """Return what a run of an older version promises, whose `run.json` has no promise: final readings of all nodes. If
    nodes were added and removed, the nodes of the final readings are not known."""
    nodes = () if "membership" in options.faults else tuple(range(1, options.nodes + 1))
    return RunPromise((), nodes, {}, len(struck))


def _other_than_asked(result: ChaosResult, promise: RunPromise) -> list[str]:
    """Return sentences about a load that lasted longer than the options say, and about faults that did not strike."""
    notes, options = [], result.options
    if result.load_s > options.seconds + _LATE_S:
        notes.append(f"the load lasted {result.load_s:.0f} s instead of {options.seconds:g} s: faults were healed late")
    started_s = (result.first_acknowledged() - result.began) / 1e9
    if started_s > _START_S:
        notes.append(f"the first message was acknowledged {started_s:.1f} s after the load began")
    if len(result.struck) < promise.faults:
        notes.append(f"only {len(result.struck)} of {counted(promise.faults, 'planned fault')} struck")
    return notes


def _with_faults(verdict: HistoryVerdict, struck: Sequence[Struck]) -> HistoryVerdict:
    """Say which faults left no evidence. If at least half of the faults left none, the verdict is void."""
    weak = [f"{one.kind} of {node_names(one.nodes)} left no evidence: {one.void}" for one in struck if one.void]
    if weak and 2 * len(weak) >= len(struck):
        return verdict.without_proof(weak)
    return verdict.with_notes(f"{sentence}; this fault does not count" for sentence in weak)
