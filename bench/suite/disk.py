"""Measures a cluster with `flush = sync`: how many messages an fsync covers, and what a slow disk changes.

The nodes preload a library that delays their fsyncs (slow_disk.py), so the disks of all nodes, or of one of them, can
be slow. The same nodes are measured with all delays, in turns.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from bench.suite.rows import SuiteChapter, TargetRow
from bench.suite.scale import SuiteScale
from bench.suite.slow_disk import NoSlowDiskError, SlowDisks
from bench.suite.stage import Running, Stage

IN_FLIGHT = (1, 100, 1_000)
# The least rate with the last of these.
LEAST_SYNC_PER_S = 30_000
FLUSHES = "ledgermq_log_flush_duration_seconds"
# So many sends that throughput need not fall while each of them waits for a slow disk.
MANY_IN_FLIGHT = 16_000
DELAYS_MS = (5, 20)
# By how many fsyncs a send may take longer. It needs one; under load two, with the one that runs when it arrives.
MOST_FSYNCS, MOST_FSYNCS_LOADED = 1.5, 2.3
LEAST_KEPT = 0.8
# Each run with slow disks lasts so long; there are many.
SLOW_RUN_S = 2.0
# One slow disk of three must not be noticed; runs on one machine differ by this much.
MOST_UNNOTICED, LEAST_UNNOTICED = 1.5, 0.6


def sync_flush(stage: Stage, scale: SuiteScale) -> SuiteChapter:
    """Measure how many messages share an fsync. With `flush = sync`, a message is acknowledged when a majority of the
    voters has synced it to the disk."""
    part = SuiteChapter("Sync flush")
    with stage.cluster(flush="sync") as running:
        for in_flight in IN_FLIGHT:
            before = running.metric(f"{FLUSHES}_count"), running.metric(f"{FLUSHES}_sum")
            name = f"send, {in_flight:,} in flight, sync flush"
            runs = [_sends(running, name, in_flight, scale.seconds) for _ in range(scale.rounds)]
            flushes = running.metric(f"{FLUSHES}_count") - before[0]
            flushed_s = running.metric(f"{FLUSHES}_sum") - before[1]
            part.rows.append(_group_row(runs, in_flight, flushes, flushed_s, nodes=len(running.pids)))
    return part


def _group_row(
    runs: Sequence[dict[str, Any]], in_flight: int, flushes: float, flushed_s: float, *, nodes: int
) -> TargetRow:
    per_s = median(run["records_per_s"] for run in runs)
    messages = sum(run["records"] + run["warm_up_records"] for run in runs)
    covered = messages * nodes / max(flushes, 1)
    p50_ms, p99_ms = (median(run[f"latency_{name}_ms"] for run in runs) for name in ("p50", "p99"))
    took_ms = 1e3 * flushed_s / max(flushes, 1)
    least = LEAST_SYNC_PER_S if in_flight == IN_FLIGHT[-1] else None
    return TargetRow(
        f"sync flush, 128 B, {in_flight:,} in flight",
        "reported" if least is None else f"≥ {least:,}/s",
        f"{per_s:,.0f}/s, p50 {p50_ms:.2f} ms, p99 {p99_ms:.2f} ms; an fsync of a node covers {covered:,.1f} messages "
        f"and takes {took_ms:.2f} ms; {per_s / covered:,.0f} fsyncs/s",
        None if least is None else per_s >= least,
    )


def _sends(running: Running, name: str, in_flight: int, seconds: float) -> dict[str, Any]:
    return running.bench(name, "produce", "--by", "send", "--in-flight", in_flight, "--seconds", seconds)


# Which disks are slow. With three voters, two others are a majority without the node that has the slow disk.
Slow = Literal["all nodes", "the leader", "a follower"]


@dataclass(frozen=True, slots=True)
class SlowCase:
    """The disks of these nodes are slower by `delay_ms`; 0: no disk is slow."""

    delay_ms: float = 0.0
    slow: Slow = "all nodes"

    @property
    def words(self) -> str:
        return f"{self.delay_ms:g} ms more for each fsync of {self.slow}" if self.delay_ms else "no disk is slow"


FAST = SlowCase()
ALL = [SlowCase(delay_ms) for delay_ms in DELAYS_MS]
ONE = [SlowCase(DELAYS_MS[-1], "the leader"), SlowCase(DELAYS_MS[-1], "a follower")]
# The load, and its name.
LOADS: dict[str, tuple[object, ...]] = {
    "one send": ("--by", "send", "--in-flight", 1),
    "1,000 sends": ("--by", "send", "--in-flight", 1_000),
    f"{MANY_IN_FLIGHT:,} sends": ("--by", "send", "--in-flight", MANY_IN_FLIGHT),
    "16 calls of send_many": ("--producers", 4, "--in-flight", 16),
}
Found = dict[tuple[SlowCase, str], list[dict[str, Any]]]


def slow_disks(stage: Stage, scale: SuiteScale) -> SuiteChapter:
    """Measure with fast and with slow disks. Without a C compiler, the chapter says so."""
    part = SuiteChapter("Slow disks, sync flush")
    found: Found = defaultdict(list)
    try:
        with _slow_cluster(stage) as (running, make_slow):
            running.bench("warm", "produce", "--topic", "warm", "--seconds", 2)
            term = running.term()
            for _ in range(scale.rounds):
                for case in (FAST, *ALL, *ONE):
                    make_slow(case)
                    for load, arguments in LOADS.items():
                        name = f"{load} in flight, {case.words}"
                        found[case, load].append(running.bench(name, "produce", *arguments, "--seconds", SLOW_RUN_S))
            elections = running.term() - term
    except NoSlowDiskError as reason:
        part.rows.append(TargetRow("slow disks", "reported", f"skipped: {reason}", None))
        return part
    for case in ALL:
        part.rows += _slow_everywhere(found, case)
    for case in ONE:
        part.rows += _slow_in_one_place(found, case)
    part.rows.append(TargetRow("elections", "none", str(elections), elections == 0))
    return part


@contextmanager
def _slow_cluster(stage: Stage) -> Iterator[tuple[Running, Callable[[SlowCase], None]]]:
    """Start a cluster whose disks can be made slow. Raises NoSlowDiskError."""
    with ExitStack() as stack:
        disks = SlowDisks(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ledgermq-slow-"))))
        with disks.preloaded():  # only the nodes, not the load processes
            running = stack.enter_context(stage.cluster(flush="sync"))
        yield running, lambda case: _set_delays(disks, running, case)


def _set_delays(disks: SlowDisks, running: Running, case: SlowCase) -> None:
    states = [state for state in running.cluster.status() if state.pid is not None]
    leader = next(state.pid for state in states if state.role == "leader")
    followers = [state.pid for state in states if state.pid != leader]
    slow = {"all nodes": running.pids, "the leader": [leader], "a follower": followers[:1]}[case.slow]
    for pid in running.pids:
        disks.delay(pid, case.delay_ms if pid in slow else 0.0)


def _slow_everywhere(found: Found, case: SlowCase) -> list[TargetRow]:
    rows = []
    for load, most in (("one send", MOST_FSYNCS), ("1,000 sends", MOST_FSYNCS_LOADED)):
        fast, slow = (_figure(found, each, load, "latency_p50_ms") for each in (FAST, case))
        more = (slow - fast) / case.delay_ms
        told = f"{more:.2f} fsyncs ({slow:.1f} ms of {fast:.1f} ms)"
        rows.append(TargetRow(f"{load} in flight, p50, {case.words}", f"≤ {most:g} fsyncs more", told, more <= most))
    for load, least in (
        (f"{MANY_IN_FLIGHT:,} sends", LEAST_KEPT),
        ("1,000 sends", None),
        ("16 calls of send_many", None),
    ):
        ratio, told = _kept(found, case, load)
        target = "reported" if least is None else f"≥ {least:g}"
        rows.append(
            TargetRow(f"{load} in flight, {case.words}", target, told, None if least is None else ratio >= least)
        )
    return rows


def _slow_in_one_place(found: Found, case: SlowCase) -> list[TargetRow]:
    fast, slow = (_figure(found, each, "one send", "latency_p50_ms") for each in (FAST, case))
    told = f"{slow / fast:.2f} × ({slow:.2f} ms of {fast:.2f} ms)"
    what = f"one send in flight, p50, {case.words}"
    rows = [TargetRow(what, f"≤ {MOST_UNNOTICED:g} ×", told, slow <= MOST_UNNOTICED * fast)]
    for load in ("1,000 sends", "16 calls of send_many"):
        ratio, told = _kept(found, case, load)
        rows.append(
            TargetRow(f"{load} in flight, {case.words}", f"≥ {LEAST_UNNOTICED:g}", told, ratio >= LEAST_UNNOTICED)
        )
    return rows


def _kept(found: Found, case: SlowCase, load: str) -> tuple[float, str]:
    """Return the part of the throughput that remains with slow disks, and the sentence for it."""
    fast, slow = (_figure(found, each, load, "records_per_s") for each in (FAST, case))
    return slow / fast, f"{slow / fast:.2f} ({slow:,.0f} of {fast:,.0f}/s)"


def _figure(found: Found, case: SlowCase, load: str, name: str) -> float:
    return float(median(run[name] for run in found[case, load]))
