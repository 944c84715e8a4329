"""The load that each part runs at each size, and the figures of the nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence

from bench.suite.stage import Running
from cluster.bench.idle import measure_idle, process_source
from cluster.process_use import private_bytes

LOAD_UNITS = {"rate": "messages/s", "p50": "ms", "p99": "ms"}
NODE_UNITS = {"idle": "% of a core", "memory": "MB", "files": "open files"}


def load_figures(running: Running, seconds: float, topic: str = "bench", queues: int = 4) -> dict[str, float]:
    """Send batches of 64 KiB as fast as possible, then one message of 128 B after another."""
    to = ("--topic", topic, "--queues", queues, "--seconds", seconds)
    bulk = running.bench("bulk", "produce", "--batch-bytes", "64K", *to)
    one = running.bench("one at a time", "produce", "--by", "send", "--in-flight", 1, *to)
    return {"rate": bulk["records_per_s"], "p50": one["latency_p50_ms"], "p99": one["latency_p99_ms"]}


def node_figures(pids: Sequence[int], seconds: float) -> dict[str, float]:
    """Return what the node that uses the most uses while nothing is sent."""
    uses = measure_idle([process_source(pid) for pid in pids], seconds)
    return {
        "idle": max(use.cpu_percent for use in uses),
        "memory": max(map(private_bytes, pids)) / 1e6,
        "files": max(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
    }
