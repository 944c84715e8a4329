"""Measures one node with a longer and longer log.

The messages are zeros, and the sealed segments get holes, so a log of 100 GiB takes little room on the disk. Everything
else is as with other messages: entries, checksums, indexes and checkpoints.
"""

from __future__ import annotations

import random
import signal
import statistics
import time

import uvloop

from bench.growing.curve import GrowthCurve, GrowthPoint
from bench.growing.holes import HoleDigger
from bench.growing.load import NODE_UNITS, node_figures
from bench.growing.scale import GrowingScale
from bench.node.queues import beside_log_mb
from bench.node.restart import end, ready_again
from bench.suite.stage import Running, Stage
from cluster.load.in_flight import keep_in_flight
from cluster.local.node_process import DevNode
from ledgermq import AsyncAdmin, AsyncProducer

TOPIC, QUEUES = "long", 4
BODY = bytes(64 << 10)
BATCH = [BODY] * 15
AT_A_TIME = 8
# Batches between two looks for sealed segments.
SLICE_BATCHES = 1_000
READS = 50
CHECKPOINT_S = 11.0


def logs(stage: Stage, scale: GrowingScale) -> list[GrowthCurve]:
    """Return the curve of a growing log of one node."""
    units = {"rate": "MB/s", "read": "ms", "ready": "s", "beside": "MB", **NODE_UNITS}
    curve = GrowthCurve("Length of the log", "GiB", units, ("rate",), "memory")
    if trouble := HoleDigger.trouble():
        curve.failures.append(trouble)
        return [curve]
    with stage.cluster(1) as running:
        node = running.cluster.node(1)
        uvloop.run(_create(running.cluster.bootstrap))
        digger = HoleDigger(node.data / "shard-0" / "log")
        batches = 0
        for gib in scale.log_gib:
            stage.say(f"  {gib:g} GiB of log")
            more = max(QUEUES, round(gib * (1 << 30) / len(BODY) / len(BATCH)) - batches)
            rate = _fill(running, digger, more)
            batches += more
            time.sleep(CHECKPOINT_S)
            curve.points.append(GrowthPoint(gib, {"rate": rate, **_figures(node, batches, scale.seconds)}))
    return [curve]


def _fill(running: Running, digger: HoleDigger, batches: int) -> float:
    """Send the batches, and return the rate in MB/s, without the time that digging takes."""
    taken_s = 0.0
    for at in range(0, batches, SLICE_BATCHES):
        some = min(SLICE_BATCHES, batches - at)
        began = time.perf_counter()
        uvloop.run(_send(running.cluster.bootstrap, some))
        taken_s += time.perf_counter() - began
        digger.dig()
    return batches * len(BODY) * len(BATCH) / 1e6 / taken_s


async def _send(bootstrap: str, batches: int) -> None:
    async with AsyncProducer(bootstrap, batch_bytes=1 << 20) as producer:

        async def send(number: int) -> None:
            await producer.send_many(TOPIC, BATCH, queue=number % QUEUES)

        await keep_in_flight(send, iter(range(batches)), AT_A_TIME)


def _figures(node: DevNode, batches: int, seconds: float) -> dict[str, float]:
    read_ms = uvloop.run(_read(node.address, batches))
    end(node, signal.SIGTERM)
    ready_s = ready_again(node)
    time.sleep(2.0)
    assert node.pid is not None, node.log_tail()
    used = node_figures([node.pid], seconds)
    return {"read": read_ms, "ready": ready_s, "beside": beside_log_mb(node), **used}


async def _read(bootstrap: str, batches: int) -> float:
    """Return the median time in ms to read one message at a random offset."""
    rng, times = random.Random(1), []
    async with AsyncAdmin(bootstrap) as admin:
        for _ in range(READS):
            offset = rng.randrange(max(1, batches // QUEUES)) * len(BATCH)
            began = time.perf_counter()
            await admin.get_message(TOPIC, rng.randrange(QUEUES), offset)
            times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


async def _create(bootstrap: str) -> None:
    async with AsyncAdmin(bootstrap) as admin:
        await admin.create_topic(TOPIC, queues=QUEUES)
