"""Measures consumption from the earliest message, and end-to-end latency from producer to consumer."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from bench.suite.rows import SuiteChapter, TargetRow
from bench.suite.scale import SuiteScale
from bench.suite.stage import Running, Stage

MESSAGES = 2_000_000
LEAST_PER_S = {"arrays": 1_000_000, "objects": 500_000}
RATE = 50_000
MOST_P50_MS, MOST_P99_MS = 5.0, 20.0
# Many clients with few messages each.
CROWD, EACH_RATE = 100, 100
# More than a cluster takes, so the cluster decides the throughput.
UNREACHABLE_RATE = 2_000_000


def from_earliest(stage: Stage, scale: SuiteScale) -> SuiteChapter:
    part = SuiteChapter("Consume")
    with stage.cluster() as running:
        running.bench("fill", "produce", "--count", int(MESSAGES * scale.share), "--warm-up", 0)
        checked = running.bench("all that was sent, compared", "consume", "--as", "arrays", "--verify")["verified"]
        for shape, least in LEAST_PER_S.items():
            runs = [running.bench(f"consume as {shape}", "consume", "--as", shape) for _ in range(scale.rounds)]
            per_s = median(each["records_per_s"] for each in runs)
            part.rows.append(
                TargetRow(f"consume as {shape}, 128 B", f"≥ {least:,}/s", f"{per_s:,.0f}/s", per_s >= least)
            )
        faults = checked["wrong"] + checked["missing"] + checked["twice"]
        told = f"{checked['messages']:,} compared, {faults} differ"
        part.rows.append(TargetRow("what was consumed is what was sent", "all of it", told, not faults))
    return part


def end_to_end(stage: Stage, scale: SuiteScale) -> SuiteChapter:
    part = SuiteChapter("From end to end")
    with stage.cluster() as running:
        arguments = ("e2e", "--rate", RATE, "--seconds", 2 * scale.seconds, "--batch-bytes", "64K")
        runs = [running.bench(f"e2e at {RATE:,}/s", *arguments) for _ in range(scale.rounds)]
        sends = ("--by", "send", "--producers", CROWD, "--in-flight", 10 * CROWD, "--rate", CROWD * EACH_RATE)
        crowd = _repeated(running, scale, f"e2e, {CROWD} clients", *sends)
        at_once = _repeated(running, scale, "produce and consume at once", "--rate", UNREACHABLE_RATE)
    for name, most in (("p50", MOST_P50_MS), ("p99", MOST_P99_MS)):
        reached = median(each[f"latency_{name}_ms"] for each in runs)
        part.rows.append(
            TargetRow(f"end to end at {RATE:,}/s, {name}", f"≤ {most:g} ms", f"{reached:.2f} ms", reached <= most)
        )
    part.rows.append(_reported(f"end to end, {CROWD} clients at {EACH_RATE}/s each", crowd))
    rate = median(each["records_per_s"] for each in at_once)
    part.rows.append(TargetRow("produce and consume at once", "reported", f"{rate:,.0f}/s", None))
    return part


def _repeated(running: Running, scale: SuiteScale, what: str, *arguments: object) -> list[dict[str, Any]]:
    return [running.bench(what, "e2e", *arguments, "--seconds", scale.seconds) for _ in range(scale.rounds)]


def _reported(what: str, runs: Sequence[dict[str, Any]]) -> TargetRow:
    rate, p50, p99 = (
        median(each[name] for each in runs) for name in ("records_per_s", "latency_p50_ms", "latency_p99_ms")
    )
    return TargetRow(what, "reported", f"{rate:,.0f}/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms", None)
