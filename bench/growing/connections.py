"""Measures three nodes with more and more open connections of clients."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from bench.growing.curve import GrowthCurve, GrowthPoint
from bench.growing.load import LOAD_UNITS, NODE_UNITS, load_figures, node_figures
from bench.growing.scale import GrowingScale
from bench.suite.stage import Running, Stage

# All connections come from this host.
LIMITS = {"LEDGERMQ_MAX_CONNECTIONS": "20000", "LEDGERMQ_MAX_CONNECTIONS_PER_HOST": "20000"}
# A process with more channels would need more file descriptors than many systems give it.
OF_A_PROCESS = 4_000


def connections(stage: Stage, scale: GrowingScale) -> list[GrowthCurve]:
    """Return the curve of a growing number of connections, which three nodes share."""
    curve = GrowthCurve(
        "Connections", "connections", {**LOAD_UNITS, **NODE_UNITS, "opened": "connections/s"}, ("rate",), "memory"
    )
    with patch.dict(os.environ, LIMITS), stage.cluster() as running, ExitStack() as held:
        running.bench("warm", "produce", "--seconds", 1)
        open_ones, opened_per_s = 0, 0.0
        for size in scale.connections:
            while open_ones < size:
                more = min(OF_A_PROCESS, size - open_ones)
                seconds, answered = held.enter_context(holding(running, more))
                opened_per_s = more / seconds
                open_ones += more
                if answered < more:
                    curve.failures.append(f"at {size:,} connections, {more - answered:,} of {more:,} got no answer")
            if curve.failures:
                break
            stage.say(f"  {size:,} connections")
            figures = node_figures(running.pids, scale.seconds) | load_figures(running, scale.seconds)
            curve.points.append(GrowthPoint(size / len(running.pids), figures | {"opened": opened_per_s}))
    curve.what = "connections of a node"
    return [curve]


@contextmanager
def holding(running: Running, more: int) -> Iterator[tuple[float, int]]:
    """Hold so many connections during the `with` block. Return the seconds that it took to open them, and how many
    calls were answered."""
    command = [
        sys.executable, "-m", "bench.growing.hold",
        "--bootstrap", running.cluster.bootstrap, "--connections", str(more),
    ]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        try:
            seconds, answered = holder.stdout.readline().split()
            yield float(seconds), int(answered)
        finally:
            holder.stdin.close()
