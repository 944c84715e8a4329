"""Measures the forms of the client that do more for a program than the asyncio client: the push consumer beside a plain
loop, and the synchronous producer beside the asyncio producer."""

from __future__ import annotations

import json
import shlex
from statistics import median
from typing import Any

from bench.suite.rows import SuiteChapter, TargetRow
from bench.suite.scale import SuiteScale
from bench.suite.stage import Stage

LEAST_PUSH = 0.75
LEAST_SYNC = 0.7
# The start of a group counts, so its share must be small.
PUSH_MIB = 256


def push_and_sync(stage: Stage, scale: SuiteScale) -> SuiteChapter:
    part = SuiteChapter("Push consumers and synchronous producers")
    part.rows += _push(stage, scale)
    part.rows.append(_sync(stage, scale))
    return part


def _push(stage: Stage, scale: SuiteScale) -> list[TargetRow]:
    """Compare push consumers with a loop that calls the same listener, on a cluster that the script starts."""
    words = ["-m", "bench.clients.consumer_groups", "--rounds", str(max(2, scale.rounds)), "--consumer-groups", "0"]
    words += ["--mib", str(PUSH_MIB), "--ways", "push", "push, orderly", "--sizes", "128"]
    (found,) = json.loads(stage.script([*words, "--json", "--directory", str(stage.directory)])).values()
    rows = []
    for figures in found:
        stage.record(figures["way"], shlex.join(["python", *words]), figures)
        of_plain = figures["of_plain"]
        told = f"{of_plain:.2f} ({figures['group_per_s']:,.0f} of {figures['plain_per_s']:,.0f}/s)"
        what = f"{figures['way']} consumer, {figures['message_bytes']} B, beside a loop with the same listener"
        rows.append(TargetRow(what, f"≥ {LEAST_PUSH:g}", told, of_plain >= LEAST_PUSH))
    return rows


def _sync(stage: Stage, scale: SuiteScale) -> TargetRow:
    words = ["-m", "bench.clients.sync_sends", "--rounds", str(max(2, scale.rounds)), "--seconds", str(scale.seconds)]
    with stage.cluster() as running:
        lines = stage.script([*words, "--json", "--bootstrap", running.cluster.bootstrap]).splitlines()
    found: list[dict[str, Any]] = [json.loads(line) for line in lines]
    for line in found:
        stage.record(f"single sends, {line['way']}", shlex.join(["python", *words]), line)
    sync, others = ([line for line in found if line["way"] == way] for way in ("sync", "asyncio"))
    ratio = median(one["sends_per_s"] / other["sends_per_s"] for one, other in zip(sync, others, strict=True))
    told = f"{ratio:.2f} (p50 {_median(sync, 'p50_ms'):.2f} ms of {_median(others, 'p50_ms'):.2f} ms)"
    cpu_us, others_us = _median(sync, "cpu_us"), _median(others, "cpu_us")
    costs = f"CPU of the client for each message: {cpu_us:.0f} µs, asyncio {others_us:.0f} µs"
    what = "synchronous send in one thread, beside the asyncio producer"
    return TargetRow(what, f"≥ {LEAST_SYNC:g}", told, ratio >= LEAST_SYNC, costs)


def _median(lines: list[dict[str, Any]], name: str) -> float:
    return float(median(line[name] for line in lines))
