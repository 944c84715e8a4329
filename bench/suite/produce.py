"""Measures producers, mostly in comparison with the ceiling of ceiling.py. Measures throughput by batch size,
throughput of single calls of `send`, and sends with only one message in flight.
"""

from __future__ import annotations

from statistics import median
from typing import Any

from bench.suite.ceiling import SIZES, Ceiling, Throughput
from bench.suite.rows import Pair, SuiteChapter, TargetRow
from bench.suite.scale import SuiteScale
from bench.suite.stage import Running, Stage

# The number of messages of one run, by message size.
MESSAGES = {128: 1_000_000, 1024: 200_000}
LEAST_RATIOS = {(128, 64 << 10): 0.5, (128, 256 << 10): 0.3, (128, 1 << 20): 0.35, (1024, 64 << 10): 0.6}
LEAST_PER_S = {128: 400_000, 1024: 80_000}
LEAST_SINGLE_PER_S = 80_000
MOST_P50, MOST_P99 = 1.4, 5.0
IN_FLIGHT = 1_000


def against_ceiling(stage: Stage, scale: SuiteScale) -> SuiteChapter:
    """Compare `send_many` with the ceiling, for messages of 128 B and of 1 KiB. The measurement of the ceiling
    keeps as many batches, of the same size, in flight as the measurement of `send_many`."""
    part = SuiteChapter("Produce, against the ceiling")
    with stage.cluster() as running, Ceiling() as ceiling:
        running.bench("warm", "produce", "--topic", "warm", "--seconds", 2)
        for size, batches in ((128, SIZES), (1024, (64 << 10,))):
            best = 0.0
            for batch in batches:
                pair, per_s = _throughput(running, ceiling, scale, size, batch)
                part.pairs.append(pair)
                best = max(best, per_s)
                if pair.least is not None:
                    part.rows.append(_ratio_row(pair, size))
            least = LEAST_PER_S[size]
            part.rows.append(
                TargetRow(
                    f"send_many, {size} B, the best batch size", f"≥ {least:,}/s", f"{best:,.0f}/s", best >= least
                )
            )
        part.rows += _one_in_flight(running, ceiling, scale)
        part.rows += _one_by_one(running, scale)
    return part


def _throughput(running: Running, ceiling: Ceiling, scale: SuiteScale, size: int, batch: int) -> tuple[Pair, float]:
    count, ours, limits = int(MESSAGES[size] * scale.share), [], list[Throughput]()
    for _ in range(scale.rounds):
        running.stage.warm()
        limit = ceiling.throughput(batch, scale.seconds / 2)
        running.stage.record(
            f"ceiling, {batch >> 10} KiB",
            f"python -m bench.suite.ceiling --sizes {batch}",
            {"mb_per_s": limit.mb_per_s, "cpu_us_per_record": limit.cpu_s_per_gb * size / 1000},
        )
        limits.append(limit)
        name = f"send_many, {size} B, {batch >> 10} KiB"
        ours.append(running.bench(name, "produce", "--size", size, "--count", count, "--batch-bytes", batch))
    rates, other = [each["mb_per_s"] for each in ours], [each.mb_per_s for each in limits]
    ratio = median(rate / limit for rate, limit in zip(rates, other, strict=True))
    cpu = median(each["cpu_us_per_record"] for each in ours), median(each.cpu_s_per_gb * size / 1000 for each in limits)
    note = f"CPU for each message: {cpu[0]:.2f} µs, the ceiling's {cpu[1]:.2f} µs ({cpu[1] / cpu[0]:.2f})"
    least = LEAST_RATIOS.get((size, batch))
    pair = Pair(f"{size} B, {batch >> 10} KiB", median(rates), median(other), ratio, least=least, note=note)
    return pair, median(each["records_per_s"] for each in ours)


def _ratio_row(pair: Pair, size: int) -> TargetRow:
    assert pair.least is not None
    told = f"{pair.ratio:.2f} ({pair.ours:,.0f} of {pair.other:,.0f} MB/s; {pair.ours * 1e6 / size:,.0f}/s)"
    return TargetRow(
        f"send_many, {pair.name} batches", f"≥ {pair.least:g} of the ceiling", told, pair.ratio >= pair.least, pair.note
    )


def _one_in_flight(running: Running, ceiling: Ceiling, scale: SuiteScale) -> list[TargetRow]:
    ours, limits = [], []
    for _ in range(scale.rounds):
        limit = ceiling.round_trip(scale.seconds / 2)
        figures = {"latency_p50_ms": limit.p50_ms, "latency_p99_ms": limit.p99_ms}
        running.stage.record("ceiling, round trip of 128 B", "python -m bench.suite.ceiling", figures)
        limits.append(limit)
        arguments = ("produce", "--by", "send", "--in-flight", 1, "--seconds", scale.seconds)
        ours.append(running.bench("send, one in flight", *arguments))
    rows = []
    for name, key, most in (("p50", "latency_p50_ms", MOST_P50), ("p99", "latency_p99_ms", MOST_P99)):
        mine = [each[key] for each in ours]
        other = [each.p50_ms if name == "p50" else each.p99_ms for each in limits]
        ratio = median(one / two for one, two in zip(mine, other, strict=True))
        told = f"{ratio:.2f} × ({median(mine):.2f} ms of {median(other):.2f} ms)"
        rows.append(TargetRow(f"one send in flight, {name}", f"≤ {most:g} × the ceiling's", told, ratio <= most))
    return rows


def _one_by_one(running: Running, scale: SuiteScale) -> list[TargetRow]:
    runs = [_sends(running, "send, 1,000 in flight", scale) for _ in range(scale.rounds)]
    per_s = median(each["records_per_s"] for each in runs)
    told = f"{per_s:,.0f}/s (p50 {median(each['latency_p50_ms'] for each in runs):.1f} ms)"
    what = "send, one call for each message, 1,000 in flight"
    return [TargetRow(what, f"≥ {LEAST_SINGLE_PER_S:,}/s", told, per_s >= LEAST_SINGLE_PER_S)]


def _sends(running: Running, name: str, scale: SuiteScale) -> dict[str, Any]:
    return running.bench(name, "produce", "--by", "send", "--in-flight", IN_FLIGHT, "--seconds", scale.seconds)
