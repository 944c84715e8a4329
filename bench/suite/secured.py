"""Measures what TLS and authentication cost: the same runs on a secured cluster and on a plain one, in turns."""

from __future__ import annotations

from statistics import median
from typing import Any

from bench.suite.rows import Pair, SuiteChapter, TargetRow
from bench.suite.scale import SuiteScale
from bench.suite.stage import Running, Stage

SIZE = 128
MESSAGES = 1_000_000
LEAST_RATIO = 0.7
MOST_TIMES = 1.4


def against_plain(stage: Stage, scale: SuiteScale) -> SuiteChapter:
    """Compare the throughput of `send_many` and the time of a single `send`. Both clusters run all the time."""
    part = SuiteChapter("TLS and authentication, against neither")
    with stage.cluster() as plain, stage.cluster(secure=True) as secured:
        for running in (plain, secured):
            running.bench("warm", "produce", "--topic", "warm", "--seconds", 2)
        pair = _throughput(plain, secured, scale)
        part.pairs.append(pair)
        told = f"{pair.ratio:.2f} ({pair.ours:,.0f} of {pair.other:,.0f} MB/s)"
        what = f"send_many, {SIZE} B, with TLS and authentication"
        part.rows.append(TargetRow(what, f"≥ {LEAST_RATIO:g} of plain", told, pair.ratio >= LEAST_RATIO, pair.note))
        part.rows.append(_single(plain, secured, scale))
    return part


def _in_turns(plain: Running, secured: Running, scale: SuiteScale, name: str, *arguments: object) -> list[Any]:
    """Return (figures of the plain run, figures of the secured run) for each round."""
    found = []
    for number in range(max(2, scale.rounds)):
        both = [(plain, f"{name}, plain"), (secured, f"{name}, secured")]
        figures = {}
        for running, label in both if number % 2 == 0 else reversed(both):
            figures[running is secured] = running.bench(label, "produce", *arguments)
        found.append((figures[False], figures[True]))
    return found


def _throughput(plain: Running, secured: Running, scale: SuiteScale) -> Pair:
    count = int(MESSAGES * scale.share)
    runs = _in_turns(plain, secured, scale, f"send_many, {SIZE} B", "--size", SIZE, "--count", count)
    without, with_tls = ([each[place]["mb_per_s"] for each in runs] for place in (0, 1))
    ratio = median(ours / other for other, ours in zip(without, with_tls, strict=True))
    cpu = [median(each[place]["cpu_us_per_record"] for each in runs) for place in (0, 1)]
    note = f"CPU for each message: {cpu[1]:.2f} µs, plain {cpu[0]:.2f} µs"
    return Pair(f"{SIZE} B", median(with_tls), median(without), ratio, least=LEAST_RATIO, note=note)


def _single(plain: Running, secured: Running, scale: SuiteScale) -> TargetRow:
    arguments = ("--by", "send", "--in-flight", 1, "--seconds", scale.seconds)
    runs = _in_turns(plain, secured, scale, "send, one in flight", *arguments)
    times = [(one["latency_p50_ms"], other["latency_p50_ms"]) for one, other in runs]
    ratio = median(secured_ms / plain_ms for plain_ms, secured_ms in times)
    told = f"{ratio:.2f} × ({median(each for _, each in times):.2f} ms of {median(each for each, _ in times):.2f} ms)"
    what = "one send in flight, p50, with TLS and authentication"
    return TargetRow(what, f"≤ {MOST_TIMES:g} × plain", told, ratio <= MOST_TIMES)
