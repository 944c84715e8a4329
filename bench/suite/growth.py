"""Measures how throughput changes with a large log, with many queues, with many consumers, and with five nodes.

Measurements of the small case and of the large case take turns. The small case and the large case use two clusters
that run at the same time, or two topics of one cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from bench.suite.rows import Pair, SuiteChapter, TargetRow
from bench.suite.scale import SuiteScale
from bench.suite.stage import Running, Stage

LEAST = 0.8
# Each message costs what a batch costs.
LEAST_SMALL_BATCHES = 0.4
LEAST_CONSUMERS = 0.9
QUEUES = 1_000
CONSUMERS = 100
NODES = 5
MESSAGES = 1_000_000
SLICE_GIB = 0.5
Work = Callable[[], dict[str, Any]]


def as_work_grows(stage: Stage, scale: SuiteScale) -> SuiteChapter:
    part = SuiteChapter("As the work grows")
    with stage.cluster() as small:
        small.bench("warm", "produce", "--topic", "warm", "--seconds", 2)
        with stage.cluster() as large:
            fill(large, scale.log_gib)
            _compare(
                part, scale, f"produce, {scale.log_gib:g} GiB of log", _produce(small, scale), _produce(large, scale)
            )
        with stage.cluster(NODES) as five:
            five.bench("warm", "produce", "--topic", "warm", "--seconds", 2)
            _compare(part, scale, f"produce, {NODES} nodes", _produce(small, scale), _produce(five, scale))
        _compare(part, scale, f"produce, {QUEUES:,} queues", _produce(small, scale, 4), _produce(small, scale, QUEUES))
        _compare(part, scale, "produce, one queue", _produce(small, scale, 4), _produce(small, scale, 1))
        several, one = _keyed(small, scale, 4), _keyed(small, scale, QUEUES)
        words = f"produce, {QUEUES:,} queues, each message a batch of its own"
        _compare(part, scale, words, several, one, LEAST_SMALL_BATCHES)
        small.bench(
            "fill", "produce", "--topic", "shared", "--queues", CONSUMERS, "--count", int(MESSAGES * scale.share),
            "--batch-bytes", "64K",
        )  # fmt: skip
        one, many = _consume(small, 1), _consume(small, CONSUMERS)
        _compare(part, scale, f"consume, {CONSUMERS} consumers", one, many, LEAST_CONSUMERS)
    return part


def fill(running: Running, gib: float) -> None:
    """Write a log of `gib` GiB with several runs of `ledgermq bench`, one after the other. Each run is limited in
    size, because its payloads are made before the clock starts and stay in memory.
    """
    for at in range(max(1, round(gib / SLICE_GIB))):
        count = int(min(gib, SLICE_GIB) * (1 << 30) / 1024)
        running.bench(f"fill, {at + 1}", "produce", "--topic", "fill", "--size", 1024, "--count", count, "--warm-up", 0)


def _compare(part: SuiteChapter, scale: SuiteScale, what: str, small: Work, grown: Work, least: float = LEAST) -> None:
    rounds = [(small()["records_per_s"], grown()["records_per_s"]) for _ in range(scale.rounds)]
    ratio = median(after / before for before, after in rounds)
    before, after = (median(column) for column in zip(*rounds, strict=True))
    part.pairs.append(Pair(what, after, before, ratio, unit="records/s", least=least))
    told = f"{ratio:.2f} ({after:,.0f} of {before:,.0f}/s)"
    part.rows.append(TargetRow(what, f"≥ {least:g} of the small case", told, ratio >= least))


def _produce(running: Running, scale: SuiteScale, queues: int = 4) -> Work:
    """Send batches to the queues in turn."""
    count = int(MESSAGES * scale.share)
    return lambda: running.bench(
        f"send_many, {queues} queues", "produce", "--topic", f"bulk-{queues}", "--queues", queues, "--count", count,
        "--batch-bytes", "64K",
    )  # fmt: skip


def _keyed(running: Running, scale: SuiteScale, queues: int) -> Work:
    """Send messages with as many different keys as the large case has queues. In the large case, each message is
    therefore a batch of its own.
    """
    return lambda: running.bench(
        f"send with keys, {queues} queues", "produce", "--topic", f"keyed-{queues}", "--queues", queues,
        "--by", "send", "--keys", QUEUES, "--seconds", scale.seconds,
    )  # fmt: skip


def _consume(running: Running, consumers: int) -> Work:
    return lambda: running.bench(
        f"consume, {consumers} consumers", "consume", "--topic", "shared", "--consumers", consumers
    )
