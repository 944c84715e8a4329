"""Measures a cluster that is idle, under load, loaded by ten times as many clients, and loaded for a long time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from bench.suite.rows import SuiteChapter, TargetRow
from bench.suite.scale import SuiteScale
from bench.suite.stage import Running, Stage

SETTLE_S = 5
MOST_IDLE_PERCENT, MOST_IDLE_MB, MOST_LOADED_MB = 1.0, 80.0, 250.0
CLIENTS, IN_FLIGHT_EACH, TIMES = 4, 100, 10
LEAST_GOODPUT = 0.9
BACK_S = 10
# A latency counts as normal again if it is at most this many times the earlier latency.
MOST_BACK = 1.5
SHARE_OF_PEAK = 0.8
MOST_TAIL = 10.0
MOST_GROWTH_MB = 20.0


class MemoryWatch:
    """A context manager that records the largest memory of any node while its body runs."""

    def __init__(self, running: Running) -> None:
        self._running, self._stop = running, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.readings_mb: list[float] = []

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def most_mb(self) -> float:
        return max(self.readings_mb)

    def _look(self) -> None:
        self.readings_mb.append(self._running.memory_mb())
        while not self._stop.wait(1.0):
            self.readings_mb.append(self._running.memory_mb())


def idle_and_loaded(stage: Stage, scale: SuiteScale) -> SuiteChapter:
    part = SuiteChapter("Idle, and memory")
    with stage.cluster() as running:
        threading.Event().wait(SETTLE_S)
        uses = running.bench("idle", "idle", "--seconds", max(5.0, 3 * scale.seconds))["nodes"]
        percent, idle_mb = max(use["cpu_percent"] for use in uses), max(use["memory_mb"] for use in uses)
        with MemoryWatch(running) as memory:
            running.bench("send_many under watch", "produce", "--seconds", 2 * scale.seconds)
            _sends(running, "sends under watch", CLIENTS * 4, scale.seconds)
        within = percent <= MOST_IDLE_PERCENT
        part.rows.append(
            TargetRow("idle, the busiest node", f"≤ {MOST_IDLE_PERCENT:g} % of a core", f"{percent:.1f} %", within)
        )
        for what, most, reached in (("idle", MOST_IDLE_MB, idle_mb), ("under load", MOST_LOADED_MB, memory.most_mb)):
            part.rows.append(
                TargetRow(f"memory of a node, {what}", f"≤ {most:g} MB", f"{reached:.0f} MB", reached <= most)
            )
    return part


def ten_times_the_clients(stage: Stage, scale: SuiteScale) -> SuiteChapter:
    """Run all nodes and clients on one core, first with few clients and then with ten times as many."""
    part = SuiteChapter("Ten times the clients, on one core")
    seconds = 2 * scale.seconds
    with on_one_core(), stage.cluster() as running:
        before = _one_in_flight(running, "before")
        few = [_sends(running, f"{CLIENTS} clients", CLIENTS, seconds) for _ in range(scale.rounds)]
        term, refused = running.term(), running.metric("ledgermq_produce_refusals_total")
        with MemoryWatch(running) as memory:
            name = f"{CLIENTS * TIMES} clients"
            many = [_sends(running, name, CLIENTS * TIMES, seconds) for _ in range(scale.rounds)]
        threading.Event().wait(BACK_S)
        after = _one_in_flight(running, "after")
        elections = running.term() - term
        refused = running.metric("ledgermq_produce_refusals_total") - refused
    peak, goodput = (median(each["records_per_s"] for each in runs) for runs in (few, many))
    failed = sum(each["failed"] for each in many)
    told = f"{goodput / peak:.2f} ({goodput:,.0f} of {peak:,.0f}/s), {failed} failed, {refused:.0f} refused"
    part.rows += [
        TargetRow("goodput", f"≥ {LEAST_GOODPUT:g} of the peak", told, goodput >= LEAST_GOODPUT * peak and not failed),
        TargetRow("elections", "none", str(elections), elections == 0),
        _memory_row("memory of a node", MOST_LOADED_MB, memory.most_mb),
        TargetRow(
            f"one send in flight, {BACK_S} s later", f"p50 ≤ {MOST_BACK:g} × that of before",
            f"{after / before:.2f} × ({after:.2f} ms of {before:.2f} ms)", after <= MOST_BACK * before,
        ),
    ]  # fmt: skip
    return part


def long_run(stage: Stage, scale: SuiteScale, minutes: float) -> SuiteChapter:
    part = SuiteChapter(f"{minutes:g} minutes at {SHARE_OF_PEAK:.0%} of peak")
    with stage.cluster() as running:
        peak = _sends(running, "the peak", CLIENTS * 2, 10)["records_per_s"]
        term = running.term()
        with MemoryWatch(running) as memory:
            rate = int(SHARE_OF_PEAK * peak)
            found = running.bench(
                "the long run", "produce", "--by", "send", "--rate", rate, "--seconds", 60 * minutes,
                "--in-flight", 4 * IN_FLIGHT_EACH * CLIENTS, may_fail=True,
            )  # fmt: skip
        elections = running.term() - term
    tail = found["latency_p99.9_ms"] / found["latency_p50_ms"]
    third = max(1, len(memory.readings_mb) // 3)
    growth = max(memory.readings_mb[-third:]) - max(memory.readings_mb[third : 2 * third] or memory.readings_mb)
    part.rows += [
        TargetRow(
            "all was acknowledged", "none failed", f"{found['failed']} of {found['records']:,}", not found["failed"]
        ),
        TargetRow("memory, last third against the one before", f"≤ {MOST_GROWTH_MB:g} MB more", f"{growth:+.0f} MB",
            growth <= MOST_GROWTH_MB),
        TargetRow("elections", "none", str(elections), elections == 0),
        TargetRow("p99.9", f"≤ {MOST_TAIL:g} × p50",
            f"{tail:.1f} × ({found['latency_p99.9_ms']:.1f} of {found['latency_p50_ms']:.1f} ms)", tail <= MOST_TAIL),
    ]  # fmt: skip
    return part


@contextmanager
def on_one_core() -> Iterator[None]:
    """Run this process, and the processes that it starts in the body of the `with` block, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _memory_row(what: str, most_mb: float, reached_mb: float) -> TargetRow:
    return TargetRow(what, f"≤ {most_mb:g} MB", f"{reached_mb:.0f} MB", reached_mb <= most_mb)


def _one_in_flight(running: Running, when: str) -> float:
    """Return the median latency of sends in ms, with one send in flight."""
    figures = running.bench(f"one in flight, {when}", "produce", "--by", "send", "--in-flight", 1, "--seconds", 2)
    return float(figures["latency_p50_ms"])


def _sends(running: Running, name: str, clients: int, seconds: float) -> dict[str, Any]:
    return running.bench(
        name, "produce", "--by", "send", "--producers", clients, "--in-flight", IN_FLIGHT_EACH * clients,
        "--seconds", seconds, may_fail=True,
    )  # fmt: skip
