"""Measures three nodes with more and more queues in one shard."""

from __future__ import annotations

import time

import uvloop

from bench.growing.curve import GrowthCurve, GrowthPoint
from bench.growing.load import NODE_UNITS, node_figures
from bench.growing.scale import GrowingScale
from bench.node.queues import BATCH_MESSAGES, create, send
from bench.suite.stage import Stage

# Each queue gets two batches, and the smallest size as many as the largest.
MESSAGES_OF_A_SECOND = 100_000
CHECKPOINT_S = 11.0


def queues(stage: Stage, scale: GrowingScale) -> list[GrowthCurve]:
    """Return the curve of a growing number of queues. At each size a new cluster gets the same number of messages, in
    batches of 100 that go to the queues in turn."""
    curve = GrowthCurve("Queues", "queues", {"rate": "messages/s", "made": "s", **NODE_UNITS}, ("rate",), "memory")
    messages = max(2 * BATCH_MESSAGES * max(scale.queues), round(MESSAGES_OF_A_SECOND * scale.seconds))
    for size in scale.queues:
        stage.say(f"  {size:,} queues")
        with stage.cluster() as running:
            stage.warm()
            began = time.perf_counter()
            uvloop.run(create(running.cluster.bootstrap, size))
            made_s = time.perf_counter() - began
            began = time.perf_counter()
            uvloop.run(send(running.cluster.bootstrap, size, messages))
            rate = messages / (time.perf_counter() - began)
            time.sleep(CHECKPOINT_S)  # the memory of a checkpoint counts
            figures = {"rate": rate, "made": made_s, **node_figures(running.pids, scale.seconds)}
        curve.points.append(GrowthPoint(size, figures))
    return [curve]
