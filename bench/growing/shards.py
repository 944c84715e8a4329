"""Measures clusters of three and of nine nodes with more and more shards."""

from __future__ import annotations

import time

from bench.growing.curve import GrowthCurve, GrowthPoint
from bench.growing.load import LOAD_UNITS, NODE_UNITS, load_figures, node_figures
from bench.growing.scale import GrowingScale
from bench.suite.stage import BenchFailedError, Stage
from cluster.local.processes import DevError

SETTLE_S = 8.0
MOST_QUEUES = 256


def shards(stage: Stage, scale: GrowingScale) -> list[GrowthCurve]:
    """Return a curve for each number of nodes. A cluster that does not start is a failure of its curve."""
    return [_curve(stage, scale, nodes, sizes) for nodes, sizes in scale.shards]


def _curve(stage: Stage, scale: GrowingScale, nodes: int, sizes: tuple[int, ...]) -> GrowthCurve:
    units = {"ready": "s", **LOAD_UNITS, **NODE_UNITS}
    curve = GrowthCurve(f"Shards on {nodes} nodes", "shards", units, ("rate",), "memory")
    for size in sizes:
        stage.say(f"  {size} shards on {nodes} nodes")
        began = time.perf_counter()
        try:
            with stage.cluster(nodes, shards=size) as running:
                ready_s = time.perf_counter() - began
                time.sleep(SETTLE_S)
                figures = node_figures(running.pids, 3 * scale.seconds)
                figures |= load_figures(running, scale.seconds, queues=min(MOST_QUEUES, 4 * size))
        except (DevError, BenchFailedError) as error:
            curve.failures.append(f"{size} shards on {nodes} nodes: {error}")
            continue
        curve.points.append(GrowthPoint(size, {"ready": ready_s, **figures}))
    return curve
